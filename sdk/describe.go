package sdk

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Callable describes what a call can request: one intent of a capability, or an
// intent for which the host chooses the capability.
type Callable struct {
	// Ref has the intent, and the handle if Describe was given a handle.
	Ref Ref
	// Kind is the kind of the capability, such as tool or agent. For an intent it
	// is that of its first candidate, empty if it has none.
	Kind string
	// Description is the description of the capability.
	Description string
	// In and Out are the schemas of input and output. They contain no :ref.
	In, Out edn.Value
	// Effects are the effects of the capability; for an intent, those that all
	// of its candidates have. A request fails unless the call permits all of
	// them.
	Effects []string
}

// Describe returns the callables of the references, in their order: one for an
// intent, and for a handle with an intent; for a handle without an intent, one
// for each intent of the capability. The errors are those of [Host.Invoke], such
// as :auth/forbidden for a handle that the call did not receive, :cap/not-found,
// and :invalid-request for an unknown intent; and :runtime/protocol for an answer
// about something else. Without refs it returns nil.
func (h *Host) Describe(ctx context.Context, refs ...Ref) ([]Callable, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	values := make([]edn.Value, len(refs))
	for i, r := range refs {
		values[i] = r.Value()
	}
	answer, err := h.Invoke(ctx, Ask{
		Intent: contract.DescribeIntent, Input: edn.MustMap(edn.K("refs"), edn.Vector(values...)),
	})
	if err != nil {
		return nil, err
	}
	var all []Callable
	for v := range answer.Out().Key("callables").Elems() {
		at, ok := v.Key("index").AsInt()
		if !ok || at < 0 || int(at) >= len(refs) {
			return nil, contract.Errorf("runtime/protocol",
				"describe callables: the host answered with index %.200s, expected 0 to %d",
				v.Key("index"), len(refs)-1).WithHint("host and SDK disagree: compare their versions")
		}
		c := Callable{Ref: refs[at], Kind: word(v.Key("cap/kind")), In: v.Key("in-schema"), Out: v.Key("out-schema")}
		if intent := word(v.Key("intent")); c.Ref.Intent == "" {
			c.Ref.Intent = intent
		} else if c.Ref.Intent != intent {
			continue // another intent of the capability
		}
		c.Description, _ = v.Key("description").AsString()
		for e := range v.Key("effects").Elems() {
			c.Effects = append(c.Effects, word(e))
		}
		slices.Sort(c.Effects)
		all = append(all, c)
	}
	return all, nil
}
