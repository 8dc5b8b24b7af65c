package dispatch

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// tell lets an executor that tries editions of a plugin against each other know
// what the gates made of an answer (SUP-006). An answer that is a plan is no
// sample: others have answered for it.
func (o *operation) reportTrial(a *attempt, r *attemptResult) {
	trials, ok := o.d.Executor.(Trials)
	if !ok || r.walk != nil || r.outcome == Judged && !answeredByChecks(o.result.Verdict) {
		return
	}
	trials.Judged(a.capability.ID, a.answer, r.err == nil)
}

// shadow has an edition on trial asked the same, if the call has no effects. It
// is judged by the gates of the node as they stand now; nothing of it is
// recorded, and the run neither waits for it nor ends with it.
//
// The call is made only where it costs nothing. What its gates take, checks and
// votes of judges, is paid by the host, which wanted the trial, on an account of
// its own: the caller did not ask for it, and the scopes of the run may be gone by
// then (BUD-003, BUD-005). Where the host has too little left the gates cannot be
// asked, and the answer is no sample.
func (o *operation) shadow(a *attempt) {
	c, recovery, number := a.capability, a.recovery, a.number // a is reused by the next attempt
	trials, ok := o.d.Executor.(Trials)
	if !ok || !trials.Shadowing(c.ID) || recovery != contract.RecoveryNone || c.Effectful() || !o.free(c) {
		return
	}
	w := *o.w
	w.Begun, w.Around, w.Stream, w.Budget = nil, nil, nil, o.run.Host
	if o.w.Around != nil {
		w.Around = frozen{o.w.Around.Env()}
	}
	run := *o.run
	run.Recorder, run.Shadow = unrecorded{}, true
	trials.Shadow(a.call, func(ctx context.Context, answer Answer) (pass, counts bool) {
		run.Base = ctx
		if o.run.Account != nil {
			run.Account = o.run.Account.Beside()
			defer run.Account.Close(context.WithoutCancel(ctx))
		}
		twin := &operation{d: o.d, run: &run, w: &w, number: number}
		r := &attemptResult{capability: c, recovery: recovery, number: number}
		twin.read(r, answer)
		switch {
		case r.walk != nil:
			return false, false
		case r.err != nil:
			return false, true
		}
		verdict, _ := twin.judge(ctx, r, r.response.Key("result").Key("out"))
		return verdict.Pass, verdict.Pass || answeredByChecks(verdict)
	})
}

// answeredByChecks tells whether it was the answer that failed, and not a check
// that could not be asked (BRK-002).
func answeredByChecks(v quality.Verdict) bool {
	for _, f := range v.Findings() {
		if f.Code == quality.CheckError || f.Code == quality.JudgeFailed {
			return false
		}
	}
	return true
}

// unrecorded is the recorder of what nobody will see.
type unrecorded struct{}

// Record implements Recorder.
func (unrecorded) Record(edn.Value, string, journal.Body) error { return nil }

// frozen is a place in a plan whose slots are those of one moment.
type frozen struct{ env edn.Value }

var _ Surroundings = frozen{}

// Env implements Surroundings.
func (f frozen) Env() edn.Value { return f.env }

// Plan implements Surroundings: a plan is taken, so that it is known to be one,
// and never walked.
func (frozen) Plan(PlanAnswer) (func(context.Context) Child, *contract.Error) {
	return func(context.Context) Child { return Child{} }, nil
}
