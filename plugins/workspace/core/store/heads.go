package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Head is the current frame of a path and a type.
type Head struct {
	Frame *Frame
	State HeadState
	// Reasons state why the head is not fresh; empty if it is fresh or deleted.
	Reasons []Reason
}

// HeadInfo is a head in a list. Snapshot.FrameOf returns its frame.
type HeadInfo struct {
	Path    string
	Type    string
	Mode    id.Mode // of the path
	Node    id.ID   // current state of the path
	Frame   id.ID
	Agent   string
	Origin  Origin
	State   HeadState
	Reasons []Reason
	frame   *Frame // if it was read already
}

// head returns the head by path: at the current state of the path, else at the
// latest earlier state that has one.
func (r *frames) head(ctx context.Context, path, frameType string) (*Head, error) {
	t, err := r.topAt(ctx, path, frameType)
	if err != nil {
		return nil, err
	}
	if t == nil {
		states, err := r.lineage(ctx, path)
		if err == nil && len(states) == 0 {
			err = notInTree("head", path)
		} else if err == nil {
			err = contract.Errorf("frame/no-head", "the path has no frame of type %q", frameType).
				WithOp("head", Shown(path))
		}
		return nil, err
	}
	f, err := r.frameOf(ctx, t)
	if err != nil {
		return nil, err
	}
	state, reasons, err := r.stateAndReasons(ctx, t)
	return &Head{Frame: f, State: state, Reasons: reasons}, err
}

// Heads lists the heads of a path and everything below it with their states,
// sorted by path and type. Without types it lists all. The cost depends on the
// number of listed heads; frames are read only where the state is unknown.
func (v *Snapshot) Heads(ctx context.Context, under string, types []string) ([]HeadInfo, error) {
	r := v.frames()
	var list []*top
	var err error
	if r.latest {
		cond, args := within("t.path", under)
		list, err = r.tops(ctx, "WHERE "+cond, args...)
	} else {
		list, err = r.topsAsOf(ctx, under, func(string) bool { return true })
	}
	if err != nil {
		return nil, readError(err)
	}
	return r.infos(ctx, list, types)
}

// Described lists the existing paths at and below under that have a head of a type;
// EveryType matches any type. It computes no states, so it costs less than Heads.
func (v *Snapshot) Described(ctx context.Context, under, frameType string) (paths []string, err error) {
	r := v.frames()
	var list []*top
	if r.latest {
		cond, args := within("t.path", under)
		list, err = r.tops(ctx, "WHERE (? IN ('*', t.type)) AND "+cond, append([]any{frameType}, args...)...)
	} else {
		list, err = r.topsAsOf(ctx, under, func(string) bool { return true })
	}
	for _, t := range list {
		if !t.Gone && (frameType == EveryType || frameType == t.Type) {
			paths = append(paths, t.Path)
		}
	}
	return paths, readError(err)
}

// IsFresh reports whether a path has a fresh head of a type.
func (v *Snapshot) IsFresh(ctx context.Context, path, frameType string) (bool, error) {
	r := v.frames()
	t, err := r.topAt(ctx, path, frameType)
	if err != nil || t == nil {
		return false, readError(err)
	}
	state, err := r.stateOf(ctx, t)
	return state == Fresh, readError(err)
}

// HeadsAt lists the heads of one path with their states, sorted by type. Without
// types it lists all.
func (v *Snapshot) HeadsAt(ctx context.Context, path string, types ...string) ([]HeadInfo, error) {
	r := v.frames()
	var list []*top
	var err error
	if r.latest {
		list, err = r.tops(ctx, "WHERE t.path = ?1", []byte(path))
	} else {
		list, err = r.topsAsOf(ctx, path, func(p string) bool { return p == path })
	}
	if err != nil {
		return nil, readError(err)
	}
	return r.infos(ctx, list, types)
}

// HeadsOfEntries lists the heads of the existing entries of a directory, like
// HeadsAt.
func (v *Snapshot) HeadsOfEntries(ctx context.Context, dir string) ([]HeadInfo, error) {
	r := v.frames()
	list, err := r.entries(ctx, dir, EveryType)
	if err != nil {
		return nil, readError(err)
	}
	return r.infos(ctx, list, nil)
}

// FrameOf returns the frame of a head.
func (v *Snapshot) FrameOf(ctx context.Context, h HeadInfo) (*Frame, error) {
	if h.frame != nil {
		return h.frame, nil
	}
	return v.Frame(ctx, h.Frame)
}

// Suspects returns the paths at and below a path that may have a head which is
// stale or invalid in the latest state. It computes no states: the cost depends on
// the changes since those heads were put, not on the size of the tree.
func (v *Snapshot) Suspects(ctx context.Context, under string, types []string) (paths []string, err error) {
	list, err := v.frames().suspects(ctx, under, types)
	for _, t := range list {
		if !t.Gone {
			paths = append(paths, t.Path)
		}
	}
	return paths, readError(err)
}

