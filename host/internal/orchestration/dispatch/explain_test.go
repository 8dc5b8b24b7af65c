package dispatch_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
)

// BIND-006, BIND-007: an explanation has every candidate with its figures, in
// the order of the policy, or with the reason of its rejection; it changes
// nothing.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{Action: registry.ActionQuarantine}, 4)
		k.set(true, "t/a")
		k.ask(12)
		k.SetState("t/d", dispatch.CapState{Reason: "runtime/not-ready"})
		l := retries(0, 0)
		l.Ordering = policy.Of(policy.QualityAware, here)
		p, err := l.Resolve()
		require.NoError(t, err)
		for range 50 {
			x := k.Dispatcher.Explain(p, "text/respond", "", false)
			assert.Equal(t, "quality-aware", x.Ordering)
			assert.Equal(t, []string{"t/b", "t/c"}, x.Binding.Accepted)
			assert.Equal(t, []string{"t/b"}, x.Binding.Tried)
			require.Len(t, x.Binding.Rejected, 2)
			assert.Equal(t, "breaker/open", x.Binding.Rejected[0].Reason)
			assert.Contains(t, x.Binding.Rejected[0].Why.Message, "0 of the last 10 answers passed")
			assert.Equal(t, "runtime/not-ready", x.Binding.Rejected[1].Reason)
			a, ok := x.Figures("t/a")
			require.True(t, ok)
			assert.True(t, a.Out)
			assert.False(t, a.Reopens.IsZero())
			b, _ := x.Figures("t/b")
			assert.Equal(t, 12, b.Samples)
			assert.Equal(t, `{:breaker :closed :latency-ms 0 :passes 12 :quality 0.94M :rate 1M :samples 12}`, b.Value().String())
			_, ok = x.Figures("t/z")
			assert.False(t, ok)
		}
		// Without statistics or executor only declared figures are known.
		w := world(t, ":cap/cost {:usd 0.5M :latency-ms 9000}")
		bare := dispatch.Dispatcher{Registry: w.Registry, Checks: w.Checks, Clock: dispatch.SystemClock{}}
		f, _ := bare.Explain(p, "text/respond", "", false).Figures("t/a")
		assert.Equal(t, `{:breaker :closed :cost-usd 0.5M :latency-ms 9000 :passes 0 :quality 0.8M :samples 0}`, f.Value().String())
	})
}

// BIND-006: an explained run records the figures of all candidates under every
// ordering; another run does not.
func TestExplainedRun(t *testing.T) {
	k := newRemediationWorld(t, registry.Quality{}, 2)
	k.SetState("t/b", dispatch.CapState{Reason: "runtime/not-ready"})
	plainly := serve(t, k.World, order{}).resolved(t)
	assert.True(t, plainly.Candidates[0].Figures.IsNil())
	n := serve(t, k.World, order{explain: true}).resolved(t)
	require.Len(t, n.Candidates, 1)
	assert.Equal(t, "1", n.Candidates[0].Figures.Key("samples").String())
	require.Len(t, n.Rejected, 1)
	assert.Equal(t, "0", n.Rejected[0].Figures.Key("samples").String())
	assert.True(t, serve(t, k.World, order{}).resolved(t).Candidates[0].Figures.IsNil(), "what calls share is as it was")
}
