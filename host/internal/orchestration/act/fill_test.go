package act_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// filled replays a run in a new one and returns its records. It checks that they
// are those of a run, that a strict replay of it has the same values, and that the
// replayed run is as before.
func filled(t *testing.T, s *act.Service, records []journal.Record, how dispatch.Fill) []journal.Record {
	t.Helper()
	id, before := records[0].Run, make([]string, len(records))
	for i, rec := range records {
		before[i] = rec.Value().String()
	}
	a, refused := s.Fill(id, records, act.Filling{Fill: how})
	require.Nil(t, refused, "%v", refused)
	run, refused := s.Start(t.Context(), a)
	require.Nil(t, refused, "%v", refused)
	<-run.Done()
	all := run.Records()
	for _, rec := range all {
		dispatchtest.Verify(t, rec)
	}
	accepted := all[0].Body.(*journal.RunAccepted)
	assert.NotEqual(t, id, run.ID())
	assert.Equal(t, id, accepted.ReplayOf)
	assert.Equal(t, journal.ReplayFill, accepted.ReplayMode)
	assert.Equal(t, records[0].Body.(*journal.RunAccepted).Seed, accepted.Seed)
	_, missed := act.Replay(t.Context(), s.Config(), run.ID(), decoded(t, all))
	assert.Nil(t, missed, "%v", missed)
	for i, rec := range records {
		assert.Equal(t, before[i], rec.Value().String())
	}
	return all
}

func open(c *act.Config) { c.Effects = dispatchtest.Open() }

// JRN-051: a run whose records all fit is replayed without a call, also one with
// effects, and does not differ from its replay.
func TestFillCallsNothing(t *testing.T) {
	for name, text := range resumeCases {
		t.Run(name, func(t *testing.T) {
			_, err, records := do(t, service(t, resumeWorld(t), open), text)
			require.NotEmpty(t, records, "%v", err)
			w := resumeWorld(t)
			again := filled(t, service(t, w, open), decoded(t, records), dispatch.Fill{})
			assert.Empty(t, w.Calls())
			assertSameEnd(t, finished(t, records), finished(t, again), name)
			diff := journal.Compare(records, again)
			assert.True(t, diff.Equal(), "%s", diff.Value())
			for _, rec := range again {
				if start, ok := rec.Body.(*journal.AttemptStarted); ok {
					assert.True(t, start.Recorded)
				}
				assert.NotContains(t, string(rec.Body.Kind()), "budget/", "what is recorded costs nothing")
			}
		})
	}
}

// JRN-051: an attempt whose recorded request is another one is made, and the others
// are not.
func TestFillCallsWhatDoesNotFit(t *testing.T) {
	for name, text := range resumeCases {
		_, err, records := do(t, service(t, resumeWorld(t), open), text)
		require.NotEmpty(t, records, "%v", err)
		for i, rec := range records {
			start, ok := rec.Body.(*journal.AttemptStarted)
			if !ok || name == "race" || contract.RecoveryOnce.String() == start.Recovery {
				continue // of a race, the other entrant may be called; TestFillEffects is about effects
			}
			changed, other := decoded(t, records), *start
			other.Request = journal.RefTo(edn.MustRead(`{:another "request"}`))
			changed[i].Body = &other
			w := resumeWorld(t)
			again := filled(t, service(t, w, open), changed, dispatch.Fill{Effects: []string{"fs/write"}})
			require.NotEmpty(t, w.Calls(), "%s, record %d", name, rec.Seq)
			assert.Equal(t, start.CapID, w.Calls()[0].CapID)
			assert.True(t, w.Calls()[0].Behalf.Unkept, "CNV-014: agents leave no conversation within a replay")
			assertSameEnd(t, finished(t, records), finished(t, again), name)
			diff := journal.Compare(records, again)
			if !latency.MatchString(finished(t, records).Response.Value().Key("result").String()) {
				assert.True(t, diff.Equal(), "%s, record %d: %s", name, rec.Seq, diff.Value())
				continue
			}
			// A kept failure has the latency of its attempts in its value, and one of them was made again.
			differs := slices.Clone(diff.Differs)
			for _, n := range diff.Nodes {
				differs = append(differs, n.Differs...)
			}
			assert.Empty(t, slices.DeleteFunc(differs, func(aspect string) bool { return aspect == "value" }),
				"%s, record %d: %s", name, rec.Seq, diff.Value())
		}
	}
}

