package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Sizes of a page of frames or versions.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

func (v *Snapshot) frames() *frames {
	if v.cache == nil {
		v.cache = newReadCache()
	}
	return &frames{store: v.store, q: v.tx, seq: v.seq, latest: v.latest, assumed: v.assumed, readCache: v.cache}
}

// Frame returns a frame by id, without its text. It is verified against its
// record id.
func (v *Snapshot) Frame(ctx context.Context, frame id.ID) (*Frame, error) {
	f, err := v.frames().frame(ctx, frame)
	return f, readError(err)
}

// Head returns the head of a path and a type: that of the current state of the
// path, or else of the latest earlier state that has one. If there is none, the
// error is frame/no-head, or path/not-in-tree if the path never was in the
// tree.
func (v *Snapshot) Head(ctx context.Context, path, frameType string) (*Head, error) {
	h, err := v.frames().head(ctx, path, frameType)
	return h, readError(err)
}

func readError(err error) error {
	if err == nil {
		return nil
	}
	return asStoreError("read", err)
}

// Filter selects frames. Empty fields select all.
type Filter struct {
	Type   string
	Agent  string
	Origin Origin
	Basis  id.ID
	State  HeadState // of heads; frames that are not heads have no state
	Limit  int       // 0 means DefaultPage
	Cursor string    // of an earlier page
}

// Page is one page of a list. Cursor is empty on the last page.
type Page struct {
	Frames []*Frame
	States []HeadState // of each frame; empty for those that are not heads
	Cursor string
}

