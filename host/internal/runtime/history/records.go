package history

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of one page of records, in records and bytes. pageBytes is also the size of a part of an
// exported file.
const (
	pageRecords = 500
	pageBytes   = 4 << 20
	valueBytes  = 16 << 20 // bytes of one value of a record
)

// Records implements httpapi.Runs. A page has at least one record if there are any. Values above 16
// MiB are omitted.
func (j *Runs) Records(ctx context.Context, q httpapi.RecordsQuery) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, q.Run)
	if missing != nil {
		return edn.Nil(), missing
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageRecords
	}
	records, err := j.Store.Read(ctx, run.ID, q.After, limit)
	if err != nil {
		return edn.Nil(), Failure(err)
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

// Value implements httpapi.Runs. A value that several runs share can be read through each of them.
func (j *Runs) Value(ctx context.Context, hash, name string) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil {
		return edn.Nil(), missing
	}
	unnamed := contract.Errorf("not-found", "no run of the caller contains the value %.80s", hash)
	if name == "" {
		readable, err := s.Readable(ctx, hash, j.reach)
		if err != nil || !readable {
			return edn.Nil(), cmp.Or(Failure(err), unnamed)
		}
	} else {
		run, missing := j.find(ctx, name)
		if missing != nil {
			return edn.Nil(), missing
		}
		if !run.Purged.IsZero() || !run.Removed.IsZero() {
			return edn.Nil(), contract.Errorf("replay/values-purged", "the values of run %s were purged", run.ID)
		}
		names, err := j.names(ctx, run, hash)
		if err != nil || !names {
			return edn.Nil(), cmp.Or(Failure(err), contract.Errorf("not-found", "run %s does not contain the value %.80s", run.ID, hash))
		}
	}
	v, err := s.Value(ctx, hash)
	return v, Failure(err)
}

// names reports whether a record of a run refers to the value with a hash.
func (j *Runs) names(ctx context.Context, run store.Run, hash string) (found bool, _ error) {
	records := &pages{store: j.Store, run: run.ID, most: run.Records}
	for !found {
		page, err := records.Page(ctx)
		if err != nil || len(page) == 0 {
			return false, err
		}
		for _, rec := range page {
			rec.Refs(func(ref journal.Ref) { found = found || ref.Hash() == hash })
		}
	}
	return true, nil
}

// Watch implements httpapi.Runs. The returned function also reads the events before the first one
// that it shows, because they name the capabilities of attempts.
func (j *Runs) Watch(ctx context.Context, name string, after int) (httpapi.Watching, *contract.Error) {
	run, missing := j.find(ctx, name)
	switch {
	case missing != nil:
		return nil, missing
	case !run.Removed.IsZero() || !run.Purged.IsZero():
		return nil, goneEvents(run.ID)
	case after > run.Records:
		return nil, contract.Errorf("stream/cursor-ahead", "watch run %s: the cursor is record %d, and the run has %d",
			run.ID, after, run.Records)
	case after == run.Records && run.State != "open": // a suspended run has no further event until it is resumed
		return nil, nil
	}
	return func(ctx context.Context, show func([]journal.Event) error) error {
		if j.Live != nil {
			defer j.Live.Reading(run.ID)()
		}
		var records journal.Reader = &pages{store: j.Store, run: run.ID, most: run.Records}
		if run.State == "open" {
			records = j.Store.Follow(run.ID, 0)
		}
		var failed error
		err := journal.WatchPages(ctx, records, func(events []journal.Event) bool {
			for len(events) > 0 && events[0].Seq <= after {
				events = events[1:]
			}
			switch {
			case slices.ContainsFunc(events, journal.Event.Erased):
				failed = goneEvents(run.ID)
			case len(events) > 0:
				failed = show(events)
			}
			return failed == nil
		})
		return errors.Join(err, failed)
	}, nil
}

func goneEvents(run string) *contract.Error {
	return contract.Errorf("stream/gone", "watch run %s: its events were removed or purged", run).
		WithHint("\"ferment runs show " + run + "\" shows its summary, which is kept")
}

// pages reads the records that a run had when it ended or was suspended, one page at a time, so that
// a slow reader does not keep more of them in memory (RUN-040). Records of a run that is continued
// meanwhile are not read: the last one would be any of them, and not the end (RUN-043).
type pages struct {
	store *store.Store
	run   string
	last  int // number of the last record that was returned
	most  int // number of the last record
}

// Page implements journal.Reader.
func (p *pages) Page(ctx context.Context) ([]journal.Record, error) {
	if p.last >= p.most {
		return nil, nil
	}
	page, err := p.store.Read(ctx, p.run, p.last, min(pageRecords, p.most-p.last))
	if len(page) > 0 {
		p.last = page[len(page)-1].Seq
	}
	return page, err
}

// valuesOf returns the stored values of a record, by hash.
func valuesOf(rec journal.Record) edn.Value {
	values := edn.MustMap()
	rec.Refs(func(ref journal.Ref) {
		if v := ref.Value(); !v.IsNil() && len(v.Canonical()) <= valueBytes {
			values = values.Assoc(edn.Text(ref.Hash()), v)
		}
	})
	return values
}
