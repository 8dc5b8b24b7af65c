package derive

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	Auto       = "auto" // what a request without a producer and a model gets
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
// frames, or with a model. The error of a request about one path is returned;
// others report it in the item.
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
	if err := g.choose(); err != nil {
		return nil, err
	}
	if g.producer == FromModel && missing != nil {
		return nil, missing
	}
	if g.r.OnFailure = cmp.Or(r.OnFailure, StopLevel); !slices.Contains([]OnFailure{Continue, StopLevel, Stop}, g.r.OnFailure) {
		return nil, contract.Errorf("input/invalid", ":on-failure is one of :continue, :stop-level, :stop").WithDetail("path", edn.Vector(edn.K("on-failure")))
	}
	g.work.jobs, g.work.onFailure = g.jobs, g.r.OnFailure
	g.work.concurrency = cmp.Or(r.Concurrency, e.o.Settings().Concurrency, defaultConcurrency)
	g.work.stop = func() bool { return g.r.OnFailure != Continue && g.failed.Load() }
	return g, nil
}

// generator returns the agent of a request if it may generate. Only a model needs
// its prompts: missing says that one is not there.
func (e *Engine) generator(c Caller) (a *agent.Agent, missing, err error) {
	a, err = e.allow(c, agent.Generate)
	if errors.Is(err, contract.OfType("agent/prompt-missing")) {
		missing = err
		a, err = e.o.Agents().Get(c.Agent)
	}
	return a, missing, err
}

// choose fixes the producer and what belongs to it.
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
			Layers:          g.r.PromptLayersHash,
			Params:          g.r.Params,
			prompt:          g.r.Prompt,
			model:           cmp.Or(g.r.Model, g.agent.Model),
			options:         g.r.Call,
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
			return contract.Errorf("input/invalid", ":from needs a model; use :context/synthesize").WithDetail("path", edn.Vector(edn.K("from")))
		}
		var err error
		g.summary, err = policy.Parse(edn.K(string(policy.Summarize)), g.e.registry)
		g.summary.Order, g.summary.Truncate = policy.OrderName, true
		return err
	}
	if _, ok := extract.Get(g.producer); !ok {
		return contract.Errorf("input/invalid", "%q is not a producer: extract/auto, extract/facts, extract/go-outline, extract/text, synthesize, generate", g.producer).
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
			return contract.Errorf("input/invalid", "%q is not one of :urgent, :high, :normal, :low", t.Priority).WithDetail("path", edn.Vector(edn.K("priority")))
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
			return contract.Errorf("path/not-in-tree", "the path is not in the tree").WithOp("generate", store.Shown(t.Path))
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
		return contract.Errorf("path/not-in-tree", "the path is not in the tree").WithOp("generate", store.Shown(dir))
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
		j := &job{agent: g.agent.ID, producer: g.producer, force: g.r.Force, batch: !g.explicit[path]}
		j.item = Item{Path: path, Type: g.typ, Reason: Missing}
		list = append(list, j)
		if now == nil { // it was removed meanwhile
			j.skip("the path is gone")
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

// head notes what the current head is. Without a producer, a fresh one is left
// alone.
func (g *generation) head(ctx context.Context, v *store.Snapshot, j *job) error {
	heads, err := v.HeadsAt(ctx, j.item.Path)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if h.Type != g.typ {
			continue
		}
		j.item.Old = h.Frame
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

// fill sets what the producer needs.
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
		if pattern := g.e.o.Settings().denied(j.item.Path); pattern != "" && j.batch {
			j.skip("it matches " + pattern + " of never_send")
		}
	case j.producer == FromFrames && isDir:
		j.policy, j.sel = g.summary, g.sel
	case j.producer == FromFrames:
		j.skip("it is not a directory")
	case j.producer == extract.GoOutline && path.Ext(j.item.Path) != ".go" && j.batch:
		j.skip("it is not Go")
	}
}

// call calls the model for the jobs of a level, each of which commits alone.
func (w *work) call(ctx context.Context, jobs []*job) error {
	slices.SortStableFunc(jobs, func(a, b *job) int { return cmp.Compare(a.call.order, b.call.order) })
	n := cmp.Or(w.concurrency, w.e.o.Settings().Concurrency, defaultConcurrency)
	var all sync.WaitGroup
	var mu sync.Mutex
	var last atomic.Uint64
	conclude := func(j *job) {
		mu.Lock()
		defer mu.Unlock()
		w.done = append(w.done, j)
		if j.item.Outcome == Failed {
			w.failed.Store(true)
		} else {
			w.changed(j)
		}
		w.report()
	}
	for _, j := range jobs {
		leave, err := w.e.calls.enter(ctx, j.agent, n)
		if err != nil {
			all.Wait()
			return contract.AsError(err)
		}
		if w.onFailure == Stop && w.failed.Load() {
			leave()
			j.skip("an earlier call failed")
			conclude(j)
			continue
		}
		all.Go(func() {
			defer leave()
			seq, err := w.e.generate(ctx, w, j)
			for seq > last.Load() && !last.CompareAndSwap(last.Load(), seq) {
			}
			if err != nil {
				j.fail(err)
			}
			j.item.Nanos = w.e.o.Now() - j.began
			conclude(j)
		})
	}
	all.Wait()
	w.seq = max(w.seq, last.Load())
	return context.Cause(ctx)
}

// generate makes one frame with a model. Its inputs are read again before it is
// committed; if they moved, the call is made again, at most 3 times.
func (e *Engine) generate(ctx context.Context, w *work, j *job) (seq uint64, err error) {
	keys := []key{j.key()}
	if _, err := e.flight.acquire(ctx, keys, store.Latest); err != nil {
		return 0, err
	}
	defer func() { e.flight.release(keys, seq) }()
	for range maxAttempts {
		j.reuse, j.meta = nil, edn.MapBuilder{}
		var input edn.Value
		err = e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) (err error) {
			input, err = e.prepare(ctx, v, j)
			return err
		})
		if err == nil && j.reuse == nil {
			err = e.ask(ctx, w, j, input)
		}
		if err != nil {
			return 0, err
		}
		seq, err = e.o.Store.Update(ctx, w.caller.actor(), func(tx *store.Tx) error { return e.append(tx, j) })
		if err == nil {
			j.conclude(e.o.Now())
			if a := j.put.Frame.Meta; !a.Key("attribution/source").IsNil() {
				j.item.Attribution = attributionOf(a)
			}
			return seq, nil
		}
		if !errors.Is(err, store.ErrMoved) {
			return 0, err
		}
	}
	return 0, contract.Errorf("regenerate/contended", "the inputs moved %d times: %w", maxAttempts, err).WithOp("generate", store.Shown(j.item.Path))
}