// JRN-051: whatever a run did, also by crashes, its replay does the same without a
// call, and has the recorded grades of judges and verdicts of capabilities. Only
// gates that had failed themselves are asked again.
func TestFillLaws(t *testing.T) {
	base := judgePanels(t)
	base.Policies.Default.Breaker = registry.Breaker{Window: 1000, MinSamples: 1000} // its state is not recorded
	graded := 0
	rapid.Check(t, func(t *rapid.T) {
		world := func() *dispatchtest.World {
			w := base.Again()
			for _, id := range []string{"a/one", "a/two", "a/checker", "j/dear", "j/cheap", "j/rules"} {
				w.Func(id, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
					h := fnv.New32a()
					_, _ = fmt.Fprint(h, c.CapID, c.Path, c.Attempt, c.Request.Key("context"), c.Request.Key("input").Key("judge").Key("sample"))
					n := int(h.Sum32() >> 3)
					switch n % 7 {
					case 0:
						return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}
					case 1:
						return dispatchtest.Step{Crash: true}
					}
					return value(fmt.Sprintf(`{:good %v :ok? %v :score 0.%d}`, n%3 == 0, n%5 != 0, n/7%10))
				})
			}
			return w
		}
		nodes := ""
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			nodes += fmt.Sprintf(`{:op :call :intent %s :input {:n %d} :as :x%d :dispatch {:candidates %s :strategy %s :retry {:same-cap-max %d :fallback-max %d} :repair {:max %d} :allow-failure? true} %s}`,
				rapid.SampledFrom([]string{":text/respond", ":graded/three", ":graded/all"}).Draw(t, "intent"), i, i,
				rapid.SampledFrom([]string{"[:a/one]", "[:a/one :a/two]", "[:a/two :a/one]"}).Draw(t, "candidates"),
				rapid.SampledFrom([]string{":cascade", ":tournament"}).Draw(t, "strategy"),
				rapid.IntRange(0, 2).Draw(t, "same"), rapid.IntRange(0, 2).Draw(t, "fallback"), rapid.IntRange(0, 2).Draw(t, "repair"),
				rapid.SampledFrom([]string{"", ":done {:must #{:good}}", ":done {:must #{:verified}}", ":done {:should #{:good :verified} :score-min 0.5}", ":done {:score-min 0.7}"}).Draw(t, "done"))
		}
		serve := func(w *dispatchtest.World) *act.Service {
			s, err := act.New(act.Config{
				Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: journal.NewMemory(),
				Hash: edn.Hash(edn.Nil()), Calibrations: measured{},
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		run := func(s *act.Service, a act.Act) []journal.Record {
			r, refused := s.Start(context.Background(), a)
			if refused != nil {
				t.Fatal(refused)
			}
			<-r.Done()
			return r.Records()
		}
		records := run(serve(world()), request(ownPlan(`{:nodes [`+nodes+`]}`, "", "")))
		w := world()
		s := serve(w)
		a, refused := s.Fill(records[0].Run, records, act.Filling{})
		if refused != nil {
			t.Fatal(refused)
		}
		again := run(s, a)
		failed := map[string]bool{}
		for _, rec := range records {
			if v, ok := rec.Body.(*journal.GateVerdict); ok && v.Err != nil {
				failed[rec.Path.String()] = true
			} else if ok && v.Tier == int(quality.TierJudge) {
				graded++
			}
		}
		for _, n := range journal.Compare(records, again).Nodes {
			if len(n.Differs) > 0 && !failed[n.Path.String()] {
				t.Fatalf("%s differs in %v:\n%s\n%s", n.Path, n.Differs, n.A, n.B)
			}
		}
		for _, c := range w.Calls() {
			if !failed[c.Path.String()] {
				t.Fatalf("call of %s at %s", c.CapID, c.Path)
			}
		}
	})
	assert.Positive(t, graded, "no plan had an answer graded")
}

