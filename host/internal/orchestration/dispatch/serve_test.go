package dispatch_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ATT-003: every failure has a type: a switch set with exactly this type tries
// the next candidate, a set without it ends the node with the failure.
// TestGateFailuresAreTypes covers gate failures, TestSoftTimeoutExtended the
// extension of a soft timeout, TestDeadlines hard timeouts, TestStrategies
// losers of a race; package eval covers that nothing passes :allow-failure?.
func TestFailureTypes(t *testing.T) {
	for name, tc := range map[string]struct {
		step    dispatchtest.Step
		typ     string
		outcome string
	}{
		"error result":      {fails("provider/quota-exhausted"), "provider/quota-exhausted", "error"},
		"plugin's own type": {fails("acme/odd"), "acme/odd", "error"},
		"error envelope":    {dispatchtest.Step{Raw: edn.MustRead(`{:error {:type :provider/error}}`)}, "provider/error", "error"},
		"no envelope":       {dispatchtest.Step{Raw: edn.MustRead(`"text"`)}, "runtime/invalid-result", "error"},
		"nothing":           {dispatchtest.Step{Raw: edn.MustRead(`{:result {:type :value}}`)}, "runtime/invalid-result", "error"},
		"wrong type":        {dispatchtest.Step{Plan: edn.MustRead(`{:nodes []}`)}, "runtime/invalid-result", "error"},
		"schema":            {out(`"no map"`), "schema/invalid", "ok"},
		"crash":             {dispatchtest.Step{Crash: true}, "runtime/crashed", "unknown"},
		"not ready":         {fails("runtime/not-ready"), "runtime/not-ready", "error"},
		"start failure":     {fails("runtime/start-failed"), "runtime/start-failed", "error"},
		"silence":           {dispatchtest.Step{Hang: true}, "timeout/soft", "unknown"},
		"claims a cancel":   {fails("canceled"), "runtime/invoke-failed", "error"},
		"cancel envelope":   {dispatchtest.Step{Raw: edn.MustRead(`{:error {:type :canceled}}`)}, "runtime/invoke-failed", "error"},
		"claims a defect":   {fails("runtime/internal"), "runtime/invoke-failed", "error"},
		"claims to drain":   {fails("runtime/draining"), "runtime/invoke-failed", "error"},
		"claims to start":   {fails("runtime/starting"), "runtime/invoke-failed", "error"},
		"truncated stream":  {dispatchtest.Step{Raw: edn.MustRead(`{:result {:type :stream :stream [{:event :delta :text "x"}]}}`)}, "stream/truncated", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, ":cap/limits {:timeout-ms 50} :cap/can-produce #{:value :stream}", "")
				w.On("t/a", tc.step)
				w.On("t/b", out(`{:n 2}`))
				r := serve(t, w, order{layer: retries(0, 1)})
				require.Nil(t, r.Err)
				assert.Equal(t, "t/b", r.CapID)
				require.Len(t, r.Attempts, 2)
				assert.Equal(t, tc.typ, r.Attempts[0].Failure)
				assert.Equal(t, []string{tc.outcome, "ok"}, r.finished())
				assertNameable(t, w, retries(0, 1), tc.typ)
			})
		})
	}
}

// assertNameable checks that a failure of t/a tries t/b exactly if the switch
// set contains its type.
func assertNameable(t *testing.T, w *dispatchtest.World, layer policy.Layer, typ string) {
	t.Helper()
	layer.SwitchOn = policy.Additive{Base: policy.Of(policy.NamesOf(here, typ), here)}
	r := serve(t, w, order{layer: layer})
	assert.Nil(t, r.Err)
	assert.Equal(t, "t/b", r.CapID)
	layer.SwitchOn = policy.Additive{Base: policy.Of(policy.NamesOf(here, "acme/another"), here)}
	r = serve(t, w, order{layer: layer})
	assert.Equal(t, typ, r.failure())
}

// ATT-003: gate failures have a type as well.
func TestGateFailuresAreTypes(t *testing.T) {
	for typ, gates := range map[string]policy.Layer{
		"eval/must-failed": {Must: policy.NamesOf(here, "good")},
		"eval/low-score":   {Should: policy.NamesOf(here, "good"), ScoreMin: policy.Of(edn.MustDecimal("0.5"), here)},
	} {
		w := repairWorld(t, "", "")
		w.On("t/a", out(`{:n 1}`)).On("t/b", out(`{:good true}`))
		assertNameable(t, w, policy.Merge(retries(0, 1), gates), typ)
	}
}

