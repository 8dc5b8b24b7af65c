package store

import (
	"context"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ErrMoved means that the inputs of a derived frame have changed since it was
// made.
var ErrMoved = errors.New("the inputs of the frame changed")

// Seal returns the frame that putting n in a state of its path would store. Its time
// and its record id are not yet known.
func (s *Store) Seal(n NewFrame, now Version) *Frame {
	f := n.frame(&now)
	f.Content = contentOf(s.Scheme, n.Text)
	f.seal(s.Scheme)
	return f
}

// FramesOfBasis returns the frames of a path and a type that an agent put with
// a basis, ordered by sample.
func (v *Snapshot) FramesOfBasis(ctx context.Context, path, frameType, agent string, basis id.ID) ([]*Frame, error) {
	list, err := v.frames().ofBasis(ctx, path, frameType, agent, basis)
	return list, readError(err)
}

// framesOfBasis reads by the basis: a path has many frames of a type, each with its own.
const framesOfBasis = `SELECT id FROM frames INDEXED BY frames_of_basis
	WHERE basis = ?1 AND path = ?2 AND type = ?3 AND agent = ?4 AND seq <= ?5`

func (r *frames) ofBasis(ctx context.Context, path, frameType, agent string, basis id.ID) (list []*Frame, err error) {
	found, err := r.ids(ctx, framesOfBasis,
		basis.Sum(), []byte(path), frameType, agent, int64(r.seq))
	for _, x := range found {
		f, err := r.frame(ctx, x)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *Frame) int { return compare(a.Sample, b.Sample) })
	return list, err
}

// PutDerived appends a frame that was made from other frames or from a file, and
// makes it the head. It computes the basis again and returns ErrMoved if it
// differs, and frame/immutable if the frame exists with other text. A frame that
// already exists becomes the head without a mark of Invalidate; if it already is,
// nothing is written except a text that the store has dropped.
func (tx *Tx) PutDerived(n NewFrame) (*Put, error) {
	r := tx.frames()
	now, err := tx.derivable(r, n)
	if err != nil {
		return nil, err
	}
	f := tx.newFrame(n, now)
	if err := tx.unmoved(r, f, now, n.AsOf); err != nil {
		return nil, err
	}
	if n.First && tx.follows(n.AsOf) {
		return &Put{Frame: f}, tx.appendFrame(f, n.Text, true)
	}
	existing, err := r.frame(tx.reads(), f.ID)
	switch {
	case err == nil && existing.Content != f.Content:
		return nil, contract.Errorf("frame/immutable", "the frame %s exists with other text", f.ID).WithOp("derive", n.Path)
	case err == nil:
		before := len(tx.records)
		if err := tx.putContent(f.Content, n.Text); err != nil {
			return nil, err
		}
		put := &Put{Frame: existing, Existing: true}
		if again := len(tx.records) > before; again { // the text was dropped: the head is not suspect any more
			return put, tx.setHead(existing, headRecord{Node: now.Node, Checked: true, current: true})
		}
		return put, tx.moveHead(r, existing, now.Node)
	case !isNotFound(err):
		return nil, err
	}
	return &Put{Frame: f}, tx.appendFrame(f, n.Text, true)
}

// follows reports whether a state is the one before the transaction: nothing was committed
// since, and no transaction of this batch comes before.
func (tx *Tx) follows(asOf uint64) bool { return asOf > 0 && asOf+1 == tx.seq }

// unmoved verifies that the basis of a frame, which was computed from a state, would
// be the same now.
func (tx *Tx) unmoved(r *frames, f *Frame, now *Version, asOf uint64) error {
	if tx.follows(asOf) {
		return nil
	}
	inputs, err := r.basis(tx.reads(), f, *now)
	if err == nil && tx.store.Scheme.Basis(IDInputs(inputs)) != f.Basis {
		err = ErrMoved
	}
	return err
}

