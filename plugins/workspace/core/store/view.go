package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Latest is the sequence number that stands for the current state.
const Latest = ^uint64(0)

// Snapshot is the state at one sequence number. It must not be used after the
// function of View has returned.
type Snapshot struct {
	store *Store
	tx    querier
	seq   uint64
	// latest means that no later transaction is visible.
	latest  bool
	assumed *assumption
	cache   *readCache
}

// View runs read with the state at a sequence number, Latest for the current one. All reads see
// that state, regardless of concurrent writes. The error is seq/unknown if there is no such
// transaction yet, seq/compacted if its state was dropped, or that of read.
func (s *Store) View(ctx context.Context, asOf uint64, read func(*Snapshot) error) (err error) {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.index == nil {
		return errClosed(s.dir)
	}
	defer s.enter()()
	tx, done, err := s.index.readers.begin(ctx)
	if err != nil {
		return asStoreError("read", err)
	}
	defer done()
	var end uint64 // the first read fixes the snapshot
	if err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'seq'").Scan(&end); err != nil {
		return asStoreError("read", err)
	}
	if tx.unknown && !s.lockInPlace() { // the snapshot can be of another index that is at the path now
		return errReplaced(s.dir)
	}
	tx.unknown = false
	switch {
	case asOf == Latest:
		asOf = end
	case asOf > end:
		return contract.Errorf("seq/unknown", "transaction %d does not exist, the last one is %d", asOf, end).
			WithOp("store", s.dir).WithDetail("seq", edn.Int(int64(end)))
	}
	if asOf != end {
		if err := checkReadable(ctx, tx, asOf); err != nil {
			return err
		}
	}
	err = read(&Snapshot{store: s, tx: tx, seq: asOf, latest: asOf == end, cache: newReadCache()})
	if err != nil && !s.InPlace() {
		return errReplaced(s.dir)
	}
	s.notice(err)
	return err
}

// Seq returns the sequence number of the snapshot.
func (v *Snapshot) Seq() uint64 { return v.seq }

// Version is one state of a path, with the transactions between which it was
// current. Until is 0 for the current one.
type Version struct {
	Since, Until uint64
	Node         id.ID
	Mode         id.Mode
	Size         int64
	Content      id.ID
	// RenamedFrom is the path that the file had before, if it was renamed.
	RenamedFrom string
	// Tombstone is the transaction that deleted the path, 0 if it is not deleted.
	// A deleted path is not current, although it is in the tree.
	Tombstone uint64
}

// Lineage returns the states that a path has had, the newest first.
func (v *Snapshot) Lineage(ctx context.Context, path string) ([]Version, error) {
	list, err := v.frames().lineage(ctx, path)
	return list, readError(err)
}

// Commit returns the actor, the time and the number of records of a
// transaction.
func (v *Snapshot) Commit(ctx context.Context, seq uint64) (c log.Commit, err error) {
	c.Seq = seq
	err = v.tx.QueryRowContext(ctx, "SELECT actor, time, records FROM commits WHERE seq = ?1 AND seq <= ?2", int64(seq), int64(v.seq)).Scan(&c.Actor, &c.Time, &c.Records)
	if errors.Is(err, sql.ErrNoRows) {
		return c, contract.Errorf("seq/unknown", "transaction %d does not exist", seq).WithOp("store", v.store.dir)
	}
	if err != nil {
		return c, asStoreError("read", err)
	}
	return c, nil
}

// Content returns the text with a content id. It is hashed again on every read;
// text that does not match is an error and never returned.
func (v *Snapshot) Content(ctx context.Context, content id.ID) ([]byte, error) {
	if v.assumed != nil {
		if text, ok := v.assumed.texts[content]; ok {
			return text, nil
		}
	}
	var p log.Place
	err := v.tx.QueryRowContext(ctx, "SELECT segment, offset, length FROM contents WHERE id = ?", content.Sum()).Scan(&p.Segment, &p.Offset, &p.Length)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, v.withoutText(ctx, content)
	}
	if err != nil {
		return nil, asStoreError("read", err)
	}
	return v.textAt(content, p)
}

