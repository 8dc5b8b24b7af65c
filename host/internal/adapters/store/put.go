package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// check returns journal/too-large for a record or a value in it that is beyond its limit.
func (it *item) check() (err error) {
	kind, most := it.rec.Body.Kind(), maxRecords
	if !journal.Closes(it.rec.Body) {
		most -= closingRecords
	}
	switch {
	case len(it.body) > maxRecord:
		return contract.Errorf("journal/too-large", "append %s: the record has %d bytes, expected at most %d", kind, len(it.body), maxRecord)
	case it.rec.Seq > most && it.rec.Run != journal.HostRun:
		return contract.Errorf("journal/too-large", "append %s: the run has %d records, which is the limit", kind, most)
	}
	it.rec.Refs(func(ref journal.Ref) {
		if longer(ref.Value(), maxValue) {
			err = contract.Errorf("journal/too-large", "append %s: a value has more than %d MiB, expected at most as many", kind, maxValue>>20)
		}
	})
	return err
}

// put stores a value and its parts for run, unless they are stored already, and returns its number.
func (w *writer) put(ctx context.Context, v edn.Value, run int64) (int64, error) {
	hash := hashOf(v)
	if at, err := w.find(ctx, hash, longer(v, askAbove)); err != nil || at.n > 0 {
		return at.n, errors.Join(err, w.share(ctx, at, run))
	}
	form, body, err := layout(v, func(part edn.Value) (int64, error) { return w.put(ctx, part, run) })
	if err != nil {
		return 0, err
	}
	return w.add(ctx, content{hash: hash, owner: run, form: form, size: len(body), body: body})
}

// askAbove is the size of the text of a value above which the database is queried for it first: if
// the value is stored, its parts need not be encoded again.
const askAbove = 1 << 10

// find returns the location of the value with a hash, zero if it is not known. It queries the
// database only if ask is set; else it uses the cache.
func (w *writer) find(ctx context.Context, hash sum, ask bool) (at location, err error) {
	if at := w.known[hash]; at.n > 0 || !ask {
		return at, nil
	}
	err = w.sql.one(ctx, "find_content", []any{hash}, []any{&at.n, &at.owner})
	if errors.Is(err, sql.ErrNoRows) {
		return location{}, nil
	}
	w.remember(hash, at)
	return at, err
}

func (w *writer) remember(hash sum, at location) {
	if len(w.known) >= maxKnown {
		clear(w.known)
	}
	w.known[hash] = at
}

// share records that run uses a value which another run stored.
func (w *writer) share(ctx context.Context, at location, run int64) error {
	if at.n == 0 || at.owner == run {
		return nil
	}
	_, err := w.sql.exec(ctx, "share", at.n, run)
	return err
}

// add writes an encoded value, unless it is stored already, and returns its number.
func (w *writer) add(ctx context.Context, c content) (int64, error) {
	row := any(c.body)
	if len(c.body) > maxRow && w.s.blobs != nil {
		if err := w.s.blobs.write(c.hash, c.body); err != nil {
			return 0, fmt.Errorf("write blob %s: %w", c.hash.hash(), err)
		}
		row = nil
	}
	added, err := w.sql.exec(ctx, "add_content", w.lastN+1, c.hash, c.owner, int(c.form), c.size, row)
	if err != nil {
		return 0, err
	}
	if added == 0 {
		at, err := w.find(ctx, c.hash, true)
		return at.n, errors.Join(err, w.share(ctx, at, c.owner))
	}
	w.lastN++
	w.stored += len(c.body) + len(c.hash)
	w.remember(c.hash, location{w.lastN, c.owner})
	return w.lastN, nil
}
