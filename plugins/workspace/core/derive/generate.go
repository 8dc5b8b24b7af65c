package derive

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/extract"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The producers that are not extractors.
const (
	Auto       = "auto" // chosen if a request names neither a producer nor a model
	FromFrames = "synthesize"
	FromModel  = "generate"
)

// generation is one request for frames of files and directories.
type generation struct {
	*work
	r        GenerateRequest
	agent    *agent.Agent
	typ      string
	producer string
	summary  *policy.Policy // of directories
	sel      store.Selection
	call     *callRecipe
	order    map[string]int // of the targets, by path
	explicit map[string]bool
}

// Generate makes frames of files and directories with an extractor, from other
// frames, or with a model. A request about one path returns the error of that
// path; other requests report errors in the items of the result.
func (e *Engine) Generate(ctx context.Context, r GenerateRequest) (*GenerateResult, error) {
	g, err := e.generation(r)
	if err != nil {
		return nil, err
	}
	if err := e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) error { return g.expand(ctx, v) }); err != nil {
		return nil, contract.AsError(err)
	}
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	out := &GenerateResult{Seq: g.seq}
	out.Items, out.Counts = g.items()
	if len(g.order) == 1 && len(out.Items) == 1 && out.Items[0].Outcome == Failed {
		return nil, out.Items[0].Err
	}
	return out, nil
}

// generation validates a request.
func (e *Engine) generation(r GenerateRequest) (*generation, error) {
	a, missing, err := e.generator(r.Caller)
	if err != nil {
		return nil, err
	}
	g := &generation{
		work:     &work{e: e, caller: r.Caller, phase: "generate", progress: r.Progress, deltas: r.Deltas},
		r:        r,
		agent:    a,
		typ:      cmp.Or(r.Type, "context-"+a.ID),
		order:    map[string]int{},
		explicit: map[string]bool{},
	}
	if err := store.CheckFrameType(g.typ); err != nil {
		return nil, err
	}
	if err := policy.CheckIntent(r.Intent, edn.K("intent")); err != nil {
		return nil, err
	}
	for _, key := range []string{"text", "system", "messages"} { // the agent's system prompt is the operator's
		if r.Params.HasKey(key) {
			return nil, contract.Errorf("input/invalid", ":params cannot have :%s, which is made from the prompts of the agent", key).
				WithDetail("path", edn.Vector(edn.K("params"), edn.K(key)))
		}
	}
	if err := g.choose(); err != nil {
		return nil, err
	}
	if g.producer == FromModel && missing != nil {
		return nil, missing
	}
	if g.r.OnFailure = cmp.Or(r.OnFailure, StopLevel); !slices.Contains([]OnFailure{Continue, StopLevel, Stop}, g.r.OnFailure) {
		return nil, contract.Errorf("input/invalid", ":on-failure: expected :continue, :stop-level or :stop, found %q",
			g.r.OnFailure).
			WithDetail("path", edn.Vector(edn.K("on-failure")))
	}
	g.work.jobs, g.work.onFailure = g.jobs, g.r.OnFailure
	g.work.concurrency = cmp.Or(r.Concurrency, e.o.Settings().Concurrency, defaultConcurrency)
	g.work.stop = func() bool { return g.r.OnFailure != Continue && g.failed.Load() }
	return g, nil
}

// generator returns the agent of a request if it may generate. missing is the error
// agent/prompt-missing if the agent lacks a prompt; only a call of a model needs the prompts.
func (e *Engine) generator(c Caller) (a *agent.Agent, missing, err error) {
	a, err = e.allow(c, agent.Generate)
	if errors.Is(err, contract.OfType("agent/prompt-missing")) {
		missing = err
		a, err = e.o.Agents().Get(c.Agent)
	}
	return a, missing, err
}

// choose sets the producer and the parameters that depend on it.
func (g *generation) choose() error {
	if g.producer = g.r.Producer; g.producer == "" {
		g.producer = Auto
		if g.r.Model != "" || g.r.Intent != "" || g.r.Prompt != "" || g.agent.Model != "" {
			g.producer = FromModel
		}
	}
	from := cmp.Or(g.r.From, g.typ)
	g.sel = store.Selection{
		Type:     from,
		Select:   store.SelectHeads,
		Children: store.ChildrenSkip,
		OnStale:  store.StaleUse,
		Binds:    store.BindsNode,
	}
	if from == store.EveryType {
		g.sel.Into = g.typ
	}
	switch g.producer {
	case FromModel:
		g.call = &callRecipe{
			Intent:          store.Word(cmp.Or(g.r.Intent, "context/summarize")),
			Params:          g.r.Params,
			prompt:          g.r.Prompt,
			model:           cmp.Or(g.r.Model, g.agent.Model),
			force:           g.r.Force,
			ifModelChanged:  g.r.IfModelChanged,
			acceptTruncated: g.r.AcceptTruncated,
		}
		if g.r.Prompt != "" {
			g.call.Prompt = g.e.o.Store.Scheme.Bytes([]byte(g.r.Prompt))
		}
		return nil
	case Auto, FromFrames:
		if from != g.typ {
			return contract.Errorf("input/invalid", ":from requires a model: name one, or use :context/synthesize").
				WithDetail("path", edn.Vector(edn.K("from")))
		}
		var err error
		g.summary, err = policy.Parse(edn.K(string(policy.Summarize)), g.e.registry)
		g.summary.Order, g.summary.Truncate = policy.OrderName, true
		return err
	}
	if _, ok := extract.Get(g.producer); !ok {
		return contract.Errorf("input/invalid", "%q is not one of extract/auto, extract/facts, extract/go-outline, extract/text, synthesize, generate",
			g.producer).
			WithDetail("path", edn.Vector(edn.K("producer")))
	}
	return nil
}

