package act

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Resume continues a run whose host process has stopped and returns without waiting for
// its end. records are all records of the run. Nodes whose commit is recorded are not
// executed again, and a call whose answer is recorded is not made again. A call that was
// in progress is repeated if its recovery class allows that, else its node waits for a
// decision (JRN-040, JRN-041). The remaining nodes run under the configuration of this
// service. The deadline is that of the run, extended by the time for which it was
// suspended.
//
// A run that was in progress in 3 crashes in a row may be their cause: it is suspended
// with run/poison, unless it only waited for people.
//
// A run that failed with a retryable error is reopened if how.Why is ResumedDecision:
// its failed nodes are executed again, with a new deadline (RUN-022).
//
// The error is run/not-resumable if the records are not those of such a run,
// run/evaluator-unknown for a run of another evaluator version, run/suspended,
// run/poison or run/restored for a run that waits for a decision, run/decision-required
// or run/decision-invalid if the decisions do not answer the open questions, and
// replay/values-purged for a failed run whose values were deleted.
func (s *Service) Resume(ctx context.Context, run string, records []journal.Record, how Resumption) (*Run, *contract.Error) {
	past := journal.NewHistory(records)
	if past.Finished && how.Why == journal.ResumedDecision && how.Cancel == nil {
		return s.resumeFailed(ctx, run, past, how)
	}
	f, err := s.reenter(run, past, how, nil)
	if err != nil {
		return nil, err
	}
	if f.barred != nil && how.Cancel == nil && len(how.Decisions) == 0 { // it stays suspended
		return nil, f.barred
	}
	r, err := s.Recall(ctx, run, f.past.Accepted, nil)
	if err != nil {
		return nil, err
	}
	if how.Why == journal.ResumedDecision { // it is durable before its caller gets an answer (JRN-004)
		err := f.recordEpoch()
		if err == nil {
			err = contract.AsError(f.recorder.Sync())
		}
		if err != nil {
			r.Abandon(err)
			s.config.Journal.Drop(run)
			return nil, err
		}
	}
	r.begin(f)
	go s.launch(r)
	return r, nil
}

// recordedAct returns the act of a run as its first record has it.
func recordedAct(accepted *journal.RunAccepted) Act {
	return Act{
		Request:       unqueued(accepted),
		Principal:     accepted.Principal,
		PrincipalType: accepted.PrincipalType,
		Roles:         accepted.Roles,
		Narrow:        policy.ReadNarrowing(accepted.Narrow),
		Tenant:        accepted.Tenant,
		Dir:           accepted.Dir,
	}
}

// unqueued returns the request of a run without :queue. The class is in the record, and
// the configuration may not have it any more.
func unqueued(accepted *journal.RunAccepted) edn.Value {
	request := accepted.Request.Value()
	if request.HasKey("queue") {
		request = request.Dissoc(edn.K("queue"))
	}
	return request
}

// reenter returns the flight of a run that is resumed from its records. mask holds the
// secrets that the records replace by placeholders; nil: the secrets are lost.
func (s *Service) reenter(run string, past *journal.History, how Resumption, mask *journal.Mask) (*flight, *contract.Error) {
	if past.Accepted == nil || past.Finished {
		return nil, contract.Errorf("run/not-resumable", "run %s cannot be resumed: it is finished, or its first record is missing", run)
	}
	if err := known(run, past); err != nil {
		return nil, err
	}
	if mask == nil {
		mask = s.newMask()
	}
	resumed, refused := s.decide(run, past, how, mask)
	if refused != nil {
		return nil, refused
	}
	c, accepted := &s.config, past.Accepted
	a := recordedAct(accepted)
	a.Request, a.Watched, a.TraceParent = mask.Restore(a.Request), accepted.ResponseType == "stream", parentOf(accepted.Trace)
	a.Also = how.Also
	now, barred := s.standing(accepted)
	if now != nil { // what it has gained since then does not widen the run
		a.Also = append(slices.Clip(a.Also), *now)
	}
	f := s.flight(a)
	f.also, f.barred = how.Also, barred
	if past.Suspended != nil && how.Cancel != nil {
		f.unknown = questions(past.Suspended.Open)
	}
	epoch := past.Epoch
	if resumed != nil {
		past.Resume(c.Clock.Now(), resumed)
		epoch++
	}
	f.resumed, f.past, f.id, f.begun, f.seed = resumed, past, run, past.Begun, accepted.Seed
	f.deadline = past.DeadlineAt
	f.mask, f.rebinds = mask, past.Rebinds(c.Hash)
	f.recorder = eval.NewRecorder(context.Background(), c.Journal, c.Clock, run, epoch)
	f.recorder.Continue(past.Last)
	f.recorder.Mask(mask)
	f.follow = c.Journal.Follow(run, 0)
	if how.Cancel != nil {
		past.Canceled = how.Cancel
	}
	f.asked = how.Cancel
	if _, ok := s.cacheable(accepted.Intent); ok {
		f.cache.outcome = journal.CacheBypass // it is executed, whatever the cache has
	}
	return f, nil
}

