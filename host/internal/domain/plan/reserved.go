package plan

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// keySet is a small set of key names.
type keySet []string

func (s keySet) has(name string) bool { return slices.Contains(s, name) }

// Keys and values of the plan language that are not implemented. They are
// rejected, never ignored; remove an entry when its feature is added.
var (
	reservedCallKeys = keySet{"session?"}
	orderings        = choices{known: []string{policy.Declared, policy.QualityAware, policy.CostFirst,
		policy.LatencyFirst, policy.Availability}, reserved: []string{"learned"}}
	strategies = choices{known: []string{policy.Cascade, policy.Race, policy.Hedge, policy.Tournament}}
)

func reservedNodeKey(name string, op Op) bool {
	switch op {
	case OpCall:
		return reservedCallKeys.has(name)
	}
	return false
}

// reserved rejects the key of an unimplemented feature.
func (np *nodeParser) reserved(name string) {
	np.badKey(checkUnknownKey, edn.Nil(), "this build does not have :%s, remove it in %s", name,
		showPath(np.cur[:len(np.cur)-1]))
}

// choices are the values of a key; reserved ones are not implemented.
type choices struct{ known, reserved []string }

// choice parses one of a few keywords.
func (np *nodeParser) choice(v edn.Value, c choices, accept func(name string)) {
	name, _ := v.AsKeyword()
	switch {
	case slices.Contains(c.known, name):
		accept(name)
	case slices.Contains(c.reserved, name):
		np.bad(checkType, "this build does not have :%s, write %s in %s", name, oneOf(c.known), showPath(np.cur))
	default:
		np.wrongName(v, oneOf(c.known), c.known)
	}
}

func oneOf(list []string) string {
	shown := make([]string, len(list))
	for i, n := range list {
		shown[i] = ":" + n
	}
	return strings.Join(shown, " or ")
}
