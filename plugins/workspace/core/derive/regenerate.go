package derive

import (
	"context"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// regeneration is one request to make frames again.
type regeneration struct {
	*work
	r        RegenerateRequest
	settings Settings
	stopAt   []string
	path     string
	types    []string
	missing  map[key]*job // first frames of directories that have none of a type
	authored map[PathType]bool
}

// Regenerate runs the recipes of the heads in scope that are not fresh, and
// appends the resulting frames. Failures of single frames are reported in the
// items of the result.
func (e *Engine) Regenerate(ctx context.Context, r RegenerateRequest) (*Regenerated, error) {
	if _, err := e.allow(r.Caller, agent.Regenerate); err != nil {
		return nil, err
	}
	g := &regeneration{
		work:     &work{e: e, caller: r.Caller, phase: "regenerate", progress: r.Progress},
		r:        r,
		settings: e.o.Settings(),
		path:     r.Path,
		types:    r.Types,
		missing:  map[key]*job{},
		authored: map[PathType]bool{},
	}
	g.stopAt = append(slices.Clone(g.settings.Boundaries), r.StopAt...)
	g.work.jobs, g.work.climb, g.work.scope = g.jobs, g.inScope, g.scope
	g.work.deltas, g.work.concurrency = r.Deltas, r.Concurrency
	if !r.Policy.IsNil() {
		if !r.CreateMissing {
			return nil, contract.Errorf("input/invalid", ":policy is set without :missing :create").
				WithHint("set :missing :create, or leave :policy out").
				WithDetail("path", edn.Vector(edn.K("policy")))
		}
		if _, err := policy.Parse(r.Policy, e.registry); err != nil {
			return nil, err
		}
	}
	if err := e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) error { return g.scope(ctx, v) }); err != nil {
		return nil, contract.AsError(err)
	}
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	out := &Regenerated{Seq: g.seq}
	out.Items, out.Counts = g.items()
	for _, i := range out.Items {
		out.StaleInputs += i.StaleInputs
	}
	for p := range g.authored {
		out.AuthoredStale = append(out.AuthoredStale, p)
	}
	slices.SortFunc(out.AuthoredStale, func(a, b PathType) int { return compareKeys(key{a.Path, a.Type}, key{b.Path, b.Type}) })
	return out, nil
}

// scope finds the candidates.
func (g *regeneration) scope(ctx context.Context, v *store.Snapshot) error {
	if !g.r.Frame.IsZero() {
		f, err := v.Frame(ctx, g.r.Frame)
		if err != nil {
			return err
		}
		g.path, g.types = f.Path, []string{f.Type}
	}
	now, err := v.Current(ctx, g.path)
	if err != nil {
		return err
	}
	if now == nil {
		return v.Missing(ctx, "regenerate", g.path)
	}
	if g.r.UpToSet && !tree.Below(g.path, g.r.UpTo) {
		return contract.Errorf("input/invalid", ":up names %q, which is not above %q", store.Shown(g.r.UpTo), store.Shown(g.path)).
			WithDetail("path", edn.Vector(edn.K("up")))
	}
	if g.r.Recursive {
		if err := g.subtree(ctx, v); err != nil {
			return err
		}
	}
	if g.r.CreateMissing {
		if err := g.findMissing(ctx, v); err != nil {
			return err
		}
	}
	g.add(g.path)
	for dir := g.path; dir != ""; {
		dir = tree.Parent(dir)
		if g.inScope(dir) {
			g.add(dir)
		}
	}
	return nil
}

// subtree makes everything below the path a candidate that may have work.
func (g *regeneration) subtree(ctx context.Context, v *store.Snapshot) error {
	if !g.r.Force {
		paths, err := v.Suspects(ctx, g.path, g.types)
		for _, p := range paths {
			if g.inScope(p) {
				g.add(p)
			}
		}
		return err
	}
	heads, err := v.Heads(ctx, g.path, g.types)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if h.State != store.Deleted && g.inScope(h.Path) {
			g.add(h.Path)
		}
	}
	return nil
}

// inScope reports whether the request may write the heads of a path.
func (g *regeneration) inScope(path string) bool {
	switch {
	case path == g.path:
		return true
	case tree.Below(path, g.path):
		if !g.r.Recursive {
			return false
		}
	case tree.Below(g.path, path):
		if g.r.UpToSet && !tree.Below(path, g.r.UpTo) || !g.r.UpToSet && tree.Depth(g.path)-tree.Depth(path) > g.r.Up {
			return false
		}
	default:
		return false
	}
	return !slices.Contains(g.stopAt, path)
}

// jobs returns the jobs of paths: one for each of their heads that is not fresh.
func (g *regeneration) jobs(ctx context.Context, v *store.Snapshot, paths []string) (list []*job, err error) {
	for _, path := range paths {
		heads, err := v.HeadsAt(ctx, path, g.types...)
		if err != nil {
			return nil, err
		}
		has := map[string]bool{}
		for _, h := range heads {
			has[h.Type] = true
			if h.State == store.Deleted {
				continue
			}
			if !g.r.Frame.IsZero() && path == g.path && h.Frame != g.r.Frame {
				continue // the frame is not the head any more
			}
			force := g.r.Force && tree.Below(path, g.path)
			if h.State == store.Fresh && !force {
				continue
			}
			j, err := g.job(ctx, v, h, force)
			if err != nil {
				return nil, err
			}
			if j != nil {
				list = append(list, j)
			}
		}
		list = append(list, g.first(path, has)...)
	}
	return list, nil
}

