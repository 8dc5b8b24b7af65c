package derive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Plan returns a plan that makes the frames of a request with a model: for each
// target a prepare, a call and a commit step, the deepest paths first. The host
// executes, records and resumes the plan. input holds the input keys that every
// prepare and commit needs, such as :workspace and :agent/id; target returns
// input with a path added.
func (e *Engine) Plan(ctx context.Context, r GenerateRequest, input edn.Value, target func(input edn.Value, path string) edn.Value) (edn.Value, error) {
	g, err := e.generation(r)
	if err != nil {
		return edn.Nil(), err
	}
	if g.producer != FromModel {
		return edn.Nil(), contract.Errorf("input/invalid", "a plan requires the producer %s, found %s", FromModel,
			g.producer).
			WithDetail("path", edn.Vector(edn.K("mode")))
	}
	var jobs []*job
	err = e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		if err := g.expand(ctx, v); err != nil {
			return err
		}
		if len(g.order) > MaxPlanTargets {
			return contract.Errorf("limit/exceeded", "a plan has at most %d targets, not %d", MaxPlanTargets, len(g.order)).
				WithDetail("limit", edn.K("plan-targets"))
		}
		paths := make([]string, 0, len(g.order))
		for p := range g.order {
			paths = append(paths, p)
		}
		slices.SortFunc(paths, func(a, b string) int {
			if d := tree.Depth(b) - tree.Depth(a); d != 0 {
				return d
			}
			return g.order[a] - g.order[b]
		})
		var err error
		jobs, err = g.jobs(ctx, v, paths)
		return err
	})
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	return g.plan(jobs, input, target), nil
}

// plan returns the nodes of the plan.
func (g *generation) plan(jobs []*job, input edn.Value, target func(edn.Value, string) edn.Value) edn.Value {
	commits := map[string][]edn.Value{} // of the entries of a directory
	var nodes, frames []edn.Value
	slot := func(of string, keys ...string) edn.Value {
		path := []edn.Value{edn.K(of)}
		for _, k := range keys {
			path = append(path, edn.K(k))
		}
		return edn.MustMap(edn.K("slot/path"), edn.Vector(path...))
	}
	for i, j := range jobs {
		if j.done() {
			continue
		}
		prepare, call, commit := fmt.Sprintf("prepare-%d", i), fmt.Sprintf("call-%d", i), fmt.Sprintf("commit-%d", i)
		own := target(input, j.item.Path)
		needed := edn.MustMap(edn.K("not"), slot(prepare, "frame/existing?"))
		nodes = append(nodes,
			node(prepare, "context/generate", own.AssocKey("phase", edn.K("prepare")), commits[j.item.Path], edn.Nil()),
			// The input has the system prompt of the agent. The mark has an effect only if the
			// configuration permits prompt/override to the plugin.
			g.callNode(call, slot(prepare, "input").AssocKey("slot/system?", edn.Bool(true)), needed),
			node(commit, "context/generate", own.AssocKey("phase", edn.K("commit")).AssocKey("ticket", slot(prepare, "ticket")).
				AssocKey("text", slot(call, "text")), nil, needed))
		if j.item.Path != "" {
			dir := tree.Parent(j.item.Path)
			commits[dir] = append(commits[dir], edn.Text(commit))
		}
		frames = append(frames, slot(commit).AssocKey("slot/default", edn.Nil())) // skipped where the frame is there
	}
	nodes = append(nodes, edn.MustMap(edn.K("op"), edn.K("emit"), edn.K("input"), edn.MustMap(edn.K("frames"), edn.Vector(frames...))))
	return edn.MustMap(edn.K("nodes"), edn.Vector(nodes...))
}

// node returns a call of a plan whose slot has its name.
func node(name, intent string, input edn.Value, needs []edn.Value, when edn.Value) edn.Value {
	var b edn.MapBuilder
	b.Key("op", edn.K("call"))
	b.Key("id", edn.Text(name))
	b.Key("as", edn.K(name))
	b.Key("intent", edn.K(intent))
	b.Key("requires", edn.MustMap(edn.K("result/type"), edn.K("value")))
	b.Key("input", input)
	if len(needs) > 0 {
		b.Key("needs", edn.Vector(needs...))
	}
	b.Opt("when", when)
	return b.Map()
}

// callNode returns the call of the model, with the options of the request.
func (g *generation) callNode(name string, input, when edn.Value) edn.Value {
	n := node(name, string(g.call.Intent), input, nil, when)
	if g.call.model != "" {
		n = n.AssocKey("cap/id", edn.K(g.call.model))
	}
	if g.r.Call.IsMap() {
		n = g.r.Call.Merge(n)
	}
	return n
}

