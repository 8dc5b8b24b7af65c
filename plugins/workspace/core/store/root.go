package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// frameSets computes the roots of the sets of frames that a transaction changed.
// It belongs to the writer of an index.
type frameSets struct {
	// changed are the frames that the transaction added, by path and state.
	changed map[setKey][]id.ID
	// known are sets that changed lately, so that a frame of a node with many costs
	// no more than one of a node with few.
	known map[setKey]*id.FrameTree
	size  int // frames of all known sets
}

type setKey struct {
	path string
	node id.ID
}

// maxKnown is the number of frames above which the cached sets are dropped.
const maxKnown = 1 << 17

// add records a frame that the transaction added.
func (s *frameSets) add(f *Frame) {
	if s.changed == nil {
		s.changed = map[setKey][]id.ID{}
	}
	key := setKey{f.Path, f.Node}
	s.changed[key] = append(s.changed[key], f.ID)
}

// writeSets stores the root of each set that the transaction changed.
func (x *index) writeSets(ctx context.Context, seq uint64) error {
	s := &x.sets
	for key, added := range s.changed {
		set := s.known[key]
		if set == nil {
			all, err := x.framesOf(ctx, key, seq)
			if err != nil {
				return err
			}
			set = x.scheme.NewFrameTree(all...)
			s.keep(key, set)
		}
		for _, f := range added {
			before := set.Size()
			set.Add(f)
			s.size += set.Size() - before
		}
		err := x.run(ctx, "INSERT INTO sets VALUES (?1, ?2, ?3, ?4) ON CONFLICT (path, node, seq) DO UPDATE SET root = excluded.root",
			[]byte(key.path), key.node.Sum(), int64(seq), set.Root().Sum())
		if err != nil {
			return err
		}
	}
	clear(s.changed)
	return nil
}

// keep caches a set. It drops the others if there are more than maxKnown frames.
func (s *frameSets) keep(key setKey, set *id.FrameTree) {
	if s.size += set.Size(); s.known == nil || s.size > maxKnown {
		s.known, s.size = map[setKey]*id.FrameTree{}, set.Size()
	}
	s.known[key] = set
}

const framesOfState = "SELECT id FROM frames WHERE path = ?1 AND node = ?2 AND seq <= ?3"

func (x *index) framesOf(ctx context.Context, key setKey, seq uint64) ([]id.ID, error) {
	return frameIDs(ctx, x.conn, x.scheme, framesOfState,
		[]byte(key.path), key.node.Sum(), int64(seq))
}

// FrameSet returns the root of the set of frames that were put on one state of a
// path.
func (v *Snapshot) FrameSet(ctx context.Context, path string, node id.ID) (id.ID, error) {
	r := v.frames()
	var sum []byte
	err := r.q.QueryRowContext(ctx, "SELECT root FROM sets WHERE path = ?1 AND node = ?2 AND seq <= ?3 ORDER BY seq DESC LIMIT 1",
		[]byte(path), node.Sum(), int64(v.seq)).Scan(&sum)
	if errors.Is(err, sql.ErrNoRows) {
		return v.store.Scheme.FrameSet(nil), nil
	}
	if err != nil {
		return id.ID{}, asStoreError("read", err)
	}
	return id.Of(id.State, v.store.Scheme.Alg(), sum)
}

// StateRoot returns the id of the state: of all current paths with their nodes,
// frame sets, and heads by path. It does not depend on times, record ids or the
// order of writes. Deleted paths are left out.
func (v *Snapshot) StateRoot(ctx context.Context) (id.ID, error) {
	root, err := v.frames().stateRoot(ctx)
	return root, readError(err)
}

func (r *frames) stateRoot(ctx context.Context) (id.ID, error) {
	var paths []id.PathState
	none := r.store.Scheme.FrameSet(nil)
	marks, err := r.marks(ctx)
	if err != nil {
		return id.ID{}, err
	}
	err = r.eachPath(ctx, "", func(p *pathState) error {
		now := p.current()
		if now == nil {
			return nil
		}
		state := id.PathState{Path: p.path, Node: now.Node, FrameSet: p.set}
		if p.set.IsZero() {
			state.FrameSet = none
		}
		for _, h := range p.resolved() {
			state.Heads = append(state.Heads, id.Head{Type: h.typ, Frame: h.frame, Mark: marks[headKey{p.path, h.node, h.typ}]})
		}
		paths = append(paths, state)
		return nil
	})
	if err != nil {
		return id.ID{}, err
	}
	return r.store.Scheme.StateRoot(slices.Clip(paths)), nil
}
