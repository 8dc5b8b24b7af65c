package eval_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// JRN-040, JRN-043, JRN-050: a generated plan that is cut after any of its records and
// resumed by another host has the result and the values of the uninterrupted run, repeats
// no call with a recorded end and no call of class once, and its strict replay makes no
// call and ends in the same way.
func TestManyPlansResumed(t *testing.T) {
	plans := proof.Size(t, "generated plans, cut at each record", 100, 3000)
	base := generatedBase(t)
	env := plan.Env{Registry: base.Registry, Policies: base.Policies}
	for n, seed := 0, uint64(0); n < plans; seed++ {
		r := rand.New(rand.NewPCG(seed, 70))
		source := (&gen{pick: func(_ string, below int) int { return r.IntN(below) }}).plan()
		if seed%2 == 1 {
			source = inParallel(source, r)
		}
		p, findings := plan.Parse(source, nil)
		if p != nil {
			findings = plan.Check(p, env)
		}
		if plan.HasErrors(findings) {
			continue
		}
		n++
		mode := []string{"strict", "hybrid", "lazy"}[r.IntN(3)]
		c := &cutRun{t: t, base: base, env: env, source: source.AssocKey("mode", edn.K(mode))}
		c.whole, _ = c.run(nil)
		for at := 1; at <= len(c.whole.records); at++ {
			if c.assertResumes(at); t.Failed() {
				t.Fatalf("seed %d, cut after record %d of %d\n%s", seed, at, len(c.whole.records), c.source)
			}
		}
	}
}

// JRN-040, JRN-050: a generated plan that is cut after any of its records, twice, and resumed by
// hosts at which other candidates are available, repeats no call with a recorded end and no call
// of class once, and its strict replay makes no call and ends in the same way.
func TestManyPlansResumedWithOtherCandidates(t *testing.T) {
	plans := proof.Size(t, "generated plans, cut twice", 60, 400)
	base := generatedBase(t)
	env := plan.Env{Registry: base.Registry, Policies: base.Policies}
	for n, seed := 0, uint64(0); n < plans; seed++ {
		r := rand.New(rand.NewPCG(seed, 72))
		source := (&gen{pick: func(_ string, below int) int { return r.IntN(below) }}).plan()
		if seed%3 > 0 {
			source = inParallel(source, r)
		}
		p, findings := plan.Parse(source, nil)
		if p != nil {
			findings = plan.Check(p, env)
		}
		if plan.HasErrors(findings) {
			continue
		}
		n++
		c := &cutRun{t: t, base: base, env: env, source: source, away: awayOf(r)}
		first, _ := c.run(nil)
		for at := 1; at <= len(first.records); at++ {
			c.away = awayOf(r)
			again := c.assertResumesElsewhere(first.records[:at])
			c.away = awayOf(r)
			if more := len(again.records) - at; more > 0 {
				c.assertResumesElsewhere(again.records[:at+1+r.IntN(more)])
			}
			if t.Failed() {
				t.Fatalf("seed %d, cut after record %d of %d\n%s", seed, at, len(first.records), c.source)
			}
		}
	}
}

// awayOf returns the number of calls of a run for which each capability is not available.
func awayOf(r *rand.Rand) map[string]int {
	away := map[string]int{}
	for _, id := range generatedIDs {
		if r.IntN(3) == 0 {
			away[id] = r.IntN(6)
		}
	}
	return away
}