// ask calls the intent and makes the NewFrame of its answer.
func (e *Engine) ask(ctx context.Context, w *work, j *job, input edn.Value) error {
	c := Call{Intent: string(j.call.Intent), Input: input, CapID: j.call.model, Options: j.call.options}
	if w.deltas != nil {
		c.Delta = func(text string) { w.deltas(Delta{Path: j.item.Path, Type: j.item.Type, Text: text}) }
	}
	a, err := e.invoke(ctx, j.item.Path, c)
	if err != nil {
		return err
	}
	text, err := textOf(a)
	if err != nil {
		return contract.AsError(err).WithOp("generate", store.Shown(j.item.Path)).WithSource(contract.SourceDownstream)
	}
	finish, _ := a.Meta.Key("finish").AsKeyword()
	if finish == "" {
		finish, _ = a.Meta.Key("finish").AsString()
	}
	return e.accept(j, text, finish, attribution(a))
}

// accept makes the NewFrame of an answer.
func (e *Engine) accept(j *job, text, finish string, by edn.Value) error {
	switch {
	case strings.TrimSpace(text) == "":
		return contract.Errorf("generate/empty", "the model gave no text").WithOp("generate", store.Shown(j.item.Path))
	case (finish == "length" || finish == "max-tokens") && !j.call.acceptTruncated:
		return contract.Errorf("generate/truncated", "the answer was cut at its limit").WithOp("generate", store.Shown(j.item.Path)).
			WithHint("raise :max-tokens, or accept cut answers")
	}
	fixed, repaired := repair(text)
	if repaired {
		j.meta.Key("content/repaired?", edn.Bool(true))
	}
	recipe, err := j.call.recipe()
	if err != nil {
		return err
	}
	for _, in := range j.inputs {
		j.meta.Key(in.Kind+"/id", edn.Text(in.ID.String()))
	}
	sample := nextSample(j.existing)
	j.meta.Key("sample", edn.Int(int64(sample)))
	if a, err := e.o.Agents().Get(j.agent); err == nil && !e.o.Settings().DropPrompts {
		j.prompts = []string{a.Prompts.System, j.call.template(a)}
		scheme := e.o.Store.Scheme
		j.meta.Key("prompt", edn.MustMap(
			edn.K("system"), edn.Text(scheme.Bytes([]byte(j.prompts[0])).String()),
			edn.K("user"), edn.Text(scheme.Bytes([]byte(j.prompts[1])).String())))
	}
	meta := j.meta.Map().Merge(by)
	j.frame = store.NewFrame{
		Path:   j.item.Path,
		Type:   j.item.Type,
		Agent:  j.agent,
		Origin: store.Generated,
		Inputs: j.inputs,
		Text:   []byte(fixed),
		Sample: sample,
		Recipe: recipe,
		Meta:   meta,
		Limits: e.o.Settings().Limits,
	}
	return nil
}

// append commits a generated frame with the texts of its prompt. A sample that
// another request took meanwhile is left to it.
func (e *Engine) append(tx *store.Tx, j *job) error {
	if j.reuse != nil {
		return j.commit(tx)
	}
	for _, p := range j.prompts {
		if _, err := tx.PutContent([]byte(p)); err != nil {
			return err
		}
	}
	for {
		err := j.commit(tx)
		if !errors.Is(err, contract.OfType("frame/immutable")) {
			return err
		}
		j.frame.Sample++
		j.frame.Meta = j.frame.Meta.AssocKey("sample", edn.Int(int64(j.frame.Sample)))
	}
}

// attributionOf returns the attribution in the metadata of a frame.
func attributionOf(meta edn.Value) edn.Value {
	var b edn.MapBuilder
	for _, k := range []string{"cap/id", "provider", "finish", "prompt/hash", "usage", "attempts", "attribution/source"} {
		b.Opt(k, meta.Key(k))
	}
	return b.Map()
}
