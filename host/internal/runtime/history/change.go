package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ended returns a finished run whose records still exist. Otherwise the error is
// queue/invalid-transition or run/not-found; op names the operation in its text.
func (j *Runs) ended(ctx context.Context, op, name string) (store.Run, *contract.Error) {
	run, err := j.find(ctx, name)
	switch {
	case err != nil:
	case !run.Ended():
		next := fmt.Sprintf("\"ferment runs cancel %s\" ends it", run.ID)
		switch {
		case j.Live == nil && run.State == "suspended":
			next = "\"ferment serve\" and then \"ferment runs resume\" continue it"
		case j.Live == nil:
			next = "\"ferment serve\" resumes it"
		}
		err = contract.Errorf("queue/invalid-transition", "%s run %s: the run is %s, expected a finished one", op, run.ID,
			j.status(run)).WithHint(next)
	default:
		err = removed(op, run)
	}
	return run, err
}

// removed returns a run/not-found error if the records of a run were removed, else nil.
func removed(op string, run store.Run) *contract.Error {
	if run.Removed.IsZero() {
		return nil
	}
	return contract.Errorf("run/not-found", "%s run %s: its records were removed at %s", op, run.ID,
		run.Removed.Format(time.RFC3339)).WithHint("raise the limits of store.retain to keep runs longer")
}

// Pin implements httpapi.Runs.
func (j *Runs) Pin(ctx context.Context, name string, on bool) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	change := j.Store.Unpin
	if on {
		change = j.Store.Pin
	}
	if err := change(ctx, run.ID); err != nil {
		return edn.Nil(), Failure(err)
	}
	run.Pinned = on
	return j.summary(run), nil
}

// Purge implements httpapi.Runs.
func (j *Runs) Purge(ctx context.Context, name string, dryRun bool) (edn.Value, *contract.Error) {
	run, missing := j.ended(ctx, "purge", name)
	if missing != nil {
		return edn.Nil(), missing
	}
	if !dryRun {
		if err := j.Store.Purge(ctx, run.ID); err != nil {
			return edn.Nil(), Failure(err)
		}
		var err error
		if run, err = j.Store.Run(ctx, run.ID); err != nil {
			return edn.Nil(), Failure(err)
		}
	}
	return j.summary(run).AssocKey("dry-run?", edn.Bool(dryRun)), nil
}

// has reports whether a run in progress is within the reach, as far as that can be determined
// without its record: with a session in the reach it is always false.
func (j *Runs) has(active *act.Run) bool {
	return (j.reach.Principal == "" || active.Principal() == j.reach.Principal) &&
		(j.reach.Tenant == "" || active.Tenant() == j.reach.Tenant) && j.reach.Session == ""
}

// Cancel implements httpapi.Runs.
func (j *Runs) Cancel(ctx context.Context, name string, c httpapi.Cancellation) (edn.Value, *contract.Error) {
	active := j.running(name)
	if active == nil || !j.has(active) {
		run, missing := j.find(ctx, name)
		if missing != nil {
			return edn.Nil(), missing
		}
		if active = j.running(run.ID); active == nil {
			if run.Ended() {
				return canceled(run.ID, run.State, false), nil
			}
			if run.State == "suspended" && j.Live != nil {
				how := act.Resumption{Why: journal.ResumedDecision, Cancel: &journal.CancelRequested{By: c.By, Why: c.Why}}
				resumed, err := j.Live.Resume(run.ID, how)
				if err != nil {
					return edn.Nil(), err
				}
				return canceled(run.ID, statusAfter(ctx, resumed, endsAtOnce), true), nil
			}
			return edn.Nil(), j.unexecuted(ctx, "cancel", run)
		}
	}
	waits := active.Waiting()
	accepted := active.Cancel(c.By, c.Why)
	if accepted && j.Store != nil { // before the caller gets the answer (JRN-004)
		if err := j.Store.Sync(ctx, active.ID()); err != nil {
			return edn.Nil(), Failure(err)
		}
	}
	wait := c.Wait
	if !accepted || waits {
		wait = endsAtOnce
	}
	return canceled(active.ID(), statusAfter(ctx, active, wait), accepted), nil
}

