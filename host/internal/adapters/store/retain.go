package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Retention configures how long finished runs are kept. Open and pinned runs are always kept, and a
// run with an idempotency key is kept at least as long as the key is valid.
type Retention struct {
	Age       time.Duration // since the end of a run; 0: no limit
	FailedAge time.Duration // of runs that were not completed, if longer than Age
	Bytes     int64         // maximum size of records and values; 0: no limit
	KeyWindow time.Duration // validity of an idempotency key since the run was accepted
}

// keeps reports whether a finished run must be kept regardless of size (must), or because it is not
// old enough (young).
func (r Retention) keeps(row *runRow, now time.Time) (must, young bool) {
	must = row.key != "" && now.Sub(row.Accepted) < r.KeyWindow
	age := r.Age
	if row.State != journal.StatusCompleted {
		age = max(age, r.FailedAge)
	}
	return must, age == 0 || r.Age == 0 || now.Sub(row.Finished) < age
}

// Pin exempts a run from Retain. The error for an unknown run is run/not-found.
func (s *Store) Pin(ctx context.Context, run string) error { return s.pin(ctx, run, true) }

// Unpin reverts Pin. The error for an unknown run is run/not-found.
func (s *Store) Unpin(ctx context.Context, run string) error { return s.pin(ctx, run, false) }

func (s *Store) pin(ctx context.Context, run string, on bool) error {
	return s.change(ctx, func(ctx context.Context) error {
		row, err := s.run(ctx, run)
		if err != nil {
			return err
		}
		_, err = s.write.exec(ctx, "pin", row.n, on)
		return err
	})
}

// change queues a job that runs do in a transaction of the writer, and waits for it.
func (s *Store) change(ctx context.Context, do func(ctx context.Context) error) error {
	return s.queue.run(ctx, func(ctx context.Context) error { return s.transaction(ctx, do) })
}

// transaction runs do in a transaction of the writer. It must be called in the goroutine of the
// writer.
func (s *Store) transaction(ctx context.Context, do func(ctx context.Context) error) error {
	return s.changed(s.writer.transaction(ctx, do))
}

// changed converts the error of a database change. If space is low, it returns journal/full. Any
// error that is not a *contract.Error makes the store fail.
func (s *Store) changed(err error) error {
	if isFull(err) {
		return s.noRoom(err)
	}
	var refused *contract.Error
	if err != nil && !errors.As(err, &refused) {
		s.fail(err)
		return unwritten(err)
	}
	return err
}

// Probe waits until the writer has executed a transaction, which also renews the lease of this
// host. It blocks while the writer is stuck, for example on a disk that does not respond, even if
// ctx ends in the meantime. The error is that of a store that has failed.
func (s *Store) Probe(ctx context.Context) error { return s.queue.run(ctx, s.renew) }

// renew renews the lease of this host by an empty transaction.
func (s *Store) renew(ctx context.Context) error {
	return s.transaction(ctx, func(context.Context) error { return nil })
}

// Purge deletes the values of a finished run from the disk. Records and hashes are kept, so the
// chain can still be verified. A value that another stored run uses is kept for that run. The turns
// that the run added to a session are also deleted, as are the conversations of its subagents. If a
// concurrent reader keeps the deleted pages in the log of the database, the error is
// journal/unavailable: purge the run again. It is queue/invalid-transition for a run that is not
// finished.
func (s *Store) Purge(ctx context.Context, run string) error {
	return s.queue.run(ctx, func(ctx context.Context) error {
		var files []sum
		err := s.db.erasing(ctx, func() (err error) {
			files, err = s.dropContent(ctx, run, purging)
			return err
		})
		if err != nil {
			return err
		}
		err = s.blobs.remove(files)
		for more := true; more && err == nil; {
			more, err = s.db.shrink(ctx)
		}
		err = s.changed(err)
		whole, failed := s.db.flush(ctx)
		if err := errors.Join(err, s.changed(failed)); err != nil {
			return err
		}
		if !whole {
			return contract.Errorf("journal/unavailable", "journal: purge run %s: the values are deleted, but a reader "+
				"still holds the write-ahead log that contains them; purge the run again", run)
		}
		return nil
	})
}

// finished returns the row of a finished run. Otherwise the error is run/not-found or
// queue/invalid-transition; op names the operation in its text.
func (s *Store) finished(ctx context.Context, run, op string) (runRow, error) {
	row, err := s.run(ctx, run)
	if err == nil && !row.Ended() {
		err = contract.Errorf("queue/invalid-transition", "journal: %s run %s: the run is not finished", op, run)
	}
	return row, err
}

