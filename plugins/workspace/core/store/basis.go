package store

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HeadState is the state of a head in relation to the current tree.
type HeadState string

// The states, in order of precedence.
const (
	Deleted HeadState = "deleted" // the path is gone, or another kind of node
	Invalid HeadState = "invalid" // it was marked by hand
	Stale   HeadState = "stale"   // its basis, computed now, would differ
	Fresh   HeadState = "fresh"   // its basis, computed now, would be equal
)

// Reason states why a head is not fresh.
type Reason string

// The reasons.
const (
	NodeChanged   Reason = "node-changed"   // the path has another state
	ChildChanged  Reason = "child-changed"  // a frame that it was made from was replaced
	RecipeChanged Reason = "recipe-changed" // a policy, an extractor or a prompt
	TextDropped   Reason = "text-dropped"   // its text was dropped by a compaction or lost by damage
	Invalidated   Reason = "invalidated"
)

// ResolveInput returns the current value of an input of a frame that does not
// come from the tree, such as the digest of a policy or the id of a prompt.
type ResolveInput func(f *Frame, in Input) Input

// SetResolver sets the function that computes the state of frames whose policy or
// prompt can change. Without one these inputs never change. The function must be
// safe for concurrent use and must not read the store.
func (s *Store) SetResolver(f ResolveInput) { s.resolver.Store(&f) }

// ResolveLike makes s use the resolver of another store.
func (s *Store) ResolveLike(other *Store) { s.resolver.Store(other.resolver.Load()) }

func (s *Store) resolve(f *Frame, in Input) Input {
	if p := s.resolver.Load(); p != nil && *p != nil {
		return (*p)(f, in)
	}
	return in
}

// SelectionOf returns the selection in the recipe of a directory frame, false if
// it has none.
func (f *Frame) SelectionOf() (sel Selection, ok bool, err error) {
	params := f.Recipe.Key("params")
	if f.Origin == Generated {
		params = params.Key("selection")
	}
	if f.Origin != Synthesized && f.Origin != Generated || params.IsNil() {
		return sel, false, nil
	}
	if err := edn.Decode(params, &sel); err != nil {
		return sel, false, contract.Errorf("store/corrupt", "the recipe of frame %s cannot be read: %w", f.ID, err).WithOp("store", f.Path)
	}
	return sel, true, nil
}

