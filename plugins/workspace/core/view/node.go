package view

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// NodeResult is the result of get-node.
type NodeResult struct {
	ID     id.ID   `edn:"node/id"`
	Node   Record  `edn:"node"`
	Frames []Frame `edn:"frames"`
	// Count is the number of all frames of the path, Matched the number that
	// the view selects, Returned the number in this result.
	Count    int `edn:"frame/count"`
	Matched  int `edn:"frame/matched"`
	Returned int `edn:"frame/returned"`
}

// Record describes a node.
type Record struct {
	ID id.ID `edn:"node/id"`
	store.Place
	Kind     Keyword `edn:"kind"`
	Mode     string  `edn:"mode"`
	Size     *int64  `edn:"size,omitempty"` // of files and links
	Content  id.ID   `edn:"content/id"`
	Children []Child `edn:"children,omitempty"`
	// Parent is the node id of the directory; the root has none.
	Parent   *id.ID  `edn:"parent,omitempty"`
	FrameSet *id.ID  `edn:"frame-set/root,omitempty"`
	Lineage  Lineage `edn:"lineage"`
	// TombstonedAt is the time at which a request deleted the path.
	TombstonedAt *time.Time `edn:"tombstoned-at,omitempty"`
}

// Child is an entry of a directory.
type Child struct {
	Name    string  `edn:"name,omitempty"`
	RawName string  `edn:"name/b64,omitempty"`
	Kind    Keyword `edn:"kind"`
	ID      id.ID   `edn:"node/id"`
}

// Lineage is the position of a state among those of its path.
type Lineage struct {
	Version     int       `edn:"version"` // from 1, the oldest
	Since       uint64    `edn:"since"`
	Until       uint64    `edn:"until,omitempty"` // of a state that is not current
	Previous    *id.ID    `edn:"previous,omitempty"`
	RenamedFrom edn.Value `edn:"renamed-from,omitempty"`
}

// OrRead appends how to the hint of an error of type node/deleted: how the deleted path can be
// read. Other errors are returned unchanged.
func OrRead(err error, how string) error {
	if !errors.Is(err, contract.OfType("node/deleted")) {
		return err
	}
	e := contract.AsError(err)
	return e.WithHint(e.Hint + "; or " + how)
}

// Node reads a node with the frames that a view selects.
func Node(ctx context.Context, s *store.Snapshot, ref store.Ref, v View) (*NodeResult, error) {
	found, err := s.Resolve(ctx, ref, slices.Contains(v.Include, store.Deleted))
	if err != nil {
		return nil, OrRead(err, "read it with :include #{:deleted}, or at an earlier state with :as-of")
	}
	record, err := recordOf(ctx, s, found)
	if err != nil {
		return nil, err
	}
	r := &NodeResult{ID: record.ID, Node: *record, Frames: []Frame{}}
	if r.Count, err = s.CountFrames(ctx, found.Path); err != nil {
		return nil, err
	}
	list, err := v.pick(ctx, s, found)
	if err != nil {
		return nil, err
	}
	r.Matched = len(list)
	cut := cutter{frames: v.MaxFrames, bytes: v.MaxBytes, content: v.Content}
	r.Frames, err = cut.cut(ctx, s, list)
	r.Returned = len(r.Frames)
	return r, err
}

// recordOf describes a node.
func recordOf(ctx context.Context, s *store.Snapshot, f *store.Found) (*Record, error) {
	state := f.State()
	r := &Record{
		ID:      state.Node,
		Place:   store.PlaceOf(f.Path),
		Kind:    Keyword(state.Mode.Kind()),
		Mode:    state.Mode.String(),
		Content: state.Content,
		Lineage: Lineage{Version: len(f.States) - f.At, Since: state.Since, Until: state.Until},
	}
	if state.RenamedFrom != "" {
		r.Lineage.RenamedFrom = store.ShownPath(state.RenamedFrom).Value()
	}
	if f.At+1 < len(f.States) {
		r.Lineage.Previous = &f.States[f.At+1].Node
	}
	if state.Mode != id.Dir {
		r.Size = &state.Size
	}
	at := s.Seq()
	if !f.Current() {
		at = state.Until - 1 // the last moment of the state
	}
	if f.Path != "" {
		up, err := s.NodeAt(ctx, tree.Parent(f.Path), at)
		if err != nil {
			return nil, err
		}
		if up != nil {
			r.Parent = &up.ID
		}
	}
	if state.Mode == id.Dir {
		entries, err := s.NodesIn(ctx, f.Path, at)
		if err != nil {
			return nil, err
		}
		r.Children = childrenOf(entries)
	}
	return r, r.complete(ctx, s, f)
}

