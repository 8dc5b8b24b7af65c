package store

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// DefaultTTL is the default age of a deletion at which the texts of a deleted
// path are dropped.
const DefaultTTL = 90 * 24 * time.Hour

// Compaction configures Compact.
type Compaction struct {
	// TTL is the age of a deletion from which on the texts of the frames of the
	// path are dropped. 0 drops those of all deleted paths.
	TTL time.Duration
	// Keep is the number of newest transactions whose states stay readable: earlier
	// states are dropped, and the texts of frames that belong only to them. The
	// transaction of an earlier compaction does not count. 0 keeps all.
	Keep uint64
	// DryRun only determines what would be dropped.
	DryRun bool
}

// Compacted is the result of a compaction, or of its dry run.
type Compacted struct {
	Seq    uint64
	Purged int   // frames that lost their text
	Bytes  int64 // of these texts
	// Oldest is the first state that can be read, besides states with a name; 0
	// if nothing changed.
	Oldest uint64
}

// Compact drops texts from the log. The frames remain, with all their ids, so every root and record
// still verifies; reading a dropped text returns ErrTextDropped. Reading a state that would differ
// afterwards returns seq/compacted. The texts of named states are kept. If there is neither a text
// nor a state to drop, nothing is written.
//
// A new log is written beside the old one and then replaces it, which needs disk space for both.
// Readers continue meanwhile, writers wait. After a crash the log is either unchanged or compacted.
func (s *Store) Compact(ctx context.Context, actor string, c Compaction) (*Compacted, error) {
	if c.DryRun {
		return s.previewCompaction(ctx, c)
	}
	s.life.RLock() // Close waits for the old segments to be removed
	defer s.life.RUnlock()
	s.shape.Lock()
	defer s.shape.Unlock()
	var out *Compacted
	_, err := s.wait(&request{ctx: ctx, alone: func() (err error) {
		out, err = s.compact(ctx, actor, c)
		return err
	}})
	if err != nil {
		return nil, asStoreError("compact", err)
	}
	if out.Oldest > 0 {
		s.settle()
		if !s.InPlace() {
			return nil, errReplaced(s.dir)
		}
		err = s.log.Tidy()
	}
	return out, err
}

func (s *Store) planner(q querier, seq uint64, c Compaction) *planner {
	p := &planner{q: q, scheme: s.Scheme, seq: seq, expired: s.o.Now() - int64(c.TTL)}
	if c.TTL == 0 {
		p.expired++ // also those of this moment
	}
	if c.Keep > 0 && c.Keep < seq {
		p.keep = seq - c.Keep + 1
	}
	return p
}

func (s *Store) previewCompaction(ctx context.Context, c Compaction) (out *Compacted, err error) {
	err = s.View(ctx, Latest, func(v *Snapshot) error {
		u, err := s.planner(v.tx, v.seq, c).plan(ctx)
		if err == nil {
			out = &Compacted{Seq: v.seq, Purged: u.frames, Bytes: u.bytes, Oldest: u.oldest}
		}
		return readError(err)
	})
	return out, err
}

// compact runs in place of a transaction.
func (s *Store) compact(ctx context.Context, actor string, c Compaction) (out *Compacted, err error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	if err := s.index.exec(background, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.index.exec(background, "ROLLBACK")
		}
	}()
	end := s.log.End()
	u, err := s.planner(s.index.conn, end.Seq, c).plan(ctx)
	if err != nil {
		return nil, err
	}
	out = &Compacted{Seq: end.Seq, Purged: u.frames, Bytes: u.bytes, Oldest: u.oldest}
	if u.oldest == 0 {
		return out, s.index.exec(background, "COMMIT")
	}
	draft, err := s.lastDraft(actor, u)
	if err != nil {
		return nil, err
	}
	t, err := s.log.Rewrite(func(w *log.Rewriter) error { return s.copyLog(ctx, w, end.Seq, u) }, draft)
	if replaced := s.checkWritten(); replaced != nil {
		return nil, replaced
	}
	if err != nil {
		return nil, err
	}
	out.Seq = t.Commit.Seq
	err = s.fault(opIndex, func() error {
		if err := s.replay(background, t); err != nil {
			return err
		}
		return s.index.exec(background, "COMMIT")
	})
	if err != nil {
		s.failBehind(err)
		return nil, err
	}
	s.news.publish(out.Seq)
	return out, nil
}