// JRN-040: the failure of an item that a map keeps is the recorded one, also if this host
// would describe it in another way.
func TestResumeKeepsTheRecordedFailure(t *testing.T) {
	base := generatedBase(t)
	c := &cutRun{t: t, base: base, env: plan.Env{Registry: base.Registry, Policies: base.Policies}, source: edn.MustRead(`{:nodes [
	  {:op :let :as :x :value {:a 1}}
	  {:op :map :over [1] :as :all :on-item-error :keep :body [
	    {:op :call :intent :text/respond :input {:v {:slot/path [:x :missing]}} :as :r}
	    {:op :emit :input {:slot/path [:r :out]}}]}
	  {:op :emit :input {:slot/id :all}}]}`)}
	c.whole, _ = c.run(nil)
	for i, rec := range c.whole.records {
		if failed, ok := rec.Body.(*journal.NodeFailed); ok {
			first := slices.Clone(c.whole.records[:i+1])
			first[i].Body = &journal.NodeFailed{Err: failed.Err.WithDetail("by", edn.Text("an earlier host"))}
			got, _ := c.run(first)
			assert.Contains(t, got.Out.String(), "an earlier host")
			c.assertReplays(got)
			return
		}
	}
	t.Fatal("no node has failed")
}

// JRN-050: a generated plan whose calls have budgets and keep failures is replayed with an
// equal end, though a replay counts no costs.
func TestManyPlansWithBudgetsReplayed(t *testing.T) {
	plans := proof.Size(t, "generated plans with budgets", 200, 3000)
	base := generatedBase(t)
	env := plan.Env{Registry: base.Registry, Policies: base.Policies}
	kept := 0
	for n, seed := 0, uint64(0); n < plans; seed++ {
		r := rand.New(rand.NewPCG(seed, 71))
		source := (&gen{pick: func(_ string, below int) int { return r.IntN(below) }}).plan()
		source = withBudgets(inParallel(source, r), r)
		p, findings := plan.Parse(source, nil)
		if p != nil {
			findings = plan.Check(p, env)
		}
		if plan.HasErrors(findings) {
			continue
		}
		n++
		c := &cutRun{t: t, base: base, env: env, source: source, account: budget.NewAccount(budget.NewMemory(nil))}
		c.whole, _ = c.run(nil)
		for _, rec := range c.whole.records {
			if commit, ok := rec.Body.(*journal.NodeCommitted); ok && commit.FailureType == "budget/exceeded" {
				kept++
			}
		}
		if c.assertReplays(c.whole); t.Failed() {
			t.Fatalf("seed %d\n%s", seed, source)
		}
	}
	assert.Positive(t, kept, "kept failures of budgets")
}

// withBudgets gives calls a budget of one or two attempts, and lets half of them keep their
// failure.
func withBudgets(source edn.Value, r *rand.Rand) edn.Value {
	out, err := source.Walk(nil, func(v edn.Value) edn.Value {
		if v.Kind() != edn.KindMap || !edn.Equal(v.Key("op"), edn.K("call")) {
			return v
		}
		d := v.Key("dispatch").AssocKey("retry", edn.MustRead("{:same-cap-max 1 :fallback-max 2}"))
		if r.IntN(2) == 0 {
			d = d.AssocKey("allow-failure?", edn.Bool(true))
		}
		return v.AssocKey("dispatch", d).AssocKey("budget", edn.MustMap(edn.K("max-attempts"), edn.Int(int64(1+r.IntN(2)))))
	})
	if err != nil {
		panic(err)
	}
	return out
}

// inParallel turns half of the calls with several candidates into tournaments, and gives
// half of the calls repair rounds.
func inParallel(source edn.Value, r *rand.Rand) edn.Value {
	out, err := source.Walk(nil, func(v edn.Value) edn.Value {
		if v.Kind() != edn.KindMap || !edn.Equal(v.Key("op"), edn.K("call")) {
			return v
		}
		d := v.Key("dispatch")
		if d.Key("candidates").Len() > 1 && r.IntN(2) == 0 {
			d = d.AssocKey("strategy", edn.K("tournament"))
		}
		if r.IntN(2) == 0 {
			d = d.AssocKey("repair", edn.MustRead("{:max 2}"))
		}
		return v.AssocKey("dispatch", d)
	})
	if err != nil {
		panic(err)
	}
	return out
}