// derivable verifies a frame apart from its basis, and returns the current state of its path.
func (tx *Tx) derivable(r *frames, n NewFrame) (*Version, error) {
	now := &n.Now
	if !tx.follows(n.AsOf) {
		var err error
		if now, err = r.current(tx.reads(), n.Path); err == nil && now == nil {
			err = notInTree("derive", n.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	return now, n.check()
}

// MoveHead makes a stored frame the head of the current state of its path, and
// removes the mark that Invalidate set. It writes nothing if the frame is the
// head by path and has no mark. It returns ErrMoved if the basis of the frame
// would now differ. asOf is the state that the basis was computed from, see
// NewFrame.AsOf.
func (tx *Tx) MoveHead(frame id.ID, asOf uint64) (*Put, error) {
	ctx := context.Background()
	r := tx.frames()
	f, err := r.frame(ctx, frame)
	if err != nil {
		return nil, err
	}
	now, err := r.current(ctx, f.Path)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return nil, notInTree("move head", f.Path)
	}
	if err := tx.unmoved(r, f, now, asOf); err != nil {
		return nil, err
	}
	return &Put{Frame: f, Existing: true}, tx.moveHead(r, f, now.Node)
}

// moveHead writes a move unless the frame is the head by path without a mark.
func (tx *Tx) moveHead(r *frames, f *Frame, node id.ID) error {
	ctx := context.Background()
	t, err := r.topAt(ctx, f.Path, f.Type)
	if err != nil {
		return err
	}
	if t != nil && t.Frame == f.ID {
		marked, err := r.marked(ctx, f.Path, t.At, f.Type)
		if err != nil || !marked {
			return err
		}
		if t.At != node { // the mark is there
			if err := tx.setHead(f, headRecord{Node: t.At}); err != nil {
				return err
			}
		}
	}
	return tx.setHead(f, headRecord{Node: node, Checked: true, current: true})
}

// Invalidate marks the heads by path of a path, and if recursive is set of
// everything below it, that have one of the types. It returns the number of
// heads that were not marked before. Without types it marks heads of every
// type.
func (tx *Tx) Invalidate(path string, recursive bool, types []string) (marked int, err error) {
	r := tx.frames()
	cond, args := within("t.path", path)
	if !recursive {
		cond, args = "t.path = ?", []any{[]byte(path)}
	}
	tops, err := r.tops(context.Background(), "WHERE "+cond+" ORDER BY t.path, t.type", args...)
	if err != nil {
		return 0, err
	}
	for _, t := range tops {
		if t.Gone || len(types) > 0 && !slices.Contains(types, t.Type) {
			continue
		}
		n, err := tx.markHead(r, t.Path, t.At, t.Type)
		if err != nil {
			return 0, err
		}
		marked += n
	}
	return marked, nil
}

// InvalidateFrame marks one frame at every state of its path where it is the
// head, and returns 1 if that changed anything.
func (tx *Tx) InvalidateFrame(frame id.ID) (marked int, err error) {
	ctx := context.Background()
	r := tx.frames()
	f, err := r.frame(ctx, frame)
	if err != nil {
		return 0, err
	}
	nodes, err := tx.store.index.column(ctx, "SELECT DISTINCT node FROM heads WHERE path = ?1 AND type = ?2 AND frame = ?3", []byte(f.Path), f.Type, frame.Sum())
	if err != nil {
		return 0, err
	}
	for _, sum := range nodes {
		node, err := id.Of(id.Node, tx.store.Scheme.Alg(), sum)
		if err != nil {
			return 0, corrupt(indexFile, "%w", err)
		}
		if head, err := r.headOf(ctx, f.Path, node, f.Type); err != nil || head != frame {
			if err != nil {
				return 0, err
			}
			continue
		}
		n, err := tx.markHead(r, f.Path, node, f.Type)
		if err != nil {
			return 0, err
		}
		marked = max(marked, n)
	}
	return marked, nil
}

// markHead marks one head and returns 1 if it was not marked.
func (tx *Tx) markHead(r *frames, path string, node id.ID, frameType string) (int, error) {
	marked, err := r.marked(context.Background(), path, node, frameType)
	if err != nil || marked {
		return 0, err
	}
	rec, err := encodeRecord(kindMark, markRecord{RawPath: []byte(path), Node: node, Type: frameType})
	if err != nil {
		return 0, err
	}
	return 1, tx.add(rec)
}

// Recipe returns the recipe of a frame as data.
func Recipe(producer string, policy, params edn.Value) edn.Value {
	var b edn.MapBuilder
	b.Key("producer", edn.K(producer))
	b.Opt("policy", policy)
	b.Opt("params", params)
	return b.Map()
}

// Producer returns the producer in the recipe of a frame, empty if it has none.
func (f *Frame) Producer() string {
	name, _ := f.Recipe.Key("producer").AsKeyword()
	return name
}
