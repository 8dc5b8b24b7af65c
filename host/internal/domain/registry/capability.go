package registry

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// NoEffect is the effect of a pure computation.
const NoEffect = "none"

// ModelKind is the kind of language model capabilities, AgentKind that of agents.
const (
	ModelKind = "llm"
	AgentKind = "agent"
)

// Capability is one executor: the advertised metadata after the operator's
// overrides, under the id used in plans.
type Capability struct {
	contract.Capability

	// Plugin is the name of the plugin block whose process serves it.
	Plugin string
	// Advertised is the id in the plugin and on the wire. It differs from ID
	// after a rename.
	Advertised string
	// Confines is true if the plugin runs each call in its own process, which
	// the kernel confines to exactly the scope of the call.
	Confines bool
	// Operations are the operations that calls and plans of the plugin may do for every
	// caller.
	Operations []string
	// Breaker overrides the breaker settings of a call's policy.
	Breaker Breaker
	// Quality is overridden by the quality settings of the intent.
	Quality Quality
	// Human is set for a capability that people answer; no plugin serves it.
	Human *Human
	// Host is set for a capability of the host itself; no plugin serves it.
	Host bool
	// ModelKey is the model key with which the plugin is called; empty: the plugin uses its
	// own model.
	ModelKey string
	// Where is the place in the configuration that names it, as
	// "file:line:column"; empty if no block does.
	Where string
}

// External reports whether a plugin serves the capability.
func (c *Capability) External() bool { return c.Human == nil && !c.Host }

// HumanKind is the kind of capabilities that people answer.
const HumanKind = "human"

// The actions when people have not answered by their deadline.
const (
	DeadlineDeny     = "deny"     // the call fails
	DeadlineDefault  = "default"  // a configured answer is used
	DeadlineEscalate = "escalate" // the next candidate is called
)

// Human holds the settings of a capability that people answer.
type Human struct {
	// Deadline is the time that people have for an answer; 0: the deadline of the run.
	// OnDeadline is the action when it has passed. Default is the answer of
	// DeadlineDefault.
	Deadline   time.Duration
	OnDeadline string
	Default    edn.Value
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

// ToolIntent returns the intent with which the capability is called as a tool: its own id
// if it serves that, else the first intent that it declares.
func (c *Capability) ToolIntent() string {
	if len(c.Intents) == 0 || slices.Contains(c.Intents, c.ID) {
		return c.ID
	}
	return c.Intents[0]
}