// ATT-002, ATT-009: a written set decides, also an empty one; without one, all
// errors of class retry, switch and repair continue.
func TestSwitchOn(t *testing.T) {
	names := func(n ...string) policy.Additive {
		return policy.Additive{Add: policy.Of(policy.NamesOf(here, n...), here)}
	}
	for name, tc := range map[string]struct {
		set    policy.Additive
		typ    string
		served bool
	}{
		"without a set":            {policy.Additive{}, "runtime/invoke-failed", true},
		"empty fails fast":         {names(), "runtime/invoke-failed", false},
		"named":                    {names("runtime/invoke-failed"), "runtime/invoke-failed", true},
		"another one named":        {names("timeout/hard"), "runtime/invoke-failed", false},
		"namespace":                {names("runtime/*"), "runtime/invoke-failed", true},
		"class":                    {names("class/switch"), "runtime/invoke-failed", true},
		"another class":            {names("class/retry"), "runtime/invoke-failed", false},
		"stop, not named":          {policy.Additive{}, "input/invalid", false},
		"stop, under a wildcard":   {names("input/*"), "input/invalid", false},
		"stop, by its own name":    {names("input/invalid"), "input/invalid", true},
		"stop!, by its own name":   {names("invalid-request"), "invalid-request", false},
		"alias":                    {names("queue/full"), "runtime/overloaded", true},
		"replaced by nothing":      {policy.Additive{Base: policy.Of(policy.Names(nil), here)}, "runtime/crashed", false},
		"type of the plugin's own": {names("acme/odd"), "acme/odd", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, "", "")
			w.On("t/a", fails(tc.typ))
			w.On("t/b", out(`{:n 2}`))
			layer := retries(0, 1)
			layer.SwitchOn = tc.set
			r := serve(t, w, order{layer: layer})
			if tc.served {
				assert.Equal(t, "t/b", r.CapID)
				assert.Nil(t, r.Err)
				return
			}
			assert.Equal(t, tc.typ, r.failure())
			assert.Equal(t, []string{"t/a"}, w.Dispatched())
		})
	}
}

// ATT-006: the earlier deadline of node and capability bounds the attempt and
// is sent to the plugin; the limit that passed is soft for the capability and
// hard for the node.
func TestDeadlines(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, node, extend time.Duration
		wire, took          time.Duration
		typ                 string
	}{
		"capability":               {limit: 100 * time.Millisecond, wire: 100 * time.Millisecond, took: 100 * time.Millisecond, typ: "timeout/soft"},
		"node":                     {limit: 100 * time.Millisecond, node: 50 * time.Millisecond, wire: 50 * time.Millisecond, took: 50 * time.Millisecond, typ: "timeout/hard"},
		"node alone":               {node: 70 * time.Millisecond, wire: 70 * time.Millisecond, took: 70 * time.Millisecond, typ: "timeout/hard"},
		"ATT-010 extended":         {limit: 100 * time.Millisecond, extend: 50 * time.Millisecond, wire: 150 * time.Millisecond, took: 150 * time.Millisecond, typ: "timeout/soft"},
		"ATT-010 up to the node's": {limit: 100 * time.Millisecond, extend: time.Second, node: 120 * time.Millisecond, wire: 120 * time.Millisecond, took: 120 * time.Millisecond, typ: "timeout/hard"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				more := ""
				if tc.limit > 0 {
					more = ":cap/limits {:timeout-ms " + edn.Int(tc.limit.Milliseconds()).String() + "}"
				}
				w := world(t, more)
				w.On("t/a", dispatchtest.Step{Hang: true})
				layer := retries(0, 0)
				if tc.extend > 0 {
					layer.Extend = policy.Of(tc.extend, here)
				}
				begun := time.Now()
				r := serve(t, w, order{layer: layer, deadline: tc.node})
				assert.Equal(t, tc.took, time.Since(begun))
				assert.Equal(t, tc.typ, r.failure())
				assert.Equal(t, tc.wire, w.Calls()[0].Deadline.Sub(begun))
			})
		})
	}
}

