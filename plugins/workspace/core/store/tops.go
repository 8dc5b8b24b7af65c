package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// topsSchema holds the head by path of every path and type in the latest state,
// and which of them may not be fresh. Both follow from the log, so reading them
// does not depend on the length of the history or the size of the tree.
//
// A top is suspect if anything changed since its head was put that its state may
// depend on: its path, an entry of it at any depth, a frame that it was made
// from, a mark, or its text was dropped. All others are fresh, apart from changes of the configuration:
// recipes has one frame for each combination of agent, producer and parameters,
// by which those are found.
const topsSchema = `
CREATE TABLE tops (
  path BLOB NOT NULL, type TEXT NOT NULL, dir BLOB NOT NULL, node BLOB NOT NULL, frame BLOB NOT NULL,
  suspect INTEGER NOT NULL, -- also of a dropped text
  PRIMARY KEY (path, type)
) WITHOUT ROWID;
CREATE INDEX tops_of_dir ON tops (dir);
CREATE INDEX tops_suspect ON tops (path) WHERE suspect = 1;
CREATE TABLE marks (
  path BLOB NOT NULL, node BLOB NOT NULL, type TEXT NOT NULL, seq INTEGER NOT NULL, marked INTEGER NOT NULL,
  PRIMARY KEY (path, node, type, seq)
) WITHOUT ROWID;
CREATE TABLE recipes (key BLOB PRIMARY KEY, frame BLOB NOT NULL) WITHOUT ROWID;
`

// top is the head by path of a path and a type.
type top struct {
	Path    string
	Type    string
	At      id.ID // state of the path that has the head
	Frame   id.ID
	Agent   string
	Origin  Origin
	Content id.ID
	Bytes   int
	Recipe  []byte
	Suspect bool
	// Of the current state of the path.
	Mode    id.Mode
	Node    id.ID
	Gone    bool // the path is, or became another kind of node: see describes
	State   HeadState
	assumed *Frame
	// The frame if it was read already, else where it is.
	frame *Frame
	seq   uint64
	place log.Place
}

// frameOf returns the frame of a top.
func (r *frames) frameOf(ctx context.Context, t *top) (*Frame, error) {
	switch {
	case t.frame != nil:
		return t.frame, nil
	case t.assumed == nil && t.place.Segment > 0:
		return r.frameAt(t.Frame, t.seq, t.place)
	}
	return r.frame(ctx, t.Frame)
}

func (t *top) child() Child {
	_, name := split(t.Path)
	return Child{
		Name: name, Path: t.Path, Mode: t.Mode, Node: t.Node,
		Frame: t.Frame, Type: t.Type, Agent: t.Agent, Origin: t.Origin, Content: t.Content, Bytes: t.Bytes,
		State: t.State,
	}
}

var topColumns = `SELECT t.path, t.type, t.node, t.frame, t.suspect, f.agent, f.origin, f.content, f.bytes, f.recipe, f.seq, f.segment, f.offset, f.length,
	v.mode, v.content, NOT (` + topIsThere + `)
	` + topsJoined

const topsJoined = `FROM tops t JOIN frames f ON f.id = t.frame
	JOIN versions v ON v.path = t.path AND v.since = (SELECT max(since) FROM versions WHERE path = t.path)`

// topIsThere is the condition of topsJoined for heads whose path is in the tree and still is
// the kind of node that the frame describes.
var topIsThere = fmt.Sprintf(`v.until IS NULL
	AND NOT EXISTS (SELECT 1 FROM tombstones d WHERE d.path = t.path AND d.until IS NULL)
	AND CASE WHEN f.takes IS NOT NULL THEN v.mode = %d
		WHEN f.origin IN ('%s', '%s') THEN v.mode IN (%d, %d)
		ELSE TRUE END`,
	id.Dir, Extracted, Generated, id.File, id.Exec)