// job returns the job that makes a head again, nil for an authored frame; a stale authored frame is
// recorded in g.authored.
func (g *regeneration) job(ctx context.Context, v *store.Snapshot, h store.HeadInfo, force bool) (*job, error) {
	if h.Origin == store.Authored {
		if h.State != store.Fresh {
			g.authored[PathType{h.Path, h.Type}] = true
		}
		return nil, nil
	}
	f, err := v.FrameOf(ctx, h)
	if err != nil {
		return nil, err
	}
	j := &job{agent: f.Agent, producer: f.Producer(), force: h.State == store.Invalid}
	j.forced(force, g.caller)
	j.now.Mode, j.now.Node = h.Mode, h.Node
	j.item = Item{Path: h.Path, Type: h.Type, Old: h.Frame, Reason: reasonOf(h)}
	if force {
		j.item.Reason = Forced
	}
	if err := g.e.mayRemake(f.Agent, f.Origin); err != nil {
		j.fail(err)
		return j, nil
	}
	switch f.Origin {
	case store.Synthesized:
		if j.policy, j.sel, err = g.e.policyOf(f); err != nil {
			j.fail(err)
		}
		j.producer = "synthesize"
	case store.Generated:
		if g.r.SkipGenerated {
			j.skip("generated frames are skipped")
		} else if j.call, err = g.e.callRecipeOf(ctx, v, f); err != nil {
			j.fail(err)
		} else {
			j.call.force = j.force
		}
	}
	return j, nil
}

// reasonOf returns the first reason why a head is not fresh.
func reasonOf(h store.HeadInfo) Reason {
	if len(h.Reasons) == 0 {
		return Forced
	}
	return Reason(h.Reasons[0])
}

// findMissing finds the directories in scope that have no frame of a type that an
// entry of them has, and the recipe of the nearest directory above that has one.
func (g *regeneration) findMissing(ctx context.Context, v *store.Snapshot) error {
	heads, err := g.headsAround(ctx, v)
	if err != nil {
		return err
	}
	recipes := map[key]store.HeadInfo{} // of directories
	has := map[key]bool{}
	for _, h := range heads {
		has[key{h.Path, h.Type}] = true
		if h.Mode == id.Dir && h.Origin == store.Synthesized {
			recipes[key{h.Path, h.Type}] = h
		}
	}
	for _, h := range heads {
		if len(g.types) > 0 && !slices.Contains(g.types, h.Type) {
			continue
		}
		for dir := h.Path; dir != ""; {
			dir = tree.Parent(dir)
			k := key{dir, h.Type}
			if has[k] || !g.inScope(dir) || g.settings.denied(dir, id.Dir) != "" {
				break
			}
			has[k] = true
			j, err := g.newDirectory(ctx, v, k, recipes)
			if err != nil {
				return err
			}
			g.missing[k] = j
			g.add(dir)
		}
	}
	return nil
}

// headsAround returns the heads of the path and of the directories above it, and those
// that first frames in scope can be made from: of the entries of each directory in scope,
// or of everything below the path.
func (g *regeneration) headsAround(ctx context.Context, v *store.Snapshot) (list []store.HeadInfo, err error) {
	add := func(heads []store.HeadInfo, failed error) {
		list = append(list, heads...)
		err = errors.Join(err, failed)
	}
	if g.r.Recursive {
		add(v.Heads(ctx, g.path, nil))
	} else {
		add(v.HeadsAt(ctx, g.path))
		add(v.HeadsOfEntries(ctx, g.path))
	}
	for dir := g.path; dir != ""; {
		dir = tree.Parent(dir)
		add(v.HeadsAt(ctx, dir))
		if g.inScope(dir) {
			add(v.HeadsOfEntries(ctx, dir))
		}
	}
	return slices.DeleteFunc(list, func(h store.HeadInfo) bool { return h.State == store.Deleted }), err
}

// newDirectory returns the job for the first frame of a directory: with the policy of
// the request, the recipe of the nearest directory above that has the type, or else
// concatenated.
func (g *regeneration) newDirectory(ctx context.Context, v *store.Snapshot, k key, recipes map[key]store.HeadInfo) (*job, error) {
	j := &job{agent: g.caller.Agent, producer: "synthesize"}
	j.item = Item{Path: k.path, Type: k.typ, Reason: Missing}
	j.now.Mode = id.Dir
	var err error
	j.policy, j.sel, err = g.e.parseSynthesis(SynthesizeRequest{Path: k.path, Type: k.typ, Policy: g.r.Policy})
	if err != nil || !g.r.Policy.IsNil() {
		return j, err
	}
	for dir := k.path; dir != ""; {
		dir = tree.Parent(dir)
		h, ok := recipes[key{dir, k.typ}]
		if !ok {
			continue
		}
		f, err := v.Frame(ctx, h.Frame)
		if err != nil {
			return nil, err
		}
		j.agent = f.Agent
		j.policy, j.sel, err = g.e.policyOf(f)
		return j, err
	}
	return j, nil
}

// first returns the jobs for first frames of a path.
func (g *regeneration) first(path string, has map[string]bool) (list []*job) {
	for k, j := range g.missing {
		if k.path == path && !has[k.typ] {
			fresh := &job{agent: j.agent, producer: j.producer, policy: j.policy, sel: j.sel, item: j.item}
			fresh.now.Mode = id.Dir
			list = append(list, fresh)
		}
	}
	slices.SortFunc(list, func(a, b *job) int { return compareKeys(a.key(), b.key()) })
	return list
}
