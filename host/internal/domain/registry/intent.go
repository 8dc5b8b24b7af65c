package registry

import (
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Intent is one kind of request. Its settings beyond the schemas (retries,
// gates, constraints) are in a policy.Layer.
type Intent struct {
	// ID is the qualified name without colon.
	ID string
	// In and Out name the schemas of input and output.
	In, Out string
	// Candidates are the configured capability ids in order; nil means those
	// that serve the intent (see Registry.Candidates).
	Candidates []string
	// Effects are the effects that an act of this intent may have if its
	// request names none; nil means no effects.
	Effects []string
	// ResultTypes are the accepted result types; nil means value only.
	ResultTypes []string
	// Role is the role of the prompts of its calls, empty if it has none of its
	// own.
	Role string
	// ModelKey is the model key of its calls; empty: the intent sets none.
	ModelKey string
	// Plan is the template of the plan of its acts (RTE-002); nil: one call.
	Plan edn.Value
	// OnUnknown is the action for a call of class once whose outcome is unknown; empty: the
	// value of the scopes of its effects.
	OnUnknown string
	// Cacheable permits answers from the cache. CacheScope is the group of callers that share a
	// cached answer: one principal, one tenant, or all.
	Cacheable  bool
	CacheScope string
	// Quality overrides the quality settings of the capabilities.
	Quality Quality
	// Implied is true if no block declares the intent and a capability advertises it.
	Implied bool
	// Host is true for an intent that the host serves itself.
	Host bool
	// Where is the place in the configuration, empty for an implied intent and one of
	// the host.
	Where string
}

// Values of Intent.OnUnknown.
const (
	UnknownSuspends = "suspend" // the run waits for a decision
	UnknownFails    = "fail"    // the node fails
	UnknownRetries  = "retry"   // it is called again with the same effect key, as class idempotent
	// UnknownIsDone: the node continues with an empty answer, if its schema accepts one.
	UnknownIsDone = "assume-done"
)

// Values of Intent.CacheScope.
const (
	CachePrincipal = "principal"
	CacheTenant    = "tenant"
	CachePublic    = "public"
)

// Types returns the accepted result types with the default filled in.
func (i *Intent) Types() []string {
	if len(i.ResultTypes) == 0 {
		return []string{"value"}
	}
	return i.ResultTypes
}

// CheckKind is the kind of implementation of a check.
type CheckKind string

// The kinds of check, in the order in which gates run them.
const (
	CheckBuiltin    CheckKind = "builtin"
	CheckCondition  CheckKind = "condition"
	CheckCapability CheckKind = "capability"
)

// Check declares a named gate. The function of a built-in or a condition is in
// quality.Check.
type Check struct {
	// Name is the name of the check in plans and policies.
	Name string
	Kind CheckKind
	// Builtin is the name of the implementing built-in, for CheckBuiltin. It
	// differs from Name if a block binds another name to a built-in.
	Builtin string
	// Intent is the intent that a capability check calls.
	Intent string
	// Params are passed to a built-in or merged into the input of a capability
	// check; nil or a map.
	Params edn.Value
	// Timeout bounds one run of a capability check; zero means DefaultCheckTimeout.
	Timeout time.Duration
	// Evidence makes a must check fail if it does not apply.
	Evidence bool
	// Conditional is true for a check that applies to some answers only.
	Conditional bool
	// Where is the place in the configuration, empty for a built-in.
	Where string
}

// TestsPass is the check that requires all tests to pass and at least one to
// have been run.
const TestsPass = "tests-pass"

// MayAsk reports whether a capability may answer the check. A model may not
// answer tests-pass, because it did not run the tests.
func (c *Check) MayAsk(by *Capability) bool { return c.Name != TestsPass || by.Kind != ModelKind }

// DefaultCheckTimeout is the timeout of a capability check without one.
const DefaultCheckTimeout = 10 * time.Second