// EMB-002: a candidate that hangs has three quarters of the time left while another one could be
// tried, so the deadline does not end the node before that one answers. The capability gets
// the deadline of the node, which ends its call otherwise.
func TestHangLeavesTimeForTheNextCandidate(t *testing.T) {
	const writes = ":cap/effects #{:fs/write} :cap/recovery-rules [[[:prompt] \"p\" :once]]"
	hang, reply := dispatchtest.Step{Hang: true}, out(`{:text "b"}`)
	quick := policy.Additive{Base: policy.Of(policy.NamesOf(here, "provider/unavailable"), here)}
	for name, tc := range map[string]struct {
		more    string
		layer   policy.Layer
		limits  string
		steps   []dispatchtest.Step
		streams bool
		typ     string
		took    time.Duration // of 800 ms
	}{
		"next answers":           {layer: retries(0, 1), steps: []dispatchtest.Step{hang, reply}, took: 600},
		"two of three hang":      {layer: retries(0, 2), steps: []dispatchtest.Step{hang, hang, reply}, took: 750},
		"not retried":            {layer: retries(1, 1), steps: []dispatchtest.Step{hang, reply}, took: 600},
		"all hang":               {layer: retries(0, 1), steps: []dispatchtest.Step{hang, hang}, typ: "timeout/hard", took: 800},
		"slow, but in its share": {layer: retries(0, 1), steps: []dispatchtest.Step{in(599*time.Millisecond, reply), hang}, took: 599},
		"no fallback":            {layer: retries(0, 0), steps: []dispatchtest.Step{in(799*time.Millisecond, reply), reply}, took: 799},
		"no call left": {layer: retries(0, 1), limits: "{:max-attempts 1}",
			steps: []dispatchtest.Step{in(799*time.Millisecond, reply), reply}, took: 799},
		"two calls": {layer: retries(0, 1), limits: "{:max-attempts 2}", steps: []dispatchtest.Step{hang, reply}, took: 600},
		"own limit": {more: ":cap/limits {:timeout-ms 700}", layer: retries(0, 1), steps: []dispatchtest.Step{hang, reply}, took: 700},
		"own limit, later": {more: ":cap/limits {:timeout-ms 900}", layer: retries(0, 1),
			steps: []dispatchtest.Step{hang, reply}, took: 600},
		"silence ends the node": {layer: policy.Layer{FallbackMax: policy.Of(1, here), SwitchOn: quick},
			steps: []dispatchtest.Step{in(799*time.Millisecond, reply), reply}, took: 799},
		"once": {more: writes, layer: retries(0, 1), steps: []dispatchtest.Step{in(799*time.Millisecond, reply), reply}, took: 799},
		"shown for good": {layer: streaming(policy.FirstToken, retries(0, 1)), streams: true,
			steps: []dispatchtest.Step{begins(in(700*time.Millisecond, out(`{:text "Yes."}`)), "Yes."), reply}, took: 760},
		"nothing shown": {layer: streaming(policy.FirstToken, retries(0, 1)), streams: true,
			steps: []dispatchtest.Step{hang, reply}, took: 600},
	} {
		for _, ofRun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deadline of the run %v", name, ofRun), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := world(t, slices.Repeat([]string{tc.more}, len(tc.steps))...)
					for i, s := range tc.steps {
						w.On("t/"+string(rune('a'+i)), s)
					}
					o := order{layer: tc.layer, limits: tc.limits, streams: tc.streams}
					if ofRun {
						ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
						defer cancel()
						o.ctx = ctx
					} else {
						o.deadline = 800 * time.Millisecond
					}
					begun := time.Now()
					r := serve(t, w, o)
					assert.Equal(t, tc.typ, r.failure())
					assert.Equal(t, tc.took*time.Millisecond, time.Since(begun))
					for i, a := range r.Attempts[:len(r.Attempts)-1] {
						assert.Equal(t, "timeout/soft", a.Failure, i)
					}
				})
			})
		}
	}
}

// ATT-010: an answer within the extension is accepted, and the record has how
// much of it was used.
func TestSoftTimeoutExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, ":cap/limits {:timeout-ms 100}")
		w.On("t/a", dispatchtest.Step{Delay: 130 * time.Millisecond, Value: edn.MustRead(`{:n 1}`)})
		layer := retries(0, 0)
		layer.Extend = policy.Of(50*time.Millisecond, here)
		r := serve(t, w, order{layer: layer})
		require.Nil(t, r.Err)
		for _, rec := range r.records {
			if f, ok := rec.Body.(*journal.AttemptFinished); ok {
				assert.Equal(t, 30*time.Millisecond, f.Extended)
			}
		}
	})
}

