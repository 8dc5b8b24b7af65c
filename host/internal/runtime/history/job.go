package history

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JobValue returns the payload of an accepted run: in the schema res/job-accepted if its state is
// queued, else in res/job-status. records must not be empty. state is the state of the run in the
// host that executes it; "open" if no host does.
func JobValue(records []journal.Record, state string) edn.Value {
	past := journal.NewHistory(records)
	last := records[len(records)-1]
	switch {
	case past.Finished:
		state = past.Status
	case past.Suspended != nil:
		state = "suspended"
	case state == "open" && !past.Active: // no host is executing it now
		state = "queued"
	case state == "open":
		state = "running"
	}
	var b edn.MapBuilder
	b.Key("job/id", edn.Text(last.Run))
	b.Key("job/status", edn.K(state))
	b.Key("queue/class", edn.K(past.Accepted.Class))
	attempt := 0
	if past.Active {
		attempt = past.Epoch
	}
	b.Key("attempt", edn.Int(int64(attempt)))
	b.Key("submitted-at", journal.Instant(past.Begun))
	b.Key("updated-at", journal.Instant(last.At))
	b.Key("deadline-at", journal.Instant(past.DeadlineAt))
	if state == "queued" {
		return b.Map()
	}
	if began := slices.IndexFunc(records, begins); began >= 0 {
		b.Key("started-at", journal.Instant(records[began].At))
	} else if !past.Finished { // the record of its start is not on disk yet
		b.Key("started-at", journal.Instant(last.At))
	}
	if past.Canceled != nil && past.Canceled.Why != "" {
		b.Key("cancel/reason", edn.Text(past.Canceled.Why))
	}
	if end, ok := last.Body.(*journal.RunFinished); ok {
		b.Key("completed-at", journal.Instant(last.At))
		if result := end.Response.Value().Key("result"); result.IsMap() {
			b.Key("result", result)
		}
		if end.Err != nil {
			b.Key("error", end.Err.Value())
		}
	}
	return b.Map()
}

// begins reports whether a record starts or resumes a run.
func begins(rec journal.Record) bool {
	return rec.Body.Kind() == journal.KindRunStarted || rec.Body.Kind() == journal.KindRunResumed
}