// known returns run/evaluator-unknown if the run began under another evaluator version,
// else nil.
func known(run string, past *journal.History) *contract.Error {
	if v := past.Accepted.Evaluator; v != eval.Version {
		return contract.Errorf("run/evaluator-unknown", "run %s began under evaluator version %d, and this build has version %d", run, v, eval.Version)
	}
	return nil
}

// recordEpoch records the start of the new epoch, unless that was done or the run had not
// started before, and a requested cancellation.
func (f *flight) recordEpoch() *contract.Error {
	if f.resumed != nil {
		if err := f.recorder.Record(edn.Nil(), "", f.resumed); err != nil {
			return contract.AsError(err)
		}
		f.resumed = nil
	}
	if f.asked != nil && !f.askedKept {
		if err := f.recorder.Record(edn.Nil(), "", f.asked); err != nil {
			return contract.AsError(err)
		}
		f.askedKept = true
	}
	return nil
}

// maxCrashes is the number of crashes in a row after which a run is not resumed
// (RUN-016).
const maxCrashes = 3

// recordResumed is the step that records the start of the new epoch. It suspends a run that
// reaches maxCrashes.
func recordResumed(f *flight) *contract.Error {
	err := f.recordEpoch()
	if err == nil && f.past.Crashes >= maxCrashes && !f.past.Asks() {
		return f.suspend(&journal.RunSuspended{Why: "run/poison"})
	}
	return err
}

// isOfAttempt reports whether a reservation was made for an attempt, which is
// recorded before its call is made.
func isOfAttempt(r *journal.BudgetReserved) bool {
	switch funds.Purpose(r.For) {
	case funds.ForAttempt, funds.ForParallel, funds.ForRepair:
		return true
	}
	return false
}

// settleLost settles the reservations that were open when the host of the run stopped.
// The whole reserved amount counts as spent, because the call may have been made
// (LED-005); nothing does if the attempt was never started. The reservation for the
// whole run stays open.
func settleLost(f *flight) *contract.Error {
	ledger := f.service.config.Ledger
	f.budget.account = budget.NewAccount(ledger)
	for _, open := range f.past.Reserved {
		ctx, windows, want := context.Background(), Windows(open, f.act.Principal), policy.AmountsOf(open.Amount)
		if open.For == "run" {
			f.budget.aside = open
			if err := f.budget.account.AdoptRun(ctx, windows, want); err != nil {
				return unwritable(err)
			}
			continue
		}
		path := f.past.PathOf(open)
		place, end := f.past.At(path), &journal.BudgetSettled{Of: open, Amount: open.Amount, Mark: budget.AtLeast.String()}
		if isOfAttempt(open) && place.Attempt(open.Attempt) == nil { // its call was not made
			end.Amount, end.Mark = edn.MustMap(), budget.Exact.String()
		}
		if err := f.recorder.Record(path, place.Node, end); err != nil {
			return contract.AsError(err)
		}
		place.Settled, f.past.Settled = append(place.Settled, end), append(f.past.Settled, end)
		left, err := ledger.Adopt(ctx, windows, want)
		if err == nil {
			err = ledger.Settle(ctx, left, policy.AmountsOf(end.Amount), budget.MarkOf(end.Mark))
		}
		if err != nil {
			return unwritable(err)
		}
	}
	return nil
}

func unwritable(err error) *contract.Error {
	return contract.Errorf("budget/unavailable", "the budget reservation of the run could not be settled: %w", err)
}

// recallCosts is the step that counts the past costs of the run and shortens its
// deadline to the remaining wall time of its budget.
func recallCosts(f *flight) *contract.Error {
	f.recall()
	if past := f.past; !past.ReopenedAt.IsZero() { // time that the run used before counts against its wall time
		end := past.ReopenedAt.Add(f.budget.wall - past.Worked)
		if f.walled = f.budget.wall > 0 && end.Before(f.deadline); f.walled {
			f.deadline = end
			f.ctx, f.release = context.WithDeadline(f.ctx, end)
		}
		return nil
	}
	whole := f.begun.Add(time.Duration(f.request.DeadlineMS) * time.Millisecond)
	f.walled = f.budget.wall > 0 && f.past.Accepted.DeadlineAt.Before(whole)
	return nil
}

// recall counts the past costs of a resumed run in the scopes that end with the run.
// Scopes that outlive runs have counted them already. Further calls have no effect.
func (f *flight) recall() {
	if f.past == nil || f.recalled {
		return
	}
	f.recalled = true
	own := slices.DeleteFunc(slices.Clone(f.budget.around), func(s budget.Scope) bool { return s.Kind.Lasts() })
	eval.Recall(context.Background(), f.budget.account, own, f.past.Settled)
}