// unexecuted returns the error for a change of an unfinished run that this daemon does not execute,
// for example because another host does (JRN-007).
func (j *Runs) unexecuted(ctx context.Context, change string, run store.Run) *contract.Error {
	host, mine, err := j.Store.Owner(ctx, run.ID)
	refused := func(format string, args ...any) *contract.Error {
		return contract.Errorf("queue/invalid-transition", "%s run %s: "+format, append([]any{change, run.ID}, args...)...)
	}
	switch {
	case err != nil:
		return Failure(err)
	case run.State == "suspended" && j.Live != nil:
		return refused("it is suspended, and goes on only when it is resumed").WithHint(fmt.Sprintf(
			"\"ferment runs show %s\" says why it is suspended, \"ferment runs resume %[1]s\" continues it", run.ID))
	case mine || run.State != "open":
		return refused("it is %s, but no daemon executes it", run.State).
			WithHint("read the log of the daemon, which says why it was not resumed")
	case host == "":
		return refused("one host hands it over to another").WithRetryable(true).
			WithHint("send the request again: a host takes the run within seconds")
	}
	return refused("the host %s executes it", host).WithRetryable(true).WithDetail("host", edn.Text(host)).
		WithHint(fmt.Sprintf("send the request to that host, which has this id in the file HOST of its data directory; "+
			"\"ferment runs show %s --edn\" has the name of its machine. "+
			"If it is gone, another one takes the run over after store.lease", run.ID))
}

// endsAtOnce is the maximum wait for a run that has ended or is about to end.
const endsAtOnce = time.Minute

// statusAfter waits for the end of a run, at most for wait, and returns its status; "running" if it
// has not ended.
func statusAfter(ctx context.Context, run *act.Run, wait time.Duration) string {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-run.Done():
	case <-timer.C:
		return "running"
	case <-ctx.Done():
		return "running"
	}
	for _, rec := range slices.Backward(run.Records()) {
		switch end := rec.Body.(type) {
		case *journal.RunFinished:
			return end.Status
		case *journal.RunSuspended:
			return "suspended"
		}
	}
	return "open" // interrupted by the end of the daemon
}

// Job implements httpapi.Runs.
func (j *Runs) Job(ctx context.Context, name string) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	status := j.status(run)
	records, err := j.Store.Read(ctx, run.ID, 0, run.Records)
	switch {
	case err != nil:
		return edn.Nil(), Failure(err)
	case len(records) == 0:
		return edn.Nil(), contract.Errorf("queue/job-not-found", "job %s: its records were removed", run.ID)
	}
	return JobValue(records, status), nil
}

// Resume implements httpapi.Runs.
func (j *Runs) Resume(ctx context.Context, name string, decisions []httpapi.Decision, by string) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	switch {
	case missing != nil:
		return edn.Nil(), missing
	case run.State != "suspended" && run.State != journal.StatusFailed:
		return edn.Nil(), contract.Errorf("run/not-resumable", "resume run %s: it is %s, expected a suspended or failed one", run.ID, j.status(run))
	case j.Live == nil:
		return edn.Nil(), contract.Errorf("queue/invalid-transition", "resume run %s: no daemon is there to execute it", run.ID).
			WithHint("start one with \"ferment serve\"")
	}
	how := act.Resumption{Why: journal.ResumedDecision, By: by, TraceParent: httpapi.TraceParent(ctx)}
	for _, d := range decisions {
		how.Decisions = append(how.Decisions, act.Decision{Node: d.Node, Choice: d.Choice, Value: d.Value, By: d.By})
	}
	if _, err := j.Live.Resume(run.ID, how); err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(edn.K("run"), edn.Text(run.ID), edn.K("status"), edn.K("running")), nil
}

func canceled(run, status string, accepted bool) edn.Value {
	return edn.MustMap(
		edn.K("run"), edn.Text(run),
		edn.K("status"), edn.K(status),
		edn.K("cancel/accepted?"), edn.Bool(accepted),
	)
}