// ATT-009: the backoff doubles up to its bound, varies by a fifth with the seed
// of the run, and is recorded (EVAL-002).
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(seed int64) []time.Duration {
			w := world(t, "")
			w.On("t/a", fails("provider/unavailable"))
			layer := retries(4, 0)
			layer.Backoff, layer.MaxBackoff = policy.Of(100*time.Millisecond, here), policy.Of(300*time.Millisecond, here)
			r := serve(t, w, order{layer: layer, seed: seed})
			draws := 0
			for _, rec := range r.records {
				if e, ok := rec.Body.(*journal.EnvRead); ok {
					assert.Equal(t, draws, e.Ordinal)
					draws++
				}
			}
			assert.Equal(t, 4, draws)
			begun := w.Begun()
			out := make([]time.Duration, len(begun)-1)
			for i := range out {
				out[i] = begun[i+1].Sub(begun[i])
			}
			return out
		}
		for i, want := range []time.Duration{100, 200, 300, 300} {
			for seed := range int64(20) {
				got := wait(seed)[i]
				assert.InDelta(t, float64(want*time.Millisecond), float64(got), float64(want*time.Millisecond)/5+1)
			}
		}
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for seed := range int64(200) {
			for _, w := range wait(seed)[2:] { // both at the bound of 300 ms
				least, most = min(least, w), max(most, w)
			}
		}
		assert.InDelta(t, 240, least.Milliseconds(), 3, "a fifth below")
		assert.InDelta(t, 360, most.Milliseconds(), 3, "a fifth above")
		assert.Equal(t, wait(7), wait(7), "DET-001: the same seed waits the same")
		assert.NotEqual(t, wait(7), wait(8))
	})
}

// ATT-009: without a backoff there is no wait and no random draw.
func TestNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "")
		w.On("t/a", fails("provider/unavailable"))
		layer := retries(2, 0)
		layer.Backoff = policy.Of(time.Duration(0), here)
		r := serve(t, w, order{layer: layer})
		for _, rec := range r.records {
			_, drawn := rec.Body.(*journal.EnvRead)
			assert.False(t, drawn)
		}
		begun := w.Begun()
		require.Len(t, begun, 3)
		assert.Equal(t, begun[0], begun[2])
	})
}

// ATT-009: Retry-After is the minimum wait; if the wait would pass the
// deadline, the next candidate is tried.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "later").WithDetail("retry-after-ms", edn.Int(700))}
		w := world(t, "", "")
		w.On("t/a", later, out(`{:n 1}`))
		r := serve(t, w, order{layer: retries(1, 1)})
		require.Nil(t, r.Err)
		assert.Equal(t, 700*time.Millisecond, w.Begun()[1].Sub(w.Begun()[0]))

		week := dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "later").WithDetail("retry-after-ms", edn.Int(7*24*60*60*1000))}
		w = world(t, "")
		w.On("t/a", week, out(`{:n 1}`))
		r = serve(t, w, order{layer: retries(1, 0), deadline: 100 * time.Hour})
		require.Nil(t, r.Err)
		assert.Equal(t, 24*time.Hour, w.Begun()[1].Sub(w.Begun()[0]), "a day at most")

		w = world(t, "", "")
		w.On("t/a", later)
		w.On("t/b", out(`{:n 2}`))
		r = serve(t, w, order{layer: retries(1, 1), deadline: 500 * time.Millisecond})
		assert.Equal(t, "t/b", r.CapID)
		assert.Zero(t, w.Begun()[1].Sub(w.Begun()[0]))
	})
}

// ATT-009: Retry-After is limited to a day, and never shortens the wait of the
// policy.
func TestRetryAfterIsBounded(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		asked int64
		waits time.Duration
	}{
		"a day":             {day.Milliseconds(), day},
		"more than a day":   {day.Milliseconds() + 1, day},
		"as long as it can": {math.MaxInt64, day},
		"nothing":           {0, 0},
		"the past":          {-5, 0},
		"a millisecond":     {1, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "")
				w.On("t/a", dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "later").WithDetail("retry-after-ms", edn.Int(tc.asked))}, out(`{:n 1}`))
				r := serve(t, w, order{layer: retries(1, 0), deadline: 2 * day})
				require.Nil(t, r.Err)
				assert.Equal(t, tc.waits, w.Begun()[1].Sub(w.Begun()[0]))
			})
		})
	}
}

