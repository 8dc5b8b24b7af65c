package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ordered returns the order of the candidates in the record of a call.
func ordered(t *testing.T, r served) []string {
	t.Helper()
	var ids []string
	for _, c := range r.resolved(t).Candidates {
		ids = append(ids, c.CapID)
	}
	return ids
}

// MLX-009, BIND-007: by availability and by latency, warm candidates come
// before starting ones, and those before cold ones; by availability, idle
// candidates come before loaded ones.
func TestOrderByCondition(t *testing.T) {
	for name, c := range map[string]struct {
		ordering string
		a, b, c  stats.Condition
		want     []string
	}{
		"nothing known":            {policy.Availability, stats.Condition{}, stats.Condition{}, stats.Condition{}, []string{"t/a", "t/b", "t/c"}},
		"warm, starting, cold":     {policy.Availability, stats.Condition{Warmth: stats.Cold}, stats.Condition{Warmth: stats.Starting}, stats.Condition{Warmth: stats.Warm}, []string{"t/c", "t/b", "t/a"}},
		"the same by latency":      {policy.LatencyFirst, stats.Condition{Warmth: stats.Cold}, stats.Condition{Warmth: stats.Starting}, stats.Condition{Warmth: stats.Warm}, []string{"t/c", "t/b", "t/a"}},
		"not by quality":           {policy.QualityAware, stats.Condition{Warmth: stats.Cold}, stats.Condition{Warmth: stats.Starting}, stats.Condition{Warmth: stats.Warm}, []string{"t/a", "t/b", "t/c"}},
		"in flight by places":      {policy.Availability, stats.Condition{InFlight: 3, Places: 4}, stats.Condition{InFlight: 4, Places: 8}, stats.Condition{InFlight: 9}, []string{"t/c", "t/b", "t/a"}},
		"a queue":                  {policy.Availability, stats.Condition{InFlight: 4, Queued: 9, Places: 4}, stats.Condition{InFlight: 4, Places: 4}, stats.Condition{Queued: 20}, []string{"t/b", "t/a", "t/c"}},
		"a queue before a start":   {policy.Availability, stats.Condition{Warmth: stats.Cold, Places: 1}, stats.Condition{Warmth: stats.Warm, InFlight: 1, Queued: 1, Places: 1}, stats.Condition{}, []string{"t/c", "t/b", "t/a"}},
		"troubled":                 {policy.Availability, stats.Condition{Troubled: true}, stats.Condition{InFlight: 1, Places: 2}, stats.Condition{}, []string{"t/c", "t/b", "t/a"}},
		"room by latency: unknown": {policy.LatencyFirst, stats.Condition{InFlight: 1, Queued: 9, Places: 1}, stats.Condition{}, stats.Condition{}, []string{"t/a", "t/b", "t/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldWithStats(t, "", "", "")
			w.SetCondition("t/a", c.a).SetCondition("t/b", c.b).SetCondition("t/c", c.c)
			r := serve(t, w, order{layer: policy.Layer{Ordering: policy.Of(c.ordering, here)}})
			assert.Equal(t, c.want, ordered(t, r))
		})
	}
}

// said answers with a text and the usage of a model.
func said(usage string) dispatchtest.Step {
	s := out(`{:text "a b"}`)
	s.Pieces, s.Usage = []string{"a b"}, edn.MustRead(usage)
	return s
}

// MLX-009, BIND-007: a streamed call prefers the earliest first piece, another
// call the earliest end; the queue adds to both.
func TestFirstTokenOrWholeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		// a: first piece after 900 ms, end after 1 s; b: first piece after 100 ms, end
		// after 5 s.
		w.On("t/a", in(time.Second, said(`{:latency-ms 1000 :first-token-ms 900 :tokens-out 11}`)))
		w.On("t/b", in(5*time.Second, said(`{:latency-ms 5000 :first-token-ms 100 :tokens-out 50}`)))
		for _, id := range []string{"t/a", "t/b"} {
			serve(t, w, order{layer: policy.Layer{Candidates: policy.Of([]string{id}, here)}})
		}
		fast := policy.Layer{Ordering: policy.Of(policy.LatencyFirst, here)}
		value := serve(t, w, order{layer: fast})
		assert.Equal(t, []string{"t/a", "t/b"}, ordered(t, value))
		assert.Equal(t, `{:breaker :closed :first-token-ms 900 :latency-ms 1000 :passes 1 :quality 0.83M :rate 1M :samples 1 :tokens-per-second 100M}`,
			value.resolved(t).Candidates[0].Figures.String())
		assert.Equal(t, []string{"t/b", "t/a"}, ordered(t, serve(t, w, order{layer: streaming(policy.FirstToken, fast), streams: true})))
		assert.Equal(t, []string{"t/a", "t/b"}, ordered(t, serve(t, w, order{layer: streaming(policy.GatePassed, fast), streams: true})), "it is shown after its gates")

		p, err := streaming(policy.FirstToken, fast).Resolve()
		require.NoError(t, err)
		assert.Equal(t, []string{"t/a", "t/b"}, w.Dispatcher.Explain(p, "text/respond", "", false).Binding.Accepted)
		assert.Equal(t, []string{"t/b", "t/a"}, w.Dispatcher.Explain(p, "text/respond", "", true).Binding.Accepted)

		// Three queued calls of a second each and its own: b takes longer.
		w.SetCondition("t/a", stats.Condition{InFlight: 1, Queued: 2, Places: 1})
		assert.Equal(t, []string{"t/a", "t/b"}, ordered(t, serve(t, w, order{layer: fast})))
		w.SetCondition("t/a", stats.Condition{InFlight: 1, Queued: 4, Places: 1})
		assert.Equal(t, []string{"t/b", "t/a"}, ordered(t, serve(t, w, order{layer: fast})))
	})
}

