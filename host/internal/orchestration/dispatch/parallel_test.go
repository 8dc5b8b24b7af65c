package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func strategy(name string, same, fallback int) policy.Layer {
	l := retries(same, fallback)
	l.Strategy = policy.Of(name, here)
	return l
}

func race(width, fallback int) policy.Layer {
	l := strategy(policy.Race, 0, fallback)
	l.RaceWidth = policy.Of(width, here)
	return l
}

func tournament(width, fallback int) policy.Layer {
	l := strategy(policy.Tournament, 0, fallback)
	l.TournamentWidth = policy.Of(width, here)
	return l
}

func hedge(after time.Duration, most, same, fallback int) policy.Layer {
	l := strategy(policy.Hedge, same, fallback)
	l.HedgeAfter, l.HedgeMax = policy.Of(after, here), policy.Of(most, here)
	return l
}

// events returns a word per record: which candidate started, and how it ended.
func (s served) events() []string {
	var out []string
	name := map[int]string{}
	for _, r := range s.records {
		switch x := r.Body.(type) {
		case *journal.AttemptStarted:
			name[x.Attempt] = x.CapID[len(x.CapID)-1:]
			out = append(out, name[x.Attempt]+" "+x.Entrant)
		case *journal.AttemptFinished:
			word := x.Outcome
			if x.Err != nil {
				word = x.Err.Type
			}
			out = append(out, name[x.Attempt]+" "+word)
		}
	}
	return out
}

func in(d time.Duration, s dispatchtest.Step) dispatchtest.Step {
	s.Delay = d
	return s
}

const ms = time.Millisecond

var wrong = out(`"no map"`) // fails the gate schema-valid

