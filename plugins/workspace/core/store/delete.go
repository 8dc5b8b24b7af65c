package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Delete marks a path and everything below it as deleted, including paths that are no longer in the
// tree. Nothing is removed: the paths stay in the tree, and their frames in the log until a
// compaction drops their texts. It returns the paths that were not deleted before. The error is
// path/not-in-tree if neither the path nor anything below it was ever scanned.
func (tx *Tx) Delete(path string) ([]string, error) {
	return tx.mark(path, "delete", true)
}

// Restore undoes Delete for a path and everything below it, and returns the paths that it restored.
// The error is path/not-in-tree, as for Delete.
func (tx *Tx) Restore(path string) ([]string, error) {
	return tx.mark(path, "restore", false)
}

// Dropped returns the number of frames of the paths whose text was dropped.
func (tx *Tx) Dropped(paths []string) (n int, err error) {
	for _, p := range paths {
		var of int
		err := tx.store.index.conn.QueryRowContext(tx.reads(),
			"SELECT count(*) FROM frames f JOIN gone g ON g.content = f.content WHERE f.path = ?", []byte(p)).Scan(&of)
		if err != nil {
			return 0, err
		}
		n += of
	}
	return n, nil
}

// maxPathBytes is the size of the paths in one record.
const maxPathBytes = 1 << 20

func (tx *Tx) mark(path, op string, deleted bool) ([]string, error) {
	from, to := span(path)
	rows, err := tx.store.index.conn.QueryContext(context.Background(), `SELECT path,
		EXISTS (SELECT 1 FROM tombstones t WHERE t.path = known.path AND t.until IS NULL)
		FROM (SELECT path FROM versions WHERE path >= ?1 AND path < ?2
			UNION SELECT path FROM tombstones WHERE path >= ?1 AND path < ?2) known ORDER BY path`, from, to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []string
	found := false
	for rows.Next() {
		var p []byte
		var is bool
		if err := rows.Scan(&p, &is); err != nil {
			return nil, err
		}
		if !tree.Below(string(p), path) {
			continue
		}
		found = true
		if is == deleted {
			continue
		}
		list = append(list, string(p))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if !found {
		return nil, contract.Errorf("path/not-in-tree", "the path was never scanned or is ignored").WithOp(op, path)
	}
	return list, eachTombstones(list, deleted, tx.add)
}

// eachTombstones passes records to add that delete or restore paths.
func eachTombstones(paths []string, deleted bool, add func(log.Record) error) error {
	record, size := tombstoneRecord{Deleted: deleted}, 0
	for i, p := range paths {
		record.Paths = append(record.Paths, []byte(p))
		if size += len(p); size <= maxPathBytes && i < len(paths)-1 {
			continue
		}
		r, err := encodeRecord(kindTombstones, record)
		if err == nil {
			err = add(r)
		}
		if err != nil {
			return err
		}
		record.Paths, size = nil, 0
	}
	return nil
}

// deletedBelow returns the deleted paths of a subtree, sorted.
func (v *Snapshot) deletedBelow(ctx context.Context, dir string) (list []string, err error) {
	from, to := span(dir)
	err = v.frames().each(ctx, func(rows *sql.Rows) error {
		var path []byte
		err := rows.Scan(&path)
		if tree.Below(string(path), dir) {
			list = append(list, string(path))
		}
		return err
	}, `SELECT path FROM tombstones WHERE path >= ?1 AND path < ?2 AND since <= ?3 AND (until IS NULL OR until > ?3)
		ORDER BY path`, from, to, int64(v.seq))
	return list, readError(err)
}

// DeletedPath is a path that was deleted and not restored.
type DeletedPath struct {
	Path  string
	Since uint64    // the transaction that deleted it
	At    time.Time // of that transaction
	// Frames is the number of frames of the path. Dropped is the number of those
	// whose text was dropped; Restore does not bring it back.
	Frames  int
	Dropped int
}

// Deleted returns the paths that were deleted before a time, sorted. The time is
// in nanoseconds since 1970; 0 returns all.
func (v *Snapshot) Deleted(ctx context.Context, before int64) ([]DeletedPath, error) {
	var when any
	if before != 0 {
		when = before
	}
	list, err := collect(ctx, v.tx, func(rows *sql.Rows, d *DeletedPath) error {
		var path sql.RawBytes
		var at int64
		err := rows.Scan(&path, &d.Since, &at, &d.Frames, &d.Dropped)
		d.Path, d.At = string(path), time.Unix(0, at).UTC()
		return err
	}, `SELECT t.path, t.since, c.time, (SELECT count(*) FROM frames f WHERE f.path = t.path AND f.seq <= ?1),
		(SELECT count(*) FROM frames f JOIN gone g ON g.content = f.content WHERE f.path = t.path AND f.seq <= ?1)
		FROM tombstones t JOIN commits c ON c.seq = t.since
		WHERE t.since <= ?1 AND (t.until IS NULL OR t.until > ?1) AND (?2 IS NULL OR c.time < ?2) ORDER BY t.path`, int64(v.seq), when)
	return list, readError(err)
}