// chain is a plan of two nodes, of which the second reads the first, and a third
// one beside them.
var chain = ownPlan(`{:nodes [
  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt "x"} :done {:must #{:good :checked}} :as :x}
  {:op :call :intent :text/respond :dispatch {:candidates [:a/two]} :input {:prompt {:slot/path [:x :out]}} :as :y}
  {:op :call :intent :text/respond :dispatch {:candidates [:a/two]} :input {:prompt "z"} :as :z}
  {:op :emit :input {:slot/path [:y :out]}}]}`, "", "")

// JRN-051: another capability is called in place of one; what depends on its answer
// is called too, and the rest is recorded. The comparison shows what that changes.
func TestFillSwaps(t *testing.T) {
	_, err, records := do(t, service(t, resumeWorld(t)), chain)
	require.Nil(t, err, "%v", err)
	for name, tc := range map[string]struct {
		swap  map[string]string
		calls []string // sorted
		nodes []string // in what the nodes differ
	}{
		"another answer": {map[string]string{"a/one": "a/pays"}, []string{"a/check", "a/pays", "a/two"},
			[]string{"[:candidates :pick :outcome :value :cost]", "[:value]", "[]", "[:value]"}},
		"of several nodes": {map[string]string{"a/two": "a/pays"}, []string{"a/pays", "a/pays"},
			[]string{"[]", "[:candidates :pick :outcome :value :cost]", "[:candidates :pick :outcome :value :cost]", "[:value]"}},
		"for each other": {map[string]string{"a/two": "a/one", "a/one": "a/two"}, []string{"a/check", "a/one", "a/one", "a/two"},
			[]string{"[:candidates :pick :outcome :value]", "[:candidates :pick :outcome :value]", "[:candidates :pick :outcome :value]", "[:value]"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := resumeWorld(t)
			again := filled(t, service(t, w), decoded(t, records), dispatch.Fill{Swap: tc.swap})
			require.Equal(t, journal.StatusCompleted, finished(t, again).Status)
			var calls []string
			for _, c := range w.Calls() {
				calls = append(calls, c.CapID)
			}
			slices.Sort(calls)
			assert.Equal(t, tc.calls, calls)
			var nodes []string
			for _, n := range journal.Compare(records, again).Nodes {
				nodes = append(nodes, edn.Vector(keywords(n.Differs)...).String())
			}
			assert.Equal(t, tc.nodes, nodes)
		})
	}

	w := resumeWorld(t)
	w.Func("a/two", func(context.Context, dispatch.Call) dispatchtest.Step { return value(`{:good false}`) })
	again := filled(t, service(t, w), decoded(t, records), dispatch.Fill{Swap: map[string]string{"a/one": "a/two"}})
	assert.Equal(t, "eval/must-failed", finished(t, again).Err.Type)
	first := journal.Compare(records, again).Nodes[0]
	assert.Contains(t, first.Differs, "verdicts")
}

func keywords(names []string) (out []edn.Value) {
	for _, name := range names {
		out = append(out, edn.K(name))
	}
	return out
}

// JRN-051: a swap holds for an act of an intent alone, and not for later acts.
func TestFillSwapsAnIntent(t *testing.T) {
	w := resumeWorld(t)
	s := service(t, w)
	_, err, records := do(t, s, resumeCases["fallback"])
	require.Nil(t, err)
	for range 2 {
		before := len(w.Calls())
		again := filled(t, s, records, dispatch.Fill{Swap: map[string]string{"a/down": "a/one"}})
		assert.Equal(t, "a/one", journal.NewReport(again).Nodes[0].Answered)
		assert.Len(t, w.Calls(), before+1)
	}
	_, err, records = do(t, s, resumeCases["fallback"])
	require.Nil(t, err)
	assert.Equal(t, "a/two", journal.NewReport(records).Nodes[0].Answered)
}