// describes reports whether the recipe of a frame can run on a node: one that takes the
// frames of entries needs a directory, any other one a file. A head of which it cannot is gone
// like one whose path is. An authored frame has no recipe: it stays, as stale.
func (f *Frame) describes(mode id.Mode) bool {
	switch {
	case f.takes() != nil:
		return mode == id.Dir
	case f.Origin == Extracted || f.Origin == Generated:
		return mode == id.File || mode == id.Exec
	}
	return true
}

// tops runs a query that begins with topColumns.
func (r *frames) tops(ctx context.Context, where string, args ...any) (list []*top, err error) {
	scheme := r.store.Scheme
	err = r.each(ctx, func(rows *sql.Rows) error {
		t := &top{}
		var path, node, frame, content, now []byte
		if err := rows.Scan(&path, &t.Type, &node, &frame, &t.Suspect, &t.Agent, &t.Origin, &content, &t.Bytes, &t.Recipe,
			&t.seq, &t.place.Segment, &t.place.Offset, &t.place.Length, &t.Mode, &now, &t.Gone); err != nil {
			return err
		}
		t.Path = string(path)
		var current id.ID
		var errs [4]error
		t.At, errs[0] = id.Of(id.Node, scheme.Alg(), node)
		t.Frame, errs[1] = id.Of(id.Frame, scheme.Alg(), frame)
		t.Content, errs[2] = id.Of(id.Content, scheme.ContentAlg(), content)
		current, errs[3] = id.Of(id.Content, scheme.ContentAlg(), now)
		if err := errors.Join(errs[:]...); err != nil {
			return corrupt(indexFile, "%w", err)
		}
		t.Node = scheme.Node(t.Path, t.Mode, current)
		list = append(list, t)
		return nil
	}, topColumns+" "+where, args...)
	return list, err
}

// entries returns the heads of a type of the existing entries of a directory, including assumed
// ones.
func (r *frames) entries(ctx context.Context, dir, frameType string) (list []*top, err error) {
	all, err := r.storedEntries(ctx, dir, frameType)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if !t.Gone && r.assumed.get(t.Path, t.Type) == nil {
			c := *t
			list = append(list, &c)
		}
	}
	for _, t := range r.assumed.entries(dir) {
		if frameType == EveryType || frameType == t.Type {
			list = append(list, t)
		}
	}
	return list, nil
}

// maxCachedTops bounds the heads that are kept of the directories read before.
const maxCachedTops = 10_000

// storedEntries returns the heads of a type of the entries of a directory, without assumed ones.
// The result must not be changed.
func (r *frames) storedEntries(ctx context.Context, dir, frameType string) (list []*top, err error) {
	key := topKey{dir, frameType}
	if known, ok := r.entriesOf[key]; ok {
		return known, nil
	}
	switch {
	case !r.latest:
		list, err = r.topsAsOf(ctx, dir, func(path string) bool { d, _ := split(path); return d == dir && path != "" })
		list = slices.DeleteFunc(list, func(t *top) bool { return frameType != EveryType && frameType != t.Type })
	case frameType == EveryType:
		list, err = r.tops(ctx, "WHERE t.dir = ?1 AND t.path <> x'' ORDER BY t.path, t.type", []byte(dir))
	default:
		list, err = r.tops(ctx, "WHERE t.dir = ?1 AND t.path <> x'' AND t.type = ?2 ORDER BY t.path", []byte(dir), frameType)
	}
	if err == nil && r.entriesOf != nil {
		if r.cachedTops += len(list) + 1; r.cachedTops > maxCachedTops {
			clear(r.entriesOf)
			r.cachedTops = len(list) + 1
		}
		r.entriesOf[key] = list
	}
	return list, err
}

