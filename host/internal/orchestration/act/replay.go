package act

import (
	"context"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Replay executes a finished run again from its records alone: attempts, verdicts, times
// and random draws come from the records, and no plugin is called (JRN-050). Replay
// checks that the committed values of nodes and the result equal the recorded ones, and
// returns the hash of the result; for a failed run, the hash of its error type. The
// first difference is returned as replay/miss with the path of its node. A difference can
// also come from c, whose plans and gates must be those of the run. Other errors are
// run/not-resumable for a run that is not finished, run/evaluator-unknown for a run of
// another evaluator version, and those of New. If the recorded run failed with canceled
// or queue/deadline-exceeded, any failure counts as equal.
//
// Executor, Journal, Clock, Hash, Ledger, Stats, Learned, Grades and Calibrations of c
// are replaced.
func Replay(ctx context.Context, c Config, run string, records []journal.Record) (hash string, err *contract.Error) {
	past, err := replayable(run, records)
	switch {
	case err != nil:
		return "", err
	case past.Accepted.Evaluator != eval.Version:
		return "", contract.Errorf("run/evaluator-unknown", "replay run %s: it ran under evaluator version %d, and this build has version %d", run,
			past.Accepted.Evaluator, eval.Version)
	}
	last := records[len(records)-1]
	c.Executor, c.Journal, c.Clock, c.Hash = onlyRecords{}, unkept{}, stopped(last.At), past.Config
	c.Ledger, c.Stats, c.Learned, c.Grades, c.Calibrations = budget.NewMemory(c.Clock.Now), nil, nil, nil, nil
	again, fault := New(c)
	if fault != nil {
		return "", contract.AsError(fault)
	}
	f := again.flight(recordedAct(past.Accepted))
	f.ctx, f.past, f.replay, f.id, f.seed = ctx, past, true, run, past.Accepted.Seed
	f.recorder = eval.NewRecorder(ctx, c.Journal, c.Clock, run, past.Epoch+1)
	end := last.Body.(*journal.RunFinished)
	stages := []chain{again.replay, again.route, again.execute}
	if end.Cache == journal.CacheHit { // the run made no call; its last record has the value
		stages = stages[:1]
		f.hit(cache.Answer{Run: end.CacheRun, Out: end.Response.Value().Key("result").Key("out")})
	}
	for _, stage := range stages {
		if f.err == nil {
			f.err = again.stage(stage, f)
		}
	}
	return f.compare(end)
}

// replayable returns the history of a run that is to be replayed. The error is
// run/not-resumable for one that is not finished.
func replayable(run string, records []journal.Record) (*journal.History, *contract.Error) {
	past := journal.NewHistory(records)
	switch {
	case past.Accepted != nil && past.Finished:
		return past, nil
	case past.Suspended != nil:
		return nil, contract.Errorf("run/not-resumable", "replay run %s: it is suspended, expected a finished run", run).
			WithHint(fmt.Sprintf("\"ferment runs show %s\" says what it waits for, and how to continue or end it", run))
	}
	return nil, contract.Errorf("run/not-resumable", "replay run %s: it is not finished: there is nothing to compare with", run)
}

// compare compares the outcome of a replay with the recorded one and returns its hash,
// or replay/miss.
func (f *flight) compare(end *journal.RunFinished) (string, *contract.Error) {
	miss := func(format string, args ...any) *contract.Error {
		e := contract.Errorf("replay/miss", format, args...)
		if f.err != nil {
			e.Where = f.err.Where
		}
		return e.WithWhere("run", edn.Text(f.id))
	}
	switch {
	case f.err != nil && f.err.Type == "replay/miss":
		return "", f.err.WithWhere("run", edn.Text(f.id))
	case end.Err == nil && f.program == nil:
		return "", miss("run %s: its plan does not fit this configuration: %s", f.id, f.err.Message).WithCause(f.err)
	case end.Err != nil && f.err == nil:
		return "", miss("run %s: it completed, and its record is a failure of type :%s", f.id, end.Err.Type)
	case end.Err != nil && !sameFailure(end.Err, f.err):
		return "", miss("run %s: it failed with :%s, and its record with :%s", f.id, f.err.Type, end.Err.Type)
	case end.Err != nil:
		return edn.Hash(edn.K(end.Err.Type)), nil
	case f.err != nil:
		return "", miss("run %s: it failed, and its record is complete: %s", f.id, f.err.Message).WithCause(f.err)
	}
	result, replayed := end.Response.Value().Key("result"), f.out()
	recorded := result.Key("out")
	if result.HasKey("out") && !recorded.Equal(replayed) { // the older spelling has no :out
		return "", miss("run %s: its result is another than the recorded one", f.id).
			WithDetail("recorded", edn.Text(edn.Hash(recorded))).WithDetail("replayed", edn.Text(edn.Hash(replayed)))
	}
	return edn.Hash(replayed), nil
}

// sameFailure reports whether a replay failed like the recorded run: the type of its
// error is in the recorded chain of causes. If the recorded run was canceled or passed
// its deadline, any error matches, because neither is replayed.
func sameFailure(recorded, replayed *contract.Error) bool {
	for e := range recorded.Chain() {
		if e.Type == replayed.Type {
			return true
		}
	}
	return recorded.Type == "canceled" || recorded.Type == "queue/deadline-exceeded"
}

// onlyRecords is the executor of a replay. It fails every call with replay/miss, because
// recorded calls do not reach the executor.
type onlyRecords struct{}

var _ dispatch.Executor = onlyRecords{}

// Invoke implements dispatch.Executor.
func (onlyRecords) Invoke(_ context.Context, c dispatch.Call) (dispatch.Answer, error) {
	return dispatch.Answer{}, contract.Errorf("replay/miss", "node %s: a call of :%s is not recorded", c.Node, c.CapID).
		WithWhere("node", edn.Text(c.Node)).WithWhere("path", c.Path)
}

// State implements dispatch.Executor.
func (onlyRecords) State(string) dispatch.CapState { return dispatch.CapState{Ready: true} }

// Await implements dispatch.Executor.
func (onlyRecords) Await(context.Context, string) error { return nil }

// unkept is a Journal that discards all records.
type unkept struct{}

var _ Journal = unkept{}

// Append implements journal.Journal.
func (unkept) Append(context.Context, journal.Record) error { return nil }

// Follow implements journal.Source.
func (unkept) Follow(string, int) *journal.Cursor { return journal.Recorded(nil) }

// Records implements Journal.
func (unkept) Records(string) ([]journal.Record, error) { return nil, nil }

// Drop implements Journal.
func (unkept) Drop(string) {}

// stopped is a clock with a fixed time, whose Wait returns at once.
type stopped time.Time

var _ dispatch.Clock = stopped{}

// Now implements dispatch.Clock.
func (s stopped) Now() time.Time { return time.Time(s) }

// Wait implements dispatch.Clock.
func (stopped) Wait(ctx context.Context, _ time.Duration) error { return ctx.Err() }
