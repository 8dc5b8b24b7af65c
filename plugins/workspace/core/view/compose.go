package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Ranker orders frames by calling an intent. It returns frame ids, best first.
type Ranker func(ctx context.Context, intent string, candidates []Frame, query string) (ids []string, err error)

// Composition is the result of compose.
type Composition struct {
	Frames  []Frame  `edn:"frames"`
	IDs     *[]id.ID `edn:"ids,omitempty"` // if ids were asked for; Frames is empty then
	Skipped []Skip   `edn:"skipped"`
	// Omitted is the number of frames beyond Request.MaxFrames.
	Omitted int `edn:"omitted"`
	// OrderingError is the type of the error of a custom ordering that was
	// replaced by another one.
	OrderingError Keyword `edn:"ordering/error,omitempty"`

	Seq uint64 `edn:"-"` // that was read at
}

// Skip is a requested item that has no frames.
type Skip struct {
	Source Keyword `edn:"source"`
	store.Place
	ID     string  `edn:"node/id,omitempty"`
	Reason Keyword `edn:"reason"`
}

// candidate is a frame of a source.
type candidate struct {
	store.Head
	source int   // position of the source in the request
	score  int64 // of the relevance, in millionths
}

// Viewer is a store that can be read.
type Viewer interface {
	View(ctx context.Context, asOf uint64, read func(*store.Snapshot) error) error
}

// Compose collects frames of several nodes. An unknown main node is an error;
// other missing items are listed in the result. rank is called outside of any
// transaction; it may be nil if no custom ordering is used.
func Compose(ctx context.Context, s Viewer, asOf uint64, r Request, rank Ranker) (*Composition, error) {
	c := composer{request: r}
	custom := r.Ordering.Kind == Custom
	err := s.View(ctx, asOf, func(s *store.Snapshot) (err error) {
		c.out.Seq = s.Seq()
		if err = c.collect(ctx, s); err != nil {
			return err
		}
		if custom {
			c.sort(Ordering{Kind: NewestFirst})
			c.shown, err = cutter{frames: len(c.list), bytes: r.MaxBytes, content: r.Ordering.Content}.cut(ctx, s, c.heads())
			return err
		}
		return c.finish(ctx, s, r.Ordering)
	})
	if err != nil || !custom {
		return &c.out, err
	}
	instead, err := c.custom(ctx, rank)
	if err != nil {
		return nil, err
	}
	err = s.View(ctx, c.out.Seq, func(s *store.Snapshot) error { return c.finish(ctx, s, instead) })
	return &c.out, err
}

type composer struct {
	request Request
	list    []candidate
	known   map[id.ID]bool
	shown   []Frame // of the custom ordering
	out     Composition
}

func (c *composer) skip(source SourceKind, path, node string, reason Keyword) {
	s := Skip{Source: Keyword(source), ID: node, Reason: reason}
	if node == "" {
		s.Place = store.PlaceOf(path)
	}
	c.out.Skipped = append(c.out.Skipped, s)
}

