package history

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Replay implements httpapi.Runs.
func (j *Runs) Replay(ctx context.Context, q httpapi.ReplayQuery) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, q.Run)
	if missing != nil {
		return edn.Nil(), missing
	}
	if !run.Removed.IsZero() {
		return edn.Nil(), contract.Errorf("replay/values-purged",
			"the records of run %s were removed, because of store.retain", run.ID)
	}
	records, err := j.Store.Read(ctx, run.ID, 0, run.Records)
	if err != nil {
		return edn.Nil(), Failure(err)
	}
	if !run.Purged.IsZero() {
		return edn.Nil(), contract.Errorf("replay/values-purged", "the values of run %s were purged", run.ID)
	}
	if q.Fill {
		return j.fill(ctx, run.ID, records, act.Filling{
			Fill:      dispatch.Fill{Swap: q.Swap, Effects: q.Effects},
			By:        q.By,
			Decisions: q.Decisions,
			Imported:  run.Imported,
		})
	}
	began := time.Now()
	hash, failure := act.Replay(ctx, j.Loaded.ActConfig(), run.ID, records)
	if failure != nil {
		return edn.Nil(), failure
	}
	return edn.MustMap(
		edn.K("run"), edn.Text(run.ID),
		edn.K("status"), journal.Keyword(run.State),
		edn.K("records"), edn.Int(int64(len(records))),
		edn.K("hash"), edn.Text(hash),
		edn.K("latency-ms"), edn.Int(time.Since(began).Milliseconds()),
	), nil
}

// fill replays a run in a new run, which makes the calls that are not recorded, and compares both.
// An error means that the replay was not accepted; the outcome of the new run is in the result.
func (j *Runs) fill(ctx context.Context, of string, records []journal.Record, how act.Filling) (edn.Value, *contract.Error) {
	if j.Live == nil {
		return edn.Nil(), contract.Errorf("runtime/not-ready", "replay run %s: only a daemon makes the calls that are not recorded", of).
			WithHint("start one with \"ferment serve\"")
	}
	run, err := j.Live.Fill(ctx, of, records, how)
	if err != nil {
		return edn.Nil(), err
	}
	recorded, made := int64(0), int64(0)
	for _, rec := range run.Records() {
		switch start, ok := rec.Body.(*journal.AttemptStarted); {
		case !ok:
		case start.Recorded:
			recorded++
		default:
			made++
		}
	}
	diff := journal.Compare(records, run.Records())
	return edn.MustMap(
		edn.K("run"), edn.Text(run.ID()),
		edn.K("replay/of"), edn.Text(of),
		edn.K("replay/mode"), edn.K(journal.ReplayFill),
		edn.K("status"), diff.B.Key("status"),
		edn.K("recorded"), edn.Int(recorded),
		edn.K("made"), edn.Int(made),
		edn.K("diff"), diff.Value(),
	), nil
}