// JRN-041, JRN-042, JRN-043: which candidates may be retried after which
// outcome, and the effect key.
func TestRecoveryClasses(t *testing.T) {
	const writes = ":cap/effects #{:fs/write}"
	crash := dispatchtest.Step{Crash: true}
	for name, tc := range map[string]struct {
		more       string
		step       dispatchtest.Step
		dispatched []string
		typ        string
	}{
		"none, crash: again":                        {"", crash, []string{"t/a", "t/a", "t/b"}, ""},
		"idempotent, crash: same capability only":   {writes + " :cap/idempotent? true", crash, []string{"t/a", "t/a"}, "runtime/crashed"},
		"idempotent, definite: next may serve":      {writes + " :cap/idempotent? true", fails("provider/unavailable"), []string{"t/a", "t/a", "t/b"}, ""},
		"once, crash: never again":                  {writes, crash, []string{"t/a"}, "effects/outcome-unknown"},
		"once, silence: never again":                {writes, dispatchtest.Step{Hang: true}, []string{"t/a"}, "effects/outcome-unknown"},
		"idempotent, said by the type of the host":  {writes + " :cap/idempotent? true", fails("effects/outcome-unknown"), []string{"t/a"}, "effects/outcome-unknown"},
		"once, said by the type of the host":        {writes, fails("effects/outcome-unknown"), []string{"t/a"}, "effects/outcome-unknown"},
		"once, said to be unknown":                  {writes, dispatchtest.Step{Err: contract.Errorf("provider/error", "x").WithDetail("effect/state", edn.K("unknown"))}, []string{"t/a"}, "effects/outcome-unknown"},
		"once, definite: again":                     {writes, fails("provider/unavailable"), []string{"t/a", "t/a", "t/b"}, ""},
		"once, answer refused by a gate: end":       {writes, out(`"no map"`), []string{"t/a"}, "schema/invalid"},
		"once, answer of no form: end":              {writes, dispatchtest.Step{Raw: edn.MustRead(`7`)}, []string{"t/a"}, "runtime/invalid-result"},
		"idempotent, answer refused by a gate: end": {writes + " :cap/idempotent? true", out(`"no map"`), []string{"t/a"}, "schema/invalid"},
		"ENV-024 a rule frees this input":           {writes + " :cap/recovery-rules [[[:prompt] \"p\" :none]]", crash, []string{"t/a", "t/a", "t/b"}, ""},
		"ENV-024 a rule makes this input strict":    {":cap/recovery-rules [[[:prompt] \"p\" :once]]", crash, []string{"t/a"}, "effects/outcome-unknown"},
		"reads only are none":                       {":cap/effects #{:fs/read}", crash, []string{"t/a", "t/a", "t/b"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := dispatchtest.New(t, dispatchtest.Spec{
					Caps:    caps(tc.more+" :cap/limits {:timeout-ms 50}", ""),
					Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "res/any"}},
				})
				w.On("t/a", tc.step)
				w.On("t/b", out(`{:n 2}`))
				r := serve(t, w, order{layer: retries(1, 1)})
				assert.Equal(t, tc.typ, r.failure())
				assert.Equal(t, tc.dispatched, w.Dispatched())
				keys := map[string]bool{}
				for _, c := range w.Calls() {
					keys[c.EffectKey] = true
				}
				assert.Len(t, keys, 1, "JRN-043: one effect, one key")
			})
		})
	}
}

// BIND-005: binding happens at each attempt. A candidate that became
// unavailable is skipped, one that became available is used.
func TestBindingAtEachAttempt(t *testing.T) {
	w := world(t, "", "", "")
	w.SetState("t/c", dispatch.CapState{Reason: "runtime/not-ready"})
	w.On("t/a", dispatchtest.Step{Err: contract.Errorf("runtime/invoke-failed", "x"), After: func() {
		w.SetState("t/b", dispatch.CapState{Reason: "runtime/quarantined"})
		w.SetState("t/c", dispatch.CapState{Ready: true})
	}})
	w.On("t/c", out(`{:n 3}`))
	r := serve(t, w, order{layer: retries(0, 1)})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"t/a", "t/c"}, w.Dispatched())
}

