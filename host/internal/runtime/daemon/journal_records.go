package daemon

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of a page of records and of a part of an exported file.
const (
	pageRecords = 500
	pageBytes   = 4 << 20
	valueBytes  = 16 << 20 // of one value of a record
)

// Records implements httpapi.Runs. A page has at least one record, if there is
// one. Values above 16 MiB are left out.
func (j *Journal) Records(ctx context.Context, q httpapi.RecordsQuery) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, q.Run)
	if missing != nil {
		return edn.Nil(), missing
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageRecords
	}
	records, err := j.store.Read(ctx, run.ID, q.After, limit)
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	out, last, size := []edn.Value{}, q.After, 0
	for _, rec := range records {
		v := rec.Value()
		if q.Values {
			v = v.AssocKey("values", valuesOf(rec))
		}
		out, last = append(out, v), rec.Seq
		if size += len(v.Canonical()); size > pageBytes {
			break
		}
	}
	return edn.MustMap(
		edn.K("run"), edn.Text(run.ID),
		edn.K("records"), edn.Vector(out...),
		edn.K("last"), edn.Int(int64(last)),
		edn.K("more?"), edn.Bool(len(out) > 0 && last < run.Records),
	), nil
}

// Watch implements httpapi.Runs. The events before the first one that is shown are
// read too: they say which capability an attempt was of.
func (j *Journal) Watch(ctx context.Context, name string, after int) (httpapi.Watching, *contract.Error) {
	run, missing := j.find(ctx, name)
	switch {
	case missing != nil:
		return nil, missing
	case !run.Removed.IsZero() || !run.Purged.IsZero():
		return nil, contract.Errorf("stream/gone", "watch run %s: its events were removed or purged", run.ID).
			WithHint("the summary of the run is kept")
	case after > run.Records:
		return nil, contract.Errorf("stream/cursor-ahead", "watch run %s: the cursor is record %d, and the run has %d",
			run.ID, after, run.Records)
	case after == run.Records && run.Ended():
		return nil, nil
	}
	return func(ctx context.Context, show func(journal.Event) error) error {
		if j.live != nil {
			defer j.live.readers.enter(run.ID)()
		}
		var records journal.Reader = &pages{store: j.store, run: run.ID}
		if run.State == "open" {
			records = j.store.Follow(run.ID, 0)
		}
		var failed error
		err := journal.Watch(ctx, records, func(e journal.Event) bool {
			if e.Seq > after {
				failed = show(e)
			}
			return failed == nil
		})
		return errors.Join(err, failed)
	}, nil
}

// pages reads the records of a run that does not grow, a page at a time: a slow
// reader does not keep more of them in memory (RUN-040).
type pages struct {
	store *store.Store
	run   string
	last  int              // record that was returned
	page  []journal.Record // the next ones
}

// Next implements journal.Reader.
func (p *pages) Next(ctx context.Context) (rec journal.Record, ok bool, err error) {
	if len(p.page) == 0 {
		p.page, err = p.store.Read(ctx, p.run, p.last, pageRecords)
		if err != nil || len(p.page) == 0 {
			return journal.Record{}, false, err
		}
	}
	rec, p.page = p.page[0], p.page[1:]
	p.last = rec.Seq
	return rec, true, nil
}

// valuesOf returns the values of a record that are kept, by their hashes.
func valuesOf(rec journal.Record) edn.Value {
	values := edn.MustMap()
	rec.Refs(func(ref journal.Ref) {
		if v := ref.Value(); !v.IsNil() && len(v.Canonical()) <= valueBytes {
			values = values.Assoc(edn.Text(ref.Hash()), v)
		}
	})
	return values
}