// JRN-051, JRN-041: a call that is made has no effect but reading unless that is
// named; a recorded one needs no permission.
func TestFillEffects(t *testing.T) {
	_, err, records := do(t, service(t, resumeWorld(t), open), resumeCases["effect"])
	require.Nil(t, err, "%v", err)
	swap := map[string]string{"a/puts": "a/adds"}

	w := resumeWorld(t)
	again := filled(t, service(t, w, open), decoded(t, records), dispatch.Fill{Swap: swap})
	assert.Equal(t, "a/one", journal.NewReport(again).Nodes[0].Answered)
	again = filled(t, service(t, w, open), decoded(t, records), dispatch.Fill{Swap: map[string]string{"a/puts": "a/adds", "a/one": "a/adds"}})
	assert.Equal(t, "effects/missing-required", finished(t, again).Err.Type)
	assert.NotContains(t, called(w), "a/adds")

	again = filled(t, service(t, w, open), decoded(t, records), dispatch.Fill{Swap: swap, Effects: []string{"fs/write"}})
	assert.Equal(t, "a/adds", journal.NewReport(again).Nodes[0].Answered)
	assert.Contains(t, called(w), "a/adds")

	w = resumeWorld(t) // the rules for effects apply as well: this service permits none
	again = filled(t, service(t, w), decoded(t, records), dispatch.Fill{Swap: swap, Effects: []string{"fs/write"}})
	assert.Equal(t, "a/one", journal.NewReport(again).Nodes[0].Answered)
	again = filled(t, service(t, w), decoded(t, records), dispatch.Fill{})
	assert.Equal(t, "a/puts", journal.NewReport(again).Nodes[0].Answered)
	assert.NotContains(t, called(w), "a/puts")
	assert.NotContains(t, called(w), "a/adds")
}

// JRN-051, FX-002: the effect of a tool does not happen again: a recorded one is not
// called, and one with another input only if its effect is named.
func TestFillTools(t *testing.T) {
	world := func(path string) *dispatchtest.World {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
			dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/two", ""),
			`{:cap/id :fs/write-file :cap/kind :tool :cap/intents #{:fs/write-file} :cap/effects #{:fs/write} :io/in-schema :req/any :io/out-schema :res/any}`,
		}})
		w.On("a/one", value(`{:path "x"}`))
		w.On("a/two", value(`{:path "`+path+`"}`))
		w.On("fs/write-file", value(`{:bytes 7}`))
		return w
	}
	_, err, records := do(t, service(t, world(""), open), ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt "p"} :as :x}
	  {:op :tool :tool/id :fs/write-file :input {:path {:slot/path [:x :out :path]}} :effects {:allowed #{:fs/write}} :as :w}]}`, "", ":effects {:allowed #{:fs/write}}"))
	require.Nil(t, err, "%v", err)
	_, refused := service(t, world(""), open).Fill(records[0].Run, decoded(t, records),
		act.Filling{Fill: dispatch.Fill{Swap: map[string]string{"fs/write-file": "a/two"}}})
	require.NotNil(t, refused)
	assert.Contains(t, refused.Message, ":fs/write-file is called as a tool")
	for name, tc := range map[string]struct {
		path    string
		effects []string
		calls   []string
		failure string
	}{
		"recorded": {"x", nil, []string{"a/two"}, ""},
		"another":  {"y", nil, []string{"a/two"}, "effects/missing-required"},
		"named":    {"y", []string{"fs/write"}, []string{"a/two", "fs/write-file"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(tc.path)
			again := filled(t, service(t, w, open), decoded(t, records), dispatch.Fill{Swap: map[string]string{"a/one": "a/two"}, Effects: tc.effects})
			assert.Equal(t, tc.calls, called(w))
			if end := finished(t, again); tc.failure == "" {
				assert.Equal(t, journal.StatusCompleted, end.Status)
			} else if assert.NotNil(t, end.Err) {
				assert.Equal(t, tc.failure, end.Err.Type)
			}
		})
	}
}

// JRN-051, JRN-046: a request that a plugin makes within a call of a replay has the
// same limits, and its own attempts are recorded ones if they fit.
func TestFillWithin(t *testing.T) {
	for name, tc := range map[string]struct {
		effects []string
		calls   []string
	}{
		"denied": {nil, []string{"a/two"}},
		"named":  {[]string{"fs/write"}, []string{"a/two", "a/adds"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := resumeWorld(t)
			s := service(t, w, open)
			inner := func(last string) func(context.Context, dispatch.Call) dispatchtest.Step {
				return func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
					for n, candidate := range []string{"a/one", last} {
						_, err, known := s.Within(ctx, act.HostCall{N: n + 1, Parent: c, Act: act.Act{
							Request: request(asking("[:"+candidate+"]", "", "{}", ":effects {:allowed #{:fs/write}}")).Request,
							Roles:   []string{policy.RoleAdmin}, Principal: "p", PrincipalType: "plugin", Stack: []string{c.CapID},
						}})
						assert.True(t, known)
						if err != nil {
							return dispatchtest.Step{Err: err}
						}
					}
					return value(`{:good true}`)
				}
			}
			w.Func("a/pays", inner("a/puts")).Func("a/two", inner("a/adds"))
			_, err, records := do(t, s, asking("[:a/pays]", "", "{}", ""))
			require.Nil(t, err, "%v", err)
			before := len(w.Calls())
			again := filled(t, s, records, dispatch.Fill{Swap: map[string]string{"a/pays": "a/two"}, Effects: tc.effects})
			assert.Equal(t, tc.calls, called(w)[before:])
			assert.Equal(t, tc.effects == nil, finished(t, again).Err != nil)
		})
	}
}

