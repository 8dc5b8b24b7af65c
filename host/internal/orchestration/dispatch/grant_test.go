package dispatch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// BIND-002, FX-002: a candidate whose scope is denied is rejected during
// binding, so the next one serves; if all are denied, the failure has the
// reason and nothing is dispatched.
func TestDeniedCandidateIsLeftOut(t *testing.T) {
	scope, err := effects.ParseScope("fs/write", edn.MustRead(`{:allow ["reports"]}`))
	require.Nil(t, err)
	layer := retries(0, 1)
	layer.Effects = policy.Of([]string{"fs/write"}, here)
	layer.Scopes = policy.ScopesOf(policy.Scoped{Effect: "fs/write", Scope: scope}) // no component enforces it
	for other, want := range map[string]struct{ served, failure string }{
		"":                          {served: "t/b"},
		":cap/effects #{:fs/write}": {failure: "effects/not-enforceable"},
	} {
		w := world(t, ":cap/effects #{:fs/write}", other)
		r := serve(t, w, order{layer: layer})
		assert.Equal(t, want.failure, r.failure())
		if want.failure != "" {
			assert.Empty(t, w.Dispatched())
			continue
		}
		assert.Equal(t, []string{want.served}, w.Dispatched())
		assert.Nil(t, r.Degraded, "a candidate that may not be used is no loss of quality")
		resolved, ok := r.records[0].Body.(*journal.NodeResolved)
		require.True(t, ok)
		require.Len(t, resolved.Rejected, 1)
		assert.Equal(t, policy.ReasonEffects, resolved.Rejected[0].Reason)
	}
}