// Prepare returns the input of the model call for one path, and the ticket with
// which Commit stores the answer. It writes nothing.
func (e *Engine) Prepare(ctx context.Context, r GenerateRequest) (*Prepared, error) {
	g, err := e.generation(r)
	if err != nil {
		return nil, err
	}
	if g.producer != FromModel || len(r.Targets) != 1 || r.Recursive {
		return nil, contract.Errorf("input/invalid",
			"expected one path, not recursive, and the producer %s, found %d paths and %s",
			FromModel, len(r.Targets), g.producer).WithDetail("path", edn.Vector(edn.K("phase")))
	}
	out := &Prepared{}
	err = e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		if err := g.expand(ctx, v); err != nil {
			return err
		}
		jobs, err := g.jobs(ctx, v, []string{r.Targets[0].Path})
		if err != nil {
			return err
		}
		j := jobs[0]
		if j.call == nil {
			return contract.Errorf("input/invalid", "%s", j.item.Why).WithOp("generate", store.Shown(j.item.Path))
		}
		if out.Input, err = e.prepare(ctx, v, j); err != nil {
			return err
		}
		out.Existing = j.reuse
		recipe, err := j.call.recipe()
		if err != nil {
			return err
		}
		out.Ticket = Ticket{
			Path:   j.item.Path,
			Type:   j.item.Type,
			Agent:  j.agent,
			Basis:  e.basisOf(j),
			Sample: nextSample(j.existing),
			Recipe: recipe,
			Prompt: j.call.prompt,
		}
		return nil
	})
	if err != nil {
		return nil, contract.AsError(err)
	}
	return out, nil
}

func nextSample(existing []*store.Frame) uint64 {
	if n := len(existing); n > 0 {
		return existing[n-1].Sample + 1
	}
	return 0
}

// Commit appends the answer to a prepared call if the basis of its frame has not
// changed. It returns the frame and the sequence number of the transaction.
// Repeating a commit finds the stored frame and writes nothing.
func (e *Engine) Commit(ctx context.Context, r CommitRequest) (*store.Put, uint64, error) {
	if _, err := e.allow(r.Caller, agent.Generate); err != nil {
		return nil, 0, err
	}
	t := r.Ticket
	if t.Agent != r.Caller.Agent {
		return nil, 0, contract.Errorf("input/invalid", "the ticket belongs to the agent %q, not to %q", t.Agent,
			r.Caller.Agent).WithDetail("path", edn.Vector(edn.K("ticket")))
	}
	c, err := readCallRecipe(&store.Frame{Path: t.Path, Recipe: t.Recipe})
	if err == nil && c.Intent == "" {
		err = errors.New("it names no intent")
	}
	if err != nil {
		return nil, 0, contract.Errorf("input/invalid", "the recipe of the ticket cannot be read: %w", err).
			WithHint("make the ticket again with :phase :prepare").
			WithDetail("path", edn.Vector(edn.K("ticket")))
	}
	if c.prompt, c.acceptTruncated = t.Prompt, r.AcceptTruncated; t.Prompt != "" && e.o.Store.Scheme.Bytes([]byte(t.Prompt)) != c.Prompt {
		return nil, 0, contract.Errorf("input/invalid",
			"the hash of the prompt in the ticket differs from the hash in its recipe").
			WithHint("make the ticket again with :phase :prepare").
			WithDetail("path", edn.Vector(edn.K("ticket")))
	}
	j := &job{agent: t.Agent, producer: FromModel, call: c}
	j.item = Item{Path: t.Path, Type: t.Type}
	moved := contract.Errorf("frame/basis-mismatch", "the inputs changed after the ticket was made").
		WithOp("generate", store.Shown(t.Path)).WithHint("make the ticket again with :phase :prepare")
	err = e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		_, _, err := e.lookCall(ctx, v, j)
		if err == nil && e.basisOf(j) != t.Basis {
			err = moved
		}
		return err
	})
	if err != nil {
		return nil, 0, contract.AsError(err)
	}
	if err := e.acceptOf(j, r); err != nil {
		return nil, 0, err
	}
	j.frame.Sample = t.Sample
	j.frame.Meta = j.frame.Meta.AssocKey("sample", edn.Int(int64(t.Sample)))
	seq, err := e.o.Store.Update(ctx, r.Caller.actor(), func(tx *store.Tx) error { return e.append(tx, j) })
	switch {
	case errors.Is(err, store.ErrMoved):
		return nil, 0, moved
	case err != nil:
		return nil, 0, contract.AsError(err)
	}
	return j.put, seq, nil
}

// acceptOf makes the NewFrame of an answer that the caller provides.
func (e *Engine) acceptOf(j *job, r CommitRequest) error {
	finish, _ := r.Attribution.Key("finish").AsKeyword()
	var by edn.MapBuilder
	for _, k := range []string{"cap/id", "provider", "finish", "prompt/hash", "usage", "attempts"} {
		by.Opt(k, r.Attribution.Key(k))
	}
	by.Key("attribution/source", edn.K("caller"))
	return e.accept(j, r.Text, finish, by.Map())
}
