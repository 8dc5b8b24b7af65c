package store

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// States of a run without run/finished. A suspended run continues only if a caller resumes it.
const (
	stateOpen      = "open"
	stateSuspended = "suspended"
)

// Run is the summary of a run.
type Run struct {
	ID        string
	State     string // "open", "suspended", or the status of run/finished
	Intent    string
	Principal string
	Epoch     int
	Records   int
	Accepted  time.Time
	Finished  time.Time // zero while the run is open
	Latency   time.Duration
	Cost      string // USD of all attempts and checks, as decimal; empty if unknown
	Error     string // error type; empty without an error
	Imported  bool
	Pinned    bool
	Purged    time.Time // time at which the values were deleted; zero: not purged
	Removed   time.Time // time at which the records were deleted; zero: not removed
}

// Ended reports whether the run has finished.
func (r Run) Ended() bool { return r.State != stateOpen && r.State != stateSuspended }

// reopenable returns an error if a finished run cannot be continued: it did not fail, was imported,
// or its values were deleted.
func (r *Run) reopenable() error {
	switch {
	case r.State != journal.StatusFailed:
		return contract.Errorf("run/not-resumable", "journal: reopen run %s: it is %s, expected a failed run", r.ID, r.State)
	case r.Imported:
		return contract.Errorf("run/not-resumable", "journal: reopen run %s: it was imported, and is read-only", r.ID)
	case !r.Purged.IsZero() || !r.Removed.IsZero():
		return contract.Errorf("replay/values-purged", "journal: reopen run %s: its values were purged or removed", r.ID)
	}
	return nil
}

// runRow is a row of the table of runs.
type runRow struct {
	Run
	n     int64
	chain sum // of the last record
	bytes int64
	key   string // hash of the idempotency key
	// session is the id of the session. It is set only while the run is being recorded.
	session string
	// tenant is the tenant of the caller. It is set only while the run is being recorded.
	tenant string
}

// apply updates the summary with a record and its chain value.
func (r *runRow) apply(rec journal.Record, chain sum) {
	if rec.Seq == 1 {
		r.Accepted = rec.At
	}
	r.Epoch, r.Records, r.chain = rec.Epoch, rec.Seq, chain
	switch body := rec.Body.(type) {
	case *journal.RunAccepted:
		r.Intent, r.Principal, r.key, r.session, r.tenant = body.Intent, body.Principal, body.Key, body.SessionID, body.Tenant
	case *journal.RunSuspended:
		r.State, r.Error = stateSuspended, body.Why
	case *journal.RunResumed:
		r.State, r.Error = stateOpen, ""
		r.Finished, r.Latency = time.Time{}, 0
	case *journal.RunFinished:
		r.State, r.Finished, r.Latency = body.Status, rec.At, body.Latency.Truncate(time.Millisecond)
		cost := body.Totals.Key("cost-usd")
		if cost.IsNil() { // earlier versions recorded only the cost of attempts
			cost = body.Totals.Key("attempts").Key("cost-usd")
		}
		if cost.IsNumber() {
			r.Cost = strings.TrimSuffix(cost.String(), "M")
		}
		if body.Err != nil {
			r.Error = body.Err.Type
		}
	}
}

// nanos returns the stored form of a time: nanoseconds since 1970, the least or the greatest number
// for a time that is out of their range; 0 for the zero time.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// moment is a scan target for a time that nanos has stored.
type moment struct{ to *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(from any) error {
	n, ok := from.(int64)
	if !ok {
		return fmt.Errorf("a time is not a number but %T", from)
	}
	*m.to = time.Time{}
	if n != 0 {
		*m.to = time.Unix(0, n).UTC()
	}
	return nil
}

// columns returns the scan targets of a row, in the column order of the statements that read runs.
func (r *runRow) columns() []any {
	return []any{
		&r.n, &r.ID, &r.State, &r.Epoch, &r.Records, &r.chain, &r.bytes, moment{&r.Accepted}, moment{&r.Finished}, &r.Latency,
		&r.Intent, &r.Principal, &r.Cost, &r.Error, &r.key, &r.Imported, &r.Pinned, moment{&r.Purged}, moment{&r.Removed},
	}
}

func readRun(ctx context.Context, from *statements, id string) (row runRow, err error) {
	err = from.one(ctx, "run", []any{id}, row.columns())
	return row, err
}

func readRuns(ctx context.Context, from *statements, name string, args ...any) (out []runRow, err error) {
	var row runRow
	err = from.all(ctx, name, args, row.columns(), func() error { out = append(out, row); return nil })
	return out, err
}
