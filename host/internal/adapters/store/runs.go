package store

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// stateOpen is the state of a run without run/finished.
const stateOpen = "open"

// Run is the summary of a run.
type Run struct {
	ID        string
	State     string // "open", or the status of run/finished
	Intent    string
	Principal string
	Epoch     int
	Records   int
	Accepted  time.Time
	Finished  time.Time // zero while the run is open
	Latency   time.Duration
	Cost      string // USD of all attempts as decimal; empty if none is known
	Error     string // type
	Imported  bool
	Pinned    bool
	Purged    time.Time // the values were deleted; zero: they were not
	Removed   time.Time // the records were deleted; zero: they were not
}

// runRow is a row of the table of runs.
type runRow struct {
	Run
	n     int64
	chain sum // of the last record
	bytes int64
	keyed bool
}

// apply adds a record to the summary.
func (r *runRow) apply(rec journal.Record, chain sum) {
	if rec.Seq == 1 {
		r.Accepted = rec.At
	}
	r.Epoch, r.Records, r.chain = rec.Epoch, rec.Seq, chain
	switch body := rec.Body.(type) {
	case *journal.RunAccepted:
		r.Intent, r.Principal, r.keyed = body.Intent, body.Principal, body.Key != ""
	case *journal.RunFinished:
		r.State, r.Finished, r.Latency = body.Status, rec.At, body.Latency.Truncate(time.Millisecond)
		if cost := body.Totals.Key("attempts").Key("cost-usd"); cost.IsNumber() {
			r.Cost = trimDecimal(cost.String())
		}
		if body.Err != nil {
			r.Error = body.Err.Type
		}
	}
}

func trimDecimal(s string) string {
	if n := len(s) - 1; n > 0 && s[n] == 'M' {
		return s[:n]
	}
	return s
}

// nanos is the form of a time in the database; 0 is the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// rowPlaces receive the columns of a run.
type rowPlaces struct {
	row                                 runRow
	chain                               []byte
	accepted, finished, purged, removed int64
}

func (p *rowPlaces) into() []any {
	r := &p.row
	return []any{
		&r.n, &r.ID, &r.State, &r.Epoch, &r.Records, &p.chain, &r.bytes, &p.accepted, &p.finished, &r.Latency, &r.Intent,
		&r.Principal, &r.Cost, &r.Error, &r.keyed, &r.Imported, &r.Pinned, &p.purged, &p.removed,
	}
}

func (p *rowPlaces) take() runRow {
	r := p.row
	copy(r.chain[:], p.chain)
	r.Accepted, r.Finished = timeOf(p.accepted), timeOf(p.finished)
	r.Purged, r.Removed = timeOf(p.purged), timeOf(p.removed)
	return r
}

func readRun(ctx context.Context, from *statements, id string) (runRow, error) {
	var p rowPlaces
	err := from.one(ctx, "run", []any{id}, p.into())
	return p.take(), err
}

func readRuns(ctx context.Context, from *statements, name string, args ...any) (out []runRow, err error) {
	var p rowPlaces
	err = from.all(ctx, name, args, p.into(), func() error { out = append(out, p.take()); return nil })
	return out, err
}