// basis computes the inputs of a frame again.
func (r *frames) basis(ctx context.Context, f *Frame, now Version) ([]Input, error) {
	sel, ofDir, err := f.SelectionOf()
	if err != nil {
		return nil, err
	}
	var children *Selected
	if ofDir {
		if children, err = r.selected(ctx, f.Path, sel, false); err != nil {
			return nil, err
		}
	}
	if f.Origin == Synthesized && ofDir {
		policy := Input{Kind: id.InputPolicy}
		for _, in := range f.Inputs {
			if in.Kind == id.InputPolicy {
				policy = r.store.resolve(f, in)
			}
		}
		return children.Inputs(sel, now, f.Path, string(policy.Text)), nil
	}
	list := slices.Clone(f.Inputs)
	for i, in := range list {
		switch in.Kind {
		case id.InputNode:
			list[i].ID = now.Node
		case id.InputFrame:
			head, err := r.replacement(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			if head != f.ID { // a frame may replace the one that it was made from
				list[i].ID = head
			}
		case id.InputContext:
			if ofDir {
				list[i].ID = children.Context(r.store.Scheme)
			} else {
				list[i].ID = FileContext(r.store.Scheme, now.Node)
			}
		case id.InputPolicy, id.InputPrompt, id.InputParams:
			list[i] = r.store.resolve(f, in)
		}
	}
	return list, nil
}

// FileContext returns the context id of a file.
func FileContext(scheme id.Scheme, node id.ID) id.ID {
	return scheme.Context([]id.Input{{Kind: id.InputNode, ID: node}})
}

// replacement returns the head that replaces a frame: the head at the current state of its path,
// absent if there is none. It is also absent if the store lacks the frame, as it can after an
// import.
func (r *frames) replacement(ctx context.Context, frame id.ID) (id.ID, error) {
	used, err := r.frame(ctx, frame)
	if isNotFound(err) {
		return id.ID{}, nil
	}
	if err != nil {
		return id.ID{}, err
	}
	now, err := r.current(ctx, used.Path)
	if err != nil || now == nil {
		return id.ID{}, err
	}
	return r.headOf(ctx, used.Path, now.Node, used.Type)
}

// stateOf returns the state of the head of a top.
func (r *frames) stateOf(ctx context.Context, t *top) (HeadState, error) {
	state, _, err := r.stateAndReasons(ctx, t)
	return state, err
}

// stateAndReasons computes the state of a top, and why it is not fresh.
func (r *frames) stateAndReasons(ctx context.Context, t *top) (HeadState, []Reason, error) {
	if t.State != "" {
		return t.State, nil, nil
	}
	if t.Gone {
		return Deleted, nil, nil
	}
	if r.latest && !t.Suspect && !r.assumed.affects(t) {
		changed, err := r.changedRecipes(ctx)
		if err != nil || !changed[string(t.Recipe)] {
			return Fresh, nil, err
		}
	}
	key := topKey{t.Path, t.Type}
	if known, ok := r.memo[key]; ok {
		return known.state, known.reasons, nil
	}
	state, reasons, err := r.compare(ctx, t)
	if err == nil && r.memo != nil {
		r.memo[key] = stateMemo{state, reasons}
	}
	return state, reasons, err
}

type stateMemo struct {
	state   HeadState
	reasons []Reason
}

// compare compares the basis of a frame with what it would be now.
func (r *frames) compare(ctx context.Context, t *top) (HeadState, []Reason, error) {
	f, err := r.frameOf(ctx, t)
	if err != nil {
		return "", nil, err
	}
	t.frame = f
	marked, err := r.marked(ctx, t.Path, t.At, t.Type)
	if err != nil {
		return "", nil, err
	}
	inputs, err := r.basis(ctx, f, Version{Node: t.Node})
	if err != nil {
		return "", nil, err
	}
	var reasons []Reason
	if marked {
		reasons = append(reasons, Invalidated)
	}
	if r.store.Scheme.Basis(IDInputs(inputs)) != f.Basis {
		reasons = append(reasons, f.differences(inputs)...)
	}
	kept, err := r.hasText(ctx, f.Content)
	if err != nil {
		return "", nil, err
	}
	if !kept { // a compaction may drop it while the path has another state
		reasons = append(reasons, TextDropped)
	}
	switch {
	case marked:
		return Invalid, reasons, nil
	case len(reasons) > 0:
		return Stale, reasons, nil
	}
	return Fresh, nil, nil
}

// differences returns why a basis differs from that of the frame.
func (f *Frame) differences(now []Input) (reasons []Reason) {
	_, ofDir, _ := f.SelectionOf()
	group := func(list []Input, reason Reason) (out []Input) {
		for _, in := range list {
			of := RecipeChanged
			switch in.Kind {
			case id.InputNode, id.InputPath:
				of = NodeChanged
			case id.InputFrame, id.InputChild:
				of = ChildChanged
			case id.InputContext:
				if of = NodeChanged; ofDir {
					of = ChildChanged
				}
			}
			if of == reason {
				out = append(out, in)
			}
		}
		return out
	}
	for _, reason := range []Reason{NodeChanged, ChildChanged, RecipeChanged} {
		if !slices.EqualFunc(group(f.Inputs, reason), group(now, reason), Input.equal) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

func (in Input) equal(other Input) bool {
	return in.Kind == other.Kind && in.ID == other.ID && string(in.Text) == string(other.Text)
}

// Current returns the current state of a path, nil if the path is not in the
// tree.
func (v *Snapshot) Current(ctx context.Context, path string) (*Version, error) {
	now, err := v.frames().current(ctx, path)
	return now, readError(err)
}

// DirectoryAbove returns the nearest existing directory above a path; the root if
// there is none.
func (v *Snapshot) DirectoryAbove(ctx context.Context, path string) (string, error) {
	for path != "" {
		path, _ = split(path)
		now, err := v.Current(ctx, path)
		if err != nil || now != nil && now.Mode == id.Dir {
			return path, err
		}
	}
	return "", nil
}

// NotReady returns the directories in dir that are in the tree and have frames of the
// selection's type below them but are not in ready.
func (v *Snapshot) NotReady(ctx context.Context, dir string, sel Selection, ready map[string]bool) ([]string, error) {
	list, err := v.frames().notReady(ctx, dir, sel, ready)
	return list, readError(err)
}
