package contract

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

	// The full set applies only if no layer set one.
	soft := Errorf("timeout/soft", "x")
	assert.True(t, SwitchSet{}.Effective().Matches(soft))
	assert.False(t, parseSet(t).Effective().Matches(soft), "an empty set fails fast")

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

// ENV-020: the envelope has one major version. Every other number is rejected
// with the supported ones; a value that is not a number is another fault.
func TestEnvelopeVersion(t *testing.T) {
	require.EqualValues(t, 1, Proto)
	for _, number := range []string{"0", "2", "-1", "17", "99999999999999999999"} {
		_, err := ParseRequest(with(`[:proto]`, number), testEnv())
		require.NotNil(t, err, number)
		assert.Equal(t, "invalid-request", err.Type)
		assert.Equal(t, 400, err.HTTPStatus())
		assert.Equal(t, ":proto/unsupported", err.Details.Key("reason").String(), number)
		assert.Equal(t, "[:enum 1]", err.Details.Key("expected").String(), "the supported ones")
		assert.Equal(t, "[:proto]", err.Details.Key("path").String())
		assert.Contains(t, err.Message, "1", "in the sentence too")
	}
	for _, other := range []string{"1.0", "1M", ":one", "nil", `"2"`, `"one"`} {
		in, _, err := TranslateRequest(with(`[:proto]`, other))
		require.NoError(t, err)
		_, bad := ParseRequest(in, testEnv())
		require.NotNil(t, bad, other)
		assert.Equal(t, ":shape/wrong-type", bad.Details.Key("reason").String(), other)
	}
	for _, one := range []string{"1", "1N", `"1"`} {
		in, warnings, err := TranslateRequest(with(`[:proto]`, one))
		require.NoError(t, err)
		_, bad := ParseRequest(in, testEnv())
		assert.Nil(t, bad, one)
		assert.Empty(t, warnings, one)
	}
	// New fields are always optional: the three original fields are sufficient.
	_, bad := ParseRequest(edn.MustRead(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "x"}}`), testEnv())
	assert.Nil(t, bad)
}
