package derive

import (
	"cmp"
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Synthesize makes the frame of one directory from the frames of its entries.
func (e *Engine) Synthesize(ctx context.Context, r SynthesizeRequest) (*Synthesized, error) {
	if _, err := e.allow(r.Caller, agent.Synthesize); err != nil {
		return nil, err
	}
	p, sel, err := e.parseSynthesis(r)
	if err != nil {
		return nil, err
	}
	var failed error
	target := func(path string) *job {
		j := &job{agent: r.Caller.Agent, producer: "synthesize", policy: p, sel: sel, strict: true}
		j.item = Item{Path: path, Type: sel.Result(), Reason: Missing}
		return j
	}
	w := &work{e: e, caller: r.Caller, phase: "synthesize"}
	w.jobs = func(ctx context.Context, v *store.Snapshot, paths []string) (jobs []*job, err error) {
		for _, path := range paths {
			j := target(path)
			if path == r.Path {
				j.forced(r.Force, r.Caller)
				jobs = append(jobs, j)
				continue
			}
			// A directory below: only what is not fresh is made.
			ready, err := v.IsFresh(ctx, path, sel.Result())
			if err != nil {
				return nil, err
			}
			if !ready {
				jobs = append(jobs, j)
			}
		}
		return jobs, nil
	}
	if err := e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) error { return w.plan(ctx, v, r, sel) }); err != nil {
		return nil, contract.AsError(err)
	}
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	out := &Synthesized{Seq: w.seq}
	for _, j := range w.done {
		switch {
		case j.item.Outcome == Failed && (failed == nil || j.item.Path == r.Path):
			failed = j.item.Err
		case j.item.Outcome == Failed:
		case j.item.Path == r.Path:
			out.Frame, out.Existing, out.StaleInputs = j.put.Frame, j.put.Existing, j.item.StaleInputs
			out.Inputs = inputsOf(j)
		case j.item.Outcome == Made:
			out.Built++
		default:
			out.Reused++
		}
	}
	if out.Frame == nil {
		return nil, failed
	}
	return out, nil
}

// inputsOf returns the number of child frames in a basis.
func inputsOf(j *job) (n int) {
	for _, in := range j.inputs {
		if in.Kind == "frame" || in.Kind == "child" {
			n++
		}
	}
	return n
}

// plan makes the target a candidate, and with :build the directories below it
// that have frames.
func (w *work) plan(ctx context.Context, v *store.Snapshot, r SynthesizeRequest, sel store.Selection) error {
	now, err := v.Current(ctx, r.Path)
	if err != nil {
		return err
	}
	if now == nil {
		return v.Missing(ctx, "synthesize", r.Path)
	}
	w.add(r.Path)
	if sel.Children != store.ChildrenBuild {
		return nil
	}
	described, err := v.Described(ctx, r.Path, sel.Type)
	if err != nil {
		return err
	}
	settings := w.e.o.Settings()
	for _, dir := range described {
		for dir != r.Path && dir != "" {
			if dir = tree.Parent(dir); dir == r.Path || w.candidates[tree.Depth(dir)][dir] {
				break
			}
			if settings.denied(dir, id.Dir) == "" {
				w.add(dir)
			}
		}
	}
	return nil
}

// parseSynthesis validates the request and fills in its defaults.
func (e *Engine) parseSynthesis(r SynthesizeRequest) (*policy.Policy, store.Selection, error) {
	sel := store.Selection{
		Type:     r.Type,
		Select:   cmp.Or(r.Select, store.SelectHeads),
		Children: cmp.Or(r.Children, store.ChildrenRequire),
		OnStale:  cmp.Or(r.OnStale, store.StaleUse),
		Binds:    cmp.Or(r.Binds, store.BindsNode),
	}
	p, err := policy.Parse(r.Policy, e.registry)
	if err != nil {
		return nil, sel, err
	}
	p.Truncate = r.Truncate
	if p.Order = cmp.Or(r.Order, policy.OrderNode); p.FreshOnly {
		sel.OnStale = store.StaleExclude
	}
	for _, c := range []struct {
		key     string
		found   store.Word
		allowed []store.Word
	}{
		{"select", sel.Select, []store.Word{store.SelectHeads, store.SelectAll}},
		{"children", sel.Children, []store.Word{store.ChildrenRequire, store.ChildrenBuild, store.ChildrenSkip}},
		{"on-stale", sel.OnStale, []store.Word{store.StaleUse, store.StaleExclude, store.StaleFail}},
		{"binds", sel.Binds, []store.Word{store.BindsNode, store.BindsInputs}},
		{"order", p.Order, []store.Word{policy.OrderNode, policy.OrderName}},
	} {
		if err := policy.CheckWord(c.key, c.found, c.allowed); err != nil {
			return nil, sel, err
		}
	}
	if r.Type == store.EveryType {
		sel.Into = cmp.Or(r.Into, "all")
	} else if r.Into != "" {
		return nil, sel, contract.Errorf("input/invalid", ":into requires the frame type %q, found %q",
			store.EveryType, r.Type).WithDetail("path", edn.Vector(edn.K("into")))
	}
	bindInputs(p, &sel)
	return p, sel, store.CheckFrameType(sel.Result())
}
