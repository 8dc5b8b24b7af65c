package dispatch

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reportTrial reports the verdict on an answer to an Executor that compares
// editions of a plugin (SUP-006). A plan answer is not a sample: other
// candidates produced its result.
func (s *attempts) reportTrial(a *attempt) {
	trials, ok := s.n.d.Executor.(Trials)
	if !ok || a.walk != nil || a.outcome == flow.Judged && !answeredByChecks(s.result.Verdict) {
		return
	}
	trials.Judged(a.capability.ID, a.answer, a.err == nil)
}

// shadow sends the call to an edition on trial if the call has no effects. The
// gates of the node evaluate the answer; nothing is recorded, and the run
// neither waits for the call nor ends with it.
//
// The call is made only if it is free. Checks and judge votes on it are paid by
// the host with an account of its own: the caller did not request them, and the
// scopes of the run may be closed by then (BUD-003, BUD-005). If the budget of
// the host does not cover the gates, the answer is not a sample.
func (s *attempts) shadow(a *attempt) {
	c, n := a.capability, s.n
	trials, ok := n.d.Executor.(Trials)
	if !ok || !trials.Shadowing(c.ID) || a.recovery != contract.RecoveryNone || c.Effectful() || !s.c.funds.Free(c) {
		return
	}
	w := *n.w
	w.Begun, w.Around, w.Stream, w.Budget = nil, nil, nil, n.run.Host
	if n.w.Around != nil {
		w.Around = frozen{n.w.Around.Env()}
	}
	d, run := n.d, *n.run
	number := a.number
	run.Recorder, run.Shadow, run.Interrupts = unrecorded{}, true, nil
	trials.Shadow(a.call, func(ctx context.Context, answer Answer) (pass, counts bool) {
		run.Base = ctx
		if n.run.Account != nil {
			run.Account = n.run.Account.Beside()
			defer run.Account.Close(context.WithoutCancel(ctx))
		}
		twin := &attempt{
			n:          &node{d: d, run: &run, w: &w},
			capability: c,
			recovery:   contract.RecoveryNone,
			number:     number,
			answer:     answer,
		}
		twin.read(ctx)
		switch {
		case twin.walk != nil:
			return false, false
		case twin.err != nil:
			return false, true
		}
		verdict, _ := twin.judging.run(ctx, twin, twin.response.Key("result").Key("out"))
		return verdict.Pass, verdict.Pass || answeredByChecks(verdict)
	})
}

// answeredByChecks reports whether the verdict is about the answer: no check or
// judge failed to run (BRK-002).
func answeredByChecks(v quality.Verdict) bool {
	for _, f := range v.Findings() {
		if f.Code == quality.CheckError || f.Code == quality.JudgeFailed {
			return false
		}
	}
	return true
}

// unrecorded is a recorder that drops all records.
type unrecorded struct{}

// Record implements Recorder.
func (unrecorded) Record(edn.Value, string, journal.Body) error { return nil }

// Sync implements Recorder.
func (unrecorded) Sync() error { return nil }

// frozen is a Surroundings with the slots of one moment.
type frozen struct{ env edn.Value }

var _ Surroundings = frozen{}

// Env implements Surroundings.
func (f frozen) Env() edn.Value { return f.env }

// Plan implements Surroundings: a plan is accepted, so that it is recognised,
// but does not run.
func (frozen) Plan(context.Context, PlanAnswer) (func(context.Context) Child, *contract.Error) {
	return func(context.Context) Child { return Child{} }, nil
}