// priorities in the order of their calls.
var priorities = []Priority{Urgent, High, Normal, Low}

// expand finds the paths of the targets.
func (g *generation) expand(ctx context.Context, v *store.Snapshot) error {
	targets := slices.Clone(g.r.Targets)
	for i, t := range targets {
		if targets[i].Priority = cmp.Or(t.Priority, Normal); !slices.Contains(priorities, targets[i].Priority) {
			return contract.Errorf("input/invalid", "%q is not one of :urgent, :high, :normal, :low", t.Priority).
				WithDetail("path", edn.Vector(edn.K("priority")))
		}
	}
	slices.SortStableFunc(targets, func(a, b Target) int {
		return cmp.Compare(slices.Index(priorities, a.Priority), slices.Index(priorities, b.Priority))
	})
	for _, t := range targets {
		now, err := v.Current(ctx, t.Path)
		if err != nil {
			return err
		}
		if now == nil {
			return v.Missing(ctx, "generate", t.Path)
		}
		g.explicit[t.Path] = true
		if !g.r.Recursive || now.Mode != id.Dir {
			g.target(t.Path)
			continue
		}
		if err := g.subtree(ctx, v, t.Path); err != nil {
			return err
		}
	}
	return nil
}

// subtree makes a directory and everything below it targets.
func (g *generation) subtree(ctx context.Context, v *store.Snapshot, dir string) error {
	whole, err := v.Tree(ctx)
	if err != nil {
		return err
	}
	node := whole.Lookup(dir)
	var walk func(path string, n *tree.Node) error
	walk = func(path string, n *tree.Node) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if n.Mode == id.File || n.Mode == id.Exec || n.Mode == id.Dir && g.ofDirectories() {
			g.target(path)
		}
		for _, c := range n.Children {
			if err := walk(tree.Join(path, c.Name), c); err != nil {
				return err
			}
		}
		return nil
	}
	if node == nil {
		return v.Missing(ctx, "generate", dir)
	}
	return walk(dir, node)
}

// ofDirectories reports whether the producer describes directories.
func (g *generation) ofDirectories() bool { return !strings.HasPrefix(g.producer, "extract/") }

func (g *generation) target(path string) {
	if _, ok := g.order[path]; !ok {
		g.order[path] = len(g.order)
		g.total++
		g.add(path)
	}
}

// jobs returns the jobs of paths.
func (g *generation) jobs(ctx context.Context, v *store.Snapshot, paths []string) (list []*job, err error) {
	for _, path := range paths {
		now, err := v.Current(ctx, path)
		if err != nil {
			return nil, err
		}
		j := &job{agent: g.agent.ID, producer: g.producer, batch: !g.explicit[path]}
		j.forced(g.r.Force, g.caller)
		j.item = Item{Path: path, Type: g.typ, Reason: Missing}
		list = append(list, j)
		if now == nil { // it is deleted, or was removed meanwhile
			j.skip(contract.AsError(v.Missing(ctx, "generate", path)).Message)
			continue
		}
		j.now = *now
		if err := g.head(ctx, v, j); err != nil {
			return nil, err
		}
		if !j.done() {
			g.fill(j)
		}
	}
	return list, nil
}

// head records the current head in j. If the producer is chosen automatically, a fresh head is kept
// and the job is done.
func (g *generation) head(ctx context.Context, v *store.Snapshot, j *job) error {
	heads, err := v.HeadsAt(ctx, j.item.Path, g.typ)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if h.State == store.Deleted { // of a node of another kind
			continue
		}
		j.item.Old, j.item.Reason = h.Frame, ""
		if len(h.Reasons) > 0 {
			j.item.Reason = Reason(h.Reasons[0])
		} else if g.r.Force {
			j.item.Reason = Forced
		}
		j.force = j.force || h.State == store.Invalid
		if g.producer == Auto && h.State == store.Fresh && !g.r.Force {
			j.item.New, j.item.Outcome, j.item.Why = h.Frame, Reused, "its frame is fresh"
		}
	}
	return nil
}

// fill sets the fields of j that its producer needs, or skips j if no producer describes its path.
func (g *generation) fill(j *job) {
	isDir := j.now.Mode == id.Dir
	if g.producer == Auto {
		j.producer = extract.Auto
		if isDir {
			j.producer = FromFrames
		}
	}
	switch {
	case j.now.Mode == id.Link || j.now.Mode == id.Repo:
		j.skip("it is a link or a nested repository")
	case j.producer == FromModel:
		c := *g.call
		c.Target, c.order, c.force = targetFile, g.order[j.item.Path], j.force
		if isDir {
			c.Target, c.Selection = targetDirectory, &g.sel
		}
		j.call = &c
		if pattern := g.e.o.Settings().denied(j.item.Path, j.now.Mode); pattern != "" && j.batch {
			j.skip("it matches " + pattern + " of never_send")
		}
		if err := j.fits(g.e.o.Settings().maxInput()); err != nil && !isDir && j.batch {
			j.fail(err)
		}
	case j.producer == FromFrames && isDir:
		j.policy, j.sel = g.summary, g.sel
	case j.producer == FromFrames:
		j.skip("it is not a directory")
	case j.producer == extract.GoOutline && path.Ext(j.item.Path) != ".go" && j.batch:
		j.skip("it is not Go")
	}
}