// drop is a way to delete the values of a run: a purge, or a removal by retention.
type drop struct {
	name string
	mark string // name of the statement that marks the run
	// With records, the records are deleted too, unless the run is pinned or was removed before.
	records bool
}

var (
	purging  = drop{name: "purge", mark: "mark_purged"}
	removing = drop{name: "remove", mark: "mark_removed", records: true}
)

// dropContent marks a finished run and deletes the values that only it uses, in one transaction. It
// returns the files to delete after the commit; none if another host has already removed the run.
func (s *Store) dropContent(ctx context.Context, run string, how drop) (files []sum, err error) {
	var unread error // an unreadable value must not make the store fail
	marked := false
	err = s.transaction(ctx, func(ctx context.Context) error {
		files, marked = nil, false
		row, err := s.finished(ctx, run, how.name)
		if err != nil || how.records && (row.Pinned || !row.Removed.IsZero()) {
			return err
		}
		var used []int64
		if used, unread = s.uses(ctx, &row); unread != nil {
			return contract.Errorf("journal/damaged", "%w", unread)
		}
		marked = true
		at := s.opts.Now()
		if !how.records && !row.Purged.IsZero() {
			at = row.Purged // the time of the first purge is kept
		}
		if _, err := s.write.exec(ctx, how.mark, row.n, nanos(at)); err != nil {
			return err
		}
		for _, n := range used {
			if err := s.bequeath(ctx, n, row.n); err != nil {
				return err
			}
		}
		for _, n := range used {
			c, err := readContent(ctx, s.write, nil, "content", n)
			if err != nil {
				return err
			}
			name, args := "unshare", []any{n, row.n}
			if c.owner == row.n {
				name, args = "remove_content", args[:1]
				if c.body == nil {
					files = append(files, c.hash)
				}
			}
			if _, err := s.write.exec(ctx, name, args...); err != nil {
				return err
			}
		}
		if !how.records {
			return s.writer.erase(ctx, row.ID)
		}
		if _, err = s.write.exec(ctx, "remove_records", row.n); err == nil {
			_, err = s.writer.removeDelegated(ctx, row.ID, true)
		}
		return err
	})
	clear(s.writer.known) // some of it may be deleted
	if unread != nil {
		return nil, unread
	}
	if err == nil && marked && s.opts.Dropped != nil {
		s.opts.Dropped(run)
	}
	return files, err
}