// ATT-004, ATT-011, ATT-012, ATT-014: the rows of the sequence table.
func TestStrategies(t *testing.T) {
	scored := func(n string) dispatchtest.Step { return out(`{:n ` + n + `}`) }
	for name, tc := range map[string]struct {
		layer  policy.Layer
		a, b   dispatchtest.Step
		c, d   dispatchtest.Step
		winner string
		events []string
		took   time.Duration
		fails  string
		lost   []int // accepted attempts that did not win
	}{
		"race: a failed attempt is replaced": {
			layer: race(2, 2), a: in(60*ms, scored("1")), b: in(40*ms, wrong), c: in(60*ms, scored("3")), winner: "t/a", took: 60 * ms,
			events: []string{"a race", "b race", "b ok", "c race", "a ok", "c race/lost"},
		},
		"race: the first byte is not what wins": {
			layer: race(2, 0), a: in(10*ms, wrong), b: in(500*ms, scored("2")), winner: "t/b", took: 500 * ms,
			events: []string{"a race", "b race", "a ok", "b ok"},
		},
		"race: no answer is accepted": {
			layer: race(2, 0), a: in(20*ms, wrong), b: in(10*ms, fails("provider/error")), fails: "provider/error", took: 20 * ms,
			events: []string{"a race", "b race", "b provider/error", "a ok"},
		},
		"race: a final failure starts and stops no attempt": {
			layer: race(2, 3), a: in(10*ms, fails("input/invalid")), b: in(20*ms, scored("2")), winner: "t/b", took: 20 * ms,
			events: []string{"a race", "b race", "a input/invalid", "b ok"},
		},
		"race: a final failure ends the node when no attempt runs": {
			layer: race(2, 3), a: in(10*ms, fails("input/invalid")), b: in(20*ms, wrong), fails: "input/invalid", took: 20 * ms,
			events: []string{"a race", "b race", "a input/invalid", "b ok"},
		},
		"hedge: silence": {
			layer: hedge(200*ms, 1, 0, 1), a: in(230*ms, scored("1")), b: in(500*ms, scored("2")), winner: "t/a", took: 230 * ms,
			events: []string{"a hedge", "b hedge", "a ok", "b race/lost"},
		},
		"hedge: the second is faster": {
			layer: hedge(200*ms, 1, 0, 1), a: dispatchtest.Step{Hang: true}, b: in(50*ms, scored("2")), winner: "t/b", took: 250 * ms,
			events: []string{"a hedge", "b hedge", "b ok", "a race/lost"},
		},
		"hedge: a failure is a cascade": {
			layer: hedge(200*ms, 1, 0, 1), a: in(50*ms, fails("provider/error")), b: in(300*ms, scored("2")), winner: "t/b", took: 350 * ms,
			events: []string{"a hedge", "a provider/error", "b ", "b ok"},
		},
		"hedge: one that fails leaves the other": {
			layer: hedge(20*ms, 1, 0, 2), a: in(50*ms, fails("provider/error")), b: in(100*ms, scored("2")), winner: "t/b", took: 120 * ms,
			events: []string{"a hedge", "b hedge", "a provider/error", "b ok"},
		},
		"hedge: further ones after the same silence": {
			layer: hedge(100*ms, 2, 0, 2), a: dispatchtest.Step{Hang: true}, b: dispatchtest.Step{Hang: true}, c: in(10*ms, scored("3")), winner: "t/c", took: 210 * ms,
			events: []string{"a hedge", "b hedge", "c hedge", "c ok", "a race/lost", "b race/lost"},
		},
		"tournament: the best, then the cheaper": {
			layer: tournament(3, 0), a: in(10*ms, dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Usage: edn.MustRead(`{:cost-usd 0.02M}`)}), b: in(5*ms, wrong),
			c: in(30*ms, dispatchtest.Step{Value: edn.MustRead(`{:n 3}`), Usage: edn.MustRead(`{:cost-usd 0.01M}`)}), winner: "t/c", took: 30 * ms,
			events: []string{"a tournament", "b tournament", "c tournament", "b ok", "a ok", "c ok"}, lost: []int{1},
		},
		"tournament: an unknown cost is last": {
			layer: tournament(2, 0), a: in(10*ms, scored("1")),
			b:      in(30*ms, dispatchtest.Step{Value: edn.MustRead(`{:n 2}`), Usage: edn.MustRead(`{:cost-usd 5M}`)}),
			winner: "t/b", took: 30 * ms,
			events: []string{"a tournament", "b tournament", "a ok", "b ok"}, lost: []int{1},
		},
		"tournament: equals go by rank": {
			layer: tournament(2, 0), a: in(30*ms, scored("1")), b: in(10*ms, scored("2")), winner: "t/a", took: 30 * ms,
			events: []string{"a tournament", "b tournament", "b ok", "a ok"}, lost: []int{2},
		},
		"tournament: no answer, then the cascade over the rest": {
			layer: tournament(2, 3), a: in(ms, wrong), b: in(2*ms, wrong), c: wrong, d: scored("4"), winner: "t/d", took: 2 * ms,
			events: []string{"a tournament", "b tournament", "a ok", "b ok", "c ", "c ok", "d ", "d ok"},
		},
		"one candidate is a cascade": {
			layer: func() policy.Layer {
				l := race(2, 0)
				l.Candidates = policy.Of([]string{"t/a"}, here)
				return l
			}(), a: scored("1"), winner: "t/a", events: []string{"a ", "a ok"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "", "", "", "")
				w.On("t/a", tc.a).On("t/b", tc.b).On("t/c", tc.c).On("t/d", tc.d)
				began := time.Now()
				r := serve(t, w, order{layer: tc.layer})
				assert.Equal(t, tc.fails, r.failure(), "%v", r.Err)
				if tc.fails == "" {
					assert.Equal(t, tc.winner, r.CapID)
				}
				assert.Equal(t, tc.events, r.events())
				assert.Equal(t, tc.lost, r.Outscored)
				assert.Equal(t, tc.took, time.Since(began))
				assert.Zero(t, w.Live(), "no call is left running")
				listed := 0
				for _, word := range tc.events {
					if word[2:] == "" || word[2:] == policy.Race || word[2:] == policy.Hedge || word[2:] == policy.Tournament {
						listed++
					}
				}
				assert.Len(t, r.Attempts, listed, "every attempt is accounted for")
			})
		})
	}
}

// ATT-011: of answers that arrive together, the one of the earlier candidate is
// evaluated first.
func TestRaceTie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{
			Caps:   append(caps("", "", ""), judge("t/judge", "")),
			Checks: []quality.Check{verified("verified")},
		})
		w.On("t/a", in(10*ms, out(`{:n 1}`))).On("t/b", in(20*ms, out(`{:n 2}`))).On("t/c", in(15*ms, out(`{:n 3}`)))
		w.On("t/judge", in(20*ms, out(`{:valid? false}`)), out(`{:valid? true}`))
		l := policy.Merge(race(3, 0), must("verified"))
		r := serve(t, w, order{layer: l})
		require.Nil(t, r.Err)
		assert.Equal(t, "t/b", r.CapID, "while the answer of a was judged both came, c first")
		assert.Equal(t, []string{"a race", "b race", "c race", "a ok", "b ok", "c race/lost"}, r.events())
	})
}

