package act

import (
	"cmp"
	"errors"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Explain returns how a call of an intent would be bound now (BIND-006). capID pins the
// first candidate; empty: none. streamed selects a call whose answer is read as a stream.
// The error is that of an invalid policy.
func (s *Service) Explain(intent, capID string, streamed bool) (dispatch.Explanation, error) {
	layer := s.config.Policies.For(intent)
	p, err := layer.Resolve()
	if err != nil {
		return dispatch.Explanation{}, err
	}
	return s.eval.Dispatcher.Explain(p, intent, capID, streamed), nil
}

// link prepares the plan for evaluation, unless its shape was already linked.
func link(f *flight) (err *contract.Error) {
	if f.program != nil {
		return nil
	}
	f.program, err = plan.Link(f.plan, f.planEnv())
	return err
}

func compileEvaluate(s *Service) (func(*flight) *contract.Error, error) {
	c := &s.config
	switch {
	case c.Executor == nil:
		return nil, errors.New("there is no executor")
	case c.Checks == nil:
		return nil, errors.New("there are no checks")
	case c.Policies == nil:
		return nil, errors.New("there are no policies")
	}
	s.eval = &eval.Evaluator{
		Registry: c.Registry, Policies: c.Policies, Clock: c.Clock, Limits: *c.Limits, Panicked: c.Panicked, Effects: c.Effects, Access: c.Access,
		Dispatcher: &dispatch.Dispatcher{Executor: c.Executor, Registry: c.Registry, Checks: c.Checks, Clock: c.Clock, Stats: c.Stats, Learned: c.Learned, Grades: c.Grades, Calibrations: c.Calibrations, Prompts: c.Prompts},
	}
	return func(f *flight) *contract.Error {
		task := f.task(f.program)
		task.Source, task.Warnings, task.Bindings = f.source, f.findings, f.bindings
		task.Request, task.PolicyCache = f.layer, f.policies
		task.Streams, task.Pace, task.Live = f.request.ResponseType == "stream", f.pace, f.live
		task.Inside, task.Text = f.inside, f.tell
		task.Worst, task.Unbounded = f.budget.worst, f.budget.unbounded
		if task.Route = f.route.record; f.source == sourceRoute {
			task.Author = plan.ByCapability
		}
		f.outcome = s.eval.Run(f.ctx, task)
		return f.outcome.Err
	}, nil
}

// task returns a task that evaluates program, with the settings that all programs of the
// run share. The first task of a new run carries its RunStarted record.
func (f *flight) task(program *plan.Program) *eval.Task {
	c := &f.service.config
	task := &eval.Task{
		Run:        f.id,
		Session:    f.request.SessionID,
		Seed:       f.seed,
		Program:    program,
		Trace:      f.trace(),
		Principal:  f.act.Principal,
		Caller:     f.act.caller(),
		Behalf:     f.act.Behalf,
		Stack:      f.act.Stack,
		Explain:    f.request.DebugPlan,
		Dir:        f.dir(),
		Recorder:   f.recorder,
		Account:    f.budget.account,
		Budget:     f.budget.around,
		AtLeast:    f.budget.atLeast,
		Host:       f.budget.host(),
		Grading:    f.act.Grading,
		Depth:      f.budget.depth,
		Deepest:    f.act.Deepest,
		Interrupts: f.asks,
		Secrets:    f.mask,
		Replay:     f.replay,
	}
	if f.replay || f.resumes() {
		task.Past = f.past
	}
	fill := f.act.Fill
	if fill != nil {
		task.Past, task.Fill = fill.past, &fill.Fill
	}
	if f.halt != nil && fill == nil { // a replay cannot be resumed (JRN-051)
		task.Suspend, task.Rebinds = f.suspendFor, f.rebinds
	}
	if f.inside == nil && !f.resumes() && !f.replay && !f.begunRun {
		f.begunRun = true
		task.Started = &journal.RunStarted{Host: c.Host, Boot: c.Boot, Config: c.Hash, Protocol: c.Protocol}
	}
	return task
}

// dir returns the base of relative paths in inputs.
func (f *flight) dir() string { return cmp.Or(f.act.Dir, f.service.config.Root) }

// single reports whether the act is a one-node plan of its intent.
func (f *flight) single() bool { return f.source == sourceIntent }

// sourceIntent is the source of the plan of one node.
const sourceIntent = "intent"

// checkOut checks the outcome of a client's plan against the schema that the
// request requires. The answer of a one-node plan has passed it as a gate.
func checkOut(f *flight) *contract.Error {
	if f.single() {
		return nil
	}
	sch, name := f.outSchema()
	if sch == nil {
		return nil
	}
	found := sch.Validate(f.outcome.Out)
	if len(found) == 0 || f.past != nil && journal.Masked(f.outcome.Out) {
		return nil
	}
	return contract.Errorf("schema/invalid", "the outcome of the plan does not fit :%s: %s", name, found[0]).
		WithSource(contract.SourcePlugin).
		WithDetail("findings", schema.Findings(found))
}

// outSchema returns the schema of the answer of the act and its name; nil if there is none.
func (f *flight) outSchema() (*schema.Schema, string) {
	reg := f.service.config.Registry
	name := reg.OutSchema(f.request.Intent, f.request.Requires.OutSchema)
	sch, _ := reg.Schema(name)
	return sch, name
}

// out returns the value that the act answers with.
func (f *flight) out() edn.Value {
	if f.single() && f.outcome.Last != nil {
		return f.outcome.Last.Out
	}
	return f.outcome.Out
}