// FramesOf lists the frames of a node and of the earlier states of its path, the
// newest first, including frames that are not heads.
func (v *Snapshot) FramesOf(ctx context.Context, n *Found, f Filter) (*Page, error) {
	from, err := v.cursor(f.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := v.AllFrames(ctx, n, f)
	if err != nil {
		return nil, err
	}
	to, next, err := v.page(from, f.Limit, len(all))
	if err != nil {
		return nil, err
	}
	p := &Page{Cursor: next}
	for _, h := range all[min(from, to):to] {
		p.Frames, p.States = append(p.Frames, h.Frame), append(p.States, h.State)
	}
	return p, nil
}

// AllFrames returns what FramesOf lists, without pages. A frame that is not a
// head has no state.
func (v *Snapshot) AllFrames(ctx context.Context, n *Found, f Filter) ([]Head, error) {
	r := v.frames()
	tops, err := r.topsOf(ctx, n)
	if err != nil {
		return nil, readError(err)
	}
	heads := map[id.ID]*top{}
	for _, t := range tops {
		heads[t.Frame] = t
	}
	list, err := r.matching(ctx, n, f)
	if err != nil {
		return nil, readError(err)
	}
	all := make([]Head, 0, len(list))
	for _, frame := range list {
		h := &Head{Frame: frame}
		if t := heads[frame.ID]; t != nil {
			if h, err = r.headOfTop(ctx, t, n); err != nil {
				return nil, readError(err)
			}
		}
		if f.State == "" || f.State == h.State {
			all = append(all, *h)
		}
	}
	return all, nil
}

// matching returns the frames of a node and of the earlier states of its path
// that a filter selects, without regard to its state.
func (r *frames) matching(ctx context.Context, n *Found, f Filter) (list []*Frame, err error) {
	basis := []byte(nil)
	if !f.Basis.IsZero() {
		basis = f.Basis.Sum()
	}
	found, err := r.ids(ctx, `SELECT id FROM frames WHERE path = ?1 AND seq <= ?2 AND (?3 = '' OR type = ?3) AND (?4 = '' OR agent = ?4)
		AND (?5 = '' OR origin = ?5) AND (?6 IS NULL OR basis = ?6)`, []byte(n.Path), int64(r.seq), f.Type, f.Agent, string(f.Origin), basis)
	if err != nil {
		return nil, err
	}
	earlier := map[id.ID]bool{}
	for _, s := range n.States[n.At:] {
		earlier[s.Node] = true
	}
	for _, x := range found {
		frame, err := r.frame(ctx, x)
		if err != nil {
			return nil, err
		}
		if !n.ByID || earlier[frame.Node] {
			list = append(list, frame)
		}
	}
	newest(list)
	return list, nil
}

// State is one state of a path, with the frames that were put on it.
type State struct {
	Version
	Frames []id.ID // the newest first
}

// History lists the states of a path, the newest first, with all frames of each, or
// those of one type. The cursor is empty on the last page.
func (v *Snapshot) History(ctx context.Context, path, typ string, limit int, cursor string) (list []State, next string, err error) {
	from, err := v.cursor(cursor)
	if err != nil {
		return nil, "", err
	}
	r := v.frames()
	versions, err := r.lineage(ctx, path)
	if err != nil {
		return nil, "", readError(err)
	}
	to, next, err := v.page(from, limit, len(versions))
	if err != nil {
		return nil, "", err
	}
	for _, version := range versions[min(from, to):to] {
		frames, err := r.ids(ctx, "SELECT id FROM frames WHERE path = ?1 AND node = ?2 AND seq <= ?3 AND (?4 = '' OR type = ?4) ORDER BY seq DESC, id",
			[]byte(path), version.Node.Sum(), int64(v.seq), typ)
		if err != nil {
			return nil, "", readError(err)
		}
		list = append(list, State{Version: version, Frames: frames})
	}
	return list, next, nil
}

// page returns the end of a page that begins at from, and the cursor of the next
// one.
func (v *Snapshot) page(from, limit, count int) (to int, next string, err error) {
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 0 || limit > MaxPage {
		return 0, "", contract.Errorf("input/invalid", "a page has 1 to %d entries, not %d", MaxPage, limit)
	}
	if from >= count-limit {
		return count, "", nil
	}
	return from + limit, base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%d", v.seq, from+limit)), nil
}

// cursor returns the position of a cursor. It is tied to the state that it was
// made for: the list of another state could begin elsewhere.
func (v *Snapshot) cursor(text string) (from int, err error) {
	if text == "" {
		return 0, nil
	}
	var seq uint64
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d:%d", &seq, &from)
	}
	hint := "begin the list again without :cursor"
	switch {
	case err != nil || from < 0:
		err = contract.Errorf("input/invalid", "the cursor is not one that a list returned")
	case seq != v.seq:
		err = contract.Errorf("input/invalid", "the cursor belongs to the state %d, not to the state %d", seq, v.seq)
		hint = fmt.Sprintf("continue the list at its state with :as-of %d, or %s", seq, hint)
	default:
		return from, nil
	}
	return 0, contract.AsError(err).WithHint(hint).WithOp("list frames", "")
}

// HeadsOf returns the heads of a node, sorted by type. If the node was named by its id, they are
// the heads of exactly that state. If it was named by its path, each head is from the current state
// or from the latest earlier state that has one (WS-071).
func (v *Snapshot) HeadsOf(ctx context.Context, n *Found) ([]Head, error) {
	r := v.frames()
	tops, err := r.topsOf(ctx, n)
	if err != nil {
		return nil, readError(err)
	}
	list := make([]Head, len(tops))
	for i, t := range tops {
		h, err := r.headOfTop(ctx, t, n)
		if err != nil {
			return nil, readError(err)
		}
		list[i] = *h
	}
	return list, nil
}

// HeadsIn returns the heads of the entries of a directory, sorted by path and type.
func (v *Snapshot) HeadsIn(ctx context.Context, dir string) ([]Head, error) {
	r := v.frames()
	tops, err := r.entries(ctx, dir, EveryType)
	if err != nil {
		return nil, readError(err)
	}
	list := make([]Head, len(tops))
	for i, t := range tops {
		h, err := r.headOfTop(ctx, t, &Found{})
		if err != nil {
			return nil, readError(err)
		}
		list[i] = *h
	}
	slices.SortFunc(list, func(a, b Head) int {
		return cmp.Or(compare(a.Frame.Path, b.Frame.Path), compare(a.Frame.Type, b.Frame.Type))
	})
	return list, nil
}