// Contents returns texts by content id, as Content does. Texts that are no longer
// stored are absent.
func (v *Snapshot) Contents(ctx context.Context, contents []id.ID) (map[id.ID][]byte, error) {
	texts := make(map[id.ID][]byte, len(contents))
	var stored []id.ID
	for _, c := range contents {
		if v.assumed != nil && v.assumed.texts[c] != nil {
			texts[c] = v.assumed.texts[c]
		} else {
			stored = append(stored, c)
		}
	}
	if len(stored) == 0 {
		return texts, nil
	}
	err := v.frames().each(ctx, func(rows *sql.Rows) error {
		var sum []byte
		var p log.Place
		if err := rows.Scan(&sum, &p.Segment, &p.Offset, &p.Length); err != nil {
			return err
		}
		content, err := id.Of(id.Content, contents[0].Alg(), sum)
		if err == nil {
			texts[content], err = v.textAt(content, p)
		}
		return err
	}, "SELECT c.id, c.segment, c.offset, c.length FROM json_each(?1) list CROSS JOIN contents c ON c.id = unhex(list.value)", sums(stored))
	return texts, readError(err)
}

// textAt reads and verifies a text whose place in the log is known.
func (v *Snapshot) textAt(content id.ID, p log.Place) ([]byte, error) {
	if p.Length < 0 || p.Length > log.MaxPayload {
		return nil, corrupt(indexFile, "the index has the length %[2]d for the content %[1]s", content, p.Length)
	}
	text, err := v.store.log.Read(p)
	if err != nil {
		return nil, err
	}
	if contentOf(v.store.Scheme, text) != content {
		return nil, corrupt(log.SegmentName(p.Segment), "the content at byte %d does not match the id %s", p.Offset,
			content)
	}
	return text, nil
}

// ErrTextDropped means that the text of a known frame was dropped by a
// compaction, or lost by damage.
var ErrTextDropped = errors.New("the text of the frame is no longer stored")

// HasText reports whether a text is stored: it was neither dropped by a
// compaction nor lost by damage.
func (v *Snapshot) HasText(ctx context.Context, content id.ID) (bool, error) {
	kept, err := v.frames().hasText(ctx, content)
	return kept, readError(err)
}

func (r *frames) hasText(ctx context.Context, content id.ID) (kept bool, err error) {
	if r.assumed != nil && r.assumed.texts[content] != nil {
		return true, nil
	}
	if any, err := r.anyGone.find(ctx, r.q, "gone"); err != nil || !any {
		return true, err
	}
	err = r.row(ctx, []any{&kept}, "SELECT NOT EXISTS (SELECT 1 FROM gone WHERE content = ?1)", content.Sum())
	return kept, err
}

// textAgain is the hint of an error about a dropped text.
const textAgain = "regenerate the frame, put the same text again, or import an export that has it"

// withoutText returns the error of a content that is not in the log: frame/not-found or
// seq/compacted.
func (v *Snapshot) withoutText(ctx context.Context, content id.ID) error {
	var seq uint64
	var lost bool
	err := v.tx.QueryRowContext(ctx, "SELECT seq, lost FROM gone WHERE content = ?", content.Sum()).Scan(&seq, &lost)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return contract.Errorf("frame/not-found", "the store has no content %s", content).WithOp("store", v.store.dir)
	case err != nil:
		return asStoreError("read", err)
	case lost:
		return contract.Errorf("frame/not-found", "%w: it was lost by damage before the repair in transaction %d", ErrTextDropped, seq).
			WithOp("store", content.String()).WithHint(textAgain)
	}
	return contract.Errorf("seq/compacted", "%w: the compaction in transaction %d dropped it", ErrTextDropped, seq).
		WithOp("store", content.String()).WithHint(textAgain)
}
