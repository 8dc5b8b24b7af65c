package act

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxReopened is the number of times that requests with the idempotency key of a failed
// run continue it (RUN-022).
const maxReopened = 5

// Retry configures the automatic retries of failed jobs (RUN-015).
type Retry struct {
	MaxAttempts int // including the first; 0 and 1 disable retries
	// Backoff is the wait before the second attempt; it doubles with each attempt. Jitter is
	// the maximum of the random time that is added to each wait.
	Backoff, Jitter time.Duration
}

// notRetried are the error types after which a job is not retried, even if the error is
// retryable.
var notRetried = []string{
	"invalid-request", "input/invalid", "unsupported/intent", "auth/forbidden-effect", "effects/invalid-input",
	"effects/missing-required", "effects/unsupported-tool", "effects/scope-denied", "schema/invalid", "eval/must-failed",
	"run/secret-missing",
}

// wait returns the backoff after an attempt, numbered from 1, plus jitter that is
// derived from the seed of the run.
func (r Retry) wait(f *flight, attempt int) time.Duration {
	wait := r.Backoff << (attempt - 1)
	if r.Jitter > 0 {
		wait += time.Duration(dispatch.Rand(f.seed, edn.Vector(), attempt).Int64N(int64(r.Jitter) + 1))
	}
	return wait
}

// compileRetry returns the step that reopens a failed job instead of finishing it. It
// does so only if the next attempt can start before the deadline of the job.
func compileRetry(s *Service) (func(*flight) *contract.Error, error) {
	c := &s.config
	return func(f *flight) *contract.Error {
		if f.past == nil { // only jobs are retried; here the caller waits
			return nil
		}
		attempt := 1 + f.past.Retries
		switch e := f.err; {
		case attempt >= c.Retry.MaxAttempts, f.request.ResponseType != "accepted", f.act.Fill != nil:
			return nil
		case f.stopped != nil, e == nil, f.status() != journal.StatusFailed, e.Type == "runtime/draining":
			return nil
		case !e.Retryable, e.Class == contract.ClassFinal, slices.Contains(notRetried, e.Type):
			return nil
		}
		at := c.Clock.Now().Add(c.Retry.wait(f, attempt))
		if !at.Before(f.deadline) {
			return nil
		}
		f.settleBudget()
		resumed := s.resumption(journal.ResumedRetry, c.Hash)
		resumed.DeadlineAt, resumed.RetryAt, resumed.Err = f.deadline, at, f.err
		err := f.recorder.Reopen(resumed, contract.Errorf("canceled", "run %s is retried later", f.id))
		if err == nil {
			err = f.recorder.Sync()
		}
		if err == nil {
			f.retryAt = at
		}
		return contract.AsError(err)
	}, nil
}

// retry waits until the next attempt of a failed job may start, and replaces the flight
// of the run. It returns false if the run was abandoned because it was interrupted or
// cannot be resumed.
func (s *Service) retry(r *Run, f *flight) bool {
	r.mu.Lock()
	r.f = &flight{
		service:  s,
		id:       f.id,
		key:      f.key,
		holds:    f.holds,
		deadline: f.deadline,
		after:    f.retryAt,
		entry:    queue.Entry{Class: f.past.Accepted.Class, Priority: f.request.Priority, Principal: f.act.Principal, Accepted: true},
		act:      Act{Principal: f.act.Principal},
		mask:     f.mask,
	}
	r.mu.Unlock()
	if !r.AwaitTurn() {
		return false
	}
	records, err := s.config.Journal.Records(f.id)
	if err != nil {
		r.Abandon(contract.AsError(err))
		return false
	}
	next, refused := s.reenter(f.id, journal.NewHistory(records), Resumption{Also: f.also}, f.mask)
	if refused != nil {
		r.Abandon(refused)
		return false
	}
	r.begin(next)
	return true
}

// resumption returns a resume record for this host and its configuration; was is the
// hash of the configuration before it. The caller adds decisions, principal and
// deadline.
func (s *Service) resumption(why, was string) *journal.RunResumed {
	c := &s.config
	return &journal.RunResumed{Host: c.Host, Boot: c.Boot, Config: c.Hash, Was: was, Why: why}
}

// reopen records that a failed run continues under a new epoch (RUN-022): its failed
// nodes are executed again, its committed nodes are not. The record is durable when
// reopen returns, and past includes it. The new deadline is how.Lasts from now.
func (s *Service) reopen(run string, past *journal.History, how Resumption) *contract.Error {
	c := &s.config
	now := c.Clock.Now()
	resumed := s.resumption(how.Why, past.Config)
	resumed.By, resumed.TraceParent = how.By, how.TraceParent
	resumed.DeadlineAt = now.Add(cmp.Or(how.Lasts, past.Accepted.DeadlineAt.Sub(past.Begun)))
	recorder := eval.NewRecorder(context.Background(), c.Journal, c.Clock, run, past.Epoch+1)
	recorder.Continue(past.Last)
	if err := recorder.Record(edn.Nil(), "", resumed); err != nil {
		return contract.AsError(err)
	}
	if err := recorder.Sync(); err != nil {
		c.Journal.Drop(run)
		return contract.AsError(err)
	}
	past.Resume(now, resumed)
	past.Last, past.Epoch, past.Config = past.Last+1, past.Epoch+1, c.Hash
	return nil
}

