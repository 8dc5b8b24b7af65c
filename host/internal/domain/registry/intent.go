package registry

import (
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Intent is one thing that callers may ask for. What a caller gets beyond the
// schemas (retries, gates, constraints) is a policy.Layer beside it.
type Intent struct {
	// ID is the qualified name without colon.
	ID string
	// In and Out name the schemas of input and output.
	In, Out string
	// Candidates are the configured capability ids in order; nil means those
	// that serve the intent (see Registry.Candidates).
	Candidates []string
	// Effects bounds what an act of this intent may do when its request says
	// nothing; nil means none.
	Effects []string
	// ResultTypes are the accepted result types; nil means value only.
	ResultTypes []string
	// Role is that of the prompts of its calls, empty if it has none of its own.
	Role string
	// Quality is what the answers have to be, over what their capabilities say.
	Quality Quality
	// Implied is true when no block declares the intent and it stands on the
	// metadata of a capability alone.
	Implied bool
	// Where is the place in the configuration, empty for an implied intent.
	Where string
}

// Types returns the accepted result types with the default filled in.
func (i *Intent) Types() []string {
	if len(i.ResultTypes) == 0 {
		return []string{"value"}
	}
	return i.ResultTypes
}

// CheckKind says who judges.
type CheckKind string

// The kinds of check, in the order in which gates run them.
const (
	CheckBuiltin    CheckKind = "builtin"
	CheckCondition  CheckKind = "condition"
	CheckCapability CheckKind = "capability"
)

// Check declares a named gate. The function behind a built-in or a condition
// is not data and lives in quality.Check.
type Check struct {
	// Name is how plans and policies name the check.
	Name string
	Kind CheckKind
	// Builtin is the name of the built-in behind it, for CheckBuiltin. It
	// differs from Name when a block binds another name to a built-in.
	Builtin string
	// Intent is asked by a capability check.
	Intent string
	// Params are given to a built-in or merged into the input of a capability
	// check; nil or a map.
	Params edn.Value
	// Timeout bounds one run of a capability check; zero means DefaultCheckTimeout.
	Timeout time.Duration
	// Evidence makes a check that does not apply fail as a must.
	Evidence bool
	// Conditional is true for a check that applies to some answers only.
	Conditional bool
	// Where is the place in the configuration, empty for a built-in.
	Where string
}

// TestsPass is the check that wants all tests to pass, and at least one of them to have been run.
const TestsPass = "tests-pass"

// MayAsk reports whether a capability may answer the check. A model cannot say whether tests pass, it did not run them.
func (c *Check) MayAsk(by *Capability) bool { return c.Name != TestsPass || by.Kind != ModelKind }

// DefaultCheckTimeout bounds a capability check that names no timeout.
const DefaultCheckTimeout = 10 * time.Second
