package contract

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ERR-010: resolutions of contradictions between the documents about a type.
// The dispatch tests cover the reaction of the evaluator.
func TestConflictsBetweenDocuments(t *testing.T) {
	for _, tt := range []struct {
		conflict, typ string
		class         Class
		source        Source
		again         bool
		status        int
	}{
		{"the soft limit of the evaluator", "timeout/soft", ClassSwitch, SourceDownstream, true, 504},
		{"what a model adapter reports", "provider/timeout", ClassSwitch, SourceDownstream, true, 504},
		{"a hard timeout switches, and its caller need not ask again", "timeout/hard", ClassSwitch, SourceDownstream, false, 504},
		{"after an effect that may have happened it ends everything", "effects/outcome-unknown", ClassFinal, SourcePlugin, false, 409},
		{"a missing key is no defect of the host", "provider/not-configured", ClassSwitch, SourceHost, false, 503},
		{"nor is a missing model", "provider/model-not-found", ClassSwitch, SourceHost, false, 503},
		{"a fault of a judge", "judge/failed", ClassRetry, SourceDownstream, true, 502},
		{"a judge of the same family", "judge/same-family", ClassSwitch, SourceHost, false, 502},
		{"500 is for defects", "runtime/internal", ClassFinal, SourceHost, false, 500},
		{"a full queue, at whose ever door", "runtime/overloaded", ClassSwitch, SourceHost, true, 503},
		{"a request that a provider refused", "provider/request-failed", ClassSwitch, SourceDownstream, false, 502},
		{"no decision of a router", "route/decide-failed", ClassStop, SourceDownstream, true, 502},
		{"an intent that nobody knows", "invalid-request", ClassFinal, SourceRequest, false, 400},
		{"an intent that nobody may serve", "unsupported/intent", ClassFinal, SourceRequest, false, 422},
		{"an effect that was not declared", "effects/invalid-input", ClassStop, SourceRequest, false, 400},
	} {
		e := Errorf(tt.typ, "x")
		assert.Equal(t, []any{tt.class, tt.source, tt.again, tt.status}, []any{e.Class, e.Source, e.Retryable, e.HTTPStatus()}, "%s: %s", tt.typ, tt.conflict)
	}

	// The context engine determines whether a wrapped failure is retryable.
	again := ErrorFromValue(edn.MustRead(`{:type :provider/request-failed :retryable? true}`), SourcePlugin)
	assert.True(t, again.Retryable)
	assert.Equal(t, ClassSwitch, again.Class)

	// A keyword as :where becomes a map.
	e := ErrorFromValue(edn.MustRead(`{:type :route/decide-failed :where :model-output}`), SourcePlugin)
	assert.Equal(t, "{:at :model-output}", e.Where.String())

	// The reason of an undeclared effect is not a type of its own; the plan
	// node or the agent is a position, not a type.
	for _, gone := range []string{"effects/not-declared", "node/failed", "agent/failed"} {
		_, found := Lookup(gone)
		assert.False(t, found, gone)
	}
	for _, kept := range []string{"node/deleted", "node/ambiguous", "agent/unknown", "agent/required"} { // of the context engine
		_, found := Lookup(kept)
		assert.True(t, found, kept)
	}
}