// uses returns the numbers of the values that the records of a run refer to, including their parts.
func (s *Store) uses(ctx context.Context, row *runRow) (out []int64, err error) {
	seen := map[int64]bool{}
	var visit func(c content) error
	visit = func(c content) error {
		if seen[c.n] {
			return nil
		}
		seen[c.n] = true
		out = append(out, c.n)
		parts, err := c.parts()
		if err != nil {
			return fmt.Errorf("value %s: %w", c.hash.hash(), err)
		}
		for _, n := range parts {
			if seen[n] {
				continue
			}
			part, err := s.content(ctx, byNumber, n)
			if err == nil {
				err = visit(part)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	decode := s.decoder()
	err = s.stored(ctx, row.n, 0, row.Records, func(_ int, _ sum, body []byte) error {
		rec, err := decode(body)
		if err != nil {
			return err
		}
		rec.Refs(func(ref journal.Ref) {
			hash, bad := parseSum(ref.Hash())
			if err != nil || bad != nil {
				return
			}
			var c content
			c, err = s.content(ctx, byHash, hash)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil // purged
			} else if err == nil {
				err = visit(c)
			}
		})
		return err
	})
	return out, err
}

// bequeath changes the owner of a value and its parts from run to another run that uses it, if
// there is one.
func (s *Store) bequeath(ctx context.Context, n, run int64) error {
	var heir int64
	switch err := s.write.one(ctx, "heir", []any{n, run}, []any{&heir}); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return s.inherit(ctx, n, run, heir)
}

func (s *Store) inherit(ctx context.Context, n, from, to int64) error {
	c, err := readContent(ctx, s.write, s.blobs, "content", n)
	if err != nil {
		return err
	}
	switch c.owner {
	case to:
		return nil
	case from:
	default: // another run stored it first: the heir uses it now
		_, err := s.write.exec(ctx, "share", n, to)
		return err
	}
	if _, err := s.write.exec(ctx, "inherit", n, to); err != nil {
		return err
	}
	if _, err := s.write.exec(ctx, "unshare", n, to); err != nil {
		return err
	}
	parts, err := c.parts()
	for _, part := range parts {
		if err == nil {
			err = s.inherit(ctx, part, from, to)
		}
	}
	return err
}

// Removal counts the objects that Retain removed, or that Removable found.
type Removal struct {
	Runs  int
	Bytes int64 // size of the records, and of the values that these runs stored first
	// Files is the number of files that no value names, such as those left by a crash; FileBytes is
	// their size.
	Files     int
	FileBytes int64
	Host      int // number of host records
}

// Retain applies Limits.Retain: it removes finished runs that are too old, then the oldest ones
// until the size limit is met, and also old records of the host, old responses to admin actions,
// and files that no value names. The summary and the final chain value of a removed run are kept,
// and its costs stay counted. Conversations of its subagents are removed with it if they are still
// archived. A damaged run is kept and reported in the error, but does not prevent the removal of
// others.
func (s *Store) Retain(ctx context.Context) (r Removal, err error) {
	var damaged error
	err = s.removable(ctx, func(row runRow) (bool, error) {
		failed := s.remove(ctx, row.ID)
		switch {
		case failed == nil:
			r.Runs, r.Bytes = r.Runs+1, r.Bytes+row.bytes
		case s.Err() != nil || ctx.Err() != nil:
			return false, failed
		default:
			damaged = errors.Join(damaged, failed) // a damaged run must not prevent the removal of others
		}
		return failed == nil, nil
	})
	if err != nil {
		return r, err
	}
	if r.Host, err = s.retainHost(ctx); err == nil {
		err = s.tidy(ctx, &r, os.Remove)
	}
	for more := r.Runs+r.Host > 0; more && err == nil; { // other callers of the writer get their turn in between
		err = s.queue.run(ctx, func(ctx context.Context) (err error) {
			more, err = s.db.shrink(ctx)
			return s.changed(err)
		})
	}
	return r, errors.Join(damaged, err, s.dropCounters(ctx), s.dropAnswers(ctx))
}

// Removable returns what Retain would remove. It changes nothing.
func (s *Store) Removable(ctx context.Context) (r Removal, err error) {
	err = s.removable(ctx, func(row runRow) (bool, error) {
		r.Runs, r.Bytes = r.Runs+1, r.Bytes+row.bytes
		return true, nil
	})
	if err == nil {
		var first, keep int
		first, keep, err = s.hostToKeep(ctx, s.read)
		r.Host = keep - first
	}
	if err != nil {
		return r, err
	}
	return r, s.tidy(ctx, &r, func(string) error { return nil })
}

// removable calls remove for the runs that are too old, then for the oldest ones until the size
// limit is met. remove reports whether it has removed the run.
func (s *Store) removable(ctx context.Context, remove func(runRow) (bool, error)) error {
	now, rules := s.opts.Now(), s.limits.Load().Retain
	var total int64
	if err := s.read.one(ctx, "total_bytes", nil, []any{&total}); err != nil {
		return err
	}
	for after := int64(0); ; {
		rows, err := readRuns(ctx, s.read, "removable", after)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			after = row.n
			must, young := rules.keeps(&row, now)
			if must || young && (rules.Bytes == 0 || total <= rules.Bytes) {
				continue
			}
			removed, err := remove(row)
			if err != nil {
				return err
			}
			if removed {
				total -= row.bytes
			}
		}
	}
}

// remove deletes the records and values of a finished run, unless it is pinned.
func (s *Store) remove(ctx context.Context, run string) error {
	return s.queue.run(ctx, func(ctx context.Context) error {
		files, err := s.dropContent(ctx, run, removing)
		if err != nil {
			return err
		}
		return s.blobs.remove(files)
	})
}

// tidy calls drop for each file that no value names, and adds it to the counts of r.
func (s *Store) tidy(ctx context.Context, r *Removal, drop func(path string) error) error {
	return s.queue.run(ctx, func(ctx context.Context) error {
		return s.blobs.sweep(ctx, func(h sum) (bool, error) {
			at, err := s.writer.find(ctx, h, true)
			return at.n > 0, err
		}, func(path string) error {
			if info, err := os.Stat(path); err == nil {
				r.FileBytes += info.Size()
			}
			r.Files++
			return drop(path)
		})
	})
}