// complete adds the root of the frame set and the time of the deletion, which are not in the tree.
func (r *Record) complete(ctx context.Context, s *store.Snapshot, f *store.Found) error {
	set, err := s.FrameSet(ctx, f.Path, r.ID)
	if err != nil {
		return err
	}
	r.FrameSet = &set
	if seq := f.State().Tombstone; seq != 0 {
		c, err := s.Commit(ctx, seq)
		if err != nil {
			return err
		}
		at := time.Unix(0, c.Time).UTC()
		r.TombstonedAt = &at
	}
	return nil
}

func childrenOf(entries []*tree.Node) []Child {
	list := make([]Child, len(entries))
	for i, c := range entries {
		place := store.PlaceOf(c.Name)
		list[i] = Child{Name: place.Text, RawName: place.Raw, Kind: Keyword(c.Mode.Kind()), ID: c.ID}
	}
	return list
}

// pick returns the frames that a view selects, in its order.
func (v *View) pick(ctx context.Context, s *store.Snapshot, f *store.Found) ([]store.Head, error) {
	var all []store.Head
	var err error
	if v.Select == History {
		all, err = s.AllFrames(ctx, f, store.Filter{})
	} else {
		all, err = s.HeadsOf(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	list := all[:0]
	for i := range all {
		if v.shows(all[i].State) && matchAll(v.Filters, &all[i]) {
			list = append(list, all[i])
		}
	}
	slices.SortFunc(list, v.compare)
	return list, nil
}

func (v *View) compare(a, b store.Head) int {
	switch v.Order {
	case ByType:
		return cmp.Or(byPriority(v.Priority, a.Frame.Type, b.Frame.Type), byRecency(a, b))
	case ByAgent:
		return cmp.Or(byPriority(v.Priority, a.Frame.Agent, b.Frame.Agent), byRecency(a, b))
	}
	return byRecency(a, b)
}

// byPriority compares names by their position in listed, unlisted names last; if there is no list,
// alphabetically.
func byPriority(listed []string, a, b string) int {
	if len(listed) == 0 {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(position(listed, a), position(listed, b))
}

func position(list []string, name string) int {
	if i := slices.Index(list, name); i >= 0 {
		return i
	}
	return len(list)
}

// byRecency orders the newest first, then the later transaction, then by id.
func byRecency(a, b store.Head) int {
	return cmp.Or(cmp.Compare(b.Frame.CreatedAt, a.Frame.CreatedAt), cmp.Compare(b.Frame.Seq, a.Frame.Seq), a.Frame.ID.Compare(b.Frame.ID))
}

// cutter limits a list of frames. Both limits are hard.
type cutter struct {
	frames, bytes int
	content       bool
}

// cut returns the frames that fit, with their texts as far as those fit.
func (c cutter) cut(ctx context.Context, s *store.Snapshot, list []store.Head) ([]Frame, error) {
	list = list[:min(len(list), c.frames)]
	texts, err := c.texts(ctx, s, list)
	if err != nil {
		return nil, err
	}
	out := make([]Frame, 0, len(list))
	left := c.bytes
	for i := range list {
		f := frameOf(&list[i])
		switch {
		case !c.content:
		case f.Bytes > left:
			f.Omitted = true
		default:
			text, known := texts[f.Content]
			if !known {
				text, err = s.Content(ctx, f.Content)
			}
			if errors.Is(err, store.ErrTextDropped) {
				f.Dropped, err = true, nil
				break
			}
			if err != nil {
				return nil, err
			}
			left -= len(text)
			f.setText(text)
		}
		out = append(out, f)
	}
	return out, nil
}

// texts reads the texts that fit with one query, if none was dropped.
func (c cutter) texts(ctx context.Context, s *store.Snapshot, list []store.Head) (map[id.ID][]byte, error) {
	if !c.content {
		return nil, nil
	}
	var fit []id.ID
	left := c.bytes
	for _, h := range list {
		if h.Frame.Bytes <= left {
			fit = append(fit, h.Frame.Content)
			left -= h.Frame.Bytes
		}
	}
	return s.Contents(ctx, fit)
}
