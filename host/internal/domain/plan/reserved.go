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

// Keys of the plan language that are not implemented are rejected, never ignored;
// remove an entry when its feature is added.
var (
	reservedCallKeys = keySet{"session?"}
	orderings        = []string{policy.Declared, policy.QualityAware, policy.CostFirst, policy.LatencyFirst,
		policy.Availability, policy.Learning}
	strategies = []string{policy.Cascade, policy.Race, policy.Hedge, policy.Tournament}
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

// choice parses one of a few keywords and passes it to accept.
func (np *nodeParser) choice(v edn.Value, known []string, accept func(name string)) {
	if name, _ := v.AsKeyword(); slices.Contains(known, name) {
		accept(name)
		return
	}
	np.wrongName(v, oneOf(known), known)
}

func oneOf(list []string) string {
	shown := make([]string, len(list))
	for i, n := range list {
		shown[i] = ":" + n
	}
	return strings.Join(shown, " or ")
}