// mayReopen returns nil if a finished run can be continued, else the reason:
// run/not-resumable, run/evaluator-unknown or replay/values-purged.
func mayReopen(run string, past *journal.History) *contract.Error {
	switch {
	case !past.MayReopen() && past.Failure != nil:
		return contract.Errorf("run/not-resumable", "run %s is %s with :%s, expected a failure that a retry may overcome", run,
			past.Status, past.Failure.Type)
	case !past.MayReopen():
		return contract.Errorf("run/not-resumable", "run %s is %s, expected a suspended or failed run", run, past.Status)
	case past.Accepted.Request.Value().IsNil():
		return contract.Errorf("replay/values-purged", "the values of run %s were purged", run)
	}
	return known(run, past)
}

// reopenKeyed returns the flight of the failed run that has the idempotency key of the
// act and is continued by it. The deadline, priority and reader of the act apply, and what
// the run does must be permitted to the credentials of both.
func (f *flight) reopenKeyed() (*flight, *contract.Error) {
	s, run, past := f.service, f.failed.run, f.failed.past
	c := &s.config
	if err := mayReopen(run, past); err != nil {
		return nil, err
	}
	also := []policy.Caller{f.act.caller()}
	if err := f.refusal(also); err != nil {
		return nil, err
	}
	var place *queue.Place
	if c.Queue != nil {
		var err *contract.Error
		place, err = c.Queue.Enter(queue.Entry{Class: past.Accepted.Class, Priority: f.request.Priority, Principal: f.act.Principal})
		if err != nil {
			return nil, err
		}
	}
	err := s.reopen(run, past, Resumption{
		Why:   journal.ResumedKey,
		By:    f.act.Principal,
		Lasts: time.Duration(f.request.DeadlineMS) * time.Millisecond,
	})
	var next *flight
	if err == nil {
		next, err = s.reenter(run, past, Resumption{Also: also}, f.mask)
	}
	if err != nil {
		if place != nil {
			place.Leave()
		}
		return nil, err
	}
	next.key, next.holds, next.place, next.act.Watched = f.key, f.holds, place, f.act.Watched
	next.pace, next.live = f.reader()
	return next, nil
}

// refusal returns the error that keeps the act from continuing the failed run of its key: the
// owner may not act any more, or the credentials in also do not permit what is left of the run.
func (f *flight) refusal(also []policy.Caller) *contract.Error {
	s, past := f.service, f.failed.past
	now, err := s.standing(past.Accepted)
	if err != nil {
		return err
	}
	try := func(callers []policy.Caller) *contract.Error {
		a := recordedAct(past.Accepted)
		a.Request, a.Also = f.mask.Restore(a.Request), callers
		trial := s.flight(a)
		trial.id, trial.past, trial.mask = f.failed.run, past, f.mask
		if err := s.stage(s.rebind, trial); err != nil {
			return err
		}
		return authorize(trial)
	}
	var owner []policy.Caller
	if now != nil {
		owner = []policy.Caller{*now}
	}
	if err = try(slices.Concat(also, owner)); err != nil && try(owner) == nil {
		return err
	}
	return nil // an error that does not come from the credentials is that of the run
}

// resumeFailed continues a failed run at the request of an operator. The run is started
// when resumeFailed returns.
func (s *Service) resumeFailed(ctx context.Context, run string, past *journal.History, how Resumption) (*Run, *contract.Error) {
	if err := mayReopen(run, past); err != nil {
		return nil, err
	}
	if _, err := s.standing(past.Accepted); err != nil {
		return nil, err
	}
	if len(how.Decisions) > 0 {
		return nil, contract.Errorf("run/decision-invalid", "run %s has failed: no call of it waits for a decision", run).
			WithHint("resume it without a decision")
	}
	r, err := s.Recall(ctx, run, past.Accepted, nil)
	if err != nil {
		return nil, err
	}
	if past.Accepted.Key != "" && s.config.Keys != nil && r.flight().holds == nil {
		err = contract.Errorf("run/not-resumable", "run %s is already being continued by a request with its idempotency key", run)
	} else if err = s.reopen(run, past, how); err == nil {
		var f *flight
		if f, err = s.reenter(run, past, Resumption{}, nil); err == nil {
			r.begin(f)
			go s.launch(r)
			return r, nil
		}
	}
	r.Abandon(err)
	return nil, err
}
