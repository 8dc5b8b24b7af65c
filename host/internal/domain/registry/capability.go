package registry

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
)

// NoEffect is the effect word for "only computes an answer".
const NoEffect = "none"

// ModelKind is the kind of capability that a language model is.
const ModelKind = "llm"

// Capability is one executor as the host knows it: the advertised metadata
// after the operator's overrides, under the id that plans use.
type Capability struct {
	contract.Capability

	// Plugin is the name of the plugin block whose process serves it.
	Plugin string
	// Advertised is the id under which the plugin itself knows the
	// capability. It differs from ID after a rename and is what crosses the
	// wire.
	Advertised string
	// Confines tells that the plugin makes each call in a process of its own
	// that the kernel holds to exactly the scope of that call.
	Confines bool
	// Breaker lies over that of the policy of a call.
	Breaker Breaker
	// Quality lies below that of the intent.
	Quality Quality
	// Where is the place in the configuration that named it, as
	// "file:line:column", empty for an advertised one that no block names.
	Where string
}

// Serves reports whether the capability accepts the intent. An empty set of
// intents means no restriction (BIND-008).
func (c *Capability) Serves(intent string) bool {
	return len(c.Intents) == 0 || slices.Contains(c.Intents, intent)
}

// Produces reports whether the capability may answer with the result type
// ("value", "plan", "stream"). An empty set means no restriction (BIND-008).
func (c *Capability) Produces(resultType string) bool {
	return len(c.CanProduce) == 0 || slices.Contains(c.CanProduce, resultType)
}

// Effectful reports whether the capability declares any effect but none.
func (c *Capability) Effectful() bool {
	for _, e := range c.Effects {
		if e != NoEffect {
			return true
		}
	}
	return false
}

// HasTags reports whether the capability carries every one of the tags.
func (c *Capability) HasTags(tags []string) bool {
	for _, t := range tags {
		if !slices.Contains(c.Tags, t) {
			return false
		}
	}
	return true
}

// ToolIntent returns the intent under which the capability is asked as a tool:
// its own id if it serves that, else the first intent that it names.
func (c *Capability) ToolIntent() string {
	if len(c.Intents) == 0 || slices.Contains(c.Intents, c.ID) {
		return c.ID
	}
	return c.Intents[0]
}
