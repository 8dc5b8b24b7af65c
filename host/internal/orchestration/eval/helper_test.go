package eval_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ran is a finished run of a test.
type ran struct {
	eval.Outcome
	records []journal.Record
}

func (r ran) out() string { return r.Out.String() }

func (r ran) failure() string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Type
}

// kinds lists the records of one node in short form.
func (r ran) kinds(path string) []string {
	var out []string
	for _, rec := range r.records {
		if rec.Path.String() == path && rec.Body.Kind() != journal.KindRunStarted {
			out = append(out, string(rec.Body.Kind()))
		}
	}
	return out
}

type option func(*eval.Task, *eval.Evaluator, *plan.Env)

func withBindings(text string) option {
	return func(t *eval.Task, _ *eval.Evaluator, env *plan.Env) {
		t.Bindings = edn.MustRead(text)
		env.Outer = t.Bindings.HasKey
	}
}

func withLayer(l policy.Layer) option {
	return func(t *eval.Task, _ *eval.Evaluator, env *plan.Env) { t.Request, env.Request = &l, l }
}

func withLimits(change func(*plan.Limits)) option {
	return func(_ *eval.Task, ev *eval.Evaluator, _ *plan.Env) { change(&ev.Limits) }
}

// run checks, links and evaluates a plan, and checks every record.
func run(tb testing.TB, w *dispatchtest.World, text string, opts ...option) ran {
	tb.Helper()
	return runValue(context.Background(), tb, w, edn.MustRead(text), opts...)
}

func runValue(ctx context.Context, tb testing.TB, w *dispatchtest.World, source edn.Value, opts ...option) ran {
	tb.Helper()
	ev := evaluator(w)
	env := plan.Env{Registry: w.Registry, Policies: w.Policies}
	mem := journal.NewMemory()
	task := &eval.Task{
		Run: "run_test", Seed: 1, Source: "request", Trace: edn.MustRead(`{:id "t"}`),
		Recorder: eval.NewRecorder(ctx, mem, dispatch.SystemClock{}, "run_test", 1),
		Started:  &journal.RunStarted{Host: "h", Boot: "b", Config: edn.Hash(edn.Nil())},
	}
	for _, o := range opts {
		o(task, ev, &env)
	}
	p, findings := plan.Parse(source, nil)
	require.NotNil(tb, p, "no plan: %v", findings)
	findings = plan.Check(p, env)
	require.Nil(tb, plan.FindingsError(findings, contract.SourceRequest), "%s", source)
	prog, err := plan.Link(p, env)
	require.Nil(tb, err)
	task.Program, task.Warnings = prog, findings
	out := ev.Run(ctx, task)
	records, _ := mem.Records("run_test") // never fails
	for _, rec := range records {
		dispatchtest.Verify(tb, rec)
	}
	if ctx.Err() == nil && task.Inside == nil && task.Account == nil {
		replay(tb, w, ev, *task, ran{out, records})
	}
	return ran{out, records}
}

// replay executes a run once more from its records: no call is made, and it ends
// in the same way (JRN-050).
func replay(tb testing.TB, w *dispatchtest.World, ev *eval.Evaluator, task eval.Task, was ran) {
	tb.Helper()
	calls := len(w.Calls())
	task.Past, task.Replay, task.Started, task.Text, task.Pace = journal.NewHistory(was.records), true, nil, nil, nil
	if was.Err == nil {
		task.Past.Status = journal.StatusCompleted
	}
	task.Recorder = eval.NewRecorder(context.Background(), journal.NewMemory(), dispatch.SystemClock{}, "run_test", 2)
	again := ev.Run(context.Background(), &task)
	assert.Len(tb, w.Calls(), calls, "a replay makes no call")
	switch {
	case was.Err == nil && assert.Nil(tb, again.Err, "replay: %v", again.Err):
		assert.Equal(tb, was.Out.String(), again.Out.String(), "replay")
	case was.Err != nil && assert.NotNil(tb, again.Err, "replay of %v", was.Err):
		assert.Equal(tb, was.Err.Type, again.Err.Type, "replay: %v", again.Err)
	}
}

func evaluator(w *dispatchtest.World) *eval.Evaluator {
	return &eval.Evaluator{
		Registry: w.Registry, Policies: w.Policies, Dispatcher: w.Dispatcher, Effects: dispatchtest.Open(),
		Access: &policy.Access{Operations: policy.Rules{policy.OverridePrompt: {Any: []string{policy.RoleAny}}}},
		Clock:  dispatch.SystemClock{}, Limits: plan.DefaultLimits(),
	}
}

type (
	taskOf      = eval.Task
	evaluatorOf = eval.Evaluator
)

// quickRun evaluates a checked plan without checking its records.
func quickRun(tb testing.TB, w *dispatchtest.World, p *plan.Plan, env plan.Env) eval.Outcome {
	tb.Helper()
	prog, err := plan.Link(p, env)
	require.Nil(tb, err)
	ctx := context.Background()
	return evaluator(w).Run(ctx, &eval.Task{
		Run: "run_test", Seed: 1, Source: "request", Trace: edn.MustMap(), Program: prog,
		Recorder: eval.NewRecorder(ctx, journal.NewMemory(), dispatch.SystemClock{}, "run_test", 1),
		Started:  &journal.RunStarted{Host: "h", Boot: "b", Config: edn.Hash(edn.Nil())},
	})
}