// JRN-051, JRN-044: the replay of a run that was suspended goes on as it was decided,
// without a call, whether the plugin or the host had crashed.
func TestFillOfADecidedRun(t *testing.T) {
	byPlugin, _ := suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	start := slices.IndexFunc(byPlugin, func(r journal.Record) bool {
		b, ok := r.Body.(*journal.AttemptStarted)
		return ok && b.CapID == "a/adds"
	})
	byHost, _ := resumed(t, resumeWorld(t), byPlugin[:start+1], crashed)
	for name, how := range map[string]act.Resumption{
		"retry": deciding("n0", journal.DecisionRetry, edn.Nil()),
		"done":  deciding("n0", journal.DecisionDone, edn.MustRead(`{:by :hand}`)),
		"fail":  deciding("n0", journal.DecisionFail, edn.Nil()),
	} {
		for _, suspended := range [][]journal.Record{byPlugin, byHost} {
			records, err := resumed(t, resumeWorld(t), suspended, how)
			require.Nil(t, err, "%s: %v", name, err)
			w := resumeWorld(t)
			again := filled(t, service(t, w, suspending), decoded(t, records), dispatch.Fill{})
			assert.Empty(t, w.Calls(), name)
			assertSameEnd(t, finished(t, records), finished(t, again), name)
			node := journal.Compare(records, again).Nodes[0]
			assert.Equal(t, node.A.Key("state"), node.B.Key("state"), name)
			assert.Empty(t, node.Differs, "%s: %s\n%s", name, node.A, node.B)
			assert.True(t, journal.Compare(records, again).Equal(), name)
		}
	}

	// The given value is an answer like others: checks of the host run on it.
	suspended, _ := suspendedRun(t, losing(t, 1), ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} :input {:n 1} :done {:must #{:good}} :as :x}
	  {:op :emit :input :x}]}`, "", writes))
	records, err := resumed(t, resumeWorld(t), suspended, deciding("", journal.DecisionDone, edn.MustRead(`{:good false}`)))
	require.Nil(t, err, "%v", err)
	again := filled(t, service(t, resumeWorld(t), suspending), records, dispatch.Fill{})
	assert.Equal(t, "eval/must-failed", finished(t, again).Err.Type)
}

func called(w *dispatchtest.World) (ids []string) {
	for _, c := range w.Calls() {
		ids = append(ids, c.CapID)
	}
	return ids
}

// JRN-051: an attempt that was cut short says nothing about its capability and is
// made.
func TestFillOfACanceledRun(t *testing.T) {
	w := resumeWorld(t)
	reached := make(chan struct{}, 2)
	w.Func("a/two", func(context.Context, dispatch.Call) dispatchtest.Step {
		reached <- struct{}{}
		return dispatchtest.Step{Hang: true}
	})
	s := service(t, w)
	run, refused := s.Start(t.Context(), request(chain))
	require.Nil(t, refused)
	<-reached // one of them depends on the other call, which has ended then
	<-reached
	run.Cancel("a test", "")
	<-run.Done()
	next := resumeWorld(t)
	again := filled(t, service(t, next), run.Records(), dispatch.Fill{})
	assert.Equal(t, journal.StatusCompleted, finished(t, again).Status)
	assert.Equal(t, []string{"a/two", "a/two"}, called(next))
}

// JRN-051: what cannot be replayed is refused before anything runs.
func TestFillRefuses(t *testing.T) {
	w := resumeWorld(t)
	s := service(t, w)
	_, err, records := do(t, s, resumeCases["one call"])
	require.Nil(t, err)
	suspended, _ := suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	for name, tc := range map[string]struct {
		records []journal.Record
		swap    map[string]string
		want    string
	}{
		"in progress":        {records[:len(records)-1], nil, "run/not-resumable"},
		"suspended":          {suspended, nil, "run/not-resumable"},
		"unknown capability": {records, map[string]string{"a/one": "a/nobody"}, "cap/not-found"},
		"no candidate":       {records, map[string]string{"a/down": "a/one"}, "invalid-request"},
	} {
		_, refused := s.Fill(tc.records[0].Run, tc.records, act.Filling{Fill: dispatch.Fill{Swap: tc.swap}})
		if assert.NotNil(t, refused, name) {
			assert.Equal(t, tc.want, refused.Type, name)
		}
	}
}

// JRN-051, JRN-042: a replay with a call whose outcome is unknown, recorded or made,
// is not suspended, because it cannot be resumed: the node fails.
func TestFillIsNotSuspended(t *testing.T) {
	lost := func(keep string) string {
		return ownPlan(`{:nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds :a/one] :retry {:fallback-max 1} `+keep+`} :input {:n 1} :as :x}
		  {:op :emit :input {:slot/path [:x :out :by] :slot/default :none}}]}`, "", writes)
	}
	for name, text := range map[string]string{"failed": lost(""), "kept": lost(":allow-failure? true")} {
		_, _, records := do(t, service(t, losing(t, 1), open), text)
		w := resumeWorld(t)
		again := filled(t, service(t, w, suspending), decoded(t, records), dispatch.Fill{Effects: []string{"fs/write"}})
		assertSameEnd(t, finished(t, records), finished(t, again), name)
		assert.True(t, journal.Compare(records, again).Equal(), name)
		assert.Empty(t, w.Calls(), name)
	}
	_, err, records := do(t, service(t, resumeWorld(t), open), asking("[:a/one]", "", "{}", writes))
	require.Nil(t, err, "%v", err)
	w := losing(t, 1)
	again := filled(t, service(t, w, suspending), records, dispatch.Fill{Swap: map[string]string{"a/one": "a/adds"}, Effects: []string{"fs/write"}})
	assert.Equal(t, "effects/outcome-unknown", finished(t, again).Err.Type)
	assert.Equal(t, []string{"a/adds"}, called(w))
}

// JRN-051, JRN-040: a replay is not resumed, because its swaps and permissions are
// not recorded.
func TestFillIsNotResumed(t *testing.T) {
	s := service(t, resumeWorld(t))
	_, err, records := do(t, s, chain)
	require.Nil(t, err)
	past := decoded(t, filled(t, s, records, dispatch.Fill{})[:4])
	kept, w := journal.NewMemory(), resumeWorld(t)
	kept.Load(past[0].Run, past)
	run, refused := service(t, w, func(c *act.Config) { c.Journal = kept }).Resume(t.Context(), past[0].Run, past, crashed)
	require.Nil(t, refused)
	_, err = run.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "run/not-resumable", err.Type)
	assert.Empty(t, w.Calls())
}
