package act

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// settle determines the final error of the run. A run that exceeded its
// deadline has expired, whatever error its nodes returned.
func settle(f *flight) *contract.Error {
	switch {
	case f.err == nil:
	case f.stopped != nil:
		f.err = f.stopped
	case errors.Is(f.ended, context.DeadlineExceeded) && f.walled:
		f.err = f.wallSpent().WithCause(f.err)
	case errors.Is(f.ended, context.DeadlineExceeded):
		f.err = contract.Errorf("queue/deadline-exceeded", "the run passed its deadline of %d ms",
			f.request.DeadlineMS).WithCause(f.err)
	case errors.Is(f.ended, context.Canceled) && f.err.Type != "runtime/draining":
		if f.unknown != "" {
			f.err = f.canceledUnknown()
		}
		f.err = canceled(f.err, context.Cause(f.ctx))
	}
	if f.err != nil {
		f.err = f.err.WithWhere("run", edn.Text(f.id))
	}
	return nil
}

// canceled returns the error of a run whose context was canceled, with the principal and
// the reason if cause is a requested cancellation.
func canceled(err *contract.Error, cause error) *contract.Error {
	if err.Type != "canceled" {
		err = contract.Errorf("canceled", "the run was canceled").WithCause(err)
	}
	var asked *cancellation
	if !errors.As(cause, &asked) {
		return err
	}
	err = err.WithDetail("by", edn.Text(asked.by))
	if asked.why != "" {
		err = err.WithDetail("why", edn.Text(asked.why))
	}
	return err
}

func (f *flight) status() string {
	switch {
	case f.err == nil:
		return journal.StatusCompleted
	case f.err.Type == "canceled":
		return journal.StatusCanceled
	case f.err.Type == "queue/deadline-exceeded":
		return journal.StatusExpired
	default:
		return journal.StatusFailed
	}
}

// respond creates the response envelope from the outcome and the records.
func respond(f *flight) *contract.Error {
	s := f.service
	f.settleBudget()
	records, err := s.config.Journal.Records(f.id)
	if err != nil {
		return contract.AsError(err)
	}
	f.records = records
	if f.inside != nil {
		f.records = journal.Below(f.records, edn.Vector(f.inside.Path...))
	}
	f.account = journal.NewAccount(f.records)
	var r answer
	if f.request.RequestID != "" {
		r.requestID = edn.Text(f.request.RequestID)
	}
	if f.err != nil {
		r.err = f.err.Value()
	} else {
		r.result, r.quality = f.result(), f.quality()
		if f.single() && f.outcome.Last != nil {
			r.meta = f.outcome.Last.Meta
		}
	}
	if used := f.account.ModelsUsed(); used.Len() > 0 {
		r.models = used
	}
	if v := f.budget.value(); !v.IsNil() && f.inside == nil {
		r.budget = v
		f.warnings = append(f.warnings, f.soft()...)
	}
	if len(f.warnings) > 0 {
		r.warnings = edn.Vector(f.warnings...)
	}
	if len(f.sessionWarnings) > 0 {
		r.session = edn.Vector(f.sessionWarnings...)
	}
	if f.request.DebugPlan {
		r.debug = edn.MustMap(
			edn.K("plan"), f.plan.Source,
			edn.K("plan/hash"), edn.Text(f.plan.Hash()),
			edn.K("nodes"), journal.Resolved(f.records))
	}
	if f.request.DebugTranscript {
		r.transcript = f.service.config.Content.Transcript(f.records)
	}
	usage := f.account.Usage()
	if f.cache.answer != nil {
		usage = usage.AssocKey("mode", edn.K("cache"))
	}
	f.response = answerLayout.Present(edn.Int(contract.Proto), f.request.Trace, edn.Text(f.id), r.requestID, r.err,
		r.result, r.meta, r.quality,
		usage, r.models, r.budget, r.warnings, r.session, r.debug, f.account.PlanRun(f.err), r.transcript)
	if f.older {
		f.response = request.AnswerV03(f.request, f.response)
	}
	return nil
}

// answer holds the optional keys of a response; nil is absent.
type answer struct {
	requestID, err, result, meta, quality, models, budget, warnings, session, debug, transcript edn.Value
}

var (
	answerLayout = edn.NewLayout("proto", "trace", "run/id", "request/id", "error", "result", "invoke/meta", "quality",
		"usage", "models/used", "budget", "warnings", "session/warnings", "plan/debug", "plan/run", "transcript")
	valueLayout = edn.NewLayout("type", "out")
	usedLayout  = edn.NewLayout("type", "out", "usage")
	typeValue   = edn.K("value")
)

func (f *flight) result() edn.Value {
	if f.single() && f.outcome.Last != nil && f.outcome.Last.Usage.Len() > 0 {
		return usedLayout.Map(typeValue, f.out(), f.outcome.Last.Usage)
	}
	return valueLayout.Map(typeValue, f.out())
}

func (f *flight) quality() edn.Value {
	if f.cache.answer != nil {
		return f.cache.answer.Quality
	}
	q := edn.Nil()
	if last := f.outcome.Last; f.single() && last != nil && last.Judged {
		q = last.Verdict.Value()
	} else if !f.single() {
		q = journal.Quality(f.records)
	}
	reasons := why(f.outcome.Degraded)
	if f.single() && f.outcome.Last != nil {
		reasons = append(reasons, doubts(f.outcome.Last.Meta)...)
	}
	if len(reasons) == 0 {
		return q
	}
	if q.IsNil() {
		q = edn.MustMap()
	}
	return q.AssocKey("degraded?", edn.Bool(true)).AssocKey("why", edn.Vector(reasons...))
}

