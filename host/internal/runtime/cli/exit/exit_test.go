package exit

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
)

// CLI-002: the exit code of a command follows from the type and source of the
// error.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		typ    string
		source contract.Source
		want   int
	}{
		{"eval/must-failed", contract.SourceDownstream, Negative},
		{"unsupported/intent", contract.SourceRequest, Negative},
		{"config/syntax", contract.SourceHost, Negative},
		{"config/restart", contract.SourceHost, Conflict},
		{"plan/invalid", contract.SourceRequest, Negative},
		{"plan/invalid", contract.SourcePlugin, Negative},
		{"runtime/crashed", contract.SourcePlugin, Negative},
		{"demo/own", contract.SourcePlugin, Negative},
		{"budget/exceeded", contract.SourceRequest, Negative},
		{"invalid-request", contract.SourceRequest, Usage},
		{"input/invalid", contract.SourceRequest, Usage},
		{"http/too-large", contract.SourceRequest, Usage},
		{"runtime/overloaded", contract.SourceHost, Environment},
		{"runtime/not-ready", contract.SourcePlugin, Environment},
		{"runtime/not-ready", contract.SourceHost, Environment},
		{"journal/full", contract.SourceHost, Environment},
		{"runtime/internal", contract.SourceHost, Environment},
		{"auth/forbidden", contract.SourceRequest, Denied},
		{"auth/unauthorized", contract.SourceRequest, Denied},
		{"effects/scope-denied", contract.SourceRequest, Denied},
		{"run/not-found", contract.SourceRequest, NotFound},
		{"replay/values-purged", contract.SourceRequest, NotFound},
		{"run/suspended", contract.SourceRequest, Conflict},
		{"import/conflict", contract.SourceRequest, Conflict},
		{"idempotency/mismatch", contract.SourceRequest, Conflict},
		{"role/in-use", contract.SourceRequest, Conflict},
		{"admin/conflict", contract.SourceRequest, Conflict},
		{"effects/outcome-unknown", contract.SourcePlugin, Conflict},
		{"timeout/hard", contract.SourceDownstream, Deadline},
		{"queue/deadline-exceeded", contract.SourceRequest, Deadline},
		{"canceled", contract.SourceRequest, Deadline},
	} {
		assert.Equal(t, tt.want, Code(contract.Errorf(tt.typ, "x").WithSource(tt.source)), "%s from %s", tt.typ, tt.source)
	}
	notReady := contract.Errorf("unsupported/intent", "x").WithRetryable(true)
	assert.Equal(t, Environment, Code(notReady), "the plugin of a candidate is only not ready")
}