// collect reads the frames of all sources.
func (c *composer) collect(ctx context.Context, s *store.Snapshot) error {
	c.known, c.out.Skipped = map[id.ID]bool{}, []Skip{}
	main, err := s.Resolve(ctx, c.request.Node, false)
	if err != nil {
		return OrRead(asNotFound(err), "read an earlier state with :as-of")
	}
	for i, source := range c.request.Sources {
		switch source.Kind {
		case Current:
			err = c.add(ctx, s, i, main)
		case Parent:
			err = c.parent(ctx, s, i, main)
		case Siblings:
			err = c.siblings(ctx, s, i, main)
		case Related:
			err = c.related(ctx, s, i, source.Nodes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// asNotFound converts an error path/not-in-tree to node/not-found. Other errors are returned
// unchanged.
func asNotFound(err error) error {
	e := contract.AsError(err)
	if e.Type != "path/not-in-tree" {
		return err
	}
	return contract.Errorf("node/not-found", "%s", e.Message).WithOp(e.Op, e.Object).WithDetails(e.Details).
		WithHint(e.Hint)
}

// add adds the frames of one node.
func (c *composer) add(ctx context.Context, s *store.Snapshot, source int, n *store.Found) error {
	heads, err := s.HeadsOf(ctx, n)
	if err != nil {
		return err
	}
	if len(heads) == 0 {
		c.skip(c.request.Sources[source].Kind, n.Path, "", "no-frames")
	}
	c.take(source, heads)
	return nil
}

// take adds the heads that pass the filters and have not been added yet.
func (c *composer) take(source int, heads []store.Head) {
	for i := range heads {
		h := &heads[i]
		if c.known[h.Frame.ID] || !c.wants(h) {
			continue
		}
		c.known[h.Frame.ID] = true
		c.list = append(c.list, candidate{Head: *h, source: source})
	}
}

// wants reports whether a head passes the filters. Heads that are invalid or whose path is gone
// pass only if a filter names their state.
func (c *composer) wants(h *store.Head) bool {
	byState := slices.ContainsFunc(c.request.Filters, func(f Filter) bool { return f.Kind == "state" })
	return (byState || h.State == store.Fresh || h.State == store.Stale) && matchAll(c.request.Filters, h)
}

func (c *composer) parent(ctx context.Context, s *store.Snapshot, source int, main *store.Found) error {
	if main.Path == "" {
		c.skip(Parent, "", "", "no-parent")
		return nil
	}
	up, err := s.Resolve(ctx, store.Ref{Path: tree.Parent(main.Path)}, false)
	if err == nil {
		err = c.add(ctx, s, source, up)
	}
	return err
}

// siblings adds the other entries of the directory. If none of them has frames,
// that is listed once.
func (c *composer) siblings(ctx context.Context, s *store.Snapshot, source int, main *store.Found) error {
	if main.Path == "" {
		c.skip(Siblings, "", "", "no-parent")
		return nil
	}
	dir := tree.Parent(main.Path)
	heads, err := s.HeadsIn(ctx, dir)
	if err != nil {
		return err
	}
	heads = slices.DeleteFunc(heads, func(h store.Head) bool { return h.Frame.Path == main.Path })
	if len(heads) == 0 {
		c.skip(Siblings, dir, "", "no-frames")
	}
	c.take(source, heads)
	return nil
}

func (c *composer) related(ctx context.Context, s *store.Snapshot, source int, refs []store.Ref) error {
	for _, ref := range refs {
		n, err := s.Resolve(ctx, ref, false)
		if err != nil {
			typ := contract.AsError(err).Type
			if !slices.Contains([]string{"node/not-found", "node/deleted", "path/not-in-tree"}, typ) {
				return err
			}
			c.skip(Related, ref.Path, ref.Node, Keyword(typ))
			continue
		}
		if err := c.add(ctx, s, source, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *composer) heads() []store.Head {
	list := make([]store.Head, len(c.list))
	for i := range c.list {
		list[i] = c.list[i].Head
	}
	return list
}

// finish orders and cuts the frames.
func (c *composer) finish(ctx context.Context, s *store.Snapshot, by Ordering) error {
	if by.Kind == Relevance && c.request.Query != "" {
		if err := c.score(ctx, s); err != nil {
			return err
		}
	}
	if by.Kind != Custom { // else the list is in order already
		c.sort(by)
	}
	n := min(len(c.list), c.request.MaxFrames)
	c.out.Omitted = len(c.list) - n
	if c.request.IDs {
		ids := make([]id.ID, n)
		for i := range ids {
			ids[i] = c.list[i].Frame.ID
		}
		c.out.Frames, c.out.IDs = []Frame{}, &ids
		return nil
	}
	var err error
	c.out.Frames, err = cutter{frames: n, bytes: c.request.MaxBytes, content: true}.cut(ctx, s, c.heads())
	return err
}

func (c *composer) sort(by Ordering) {
	slices.SortFunc(c.list, func(a, b candidate) int { return compareBy(by, &a, &b) })
}

func compareBy(o Ordering, a, b *candidate) int {
	first := 0
	switch o.Kind {
	case TypePriority:
		first = cmp.Compare(position(o.Priority, a.Frame.Type), position(o.Priority, b.Frame.Type))
	case AgentPriority:
		first = cmp.Compare(position(o.Priority, a.Frame.Agent), position(o.Priority, b.Frame.Agent))
	case Relevance:
		first = cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.source, b.source), cmp.Compare(stateRank(a.State), stateRank(b.State)))
	}
	return cmp.Or(first, byRecency(a.Head, b.Head))
}

func stateRank(s store.HeadState) int {
	return slices.Index([]store.HeadState{store.Fresh, store.Stale, store.Invalid, store.Deleted}, s)
}

// custom orders the list by another intent. Unknown ids are dropped, missing
// frames follow in the order of recency. It returns the ordering that finish has
// to use: that one, or the one for errors.
func (c *composer) custom(ctx context.Context, rank Ranker) (Ordering, error) {
	by := c.request.Ordering
	if rank == nil {
		return by, contract.Errorf("compose/custom-failed", "no custom ordering is available here").WithOp("compose", ":"+by.Intent)
	}
	ids, err := rank(ctx, by.Intent, c.shown, c.request.Query)
	if err != nil {
		cause := contract.AsError(err)
		if by.OnError == nil {
			return by, contract.Errorf("compose/custom-failed", "%w", cause).WithOp("compose", ":"+by.Intent)
		}
		c.out.OrderingError = Keyword(cause.Type)
		return *by.OnError, nil
	}
	place := make(map[string]int, len(ids))
	for i, x := range ids {
		if _, again := place[x]; !again {
			place[x] = i - len(ids)
		}
	}
	slices.SortStableFunc(c.list, func(a, b candidate) int {
		return cmp.Compare(place[a.Frame.ID.String()], place[b.Frame.ID.String()])
	})
	return by, nil
}