// doubts returns a pair [capability reason] for each reason in the :quality of the metadata of
// an answer, such as a stream whose end was assumed.
func doubts(meta edn.Value) (out []edn.Value) {
	if quality := meta.Key("quality"); quality.Key("degraded?").Truthy() {
		for reason := range quality.Key("why").Elems() {
			out = append(out, edn.Vector(meta.Key("cap/id"), reason))
		}
	}
	return out
}

// why returns a pair [capability error-type] for each candidate out of service, each capability once.
func why(rs []policy.Rejection) (out []edn.Value) {
	seen := map[string]bool{}
	for _, r := range rs {
		if seen[r.Cap] {
			continue
		}
		seen[r.Cap] = true
		out = append(out, edn.Vector(edn.K(r.Cap), edn.K(r.Type())))
	}
	return out
}

// confirmTimes is how many times Config.Finalize the journal may take to confirm that the
// last record is on disk: the run is over, and only its answer waits.
const confirmTimes = 6

// end runs the stage finalize within Config.Finalize (RUN-005), except for the confirmation
// of the last record. If the stage fails or panics, the run still gets a last record and a
// response with that error. If the last record cannot be written, cut is set and the run
// stays open in the journal.
func (f *flight) end() {
	s := f.service
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), s.config.Finalize)
	defer cancel()
	f.ending = ctx
	f.recorder.Within(ctx)
	err := s.stage(s.finalize, f)
	if !f.retryAt.IsZero() {
		return
	}
	defer s.config.Journal.Drop(f.id)
	if err == nil {
		return
	}
	if ctx.Err() != nil && !f.closed {
		err = contract.Errorf("journal/unavailable", "the end of run %s was not written within %s", f.id,
			s.config.Finalize).WithCause(err)
		err.Retryable = f.key != "" // else the act would be executed twice
	}
	f.err = err
	f.response = s.Refusal(f.act, err).AssocKey("run/id", edn.Text(f.id))
	if f.account == (journal.Account{}) { // its records were not read
		f.account = journal.NewAccount(nil)
	}
	if !f.closed && !f.cut {
		f.cut = s.stage(s.last, f) != nil
	}
}

// finish writes the last record, unless the run is suspended.
func finish(f *flight) *contract.Error {
	s := f.service
	var err error
	var turns []session.Turn
	if f.stopped == nil {
		last := &journal.RunFinished{
			Status:   f.status(),
			Response: journal.RefTo(f.response),
			Executed: f.account.Executed(),
			Latency:  s.config.Clock.Now().Sub(f.begun),
			Totals:   f.account.Totals(),
			Err:      f.err,
		}
		last.Cache = f.cache.outcome
		if f.cache.answer != nil {
			last.CacheRun = f.cache.answer.Run
		}
		turns = f.sessionTurns()
		addTurns(last, f.sessionIdentity(), turns)
		err = f.recorder.Record(edn.Nil(), "", last)
	}
	if f.closed = err == nil; f.closed {
		err = f.confirm()
	}
	if err != nil {
		f.cut = !errors.Is(err, contract.OfType("journal/too-large")) // else a smaller response ends the run
		return contract.AsError(err)
	}
	if _, kept := s.config.Journal.(SessionKeeper); len(turns) > 0 && !kept {
		if err := s.config.Sessions.Append(f.ending, f.sessionIdentity(), turns); err != nil {
			return err
		}
	}
	if f.alone {
		return nil
	}
	f.records, err = s.config.Journal.Records(f.id)
	return contract.AsError(err)
}

// confirm waits until the last record is on disk, before a byte of the answer leaves
// (JRN-004). After an error the end of the run may be on disk or not.
func (f *flight) confirm() error {
	if !f.recorder.Syncs() {
		return nil
	}
	limit := confirmTimes * f.service.config.Finalize
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), limit)
	defer cancel()
	f.recorder.Within(ctx)
	cause := f.recorder.Sync()
	if cause == nil {
		return nil
	}
	err := contract.Errorf("journal/unavailable", "run %s has ended, but the journal did not confirm that its end is on disk",
		f.id).WithHint("ferment runs show " + f.id + " tells what is recorded")
	if ctx.Err() != nil {
		err.Message += " within " + limit.String()
	}
	err.Retryable = f.key != "" // else the act may be executed twice
	return err.WithCause(contract.AsError(cause))
}

// Refusal returns the response envelope with err for an act that created no run. It has a
// run id if err is about a run, such as the suspended one with the act's idempotency key.
func (s *Service) Refusal(a Act, err *contract.Error) edn.Value {
	var b edn.MapBuilder
	b.Key("proto", edn.Int(contract.Proto))
	if trace := a.Request.Key("trace"); trace.Kind() == edn.KindMap {
		b.Key("trace", trace)
	}
	if run := err.Where.Key("run"); !run.IsNil() {
		b.Key("run/id", run)
	}
	b.Key("error", err.Value())
	return b.Map()
}