// HeadOf returns the head of the node that ref identifies and a type, like HeadsOf, also
// if its path is gone.
func (v *Snapshot) HeadOf(ctx context.Context, ref Ref, frameType string) (*Head, error) {
	r := v.frames()
	if ref.Node == "" {
		h, err := r.head(ctx, ref.Path, frameType)
		if isType(err, "path/not-in-tree") {
			err = v.Missing(ctx, "node", ref.Path)
		}
		return h, readError(err)
	}
	n, err := v.Resolve(ctx, ref, true)
	if err != nil {
		return nil, err
	}
	frame, err := r.headOf(ctx, n.Path, n.State().Node, frameType)
	if err == nil && frame.IsZero() {
		err = contract.Errorf("frame/no-head", "this state of the path has no frame of type %q", frameType).
			WithOp("head", Shown(n.Path))
	}
	if err != nil {
		return nil, readError(err)
	}
	f, err := r.frame(ctx, frame)
	if err != nil {
		return nil, readError(err)
	}
	h, err := r.headOfTop(ctx, topOf(f, n.State().Node, n.States[0]), n)
	return h, readError(err)
}

// topsOf returns the heads of a node, sorted by type.
func (r *frames) topsOf(ctx context.Context, n *Found) ([]*top, error) {
	if r.latest && !n.ByID {
		return r.tops(ctx, "WHERE t.path = ?1 ORDER BY t.type", []byte(n.Path))
	}
	states := []Version{n.State()}
	if !n.ByID {
		states = append(slices.Clip(n.States), Version{}) // at last that of states without one: see Tx.Import
	}
	byType, err := r.headsIn(ctx, n.Path, states)
	if err != nil {
		return nil, err
	}
	var list []*top
	for _, frameType := range slices.Sorted(maps.Keys(byType)) {
		h := byType[frameType]
		f, err := r.frame(ctx, h.frame)
		if err != nil {
			return nil, err
		}
		list = append(list, topOf(f, h.node, n.States[0]))
	}
	return list, nil
}

// headsIn returns the head of each type in the first of some states of a path
// that has one.
func (r *frames) headsIn(ctx context.Context, path string, states []Version) (map[string]stateHead, error) {
	rank := map[id.ID]int{}
	for i, s := range states {
		if _, known := rank[s.Node]; !known {
			rank[s.Node] = i
		}
	}
	heads := map[string]stateHead{}
	err := r.each(ctx, func(rows *sql.Rows) error {
		var node, frame []byte
		var h stateHead
		if err := rows.Scan(&node, &h.typ, &frame); err != nil {
			return err
		}
		if err := h.set(r.store.Scheme, node, frame); err != nil {
			return err
		}
		at, wanted := rank[h.node]
		if before, ok := heads[h.typ]; wanted && (!ok || at <= rank[before.node]) {
			heads[h.typ] = h
		}
		return nil
	}, "SELECT node, type, frame FROM heads WHERE path = ?1 AND seq <= ?2 ORDER BY seq", []byte(path), int64(r.seq))
	return heads, err
}

// headOfTop reads a head of a node and computes its state.
func (r *frames) headOfTop(ctx context.Context, t *top, n *Found) (*Head, error) {
	f, err := r.frameOf(ctx, t)
	if err != nil {
		return nil, err
	}
	h := &Head{Frame: f}
	if n.ByID && !t.Gone { // what is known of heads by path is not about this one
		h.State, h.Reasons, err = r.compare(ctx, t)
	} else {
		h.State, h.Reasons, err = r.stateAndReasons(ctx, t)
	}
	return h, err
}

// CountFrames returns the number of frames of a path.
func (v *Snapshot) CountFrames(ctx context.Context, path string) (n int, err error) {
	err = v.tx.QueryRowContext(ctx, "SELECT count(*) FROM frames WHERE path = ?1 AND seq <= ?2", []byte(path), int64(v.seq)).Scan(&n)
	return n, readError(err)
}
