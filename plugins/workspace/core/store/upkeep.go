package store

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// Kinds of records about the store itself. They are stored: a kind never changes
// its meaning.
const (
	// kindTombstones deletes or restores paths.
	kindTombstones = log.FirstKind + 16 + iota
	// kindSnapshot names a state, or removes a name.
	kindSnapshot
	// kindIgnore is the whole ignore list of the workspace.
	kindIgnore
	// kindGone lists contents whose text is not in the log any more.
	kindGone
	// kindDropped lists states that can no longer be read.
	kindDropped
	// kindScanned says how the trees from here on were scanned.
	kindScanned
)

// upkeepSchema are the tables of these records, and of what is derived from
// frames.
const upkeepSchema = `
CREATE TABLE sets ( -- roots are those of id.FrameTree
  path BLOB NOT NULL, node BLOB NOT NULL, seq INTEGER NOT NULL, root BLOB NOT NULL,
  PRIMARY KEY (path, node, seq)
) WITHOUT ROWID;
CREATE TABLE tombstones (path BLOB NOT NULL, since INTEGER NOT NULL, until INTEGER, PRIMARY KEY (path, since)) WITHOUT ROWID;
CREATE TABLE snapshots (name TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER, seq INTEGER NOT NULL, PRIMARY KEY (name, since)) WITHOUT ROWID;
CREATE TABLE ignores (seq INTEGER PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE gone (content BLOB PRIMARY KEY, seq INTEGER NOT NULL, lost INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE scans (seq INTEGER PRIMARY KEY, scan TEXT NOT NULL);
CREATE TABLE dropped (since INTEGER PRIMARY KEY, until INTEGER NOT NULL);
`

// tombstoneRecord deletes paths, or restores them.
type tombstoneRecord struct {
	Deleted bool     `edn:"deleted"`
	Paths   [][]byte `edn:"paths"`
}

// snapshotRecord names a state; the number 0 removes the name.
type snapshotRecord struct {
	Name string `edn:"name"`
	Seq  uint64 `edn:"seq"`
}

// goneRecord lists contents without their text: it was dropped by a compaction,
// or lost by damage.
type goneRecord struct {
	Contents []id.ID `edn:"contents"`
	Lost     bool    `edn:"lost"`
}

// droppedRecord lists states that cannot be read: from Since to before Until.
type droppedRecord struct {
	Ranges []Range `edn:"ranges"`
}

// Range is a range of sequence numbers: Since is included, Until is not.
type Range struct {
	Since uint64 `edn:"since"`
	Until uint64 `edn:"until"`
}

// applyUpkeep adds a record of these kinds to the index.
func (x *index) applyUpkeep(ctx context.Context, seq uint64, r log.Record) error {
	switch r.Kind {
	case kindTombstones:
		return x.applyTombstones(ctx, seq, r.Payload)
	case kindSnapshot:
		return x.applySnapshot(ctx, seq, r.Payload)
	case kindIgnore:
		return x.run(ctx, "INSERT INTO ignores VALUES (?1, ?2) ON CONFLICT (seq) DO UPDATE SET text = excluded.text", int64(seq), blob(r.Payload))
	case kindScanned:
		return x.run(ctx, "INSERT INTO scans VALUES (?1, ?2) ON CONFLICT (seq) DO UPDATE SET scan = excluded.scan", int64(seq), string(r.Payload))
	case kindGone:
		return x.applyGone(ctx, seq, r.Payload)
	case kindDropped:
		return x.applyDropped(ctx, r.Payload)
	}
	return nil // of a later version
}

func (x *index) applyTombstones(ctx context.Context, seq uint64, payload []byte) error {
	var r tombstoneRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	statement := "UPDATE tombstones SET until = ?2 WHERE path = ?1 AND until IS NULL"
	if r.Deleted {
		statement = "INSERT INTO tombstones (path, since) VALUES (?1, ?2) ON CONFLICT (path, since) DO UPDATE SET until = NULL"
	}
	for _, path := range r.Paths {
		if err := x.run(ctx, statement, blob(path), int64(seq)); err != nil {
			return err
		}
		if _, err := x.suspectPath(ctx, string(path)); err != nil {
			return err
		}
	}
	return nil
}

// blob returns b as a value that is never NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (x *index) applySnapshot(ctx context.Context, seq uint64, payload []byte) error {
	var r snapshotRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	if r.Seq == 0 {
		return x.run(ctx, "UPDATE snapshots SET until = ?2 WHERE name = ?1 AND until IS NULL", r.Name, int64(seq))
	}
	return x.run(ctx, `INSERT INTO snapshots (name, since, seq) VALUES (?1, ?2, ?3)
		ON CONFLICT (name, since) DO UPDATE SET until = NULL, seq = excluded.seq`, r.Name, int64(seq), int64(r.Seq))
}

func (x *index) applyGone(ctx context.Context, seq uint64, payload []byte) error {
	var r goneRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	x.gone = some
	for _, c := range r.Contents {
		if err := x.run(ctx, "DELETE FROM contents WHERE id = ?", c.Sum()); err != nil {
			return err
		}
		if err := x.run(ctx, "INSERT INTO gone VALUES (?, ?, ?) ON CONFLICT (content) DO UPDATE SET seq = excluded.seq, lost = excluded.lost",
			c.Sum(), int64(seq), r.Lost); err != nil {
			return err
		}
		tops, err := x.pairs(ctx, "SELECT t.path, t.type FROM frames f JOIN tops t ON t.path = f.path AND t.frame = f.id WHERE f.content = ?", c.Sum())
		if err != nil {
			return err
		}
		if err := x.suspectAll(ctx, tops); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) applyDropped(ctx context.Context, payload []byte) error {
	var r droppedRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	for _, d := range r.Ranges {
		if err := x.run(ctx, "INSERT INTO dropped VALUES (?, ?) ON CONFLICT (since) DO UPDATE SET until = max(until, excluded.until)", int64(d.Since), int64(d.Until)); err != nil {
			return err
		}
	}
	return nil
}