// ATT-013: attempts that failed before the cancel keep their failure, the
// others lost.
func TestRaceLosers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{
			Caps:   append(caps("", "", ""), judge("t/judge", "")),
			Checks: []quality.Check{verified("verified")},
		})
		w.On("t/a", in(10*ms, out(`{:n 1}`))).On("t/b", in(20*ms, fails("provider/error"))).On("t/c", dispatchtest.Step{Hang: true})
		w.On("t/judge", in(20*ms, out(`{:valid? true}`)))
		r := serve(t, w, order{layer: policy.Merge(race(3, 0), must("verified"))})
		require.Nil(t, r.Err)
		assert.Equal(t, []string{"a race", "b race", "c race", "a ok", "b provider/error", "c race/lost"}, r.events())
	})
}

// A crash of one attempt is a failure like any other; respawning candidates are
// retried when all attempts have failed.
func TestRaceAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "", "")
		w.On("t/a", in(10*ms, dispatchtest.Step{Crash: true, After: func() {
			w.SetState("t/a", dispatch.CapState{Respawning: true})
			time.AfterFunc(100*ms, func() { w.SetState("t/a", dispatch.CapState{Ready: true}) })
		}}), out(`{:n 1}`))
		w.On("t/b", in(20*ms, wrong))
		l := race(2, 0)
		l.SameCapMax = policy.Of(1, here)
		r := serve(t, w, order{layer: l})
		require.Nil(t, r.Err)
		assert.Equal(t, "t/a", r.CapID)
		assert.Equal(t, []string{"a race", "b race", "a runtime/crashed", "b ok", "a ", "a ok"}, r.events())
	})
}

// ATT-004: candidates with effects are not called in parallel by any strategy,
// whichever of them has the effect.
func TestEffectsAreNotRaced(t *testing.T) {
	const writes = ":cap/effects #{:fs/write}"
	for name, l := range map[string]policy.Layer{"race": race(2, 0), "hedge": hedge(ms, 1, 0, 0), "tournament": tournament(2, 0)} {
		for _, more := range [][]string{{"", writes}, {writes, ""}, {writes, writes}} {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, more...)
				w.On("t/a", in(10*ms, out(`{:n 1}`))).On("t/b", out(`{:n 2}`))
				l.Effects = policy.Of([]string{"fs/write"}, here)
				r := serve(t, w, order{layer: l})
				require.Nil(t, r.Err, name)
				assert.Equal(t, []string{"a ", "a ok"}, r.events(), "%s of %q", name, more)
				resolved, ok := r.records[0].Body.(*journal.NodeResolved)
				require.True(t, ok)
				assert.Equal(t, policy.Cascade, resolved.Strategy)
				assert.Zero(t, resolved.Width)
			})
		}
	}
}

// ATT-012: without recorded latencies a hedge waits twice the declared latency;
// without a declared one it is a cascade.
func TestHedgeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, ":cap/cost {:latency-ms 40}", "")
		w.On("t/a", in(100*ms, out(`{:n 1}`))).On("t/b", in(50*ms, out(`{:n 2}`)))
		r := serve(t, w, order{layer: hedge(0, 1, 0, 0)})
		assert.Equal(t, []string{"a hedge", "b hedge", "a ok", "b race/lost"}, r.events())
		assert.Equal(t, "t/a", r.CapID)

		w = world(t, "", "")
		w.On("t/a", in(100*ms, out(`{:n 1}`))).On("t/b", out(`{:n 2}`))
		r = serve(t, w, order{layer: hedge(0, 1, 0, 0)})
		assert.Equal(t, []string{"a ", "a ok"}, r.events())
	})
}