// suspects returns the heads of a path and below it that may not be fresh.
func (r *frames) suspects(ctx context.Context, under string, types []string) ([]*top, error) {
	cond, args := within("t.path", under)
	list, err := r.tops(ctx, "WHERE t.suspect = 1 AND (?1 = '  ' OR instr(?1, ' ' || t.type || ' ')) AND "+cond,
		append([]any{" " + strings.Join(types, " ") + " "}, args...)...)
	if err != nil {
		return nil, err
	}
	changed, err := r.changedRecipes(ctx)
	if err != nil || len(changed) == 0 {
		return list, err
	}
	all, err := r.tops(ctx, "WHERE t.suspect = 0 AND "+cond, args...) // as many are affected as have the recipe
	return append(list, slices.DeleteFunc(all, func(t *top) bool { return !changed[string(t.Recipe)] })...), err
}

// infos computes the states of tops and sorts them.
func (r *frames) infos(ctx context.Context, tops []*top, types []string) ([]HeadInfo, error) {
	list := make([]HeadInfo, 0, len(tops))
	for _, t := range tops {
		if len(types) > 0 && !slices.Contains(types, t.Type) {
			continue
		}
		state, reasons, err := r.stateAndReasons(ctx, t)
		if err != nil {
			return nil, readError(err)
		}
		list = append(list, HeadInfo{
			Path: t.Path, Type: t.Type, Mode: t.Mode, Node: t.Node, Frame: t.Frame, Agent: t.Agent, Origin: t.Origin,
			State: state, Reasons: reasons, frame: t.frame,
		})
	}
	slices.SortFunc(list, func(a, b HeadInfo) int {
		if c := compare(a.Path, b.Path); c != 0 {
			return c
		}
		return compare(a.Type, b.Type)
	})
	return list, nil
}

// changedRecipes returns the keys of recipes whose policy or prompt has changed.
func (r *frames) changedRecipes(ctx context.Context) (map[string]bool, error) {
	if r.changed != nil {
		return r.changed, nil
	}
	examples := map[string]id.ID{}
	if p := r.store.resolver.Load(); p != nil && *p != nil {
		err := r.each(ctx, func(rows *sql.Rows) error {
			var key, sum []byte
			if err := rows.Scan(&key, &sum); err != nil {
				return err
			}
			frame, err := id.Of(id.Frame, r.store.Scheme.Alg(), sum)
			examples[string(key)] = frame
			return err
		}, "SELECT key, frame FROM recipes")
		if err != nil {
			return nil, err
		}
	}
	changed := map[string]bool{}
	for key, frame := range examples {
		f, err := r.example(ctx, key, frame)
		if err != nil {
			return nil, err
		}
		for _, in := range f.Inputs {
			if in.configured() && !r.store.resolve(f, in).equal(in) {
				changed[key] = true
			}
		}
	}
	r.changed = changed
	return changed, nil
}

// example returns a frame with a recipe. It is read once per key, because the inputs that come from
// the configuration are equal in all frames with the key.
func (r *frames) example(ctx context.Context, key string, frame id.ID) (*Frame, error) {
	if known, ok := r.store.examples.Load(key); ok {
		return known.(*Frame), nil
	}
	f, err := r.frame(ctx, frame)
	if err == nil {
		r.store.examples.Store(key, f)
	}
	return f, err
}

// configured reports whether an input comes from the configuration.
func (in Input) configured() bool {
	return in.Kind == id.InputPolicy || in.Kind == id.InputPrompt || in.Kind == id.InputParams
}

// recipeKey returns the hash of everything that determines the inputs of a frame
// that come from the configuration, nil if it has none.
func (f *Frame) recipeKey() []byte {
	var inputs []id.Input
	for _, in := range f.Inputs {
		if in.configured() {
			inputs = append(inputs, id.Input{Kind: in.Kind, ID: in.ID, Text: string(in.Text)})
		}
	}
	if inputs == nil {
		return nil
	}
	for _, text := range []string{string(f.Origin), f.Agent, string(f.Recipe.Canonical())} {
		inputs = append(inputs, id.Input{Text: text})
	}
	return id.B3.Basis(inputs).Sum()
}

// marked reports whether the head at a state of a path is marked.
func (r *frames) marked(ctx context.Context, path string, node id.ID, frameType string) (bool, error) {
	if any, err := r.anyMarks.find(ctx, r.q, "marks"); err != nil || !any {
		return false, err
	}
	var marked bool
	err := r.row(ctx, []any{&marked}, "SELECT marked FROM marks WHERE path = ?1 AND node = ?2 AND type = ?3 AND seq <= ?4 ORDER BY seq DESC LIMIT 1",
		[]byte(path), node.Sum(), frameType, int64(r.seq))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return marked, err
}

// headKey is the key of a head.
type headKey struct {
	path string
	node id.ID
	typ  string
}

// marks returns the marks of all heads that have one.
func (r *frames) marks(ctx context.Context) (map[headKey]string, error) {
	all := map[headKey]string{}
	err := r.each(ctx, func(rows *sql.Rows) error {
		var path, node []byte
		var key headKey
		var marked bool
		if err := rows.Scan(&path, &node, &key.typ, &marked); err != nil {
			return err
		}
		var h stateHead
		if err := h.setNode(r.store.Scheme, node); err != nil {
			return err
		}
		key.path, key.node = string(path), h.node
		delete(all, key)
		if marked {
			all[key] = string(Invalid)
		}
		return nil
	}, "SELECT path, node, type, marked FROM marks WHERE seq <= ?1 ORDER BY seq", int64(r.seq))
	return all, err
}