// BIND-005: an unavailable candidate is not retried, even with retries left.
func TestRetryNeedsTheCandidate(t *testing.T) {
	w := world(t, "", "")
	w.On("t/a", dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "x"), After: func() {
		w.SetState("t/a", dispatch.CapState{Reason: "runtime/quarantined"})
	}})
	w.On("t/b", out(`{:n 2}`))
	r := serve(t, w, order{layer: retries(3, 1)})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"t/a", "t/b"}, w.Dispatched())
}

// BIND-004, BIND-008: without a candidate the failure is unsupported/intent
// with every rejection; it is retryable if a candidate was only not ready.
func TestNoCandidate(t *testing.T) {
	w := world(t, "", ":cap/effects #{:fs/write}")
	w.SetState("t/a", dispatch.CapState{Reason: "runtime/not-ready", Why: contract.Errorf("provider/not-configured", "no key")})
	layer := retries(0, 0)
	layer.Effects = policy.Of([]string{"none"}, here)
	r := serve(t, w, order{layer: layer})
	assert.Equal(t, "unsupported/intent", r.failure())
	assert.True(t, r.Err.Retryable)
	assert.Equal(t, `[{:cap/id :t/a :reason :runtime/not-ready :why :provider/not-configured} {:cap/id :t/b :reason :effects/not-allowed}]`,
		r.Err.Details.Key("rejected").String())
	assert.Empty(t, w.Dispatched())
	assert.Equal(t, "provider/not-configured", r.Err.Cause.Type)
	assert.Equal(t, request.ModelHint("text/respond"), r.Err.Hint, "RTE-009")
}

// BIND-009, RTE-009: the failure has the cause of an unavailable plugin and its
// hint instead of the hint for configuration.
func TestNoCandidateReasons(t *testing.T) {
	refused := contract.Errorf("runtime/not-ready", "start plugin x: it needs fs/write, which its isolation does not grant").WithHint("grant it")
	for name, row := range map[string]struct {
		why        *contract.Error
		says, hint string
	}{
		"refused by its isolation":   {contract.Errorf("runtime/not-ready", "plugin x is stopped").WithCause(refused), "it needs fs/write", "grant it"},
		"does not come up":           {contract.Errorf("runtime/not-ready", "plugin x is stopped").WithCause(contract.Errorf("runtime/start-failed", "it ended before the handshake").WithHint("look")), "before the handshake", "look"},
		"no more is known":           {contract.Errorf("runtime/not-ready", "plugin x is stopped").WithHint("start it"), "", "start it"},
		"quarantined":                {contract.Errorf("runtime/quarantined", "plugin x is quarantined").WithHint("release it"), "", "release it"},
		"says which variable to set": {contract.Errorf("provider/not-configured", "the plugin is disabled").WithHint("set A_KEY"), "", "set A_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, "", "")
			for _, id := range []string{"t/a", "t/b"} {
				w.SetState(id, dispatch.CapState{Reason: row.why.Type, Why: row.why})
			}
			r := serve(t, w, order{layer: retries(0, 0)})
			require.Equal(t, "unsupported/intent", r.failure())
			assert.Contains(t, r.Err.Message, row.why.Message, "the state of each candidate")
			assert.Equal(t, row.hint, r.Err.Hint)
			if row.says == "" {
				assert.Nil(t, r.Err.Cause)
				return
			}
			require.NotNil(t, r.Err.Cause)
			assert.Contains(t, r.Err.Cause.Message, row.says)
		})
	}
}