// MLX-009: the host measures the first piece if the plugin does not report it.
func TestFirstPieceAsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "")
		step := out(`{:text "a b"}`)
		step.Pieces, step.Gap = []string{"a", " b"}, 50*ms
		w.On("t/a", step)
		fast := streaming(policy.FirstToken, policy.Layer{Ordering: policy.Of(policy.LatencyFirst, here)})
		serve(t, w, order{layer: fast, streams: true})
		figures := serve(t, w, order{layer: fast}).resolved(t).Candidates[0].Figures
		assert.Equal(t, "100", figures.Key("latency-ms").String())
		assert.Equal(t, "0", figures.Key("first-token-ms").String())
		assert.False(t, figures.HasKey("tokens-per-second"))
	})
}

// backendCrashes is the counter of t/a reported by process 1 of the plugin.
func backendCrashes(deaths uint64) stats.BackendCrashes {
	return stats.BackendCrashes{CapID: "t/a", Plugin: "scripted", Generation: 1, Count: deaths}
}

// MLX-009, BRK-004: each crash counts once, whichever report comes first, and
// whether or not the plugin repeated the call.
func TestBackendCrashes(t *testing.T) {
	saved := func(n string) dispatchtest.Step {
		s := out(`{:n 1}`)
		s.Meta = edn.MustRead(`{:attempts [{:error :model/died :deaths ` + n + `}]}`)
		return s
	}
	fatal := func(n int64) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("model/died", "scripted").WithDetail("deaths", edn.Int(n))}
	}
	state := func(w *dispatchtest.World) string {
		p, err := (&policy.Layer{}).Resolve()
		require.NoError(t, err)
		f, _ := w.Dispatcher.Explain(p, "text/respond", "", false).Figures("t/a")
		return string(f.Breaker)
	}
	t.Run("by health alone", func(t *testing.T) {
		w := worldWithStats(t, "", "")
		serve(t, w, order{}) // creates the statistics
		for range 3 {        // repeated reports
			for n := range uint64(4) {
				w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(n))
			}
		}
		assert.Equal(t, "closed", state(w), "three deaths and an answer: it takes five outcomes")
		other := backendCrashes(4)
		other.CapID = "t/b"
		assert.True(t, w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), other))
		assert.Equal(t, "closed", state(w))
		assert.True(t, w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(5)))
		assert.Equal(t, "open", state(w))
		assert.False(t, w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(5)))
		next := backendCrashes(1)
		next.Generation = 2
		assert.True(t, w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), next), "another process counts anew")
		assert.True(t, w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(7)), "what was missed comes later")
	})
	t.Run("calls that were saved", func(t *testing.T) {
		w := worldWithStats(t, "", "")
		w.On("t/a", saved("1"), saved("2"), saved("3"), saved("4"), saved("5"))
		for n := range uint64(3) {
			assert.Equal(t, "closed", state(w))
			if n == 1 {
				w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(2)) // health arrives before the answer
			}
			require.Nil(t, serve(t, w, order{}).Err)
			assert.False(t, w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(n+1)), "it was counted")
		}
		assert.Equal(t, "open", state(w), "three deaths and two answers before the third")
	})
	t.Run("a call that was not saved", func(t *testing.T) {
		w := worldWithStats(t, "", "")
		w.On("t/a", fatal(1), fatal(1), fatal(1), fatal(1), fatal(1), fatal(1), fatal(2)).On("t/b", out(`{:n 2}`))
		for range 6 {
			serve(t, w, order{layer: retries(0, 1)})
		}
		assert.Equal(t, "closed", state(w), "one death cut six calls")
		w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(5))
		assert.Equal(t, "open", state(w))
	})
}

// BRK-005, BRK-006: a crash during half-open or the ramp opens the breaker.
func TestCrashDuringProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		serve(t, w, order{})
		w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(9))
		time.Sleep(1200 * ms)
		w.On("t/a", dispatchtest.Step{Delay: 50 * ms, After: func() { w.Dispatcher.Stats.RecordBackendCrashes(time.Now(), backendCrashes(10)) }, Value: edn.MustRead(`{:n 1}`)}, out(`{:n 1}`))
		w.On("t/b", out(`{:n 2}`))
		require.Equal(t, "t/a", serve(t, w, order{layer: retries(0, 1)}).CapID)
		r := serve(t, w, order{layer: retries(0, 1)})
		assert.Equal(t, []journal.Rejection{{CapID: "t/a", Reason: "breaker/open"}}, r.resolved(t).Rejected)
	})
}
