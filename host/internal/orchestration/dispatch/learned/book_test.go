package learned_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
)

// LRN-005: the event of a drift has the pass rate of the earlier outcomes as a rate, since they are
// fewer than 100.
func TestDriftSaysARate(t *testing.T) {
	p, err := policy.Layer{Ordering: policy.Of(policy.Learning, policy.Origin{})}.Resolve()
	require.NoError(t, err)
	var why []string
	book := learned.NewBook(nil, func(n stats.Notice) {
		if n.Event == stats.EventOutcomesDrift {
			s, _ := n.Details.Key("why").AsString()
			why = append(why, s)
		}
	})
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 90 {
		book.Add(learned.Key{Intent: "demo/answer"}, bandit.Outcome{
			Arm:  bandit.Arm{CapID: "t/a", Major: 1},
			At:   at.Add(time.Duration(i) * time.Second),
			Pass: i < 70,
		}, p.Learned)
	}
	require.NotEmpty(t, why)
	assert.Contains(t, why[0], " % did")
	assert.NotContains(t, why[0], "of 100")
}
