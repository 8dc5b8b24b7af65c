package store

import (
	"context"
	"database/sql"
	"time"

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
	rows, err := tx.store.index.conn.QueryContext(context.Background(), `SELECT DISTINCT path,
		EXISTS (SELECT 1 FROM tombstones t WHERE t.path = versions.path AND t.until IS NULL)
		FROM versions WHERE path >= ?1 AND path < ?2 ORDER BY path`, from, to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []string
	record, size, found := tombstoneRecord{Deleted: deleted}, 0, false
	flush := func() error {
		if len(record.Paths) == 0 {
			return nil
		}
		r, err := encodeRecord(kindTombstones, record)
		record.Paths, size = nil, 0
		return keep(err, tx.add(r))
	}
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
		record.Paths = append(record.Paths, blob(p))
		size += len(p)
		if size > maxPathBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if !found {
		return nil, contract.Errorf("path/not-in-tree", "the path was never scanned or is ignored").WithOp(op, path)
	}
	return list, flush()
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