// BIND-009, EMB-002: if a later candidate serves because an earlier one is out of
// service, the answer reports the cause. A rejection for the request, a call that failed,
// a refused answer and a lost race are not reported.
func TestDegraded(t *testing.T) {
	quarantined := contract.Errorf("runtime/quarantined", "it failed too often")
	state := func(reason string, why *contract.Error) func(*dispatchtest.World) {
		return func(w *dispatchtest.World) { w.SetState("t/a", dispatch.CapState{Reason: reason, Why: why}) }
	}
	first := func(step dispatchtest.Step) func(*dispatchtest.World) {
		return func(w *dispatchtest.World) { w.On("t/a", step, step) }
	}
	tagged := retries(0, 1)
	tagged.Requires.CapTags = policy.Of([]string{"second"}, here)
	gated := retries(0, 1)
	gated.Must = policy.NamesOf(here, "good")
	for name, row := range map[string]struct {
		first func(*dispatchtest.World)
		layer policy.Layer
		why   string
	}{
		"no key":              {state("runtime/not-ready", contract.Errorf("provider/not-configured", "no key")), retries(0, 0), "provider/not-configured"},
		"starts again":        {state("runtime/not-ready", contract.Errorf("runtime/not-ready", "backoff")), retries(0, 0), "runtime/not-ready"},
		"no more is known":    {state("runtime/not-ready", nil), retries(0, 0), "runtime/not-ready"},
		"quarantined":         {state(quarantined.Type, quarantined), retries(0, 0), quarantined.Type},
		"quarantined because": {state(quarantined.Type, quarantined.WithCause(quarantined.WithCause(contract.Errorf("config/range", "key")))), retries(0, 0), "config/range"},
		"failed":              {first(fails("provider/unavailable")), retries(0, 1), ""},
		"not requested":       {first(out(`{:good true}`)), tagged, ""},
		"refused by a gate":   {first(out(`{:n 1}`)), gated, ""},
		"lost a race": {func(w *dispatchtest.World) {
			w.Func("t/a", func(ctx context.Context, _ dispatch.Call) dispatchtest.Step {
				<-ctx.Done()
				return fails("canceled")
			})
		}, race(2, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := repairWorld(t, "", ":cap/tags #{:second}")
			row.first(w)
			w.On("t/b", out(`{:good true}`))
			r := serve(t, w, order{layer: row.layer})
			require.Nil(t, r.Err)
			assert.Equal(t, "t/b", r.CapID)
			types := map[string]bool{}
			for _, d := range r.Degraded {
				assert.Equal(t, "t/a", d.Cap)
				types[d.Type()] = true
			}
			assert.Equal(t, row.why != "", types[row.why])
			assert.LessOrEqual(t, len(types), 1)
		})
	}
}

// LLM-005: skipping a candidate without a key takes at most 50 us. The test
// compares the fastest calls with and without that candidate, because load
// slows down both.
func TestPassingOverIsQuick(t *testing.T) {
	if raceDetector {
		t.Skip("the detector measures itself")
	}
	quickest := func(ready bool) time.Duration {
		w := world(t, "", "")
		w.SetState("t/a", dispatch.CapState{Ready: ready, Reason: "runtime/not-ready", Why: contract.Errorf("provider/not-configured", "no key")})
		w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return out(`{:n 1}`) })
		w.Func("t/b", func(context.Context, dispatch.Call) dispatchtest.Step { return out(`{:n 2}`) })
		best := time.Hour
		for range 500 {
			began := time.Now()
			r := serve(t, w, order{layer: retries(0, 0)})
			best = min(best, time.Since(began))
			require.Equal(t, map[bool]string{true: "t/a", false: "t/b"}[ready], r.CapID)
		}
		return best
	}
	assert.Less(t, quickest(false)-quickest(true), 50*time.Microsecond)
}

// EVAL-060: the failure is that of the last attempt, with all attempts in its
// details.
func TestFailureDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // latencies are exact
		w := world(t, "", "")
		w.On("t/a", fails("provider/unavailable"))
		w.On("t/b", dispatchtest.Step{Err: contract.Errorf("runtime/invoke-failed", "last"), Delay: 0})
		layer := retries(0, 1)
		layer.SwitchOn = policy.Additive{Add: policy.Of(policy.NamesOf(here, "class/retry", "class/switch"), here)}
		r := serve(t, w, order{layer: layer})
		require.Equal(t, "runtime/invoke-failed", r.failure())
		d := r.Err.Details
		assert.Equal(t, `[{:cap/id :t/a :latency-ms 0 :type :provider/unavailable} {:cap/id :t/b :latency-ms 0 :type :runtime/invoke-failed}]`, d.Key("attempts").String())
		assert.Equal(t, `[:t/a :t/b]`, d.Key("candidates").String())
		assert.Equal(t, `{:fallback-max 1 :same-cap-max 0}`, d.Key("retry").String())
		assert.Equal(t, `#{:class/retry :class/switch}`, d.Key("switch-on").String())
		assert.Equal(t, `[]`, d.Key("rejected").String())
	})
}

// ENV-007, DET-001: a plugin gets the reduced task and the advertised id, and
// equal runs send equal bytes.
func TestEnvelope(t *testing.T) {
	w := world(t, "")
	w.On("t/a", out(`{:n 1}`))
	layer := retries(0, 0)
	layer.Must = policy.NamesOf(here, "json-valid")
	layer.Constraints = policy.FieldsOf(edn.MustRead(`{:language :en}`), here)
	layer.Temperature = policy.Of(edn.MustRead("0.5M"), here)
	_ = serve(t, w, order{layer: layer})
	assert.Equal(t, `{:budget {:temperature 0.5M} :constraints {:language :en} :done {:must #{:json-valid} :score-min 0} `+
		`:effects {:allowed #{:none}} :input {:prompt "p"} :proto 1 :task {:cap/id :t/a :intent :text/respond} :trace {:id "t"}}`,
		w.Calls()[0].Request.String())
}

