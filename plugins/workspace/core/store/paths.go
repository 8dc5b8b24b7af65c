package store

import (
	"bytes"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// pathState holds the rows of the index for one path at a sequence number.
type pathState struct {
	path   string
	states []Version // the newest first; none if it was never in the tree
	set    id.ID     // root of the frames of the newest state; absent if it has none
	heads  []stateHead
}

// stateHead is the head of a path in one state, with its type. The state is
// absent for the head of a path in states that have none of their own: see
// Tx.Import.
type stateHead struct {
	node  id.ID
	typ   string
	frame id.ID
}

// current returns the state of the path, nil if it is gone or deleted.
func (p *pathState) current() *Version {
	if len(p.states) == 0 || p.states[0].Until != 0 {
		return nil
	}
	return &p.states[0]
}

// resolved returns the head of each type by path, sorted by type: that of the
// latest state which has one.
func (p *pathState) resolved() []stateHead {
	var list []stateHead
	for _, s := range append(slices.Clip(p.states), Version{}) {
		for _, h := range p.heads {
			if h.node == s.Node && !slices.ContainsFunc(list, func(x stateHead) bool { return x.typ == h.typ }) {
				list = append(list, h)
			}
		}
	}
	slices.SortFunc(list, func(a, b stateHead) int { return strings.Compare(a.typ, b.typ) })
	return list
}

// span returns bounds of the paths of a subtree; to is exclusive. Some paths between the bounds are
// not in the subtree.
func span(dir string) (from, to []byte) {
	if dir == "" {
		return []byte{}, bytes.Repeat([]byte{0xff}, 4097)
	}
	return []byte(dir), []byte(dir + "0") // the character behind the slash
}

// rowsByPath is a query whose rows begin with a path, in order.
type rowsByPath struct {
	rows *sql.Rows
	path string
	scan func(*sql.Rows, *[]byte) error
	more bool
}

func (r *rowsByPath) next() error {
	if r.more = r.rows.Next(); !r.more {
		return r.rows.Err()
	}
	var path []byte
	err := r.scan(r.rows, &path)
	r.path = string(path)
	return err
}

// of calls take for every row of a path. Rows of earlier paths are skipped.
func (r *rowsByPath) of(path string, take func() error) error {
	for r.more && r.path <= path {
		if r.path == path {
			if err := take(); err != nil {
				return err
			}
		}
		if err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

// eachPath calls visit for every path of a subtree that ever was in the tree or has imported
// frames, sorted bytewise. It reads three tables in one pass, so its cost does not depend on the
// number of stale heads.
func (r *frames) eachPath(ctx context.Context, dir string, visit func(*pathState) error) (err error) {
	w := &pathWalk{frames: r, dir: dir}
	defer func() { err = keep(err, w.close()) }()
	if err := w.open(ctx); err != nil {
		return err
	}
	for w.versions.more || w.sets.more || w.heads.more {
		p, err := w.next()
		if err != nil {
			return err
		}
		if !tree.Below(p.path, dir) {
			continue
		}
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
}

// pathWalk is a pass over versions, frame sets and heads.
type pathWalk struct {
	*frames
	dir                   string
	versions, sets, heads rowsByPath
	version               versionRow
	head                  stateHead
	node, sum             []byte
}

func (w *pathWalk) open(ctx context.Context) error {
	w.versions.scan = func(rows *sql.Rows, path *[]byte) error {
		return rows.Scan(append([]any{path}, w.version.fields()...)...)
	}
	w.sets.scan = func(rows *sql.Rows, path *[]byte) error { return rows.Scan(path, &w.node, &w.sum) }
	w.heads.scan = func(rows *sql.Rows, path *[]byte) error {
		var node, frame []byte
		err := rows.Scan(path, &node, &w.head.typ, &frame)
		return keep(err, w.head.set(w.store.Scheme, node, frame))
	}
	for _, t := range []struct {
		table              *rowsByPath
		columns, from, seq string
	}{
		{&w.versions, "path, " + versionColumns, "versions", "since"},
		{&w.sets, "path, node, root", "sets", "node, seq"},
		{&w.heads, "path, node, type, frame", "heads", "node, type, seq"},
	} {
		last := t.seq[strings.LastIndexByte(t.seq, ' ')+1:]
		from, to := span(w.dir)
		var err error
		t.table.rows, err = w.q.QueryContext(ctx, "SELECT "+t.columns+" FROM "+t.from+" WHERE path >= ?1 AND path < ?2 AND "+last+" <= ?3 ORDER BY path, "+t.seq,
			from, to, int64(w.seq))
		if err != nil {
			return err
		}
		if err := t.table.next(); err != nil {
			return err
		}
	}
	return nil
}

func (w *pathWalk) close() (err error) {
	for _, t := range []*rowsByPath{&w.versions, &w.sets, &w.heads} {
		if t.rows != nil {
			err = keep(err, t.rows.Close())
		}
	}
	return err
}

// first returns the smallest path of the three tables.
func (w *pathWalk) first() (path string) {
	found := false
	for _, t := range []*rowsByPath{&w.versions, &w.sets, &w.heads} {
		if t.more && (!found || t.path < path) {
			path, found = t.path, true
		}
	}
	return path
}

// next returns the next path.
func (w *pathWalk) next() (*pathState, error) {
	p, scheme := &pathState{path: w.first()}, w.store.Scheme
	err := w.versions.of(p.path, func() error {
		v, err := w.version.version(scheme, p.path, w.seq)
		p.states = append(p.states, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(p.states)
	var now []byte
	if len(p.states) > 0 {
		now = p.states[0].Node.Sum()
	}
	err = w.sets.of(p.path, func() (err error) {
		if bytes.Equal(w.node, now) {
			p.set, err = id.Of(id.State, scheme.Alg(), w.sum)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, w.heads.of(p.path, func() error {
		if n := len(p.heads); n > 0 && p.heads[n-1].node == w.head.node && p.heads[n-1].typ == w.head.typ {
			p.heads[n-1] = w.head // a later move
		} else {
			p.heads = append(p.heads, w.head)
		}
		return nil
	})
}

// versionColumns are those of a versionRow.
const versionColumns = `since, until, mode, size, content, renamed,
	(SELECT t.since FROM tombstones t WHERE t.path = versions.path AND t.since <= ?3 AND (t.until IS NULL OR t.until > ?3))`

// versionRow is a row of versions with the deletion of its path.
type versionRow struct {
	since          uint64
	until, deleted sql.Null[uint64]
	mode           id.Mode
	size           int64
	sum, from      []byte
}

func (r *versionRow) fields() []any {
	return []any{&r.since, &r.until, &r.mode, &r.size, &r.sum, &r.from, &r.deleted}
}

// version returns the state at a sequence number. A state of a deleted path ends
// with the deletion.
func (r *versionRow) version(scheme id.Scheme, path string, seq uint64) (v Version, err error) {
	v = Version{Since: r.since, Mode: r.mode, Size: r.size, RenamedFrom: string(r.from), Tombstone: r.deleted.V}
	if r.until.Valid && r.until.V <= seq {
		v.Until = r.until.V
	} else {
		v.Until = v.Tombstone
	}
	if v.Content, err = id.Of(id.Content, scheme.ContentAlg(), r.sum); err != nil {
		return v, corrupt(indexFile, "%w", err)
	}
	v.Node = scheme.Node(path, v.Mode, v.Content)
	return v, nil
}

// keep returns the first error.
func keep(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// setNode sets the state from its sum. A state of zeros is absent.
func (h *stateHead) setNode(scheme id.Scheme, node []byte) (err error) {
	if h.node = (id.ID{}); !bytes.Equal(node, make([]byte, len(node))) {
		if h.node, err = id.Of(id.Node, scheme.Alg(), node); err != nil {
			return corrupt(indexFile, "%w", err)
		}
	}
	return nil
}

// set sets the ids from their sums.
func (h *stateHead) set(scheme id.Scheme, node, frame []byte) (err error) {
	if err := h.setNode(scheme, node); err != nil {
		return err
	}
	if h.frame, err = id.Of(id.Frame, scheme.Alg(), frame); err != nil {
		return corrupt(indexFile, "%w", err)
	}
	return nil
}