// A canceled run ends a race at once, and so does its deadline.
func TestRaceIsCut(t *testing.T) {
	for name, tc := range map[string]struct {
		deadline time.Duration
		cancel   time.Duration
		want     string
	}{
		"cancel":   {cancel: 30 * ms, want: "canceled"},
		"deadline": {deadline: 30 * ms, want: "timeout/hard"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "", "", "")
				for _, id := range []string{"t/a", "t/b", "t/c"} {
					w.On(id, dispatchtest.Step{Hang: true})
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				began := time.Now()
				r := serve(t, w, order{layer: race(2, 2), ctx: ctx, deadline: tc.deadline})
				assert.Equal(t, tc.want, r.failure())
				assert.Equal(t, 30*ms, time.Since(began))
				assert.Equal(t, []string{"a race", "b race"}, r.events()[:2])
				assert.ElementsMatch(t, []string{"a " + tc.want, "b " + tc.want}, r.events()[2:], "and no third")
				assert.Zero(t, w.Live())
			})
		})
	}
}

// At its deadline a tournament accepts the best answer so far (ATT-014).
func TestTournamentUntilDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "", "", "")
		w.On("t/a", dispatchtest.Step{Hang: true}).On("t/b", in(10*ms, out(`{:n 2}`))).On("t/c", in(20*ms, out(`{:n 3}`)))
		r := serve(t, w, order{layer: tournament(3, 0), deadline: 100 * ms})
		require.Nil(t, r.Err)
		assert.Equal(t, "t/b", r.CapID)
		assert.Equal(t, []string{"a tournament", "b tournament", "c tournament", "b ok", "c ok", "a timeout/hard"}, r.events())
	})
}

// A panic in one attempt is raised on the goroutine of the operation, after the
// other attempts have ended.
func TestDefectInARace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "", "")
		w.On("t/a", in(10*ms, dispatchtest.Step{Panic: "defect"})).On("t/b", dispatchtest.Step{Hang: true})
		assert.PanicsWithValue(t, "defect", func() { serve(t, w, order{layer: race(2, 0)}) })
		assert.Zero(t, w.Live())
	})
}

// EVAL-073: at most one attempt is accepted, no goroutine is left, every start
// has an end, and no candidate is called twice without retries.
func TestRacesOfEveryKind(t *testing.T) {
	steps := []func() dispatchtest.Step{
		func() dispatchtest.Step { return out(`{:n 1}`) },
		func() dispatchtest.Step { return wrong },
		func() dispatchtest.Step { return fails("provider/error") },
		func() dispatchtest.Step { return dispatchtest.Step{Crash: true} },
		func() dispatchtest.Step { return fails("input/invalid") },
	}
	delays := []time.Duration{0, 10 * ms, 10 * ms, 25 * ms}
	layers := []policy.Layer{race(2, 0), race(2, 2), race(3, 1), hedge(10*ms, 1, 0, 2), hedge(10*ms, 2, 1, 0), tournament(2, 2), tournament(4, 0)}
	for n := range 1000 {
		pick := uint64(n) * 0x9e3779b97f4a7c15
		next := func(k int) int {
			pick = pick*6364136223846793005 + 1442695040888963407
			return int((pick >> 33) % uint64(k))
		}
		synctest.Test(t, func(t *testing.T) {
			w := world(t, "", "", "", "")
			for _, id := range []string{"t/a", "t/b", "t/c", "t/d"} {
				w.On(id, in(delays[next(len(delays))], steps[next(len(steps))]()))
			}
			l := layers[next(len(layers))]
			r := serve(t, w, order{layer: l})
			started, ended, perCap := 0, 0, map[string]int{}
			for _, rec := range r.records {
				switch x := rec.Body.(type) {
				case *journal.AttemptStarted:
					started++
					perCap[x.CapID]++
				case *journal.AttemptFinished:
					ended++
				}
			}
			about := fmt.Sprintf("case %d: %v", n, r.events())
			assert.Equal(t, started, ended, about)
			assert.Len(t, r.Attempts, started, about)
			assert.Zero(t, w.Live(), about)
			for id, times := range perCap {
				assert.LessOrEqual(t, times, 1+l.SameCapMax.V, "%s: %s", id, about)
			}
			accepted := 0
			for _, a := range r.Attempts {
				if a.Failure == "" {
					accepted++
				}
			}
			if r.Err == nil {
				assert.Positive(t, accepted, about)
				assert.Equal(t, "{:n 1}", r.Out.String(), about)
			} else {
				assert.Zero(t, accepted, about)
				assert.NotEqual(t, "race/lost", r.Err.Type, about)
				assert.Equal(t, contract.AsError(r.Err).Type, r.Err.Type)
			}
		})
		if t.Failed() {
			return
		}
	}
}
