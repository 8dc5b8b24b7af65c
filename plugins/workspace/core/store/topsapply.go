package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// markRecord marks the head of a path, in one of its states, and a type. A later
// move of the head removes the mark.
type markRecord struct {
	RawPath []byte `edn:"path"`
	Node    id.ID  `edn:"node/id"`
	Type    string `edn:"frame/type"`
}

func (x *index) applyMark(ctx context.Context, seq uint64, payload []byte) error {
	var r markRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	if err := x.setMark(ctx, seq, r.RawPath, r.Node, r.Type, 1); err != nil {
		return err
	}
	if err := x.run(ctx, "UPDATE tops SET suspect = 1 WHERE path = ?1 AND type = ?2", r.RawPath, r.Type); err != nil {
		return err
	}
	x.suspected = nil
	return x.suspectAbove(ctx, string(r.RawPath))
}

func (x *index) setMark(ctx context.Context, seq uint64, path []byte, node id.ID, frameType string, marked int) error {
	return x.run(ctx, `INSERT INTO marks VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (path, node, type, seq) DO UPDATE SET marked = excluded.marked`, path, node.Sum(), frameType, int64(seq), marked)
}

// topMoved keeps tops up to date after a head was set.
func (x *index) topMoved(ctx context.Context, seq uint64, r headRecord) error {
	var marked int
	err := x.conn.QueryRowContext(ctx, "SELECT marked FROM marks WHERE path = ?1 AND node = ?2 AND type = ?3 ORDER BY seq DESC LIMIT 1",
		r.RawPath, r.Node.Sum(), r.Type).Scan(&marked)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if marked == 1 {
		if err := x.setMark(ctx, seq, r.RawPath, r.Node, r.Type, 0); err != nil {
			return err
		}
	}
	now, err := x.currentNode(ctx, string(r.RawPath))
	if err != nil {
		return err
	}
	if now.IsZero() || now != r.Node {
		return x.topsOfPath(ctx, string(r.RawPath), r.Type)
	}
	users, err := x.users(ctx, r.RawPath, r.Type)
	if err != nil {
		return err
	}
	suspect := 1
	if r.Checked {
		suspect = 0
	}
	dir, _ := split(string(r.RawPath))
	if err := x.setTop(ctx, r.RawPath, r.Type, dir, r.Node.Sum(), r.Frame.Sum(), suspect); err != nil {
		return err
	}
	x.heads = true
	delete(x.suspected, string(r.RawPath))
	// Last, because a frame can be made from one that is made from it.
	if err := x.suspectAll(ctx, users); err != nil {
		return err
	}
	return keep(x.suspectUsers(ctx, r.RawPath, r.Type), x.suspectAbove(ctx, string(r.RawPath)))
}

func (x *index) setTop(ctx context.Context, path []byte, frameType, dir string, node, frame []byte, suspect int) error {
	x.headless = false
	return x.run(ctx, `INSERT INTO tops VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (path, type) DO UPDATE SET node = excluded.node, frame = excluded.frame, suspect = excluded.suspect`,
		path, frameType, []byte(dir), node, frame, suspect)
}

// currentNode returns the node id of the current state of a path, absent if it
// is gone.
func (x *index) currentNode(ctx context.Context, path string) (id.ID, error) {
	var mode id.Mode
	var sum []byte
	var until sql.Null[uint64]
	err := x.conn.QueryRowContext(ctx, `SELECT mode, content, coalesce(until, (SELECT since FROM tombstones t WHERE t.path = versions.path AND t.until IS NULL))
		FROM versions WHERE path = ?1 ORDER BY since DESC LIMIT 1`, []byte(path)).
		Scan(&mode, &sum, &until)
	if errors.Is(err, sql.ErrNoRows) || err == nil && until.Valid {
		return id.ID{}, nil
	}
	if err != nil {
		return id.ID{}, err
	}
	content, err := id.Of(id.Content, x.scheme.ContentAlg(), sum)
	return x.scheme.Node(path, mode, content), err
}

// topsOfPath finds the heads by path of a path anew: after its state changed, or
// after a head was set at another state. onlyType is empty for every type.
func (x *index) topsOfPath(ctx context.Context, path, onlyType string) error {
	types, err := x.column(ctx, "SELECT DISTINCT type FROM heads WHERE path = ?1 AND (?2 = '' OR type = ?2)", []byte(path), onlyType)
	if err != nil || len(types) == 0 {
		return err
	}
	states, err := x.states(ctx, path)
	if err != nil {
		return err
	}
	dir, _ := split(path)
	for _, frameType := range types {
		if err := x.suspectUsers(ctx, []byte(path), string(frameType)); err != nil {
			return err
		}
		for _, node := range append(states, id.ID{}) { // at last that of states without one: see Tx.Import
			var frame []byte
			err := x.conn.QueryRowContext(ctx, "SELECT frame FROM heads WHERE path = ?1 AND node = ?2 AND type = ?3 ORDER BY seq DESC LIMIT 1",
				[]byte(path), node.Sum(), string(frameType)).Scan(&frame)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err == nil {
				err = x.setTop(ctx, []byte(path), string(frameType), dir, node.Sum(), frame, 1)
			}
			if err == nil {
				err = x.suspectUsers(ctx, []byte(path), string(frameType))
			}
			if err != nil {
				return err
			}
			break
		}
	}
	return x.suspectAbove(ctx, path)
}