// topsAsOf computes tops of an earlier state from the history of each path below
// a directory.
func (r *frames) topsAsOf(ctx context.Context, dir string, want func(path string) bool) (list []*top, err error) {
	type key struct{ path, typ string }
	var keys []key
	cond, args := within("path", dir)
	err = r.each(ctx, func(rows *sql.Rows) error {
		var path []byte
		var typ string
		if err := rows.Scan(&path, &typ); err != nil {
			return err
		}
		if want(string(path)) {
			keys = append(keys, key{string(path), typ})
		}
		return nil
	}, "SELECT DISTINCT path, type FROM heads WHERE "+cond+" AND seq <= ?", append(args, int64(r.seq))...)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		t, err := r.topAsOf(ctx, k.path, k.typ)
		if err != nil {
			return nil, err
		}
		if t != nil {
			list = append(list, t)
		}
	}
	return list, nil
}

// within returns a condition for a directory and everything below it.
func within(column, dir string) (cond string, args []any) {
	if dir == "" {
		return "TRUE", nil
	}
	return "(" + column + " = ? OR " + column + " > ? AND " + column + " < ?)", []any{[]byte(dir), []byte(dir + "/"), []byte(after(dir))}
}

// topAsOf finds a head by path in the history, nil if there is none.
func (r *frames) topAsOf(ctx context.Context, path, frameType string) (*top, error) {
	states, err := r.lineage(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return nil, nil
	}
	for _, s := range append(states, Version{}) { // at last that of states without one: see Tx.Import
		frame, err := r.headOf(ctx, path, s.Node, frameType)
		if err != nil {
			return nil, err
		}
		if frame.IsZero() {
			continue
		}
		f, err := r.frame(ctx, frame)
		if err != nil {
			return nil, err
		}
		now := states[0]
		return topOf(f, s.Node, now), nil
	}
	return nil, nil
}

// topOf returns the top of a head that is at the state of a path.
func topOf(f *Frame, at id.ID, now Version) *top {
	return &top{
		Path: f.Path, Type: f.Type, At: at, Frame: f.ID, Agent: f.Agent, Origin: f.Origin, Content: f.Content, Bytes: f.Bytes, Recipe: f.recipeKey(),
		Suspect: true, Mode: now.Mode, Node: now.Node, Gone: now.Until != 0 || !f.describes(now.Mode), frame: f,
	}
}

// topAt returns the head by path of a path and a type, nil if there is none.
func (r *frames) topAt(ctx context.Context, path, frameType string) (*top, error) {
	if t := r.assumed.get(path, frameType); t != nil {
		return t, nil
	}
	if !r.latest {
		return r.topAsOf(ctx, path, frameType)
	}
	list, err := r.tops(ctx, "WHERE t.path = ?1 AND t.type = ?2", []byte(path), frameType)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// everyFrame returns every frame of the current state of an entry, of the type of
// its head.
func (r *frames) everyFrame(ctx context.Context, t *top) (list []Child, err error) {
	if t.assumed != nil {
		list = append(list, t.child())
	}
	var found []id.ID
	if found, err = r.ids(ctx, "SELECT id FROM frames WHERE path = ?1 AND type = ?2 AND node = ?3 AND seq <= ?4", []byte(t.Path), t.Type, t.Node.Sum(), int64(r.seq)); err != nil {
		return nil, err
	}
	for _, x := range found {
		f, err := r.frame(ctx, x)
		if err != nil {
			return nil, err
		}
		if t.assumed != nil && f.ID == t.Frame {
			continue
		}
		c := t.child()
		c.Frame, c.Agent, c.Origin, c.Content, c.Bytes = f.ID, f.Agent, f.Origin, f.Content, f.Bytes
		list = append(list, c)
	}
	return list, nil
}

// each calls visit for every row of a query.
func (r *frames) each(ctx context.Context, visit func(*sql.Rows) error, query string, args ...any) error {
	return eachRow(ctx, r.q, func(rows *sql.Rows) error {
		r.store.rows.Add(1)
		return visit(rows)
	}, query, args...)
}

// row scans the only row of a query.
func (r *frames) row(ctx context.Context, into []any, query string, args ...any) error {
	r.store.rows.Add(1)
	return r.q.QueryRowContext(ctx, query, args...).Scan(into...)
}