// background is the context of statements that must not end with their caller.
var background = context.Background()

// maxGone is the number of contents in one record.
const maxGone = 10_000

// lastDraft is the transaction that ends a compacted log.
func (s *Store) lastDraft(actor string, u *purge) (log.Draft, error) {
	d := log.Draft{Actor: actor, Time: s.o.Now()}
	for list := u.contents; len(list) > 0; {
		n := min(len(list), maxGone)
		r, err := encodeRecord(kindGone, goneRecord{Contents: list[:n]})
		if err != nil {
			return d, err
		}
		d.Records, list = append(d.Records, r), list[n:]
	}
	r, err := encodeRecord(kindDropped, droppedRecord{Ranges: u.ranges()})
	d.Records = append(d.Records, r)
	return d, err
}

// copyLog writes every transaction again, without the texts that are dropped, and updates the
// places of the other records in the index.
func (s *Store) copyLog(ctx context.Context, w *log.Rewriter, last uint64, u *purge) error {
	gone := make(map[id.ID]bool, len(u.contents))
	for _, c := range u.contents {
		gone[c] = true
	}
	_, _, err := log.Verify(filepath.Join(s.dir, logDir), s.Scheme.Alg(), func(t *log.Transaction) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		kept := make([]log.Record, 0, len(t.Records))
		for _, r := range t.Records {
			if r.Kind != kindContent || !gone[contentOf(s.Scheme, r.Payload)] {
				kept = append(kept, r)
			}
		}
		places, err := w.Add(t.Commit, kept)
		if err != nil {
			return err
		}
		if err := s.index.move(background, t.Commit.Seq, kept, places); err != nil {
			return err
		}
		if t.Commit.Seq == last {
			return errReached // what follows is being written
		}
		return nil
	})
	if errors.Is(err, errReached) {
		return nil
	}
	if err == nil {
		err = corrupt(logDir, "the log ends before its last transaction")
	}
	return err
}

// move updates the places of the records of a transaction in the index.
func (x *index) move(ctx context.Context, seq uint64, records []log.Record, places []log.Place) error {
	if err := x.run(ctx, "UPDATE commits SET records = ?2 WHERE seq = ?1 AND records <> ?2", int64(seq), len(records)); err != nil {
		return err
	}
	for i, r := range records {
		table, sum, p := "", []byte(nil), places[i]
		switch r.Kind {
		case kindContent:
			table, sum = "contents", contentOf(x.scheme, r.Payload).Sum()
		case kindFrame:
			f, err := openFrame(x.scheme, r.Payload)
			if err != nil {
				return corrupt(logDir, "a frame of transaction %d: %w", seq, err)
			}
			table, sum = "frames", f.ID.Sum()
		default:
			continue
		}
		if err := x.run(ctx, "UPDATE "+table+" SET segment = ?2, offset = ?3, length = ?4 WHERE id = ?1", sum, p.Segment, p.Offset, p.Length); err != nil {
			return err
		}
	}
	return nil
}

// readers counts the readers of the same segments of the log.
type readers struct{ sync.RWMutex }

// enter registers a reader. It does not wait: only the readers from before a
// compaction are waited for.
func (s *Store) enter() (leave func()) {
	for {
		r := s.readers.Load()
		if r.TryRLock() {
			return r.RUnlock
		}
	}
}

// settle waits until all readers have left that began before.
func (s *Store) settle() {
	before := s.readers.Swap(&readers{})
	before.Lock() // never unlocked: a reader that loaded the old value retries with the new one
}