// states returns the node ids that a path has had, the newest first.
func (x *index) states(ctx context.Context, path string) (list []id.ID, err error) {
	rows, err := x.conn.QueryContext(ctx, "SELECT mode, content FROM versions WHERE path = ?1 ORDER BY since DESC", []byte(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var mode id.Mode
		var sum []byte
		if err := rows.Scan(&mode, &sum); err != nil {
			return nil, err
		}
		content, err := id.Of(id.Content, x.scheme.ContentAlg(), sum)
		if err != nil {
			return nil, err
		}
		list = append(list, x.scheme.Node(path, mode, content))
	}
	return list, rows.Err()
}

// versionChanged keeps tops up to date after a path got another state. The head
// at the new state becomes the top if there is one; else the top remains, since
// it was that of the latest state before.
func (x *index) versionChanged(ctx context.Context, path string, node id.ID) error {
	if has, err := x.hasHeads(ctx); err != nil || !has {
		return err
	}
	types, err := x.column(ctx, "SELECT type FROM tops WHERE path = ?1", []byte(path))
	if err != nil {
		return err
	}
	for _, frameType := range types {
		if err := x.suspectUsers(ctx, []byte(path), string(frameType)); err != nil {
			return err
		}
		if err := x.run(ctx, "UPDATE tops SET suspect = 1 WHERE path = ?1 AND type = ?2", []byte(path), string(frameType)); err != nil {
			return err
		}
		if node.IsZero() {
			continue
		}
		if err := x.run(ctx, `UPDATE tops SET node = ?3, frame = h.frame FROM
			(SELECT frame FROM heads WHERE path = ?1 AND type = ?2 AND node = ?3 ORDER BY seq DESC LIMIT 1) h
			WHERE tops.path = ?1 AND tops.type = ?2`, []byte(path), string(frameType), node.Sum()); err != nil {
			return err
		}
		if err := x.suspectUsers(ctx, []byte(path), string(frameType)); err != nil {
			return err
		}
	}
	return x.suspectAbove(ctx, path)
}

// deletionChanged keeps tops up to date after a path was deleted or restored.
func (x *index) deletionChanged(ctx context.Context, path string) error {
	types, err := x.column(ctx, "SELECT type FROM tops WHERE path = ?1", []byte(path))
	if err != nil {
		return err
	}
	for _, frameType := range types {
		if err := x.suspectUsers(ctx, []byte(path), string(frameType)); err != nil {
			return err
		}
	}
	return x.suspectAll(ctx, [][]byte{[]byte(path)})
}

// hasHeads reports whether there is any head: without one a scan costs nothing
// more.
func (x *index) hasHeads(ctx context.Context) (bool, error) {
	if x.heads || x.headless {
		return x.heads, nil
	}
	err := x.conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM tops)").Scan(&x.heads)
	x.headless = err == nil && !x.heads
	return x.heads, err
}

// suspectUsers makes the heads suspect that were made from the current top of a
// path and type. It is called before a top changes and after: those that were
// made from the old one became stale, those from the new one fresh again.
func (x *index) suspectUsers(ctx context.Context, path []byte, frameType string) error {
	users, err := x.users(ctx, path, frameType)
	if err != nil {
		return err
	}
	return x.suspectAll(ctx, users)
}

// users returns the paths with a head that was made from the current top of a
// path and type.
func (x *index) users(ctx context.Context, path []byte, frameType string) ([][]byte, error) {
	var sum []byte
	err := x.conn.QueryRowContext(ctx, "SELECT frame FROM tops WHERE path = ?1 AND type = ?2", path, frameType).Scan(&sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	frame, err := id.Of(id.Frame, x.scheme.Alg(), sum)
	if err != nil {
		return nil, err
	}
	return x.column(ctx, `SELECT t.path FROM inputs i JOIN frames f ON f.id = i.frame
		JOIN tops t ON t.path = f.path AND t.type = f.type WHERE i.input = ?1`, frame.String())
}

// suspectAll makes the heads of paths and of the directories above them suspect.
func (x *index) suspectAll(ctx context.Context, paths [][]byte) error {
	for _, path := range paths {
		if _, err := x.stmt.suspect.ExecContext(ctx, path); err != nil {
			return err
		}
		if err := x.suspectAbove(ctx, string(path)); err != nil {
			return err
		}
	}
	return nil
}

// suspectAbove makes every head of the directories above a path suspect.
func (x *index) suspectAbove(ctx context.Context, path string) error {
	for path != "" {
		path, _ = split(path)
		if x.suspected[path] {
			continue
		}
		if _, err := x.stmt.suspect.ExecContext(ctx, []byte(path)); err != nil {
			return err
		}
		if x.suspected == nil {
			x.suspected = map[string]bool{}
		}
		x.suspected[path] = true
	}
	return nil
}

// column returns the values of the only column of a query.
func (x *index) column(ctx context.Context, query string, args ...any) (list [][]byte, err error) {
	rows, err := x.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var value []byte
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}
