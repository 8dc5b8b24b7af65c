package dispatch_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// BUD-005: a candidate that exceeds the budget is not dispatched. It is
// recorded as a rejection, and a cheaper candidate serves; without one the node
// ends with a final error. TestBudgetOfARun covers the amounts at each
// reservation point.
func TestCandidateThatCannotReserve(t *testing.T) {
	w := world(t, ":cap/cost {:usd 0.01M}", ":cap/cost {:usd 0.001M}")
	w.On("t/a", out(`{:n 1}`)).On("t/b", out(`{:n 2}`))
	r := serve(t, w, order{layer: retries(0, 0), limits: "{:max-usd 0.005M}"})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"t/b"}, w.Dispatched())
	assert.Equal(t, []journal.Rejection{{CapID: "t/a", Reason: "budget/would-exceed"}}, r.resolved(t).Rejected)

	w = world(t, ":cap/cost {:usd 0.01M}", ":cap/cost {:usd 0.001M}")
	r = serve(t, w, order{layer: retries(3, 3), limits: "{:max-usd 0.0005M}"})
	assert.Equal(t, "budget/exceeded", r.failure())
	assert.Equal(t, contract.ClassFinal, r.Err.Class)
	assert.Empty(t, w.Dispatched())
}

// BUD-005: an operation that the budget stops says why its last attempt failed, whether a retry, a
// repair or the next candidate does not fit. A hint that belongs to the budget stays.
func TestBudgetSaysWhyTheAttemptFailed(t *testing.T) {
	cut := contract.Errorf("provider/output-truncated", "the answer was cut").WithHint("raise max_tokens")
	for name, row := range map[string]struct {
		caps   []string
		layer  policy.Layer
		limits string
		hint   string
	}{
		"retry":    {[]string{""}, retries(3, 0), "{:max-roundtrips 1}", cut.Hint},
		"next":     {[]string{"", ""}, retries(0, 1), "{:max-roundtrips 1}", cut.Hint},
		"too dear": {[]string{":cap/cost {:usd 0.01M}", ":cap/cost {:usd 0.1M}"}, retries(0, 1), "{:max-usd 0.02M}", cut.Hint},
		"unpriced": {[]string{":cap/cost {:usd 0.01M}", ""}, retries(0, 1), "{:max-usd 0.02M}", "configure a price"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, row.caps...)
			w.On("t/a", dispatchtest.Step{Err: cut.WithClass(contract.ClassRetry)})
			r := serve(t, w, order{layer: row.layer, limits: row.limits})
			require.Equal(t, "budget/exceeded", r.failure())
			assert.Equal(t, cut.Type, r.Err.Cause.Type)
			assert.Contains(t, r.Err.Message, cut.Message)
			assert.Contains(t, r.Err.Hint, row.hint)
		})
	}
}

// BIND-008, BUD-005: a healthy candidate that is too dear is the reason of the failure, also
// if another has an open breaker.
func TestTooDearBesideAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, ":cap/cost {:usd 0M}", ":cap/cost {:usd 0.01M}")
		w.Dispatcher.Stats = &stats.Table{}
		w.On("t/a", fails("provider/auth-failed"))
		serve(t, w, order{layer: retries(0, 0)})
		r := serve(t, w, order{layer: retries(0, 1), limits: "{:max-usd 0.001M}"})
		assert.Equal(t, "budget/exceeded", r.failure())
		assert.Equal(t, []string{"t/a"}, w.Dispatched())
		assert.Equal(t, []journal.Rejection{
			{CapID: "t/a", Reason: "breaker/open", Why: r.resolved(t).Rejected[0].Why}, {CapID: "t/b", Reason: "budget/would-exceed"},
		}, r.resolved(t).Rejected)
	})
}

// BRK-001, BRK-005: a breaker without an end of its pause names its cause and what ends it.
func TestTrippedBreakerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "")
		w.Dispatcher.Stats = &stats.Table{}
		refused := contract.Errorf("provider/auth-failed", "the key was refused").WithHint("set another key")
		w.On("t/a", dispatchtest.Step{Err: refused})
		serve(t, w, order{layer: retries(0, 0)})
		r := serve(t, w, order{layer: retries(0, 0)})
		require.Equal(t, "breaker/open", r.failure())
		assert.Equal(t, "the key was refused", r.Err.Cause.Message)
		assert.Equal(t, "set another key; then `ferment dispatch reset t/a` lets it be called again", r.Err.Hint)
		assert.False(t, r.Err.Details.HasKey("retry-after-ms"))
	})
}