// FX-002: a tool that left the registry is a typed failure without a call.
func TestNoSuchTool(t *testing.T) {
	w := world(t, "")
	p, err := retries(0, 0).Resolve()
	require.NoError(t, err)
	records := dispatchtest.NewRecords(t)
	r := w.Dispatcher.Serve(t.Context(), &dispatch.Run{ID: "run_test", Recorder: records, Grant: dispatchtest.Open().Grant(policy.Caller{}), Base: t.Context()}, &dispatch.Work{
		Op: "tool", Node: "n", Path: edn.Vector(edn.Int(0)), Intent: "fs/gone", ToolID: "fs/gone", Policy: w.Dispatcher.CallPolicy(p, "fs/gone", "fs/gone"), Input: edn.MustMap(),
	})
	require.NotNil(t, r.Err)
	assert.Equal(t, "effects/unsupported-tool 422", fmt.Sprint(r.Err.Type, " ", r.Err.HTTPStatus()))
	assert.Empty(t, w.Calls())
}

// ATT-003, ERR-006: a capability without effects answers with each type of class stop!, as error or
// in its answer. Only those about the request end the node; no other stops the failover, and none
// says something about the run, the journal or the settings of the host.
func TestTypesOfTheHost(t *testing.T) {
	request := []string{
		"auth/forbidden", "auth/forbidden-effect", "invalid-request", "plan/too-deep", "plan/too-large", "policy/blocked", "unsupported/intent",
	}
	var final []string
	for _, row := range contract.Rows() {
		if row.Class != contract.ClassFinal && row.Class != contract.ClassNone {
			continue
		}
		answer := dispatchtest.Step{Raw: edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("error"),
			edn.K("error"), edn.MustMap(edn.K("type"), edn.K(row.Type), edn.K("message"), edn.Text("mine"))))}
		for name, step := range map[string]dispatchtest.Step{"error": fails(row.Type), "answer": answer} {
			w := world(t, "", "")
			w.On("t/a", step)
			w.On("t/b", out(`{:n 2}`))
			if r := serve(t, w, order{layer: retries(0, 1)}); r.Err != nil {
				final = append(final, row.Type)
				assert.Equal(t, row.Type, r.failure(), name)
				continue
			}
			w = world(t, "")
			w.On("t/a", step)
			r := serve(t, w, order{layer: retries(0, 1)})
			if contract.Namespace(row.Type) == "budget" {
				assert.Equal(t, row.Type, r.failure(), name)
				continue
			}
			assert.Equal(t, "runtime/invoke-failed", r.failure(), "%s %s", row.Type, name)
			assert.ErrorIs(t, r.Err, contract.OfType(row.Type), "the cause")
		}
	}
	slices.Sort(final)
	assert.Equal(t, request, slices.Compact(final))
}

// ATT-003, ATT-008: a budget/exceeded of a capability, as error or in its
// answer, applies to this capability only: the next candidate is tried. If none
// is left, the caller gets this error, and it is final.
func TestBudgetOfAPluginIsItsOwn(t *testing.T) {
	answer := dispatchtest.Step{Raw: edn.MustRead(`{:result {:type :error :error {:type :budget/exceeded :message "no money left"}}}`)}
	for name, step := range map[string]dispatchtest.Step{"error": fails("budget/exceeded"), "answer": answer} {
		t.Run(name, func(t *testing.T) {
			w := world(t, "", "")
			w.On("t/a", step)
			r := serve(t, w, order{layer: retries(0, 1)})
			require.Nil(t, r.Err)
			assert.Equal(t, []string{"t/a", "t/b"}, w.Dispatched())

			w = world(t, "", "")
			w.On("t/a", step)
			r = serve(t, w, order{layer: retries(3, 0)})
			assert.Equal(t, []string{"t/a"}, w.Dispatched())
			assert.Equal(t, "budget/exceeded", r.failure())
			assert.Equal(t, contract.ClassFinal, r.Err.Class)
		})
	}
}
