package dispatch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