// JRN-040: a node for which another configuration lacks every candidate waits for one that has
// them, unless the run goes on with its failure.
func TestWaitsForTheConfiguration(t *testing.T) {
	spec := dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", "")}}
	had := dispatchtest.New(t, spec)
	call := `{:op :call :intent :text/respond :input {} %s :as :x}`
	for name, tc := range map[string]struct {
		nodes string
		waits bool
	}{
		"call":            {fmt.Sprintf(call, ""), true},
		"item":            {`{:op :map :over [1] :as :all :body [` + fmt.Sprintf(call, "") + `]}`, true},
		"allowed failure": {fmt.Sprintf(call, ":dispatch {:allow-failure? true}"), false},
		"kept item":       {`{:op :map :over [1] :as :all :on-item-error :keep :body [` + fmt.Sprintf(call, "") + `]}`, false},
		"within kept item": {`{:op :map :over [1] :as :all :on-item-error :keep :body [
		  {:op :plan :as :in :plan {:nodes [` + fmt.Sprintf(call, "") + `]}}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := plan.Env{Registry: had.Registry, Policies: had.Policies}
			p, findings := plan.Parse(edn.MustRead(`{:nodes [`+tc.nodes+`]}`), nil)
			require.NotNil(t, p, "%v", findings)
			require.False(t, plan.HasErrors(plan.Check(p, env)))
			prog, err := plan.Link(p, env)
			require.Nil(t, err)
			spec := dispatchtest.Spec{Caps: []string{"{:cap/id :a/other :cap/kind :solver :cap/intents #{:p/other} :io/in-schema :req/any :io/out-schema :res/any}"}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waited := false
			evaluator(dispatchtest.New(t, spec)).Run(ctx, &eval.Task{
				Run: "run_test", Seed: 1, Source: "request", Trace: edn.MustMap(), Program: prog, Rebinds: true,
				Recorder: eval.NewRecorder(ctx, journal.NewMemory(), dispatch.SystemClock{}, "run_test", 2),
				Suspend: func(nodes []eval.Undecided) {
					waited = len(nodes) == 1 && nodes[0].Lacks != nil
					cancel()
				},
			})
			assert.Equal(t, tc.waits, waited)
		})
	}
}

// cutRun is a run of a plan that is cut and resumed.
type cutRun struct {
	t      *testing.T
	base   *dispatchtest.World
	env    plan.Env
	source edn.Value
	whole  ran

	account *budget.Account // of the first run; nil: it has no budgets
	away    map[string]int  // calls of a run before which a capability is not available
}

// world answers in the same way whichever host asks, and at whichever attempt.
func (c *cutRun) world() *dispatchtest.World {
	w := c.base.Again()
	var calls atomic.Int32
	arrive := func(made int32) {
		for id, n := range c.away {
			w.SetState(id, dispatch.CapState{Ready: int(made) >= n})
		}
	}
	arrive(0)
	for i, id := range generatedIDs {
		w.Func(id, func(_ context.Context, call dispatch.Call) dispatchtest.Step {
			arrive(calls.Add(1))
			step := scripted(call.CapID, 1, without(timeless(call.Request.Key("input")), edn.K("where"), edn.K("effect/key")))
			step.Delay = time.Duration(i) * time.Millisecond // parallel attempts end in one order
			return step
		})
	}
	return w
}

// run executes the plan, or resumes it from its first records.
func (c *cutRun) run(first []journal.Record) (r ran, w *dispatchtest.World) {
	w = c.world()
	mem := journal.NewMemory()
	task := &eval.Task{Started: &journal.RunStarted{Host: "h", Boot: "b", Config: someConfig}}
	recorder := eval.NewRecorder(context.Background(), mem, dispatch.SystemClock{}, "run_test", 1)
	if first != nil {
		mem.Load("run_test", first)
		h := journal.NewHistory(first)
		recorder = eval.NewRecorder(context.Background(), mem, dispatch.SystemClock{}, "run_test", h.Epoch+1)
		recorder.Continue(h.Last)
		task.Started, task.Past = nil, h
	}
	task.Account = c.account
	r.Outcome = c.evaluate(w, task, recorder)
	r.records, _ = mem.Records("run_test") // never fails
	return r, w
}

func (c *cutRun) evaluate(w *dispatchtest.World, task *eval.Task, recorder *eval.Recorder) (out eval.Outcome) {
	p, _ := plan.Parse(c.source, nil)
	prog, err := plan.Link(p, c.env)
	require.Nil(c.t, err)
	task.Run, task.Seed, task.Source, task.Trace = "run_test", 1, "request", edn.MustMap()
	task.Program, task.Recorder = prog, recorder
	synctest.Test(c.t, func(*testing.T) { out = evaluator(w).Run(context.Background(), task) })
	return out
}

// assertResumes cuts the run after its first at records and resumes it.
func (c *cutRun) assertResumes(at int) {
	first := c.whole.records[:at]
	got, w := c.run(first)
	if lost := lostOnce(first); len(lost) > 0 {
		for _, call := range w.Calls() {
			assert.NotContains(c.t, lost, call.EffectKey, "a call of class once is repeated")
		}
		return
	}
	want, is := toldOf(c.whole), toldOf(got)
	assert.Equal(c.t, want.fails, is.fails)
	assert.Equal(c.t, want.out, is.out)
	if c.whole.Err == nil {
		assert.Equal(c.t, ended(c.whole.records), ended(first)+len(w.Calls()), "calls")
		values := got.values()
		for path, v := range c.whole.values() {
			assert.Equal(c.t, v, values[path], "value of node %s", path)
		}
	}
	c.assertReplays(got)
}

// assertResumesElsewhere resumes a run from its first records and returns it.
func (c *cutRun) assertResumesElsewhere(first []journal.Record) ran {
	got, w := c.run(first)
	if lost := lostOnce(first); len(lost) > 0 {
		for _, call := range w.Calls() {
			assert.NotContains(c.t, lost, call.EffectKey, "a call of class once is repeated")
		}
		return got
	}
	c.assertReplays(got)
	return got
}

// assertReplays replays a run.
func (c *cutRun) assertReplays(was ran) {
	c.away = nil // in a replay every candidate is ready
	w, h := c.world(), journal.NewHistory(was.records)
	if was.Err == nil {
		h.Status = journal.StatusCompleted
	}
	recorder := eval.NewRecorder(context.Background(), journal.NewMemory(), dispatch.SystemClock{}, "run_test", h.Epoch+1)
	again := c.evaluate(w, &eval.Task{Past: h, Replay: true}, recorder)
	assert.Empty(c.t, w.Calls(), "calls of a replay")
	assert.Equal(c.t, was.failure(), ran{Outcome: again}.failure(), "replay: %v", again.Err)
	if was.Err == nil && again.Err == nil {
		assert.Equal(c.t, was.Out.String(), again.Out.String(), "replay")
	}
}

// lostOnce returns the effect keys of calls of class once that have no recorded end.
func lostOnce(records []journal.Record) (keys []string) {
	h := journal.NewHistory(records)
	for _, rec := range records {
		if start, ok := rec.Body.(*journal.AttemptStarted); ok {
			at := h.At(rec.Path)
			if at == nil { // of a plan answer that another one has replaced
				continue
			}
			tried := at.Attempt(start.Attempt)
			if tried != nil && tried.Started == start && tried.Lost && tried.HadEffectOnce() {
				keys = append(keys, start.EffectKey)
			}
		}
	}
	return keys
}

// ended counts the attempts with a recorded end.
func ended(records []journal.Record) (n int) {
	for _, rec := range records {
		if rec.Body.Kind() == journal.KindAttemptFinished {
			n++
		}
	}
	return n
}

// values returns the committed values by path, without what depends on time.
func (r ran) values() map[string]string {
	out := map[string]string{}
	for _, rec := range r.records {
		if c, ok := rec.Body.(*journal.NodeCommitted); ok {
			out[rec.Path.String()] = timeless(c.Value.Value()).String()
		}
	}
	return out
}
