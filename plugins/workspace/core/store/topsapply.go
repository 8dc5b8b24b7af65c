package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

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
	return x.suspect(ctx, topKey{string(r.RawPath), r.Type})
}

func (x *index) setMark(ctx context.Context, seq uint64, path []byte, node id.ID, frameType string, marked int) error {
	x.marks = some
	return x.run(ctx, `INSERT INTO marks VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (path, node, type, seq) DO UPDATE SET marked = excluded.marked`, path, node.Sum(), frameType, int64(seq), marked)
}

// topMoved keeps tops up to date after a head was set.
func (x *index) topMoved(ctx context.Context, seq uint64, r headRecord) error {
	if err := x.unmark(ctx, seq, r); err != nil {
		return err
	}
	if !r.current {
		now, err := x.currentNode(ctx, string(r.RawPath))
		if err != nil {
			return err
		}
		if now.IsZero() || now != r.Node {
			return x.topsOfPath(ctx, string(r.RawPath), r.Type)
		}
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
	// Last, because a frame can be made from one that is made from it.
	if err := x.suspectAll(ctx, users); err != nil {
		return err
	}
	if !r.unused {
		if err := x.suspectUsers(ctx, r.RawPath, r.Type); err != nil {
			return err
		}
	}
	return x.suspectAbove(ctx, string(r.RawPath), r.Type)
}

// unmark removes the mark of a head that was set.
func (x *index) unmark(ctx context.Context, seq uint64, r headRecord) error {
	any, err := x.marks.find(ctx, x.conn, "marks")
	if err != nil || !any {
		return err
	}
	var marked bool
	err = x.conn.QueryRowContext(ctx, "SELECT marked FROM marks WHERE path = ?1 AND node = ?2 AND type = ?3 ORDER BY seq DESC LIMIT 1",
		r.RawPath, r.Node.Sum(), r.Type).Scan(&marked)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !marked {
		return nil
	}
	return keep(err, x.setMark(ctx, seq, r.RawPath, r.Node, r.Type, 0))
}

func (x *index) setTop(ctx context.Context, path []byte, frameType, dir string, node, frame []byte, suspect int) error {
	x.heads = some
	delete(x.batch.takers, string(path))
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

// topsOfPath recomputes the heads by path of a path: after its state changed, or after a head was
// set at another state. onlyType is empty for every type.
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
		if err := x.suspectAbove(ctx, path, string(frameType)); err != nil {
			return err
		}
	}
	return nil
}

// states returns the node ids that a path has had, the newest first.
func (x *index) states(ctx context.Context, path string) (list []id.ID, err error) {
	err = eachRow(ctx, x.conn, func(rows *sql.Rows) error {
		var mode id.Mode
		var sum []byte
		if err := rows.Scan(&mode, &sum); err != nil {
			return err
		}
		content, err := id.Of(id.Content, x.scheme.ContentAlg(), sum)
		list = append(list, x.scheme.Node(path, mode, content))
		return err
	}, "SELECT mode, content FROM versions WHERE path = ?1 ORDER BY since DESC", []byte(path))
	return list, err
}

// versionChanged keeps tops up to date after a path got another state. The head
// at the new state becomes the top if there is one; else the top remains, since
// it was that of the latest state before.
func (x *index) versionChanged(ctx context.Context, path string, node id.ID) error {
	types, err := x.suspectPath(ctx, path)
	if err != nil || node.IsZero() {
		return err
	}
	for _, frameType := range types {
		if err := x.run(ctx, `UPDATE tops SET node = ?3, frame = h.frame FROM
			(SELECT frame FROM heads WHERE path = ?1 AND type = ?2 AND node = ?3 ORDER BY seq DESC LIMIT 1) h
			WHERE tops.path = ?1 AND tops.type = ?2`, []byte(path), string(frameType), node.Sum()); err != nil {
			return err
		}
		delete(x.batch.takers, path)
		if err := x.suspectUsers(ctx, []byte(path), string(frameType)); err != nil {
			return err
		}
	}
	return nil
}

