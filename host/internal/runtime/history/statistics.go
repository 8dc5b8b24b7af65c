package history

import (
	"context"
	"errors"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// statisticsPeriod is the period of statistics if no begin is given.
const statisticsPeriod = 24 * time.Hour

// Statistics implements httpapi.Runs.
func (j *Runs) Statistics(ctx context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil && j.Missing == "" {
		return edn.Nil(), missing
	}
	f = bounded(f, time.Now())
	all := &tally.Counts{}
	if s != nil {
		err := j.eachRun(ctx, f, func(r store.Run, records []journal.Record) { j.countRun(all, f, r, records) })
		if err != nil {
			return edn.Nil(), Failure(err)
		}
	}
	return all.Value().AssocKey("since", journal.Instant(f.Since)).AssocKey("until", journal.Instant(f.Until)), nil
}

// bounded returns the filter with the missing time bounds set: until now, and statisticsPeriod
// before.
func bounded(f httpapi.RunFilter, now time.Time) httpapi.RunFilter {
	if f.Until.IsZero() {
		f.Until = now
	}
	if f.Since.IsZero() {
		f.Since = f.Until.Add(-statisticsPeriod)
	}
	return f
}

// eachRun calls do with each run that matches the intent and principal of a filter and was in
// progress in its period, and with the records of the run. A run with damaged records gets none.
// Imported runs are skipped.
func (j *Runs) eachRun(ctx context.Context, f httpapi.RunFilter, do func(store.Run, []journal.Record)) error {
	page := store.Filter{
		Intent: f.Intent, Principal: f.Principal, Reach: j.reach, Active: f.Since, Until: f.Until, Limit: pageRecords,
	}
	for {
		runs, err := j.Store.Runs(ctx, page)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if r.Imported {
				continue
			}
			records, err := j.Store.Read(ctx, r.ID, 0, r.Records)
			if damage := (*store.Damage)(nil); errors.As(err, &damage) {
				records = nil
			} else if err != nil {
				return err
			}
			do(r, records)
		}
		if len(runs) < page.Limit {
			return nil
		}
		page.Before = runs[len(runs)-1].ID
	}
}

// countRun adds to all what a run did in the period of a filter.
func (j *Runs) countRun(all *tally.Counts, f httpapi.RunFilter, r store.Run, records []journal.Record) {
	if len(records) > 0 {
		state := "running" // until f.Until, even if it has ended since
		if !r.Ended() {
			state = j.status(r)
		}
		all.Read(records, f.Since, f.Until, state)
		return
	}
	if r.Ended() && r.Finished.Before(f.Until) {
		all.ReadFacts(r.Intent, r.State, r.Error, r.Latency, j.summary(r).Key("cost-usd"))
	}
}

// Interrupts implements httpapi.Runs.
func (j *Runs) Interrupts(ctx context.Context) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil && j.Missing == "" {
		return edn.Nil(), missing
	}
	open := []edn.Value{}
	page := store.Filter{Status: "open", Reach: j.reach, Limit: pageRecords}
	for s != nil {
		runs, err := s.Runs(ctx, page)
		if err != nil {
			return edn.Nil(), Failure(err)
		}
		for _, r := range runs {
			host, asks, err := j.asks(ctx, r.ID)
			if err != nil {
				return edn.Nil(), Failure(err)
			}
			if !asks {
				continue
			}
			records, err := s.Read(ctx, r.ID, 0, r.Records)
			if err != nil {
				return edn.Nil(), Failure(err)
			}
			for _, i := range interruptValues(records, host) {
				open = append(open, i.AssocKey("run", edn.Text(r.ID)).AssocKey("intent", journal.Keyword(r.Intent)))
			}
		}
		if len(runs) < page.Limit {
			break
		}
		page.Before = runs[len(runs)-1].ID
	}
	return edn.MustMap(edn.K("interrupts"), edn.Vector(open...)), nil
}

// interruptValues returns the open interrupts of a run, with the other host that executes it, if
// there is one. If the deadline of the run is earlier than that of an interrupt, the value has both.
func interruptValues(records []journal.Record, host string) (out []edn.Value) {
	at := journal.NewHistory(records).DeadlineAt
	for _, i := range journal.OpenInterrupts(records) {
		v := i.Value()
		own, has := v.Key("deadline-at").AsInst()
		if !at.IsZero() && (!has || at.Before(own)) {
			v = v.AssocKey("run/deadline-at", edn.Inst(at))
		}
		if host != "" {
			v = v.AssocKey("host", edn.Text(host))
		}
		out = append(out, v)
	}
	return out
}

// asks reports whether an open run may wait for an answer of people: without a daemon, if this
// daemon executes it and it waits for one, or if another host executes it. host is the id of that
// host, empty while it hands the run over.
func (j *Runs) asks(ctx context.Context, run string) (host string, asks bool, err error) {
	if j.Live == nil {
		return "", true, nil
	}
	if active := j.running(run); active != nil {
		return "", active.Asks(), nil
	}
	host, mine, err := j.Store.Owner(ctx, run)
	if mine {
		host = ""
	}
	return host, !mine, err
}