// suspectPath makes the heads of a path suspect and returns their types. If the store has no heads
// at all, it makes no query.
func (x *index) suspectPath(ctx context.Context, path string) (types [][]byte, err error) {
	if any, err := x.heads.find(ctx, x.conn, "tops"); err != nil || !any {
		return nil, err
	}
	if types, err = x.column(ctx, "SELECT type FROM tops WHERE path = ?1", []byte(path)); err != nil {
		return nil, err
	}
	for _, frameType := range types {
		if err := x.suspectUsers(ctx, []byte(path), string(frameType)); err != nil {
			return nil, err
		}
		if err := x.suspect(ctx, topKey{path, string(frameType)}); err != nil {
			return nil, err
		}
	}
	return types, nil
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

// users returns the heads that were made from the current top of a path and type.
func (x *index) users(ctx context.Context, path []byte, frameType string) ([]topKey, error) {
	return x.pairs(ctx, `SELECT t.path, t.type FROM tops now JOIN inputs i ON i.input = now.frame JOIN frames f ON f.id = i.frame
		JOIN tops t ON t.path = f.path AND t.type = f.type WHERE now.path = ?1 AND now.type = ?2`, path, frameType)
}

// topKey names a head by path.
type topKey struct{ path, typ string }

// suspectAll makes heads suspect, and those that may depend on their states.
func (x *index) suspectAll(ctx context.Context, tops []topKey) error {
	for _, t := range tops {
		if err := x.suspect(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// suspect makes a head suspect, and those that may depend on its state.
func (x *index) suspect(ctx context.Context, t topKey) error {
	if err := x.setSuspect(ctx, t.path, t.typ); err != nil {
		return err
	}
	for i, k := range x.batch.takers[t.path] {
		x.batch.takers[t.path][i].suspect = k.suspect || k.typ == t.typ
	}
	return x.suspectAbove(ctx, t.path, t.typ)
}

func (x *index) setSuspect(ctx context.Context, path, frameType string) error {
	return x.run(ctx, "UPDATE tops SET suspect = 1 WHERE path = ? AND type = ? AND suspect = 0", []byte(path), frameType)
}

// taker is a head of a directory that is made from the frames of its entries.
type taker struct {
	typ     string
	takes   string // their type
	suspect bool
}

// suspectAbove makes the heads of directories suspect that may depend on the head
// of an entry: those of the directory above that are made from frames of the type,
// those of the next directory that are made from these, and so on.
func (x *index) suspectAbove(ctx context.Context, path, frameType string) error {
	for types := []string{frameType}; path != "" && len(types) > 0; {
		path, _ = split(path)
		takers, err := x.takersOf(ctx, path)
		if err != nil {
			return err
		}
		var next []string
		for i, t := range takers {
			if t.takes != EveryType && !slices.Contains(types, t.takes) {
				continue
			}
			next = append(next, t.typ)
			if t.suspect {
				continue
			}
			if err := x.setSuspect(ctx, path, t.typ); err != nil {
				return err
			}
			takers[i].suspect = true
		}
		types = next
	}
	return nil
}

func (x *index) takersOf(ctx context.Context, dir string) (list []taker, err error) {
	if known, ok := x.batch.takers[dir]; ok {
		return known, nil
	}
	list, err = collect(ctx, x.conn, func(rows *sql.Rows, t *taker) error { return rows.Scan(&t.typ, &t.takes, &t.suspect) },
		"SELECT t.type, f.takes, t.suspect FROM tops t JOIN frames f ON f.id = t.frame WHERE t.path = ?1 AND f.takes IS NOT NULL", []byte(dir))
	if x.batch.takers == nil {
		x.batch.takers = map[string][]taker{}
	}
	x.batch.takers[dir] = list
	return list, err
}

// pairs returns the paths and types that a query finds.
func (x *index) pairs(ctx context.Context, query string, args ...any) ([]topKey, error) {
	return collect(ctx, x.conn, func(rows *sql.Rows, t *topKey) error {
		var path []byte
		err := rows.Scan(&path, &t.typ)
		t.path = string(path)
		return err
	}, query, args...)
}

// column returns the values of the only column of a query.
func (x *index) column(ctx context.Context, query string, args ...any) ([][]byte, error) {
	return collect(ctx, x.conn, scanText[[]byte], query, args...)
}
