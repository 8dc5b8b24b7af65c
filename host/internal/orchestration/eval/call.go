package eval

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// callNode executes a call or tool node.
func (s *scope) callNode(
	ctx context.Context, i int, n *plan.Node, e *ended, begun func(),
) (attempts int, err *contract.Error) {
	w, err := s.work(ctx, i, n, e)
	if err == nil {
		w.Begun = begun
		w.Past, w.Replay = s.past(e.path), s.run.task.Replay
		if s.run.task.Fill != nil {
			w.Recorded = s.history.At(e.path)
		}
		if w.Replay && !w.Past.Ended() {
			return 0, s.unrecorded(n, e)
		}
		// Text is not streamed once the run has a secret: pieces could be parts of it.
		if n.Op == plan.OpCall && !w.Past.IsCommitted() && !w.Policy.HidesSecret() && !s.run.task.Secrets.Any() { // else its text was shown
			w.Stream = s.streamOf(i)
		}
		result := s.run.ev.Dispatcher.Serve(ctx, &s.run.call, w)
		e.result = result
		attempts, err = len(result.Attempts), result.Err
		if result.DoneOnce {
			s.doneOnce.Store(true)
		}
		if result.Unbound != nil && s.run.task.Rebinds && !s.kept && !n.AllowFailure && !w.Replay {
			begun()
			return attempts, s.run.waiting.wait(ctx, Undecided{e.path, n.ID, result.Unbound})
		}
		unknown := err != nil && err.Type == "effects/outcome-unknown" && !result.Decided
		on := ""
		if unknown {
			if on = s.onUnknown(w, result); on == registry.UnknownIsDone && s.assumeDone(w, result) {
				unknown, err = false, nil
			}
		}
		if w.Replay {
			err = s.replayed(n, e, err)
		}
		if unknown && on != registry.UnknownFails && s.run.task.Suspend != nil {
			begun()
			return attempts, s.run.waiting.wait(ctx, Undecided{Path: e.path, Node: n.ID})
		}
	}
	if err != nil && (!n.AllowFailure || endsRun(ctx, err) || s.failedThere(e.path)) {
		return attempts, err
	}
	if !s.keepsRecorded(n, e, err) {
		s.keep(n, e, w, err)
	}
	return attempts, nil
}

// onUnknown returns the setting for a node whose outcome is unknown: a registry.Unknown
// value. If the attempt was made before a crash, it sets capability and attempt of r.
func (s *scope) onUnknown(w *dispatch.Work, r *dispatch.Result) string {
	if r.CapID == "" && w.Past != nil && len(w.Past.Attempts) > 0 {
		last := w.Past.Attempts[len(w.Past.Attempts)-1].Started
		r.CapID, r.Attempt = last.CapID, last.Attempt
	}
	in, _ := s.run.ev.Registry.Intent(w.Intent)
	capability, _ := s.run.ev.Registry.Capability(r.CapID)
	return s.run.call.Grant.OnUnknown(in, capability)
}

// assumeDone gives a node whose outcome is unknown an empty answer: an empty map or nil.
// It returns false if the schema of the answer accepts neither.
func (s *scope) assumeDone(w *dispatch.Work, r *dispatch.Result) bool {
	reg, intent := s.run.ev.Registry, w.Intent
	if tool, ok := reg.Tool(w.ToolID); ok {
		intent = tool.ToolIntent()
	}
	answer := edn.MustMap()
	if sch, ok := reg.Schema(reg.OutSchema(intent, w.Policy.Layer.Requires.OutSchema.V)); ok && len(sch.Validate(answer)) > 0 {
		if answer = edn.Nil(); len(sch.Validate(answer)) > 0 {
			return false
		}
	}
	r.Out, r.Response, r.Err, r.DoneOnce = answer, contract.ValueResult(answer), nil, true
	s.doneOnce.Store(true)
	return true
}

// endsRun reports whether the run itself ends with err, so that no node may keep it.
func endsRun(ctx context.Context, err *contract.Error) bool {
	return ctx.Err() != nil || err.Type == "canceled" || err.Type == "runtime/internal" || err.Type == "replay/miss"
}

// keep stores the answer of a node, or its error.
func (s *scope) keep(n *plan.Node, e *ended, w *dispatch.Work, err *contract.Error) {
	content := &plan.Result{ID: n.ToolID}
	if r := e.result; r != nil {
		if n.Op == plan.OpCall {
			content.ID = r.CapID
		}
		content.Envelope, content.Out, content.Meta, content.Run = r.Response, r.Out, r.Meta, r.PlanRun
		e.record.CapID, e.record.Attempt, e.record.Outscored = r.CapID, r.Attempt, r.Outscored
		if r.Judged {
			e.record.Score = journal.ScoreOf(int64(r.Verdict.Score))
		}
		s.run.degrade(r.Degraded)
	}
	if err != nil {
		err = err.WithWhere("node", edn.Text(n.ID)).WithWhere("path", e.path)
		content.Out = edn.Nil()
		content.Error, content.Failure, content.FailureType = err.Value(), err, err.Type
		content.Recover = w != nil && w.Policy.SwitchOn.Matches(err)
		e.record.FailureType = err.Type
	}
	if n.Op == plan.OpTool {
		e.slot = plan.ToolSlot(content)
	} else {
		e.slot = plan.CallSlot(content)
	}
}

// call is the work of one node with its surroundings.
type call struct {
	dispatch.Work
	scope *scope
	index int
}

// work fills the slots of a node, merges its policy and checks its input.
func (s *scope) work(ctx context.Context, i int, n *plan.Node, e *ended) (*dispatch.Work, *contract.Error) {
	c := &call{scope: s, index: i}
	w := &c.Work
	w.Op, w.Node, w.Path, w.Stack = n.Op.String(), n.ID, e.path, s.stack
	w.Foreign, w.Overrides = s.author == plan.ByCapability, s.author == plan.ByTrusted
	w.Intent, w.ToolID = n.Intent, n.ToolID
	capID := n.CapID
	if n.Op == plan.OpTool {
		w.Intent, capID = n.ToolID, n.ToolID
		if c, ok := s.run.ev.Registry.Tool(n.ToolID); ok {
			w.Intent, capID = c.ToolIntent(), c.ID
		}
	}
	w.Around = c
	if err := s.fill(i, n, w, capID); err != nil {
		return nil, err
	}
	if w.Input.Kind() != edn.KindMap {
		return nil, contract.Errorf("input/invalid", "the :input of :%s: expected a map, got %s", w.Intent, w.Input.Kind()).
			WithDetail("got", edn.K(w.Input.Kind().String()))
	}
	w.Deadline, w.Wall = s.run.nodeDeadline(w.Policy)
	w.Budget = s.spends(w)
	w.Deepest = deepest(s.deepest, s.depth, w.Policy.Depth)
	sch, name := s.inSchema(w)
	if w.Intent != "" {
		w.Denied = s.run.ev.Access.IntentDenied(w.Intent, s.run.task.Caller)
	}
	w.Unmarked = n.UnmarkedInput(s.frame, s.author, w.Intent, w.Input)
	w.Input = ResolvePaths(sch, w.Input, s.run.task.Dir)
	s.run.task.Secrets.Learn(sch, w.Input)
	if s.history != nil && journal.Masked(edn.Vector(w.Input, edn.Text(w.System))) {
		w.SecretMissing = true // it was checked before
		return w, nil
	}
	return w, checkInput(ctx, w, sch, name)
}

func (s *scope) fill(i int, n *plan.Node, w *dispatch.Work, capID string) (err *contract.Error) {
	var text plan.TextMask
	if s.prog.Text != nil {
		text = s.prog.Text[i]
	}
	if w.Input, w.Coerced, err = n.Input.Fill(s.frame, text); err != nil {
		return err
	}
	switch {
	case n.Input == nil:
		w.Input = edn.MustMap()
	case n.Fn && !w.Input.IsMap():
		w.Input = edn.MustMap(edn.K("value"), w.Input)
	}
	layer, err := n.FillLayer(s.frame)
	switch {
	case err != nil:
		return err
	case layer == n.Layer: // the same for every execution
		w.Policy, err = s.run.callPolicy(s.layer, w.Intent, capID, layer)
	default:
		if n.Candidates != nil {
			err = s.known(layer.Candidates.V)
		}
		if err == nil {
			w.Policy, err = s.run.makeCallPolicy(s.layer, w.Intent, capID, layer)
		}
	}
	if err != nil {
		return err
	}
	if w.System, err = n.FillSystem(s.frame); err != nil {
		return err
	}
	return n.UnmarkedSystem(s.frame, s.author)
}

// known rejects candidates from slots that are not capabilities.
func (s *scope) known(ids []string) *contract.Error {
	for _, id := range ids {
		if !s.run.ev.Registry.Known(id) {
			return contract.Errorf("cap/not-found", "there is no capability :%s", id).
				DidYouMean(":" + s.run.ev.Registry.NearestCapability(id))
		}
	}
	return nil
}

// inSchema returns the schema that the caller requires of the input, else that
// of the intent; nil if there is none.
func (s *scope) inSchema(w *dispatch.Work) (*schema.Schema, string) {
	reg := s.run.ev.Registry
	name := reg.InSchema(w.Intent, w.Policy.Layer.Requires.InSchema.V)
	sch, _ := reg.Schema(name)
	return sch, name
}

func checkInput(ctx context.Context, w *dispatch.Work, sch *schema.Schema, name string) *contract.Error {
	if sch == nil || sch.ValidContext(ctx, w.Input) {
		return nil
	}
	found := sch.ValidateContext(ctx, w.Input)
	typ := "input/invalid"
	if w.Op == "tool" {
		typ = "effects/invalid-input"
	}
	return contract.Errorf(typ, "the :input of :%s does not fit :%s: %s", w.Intent, name, found[0]).
		WithDetail("reason", edn.K("schema")).
		WithDetail("findings", schema.Findings(found)).
		WithDetail("schema", edn.K(name))
}

// Env implements dispatch.Surroundings.
func (c *call) Env() edn.Value {
	c.scope.run.frames.Lock()
	defer c.scope.run.frames.Unlock()
	return c.scope.frame.Env(c.index)
}

// Plan implements dispatch.Surroundings: it checks a plan answer under the
// effects of the caller.
func (c *call) Plan(
	ctx context.Context, a dispatch.PlanAnswer,
) (func(context.Context) dispatch.Child, *contract.Error) {
	s, r := c.scope, c.scope.run
	if r.task.Routing {
		return routed(a), nil
	}
	depth := s.depth + 1
	if depth > r.ev.Limits.Levels {
		return nil, contract.Errorf("plan/too-deep", "plans call plans more than %d levels deep", r.ev.Limits.Levels).
			WithSource(contract.SourcePlugin)
	}
	if err := tooDeep(depth, deepest(s.deepest, s.depth, c.Policy.Depth)); err != nil {
		return nil, err.WithClass(contract.ClassSwitch) // another candidate may answer at once
	}
	layer := *s.layer
	if c.Policy.EffectsSet {
		layer = policy.Merge(layer, policy.Layer{
			Effects: policy.Of(c.Policy.Effects, policy.Origin{Source: policy.SourceNode}),
			Scopes:  c.Policy.Layer.Scopes,
		})
	}
	path := s.nodePath(c.index, edn.Text("p"+edn.Hash(r.task.Secrets.Value(a.Plan))[3:11]))
	history := s.history.Answer(edn.Vector(path...), a.Attempt)
	begun := r.task.Fill == nil && history.At(edn.Vector(path...)) != nil // it began before the run was resumed
	env := plan.Env{
		Registry:  r.ev.Registry,
		Unchecked: s.history != nil && journal.Masked(a.Plan),
		Policies:  r.ev.Policies,
		Request:   layer,
		Grant:     r.call.Grant,
		Prompts:   r.ev.Dispatcher.Prompts,
		Outer:     c.names(a.Bindings),
		Ctx:       ctx,
	}
	if begun {
		env.Done = func(node []edn.Value) bool { return r.task.Replay || history.Done(slices.Concat(path, node)) }
	}
	prog, findings, err := prepare(a.Plan, nil, env, contract.SourcePlugin, plan.WithLimits(r.ev.Limits),
		plan.Depth(depth))
	if err != nil && begun && c.awaits(err) { // it fitted when it was answered
		return func(ctx context.Context) dispatch.Child {
			return dispatch.Child{Err: r.waiting.wait(ctx, Undecided{c.Path, c.Node, err})}
		}, nil
	}
	if err != nil {
		return nil, err
	}
	child := &scope{
		author: r.ev.author(a.CapID), run: r, prog: prog, layer: &layer, depth: depth, answer: prog.Answer,
		path: path, history: history, kept: true,
		stack: append(slices.Clip(s.stack), a.CapID), deepest: deepest(s.deepest, s.depth, c.Policy.Depth),
	}
	if child.answer.Node >= 0 {
		child.textStream = a.Stream(child.answer.Key)
	}
	return func(ctx context.Context) dispatch.Child { return child.answered(ctx, c, a, findings) }, nil
}

// awaits reports whether a recorded plan answer that does not fit waits for a configuration
// under which it does. err is what does not fit.
func (c *call) awaits(err *contract.Error) bool {
	s := c.scope
	return s.run.task.Rebinds && s.run.task.Suspend != nil && !s.kept && !s.node(c.index).AllowFailure &&
		!c.Policy.HasAlternatives() && !plan.DeniesEffect(err)
}

// routed accepts the plan of a router, which runs later as the plan of the act.
// Its value names the router, as a decision names a capability.
func routed(a dispatch.PlanAnswer) func(context.Context) dispatch.Child {
	return func(context.Context) dispatch.Child {
		return dispatch.Child{Out: edn.MustMap(edn.K("cap/id"), journal.Keyword(a.CapID))}
	}
}

// author returns the author of a plan that a capability returned: ByTrusted if its plugin
// may replace system prompts.
func (ev *Evaluator) author(capID string) plan.Author {
	if ev.Registry.Permits(capID, policy.OverridePrompt) {
		return plan.ByTrusted
	}
	return plan.ByCapability
}

// names returns the predicate for names that a plan answer may read: its
// bindings and the names visible to the caller.
func (c *call) names(bindings edn.Value) func(string) bool {
	c.scope.run.frames.Lock()
	defer c.scope.run.frames.Unlock()
	seen := c.scope.frame.Names(c.index)
	return func(name string) bool {
		if bindings.Kind() == edn.KindMap && bindings.HasKey(name) {
			return true
		}
		c.scope.run.frames.Lock()
		defer c.scope.run.frames.Unlock()
		return seen(name)
	}
}

// answered evaluates a plan answer.
func (s *scope) answered(ctx context.Context, c *call, a dispatch.PlanAnswer, findings []plan.Finding) dispatch.Child {
	resolved := &journal.PlanResolved{
		Plan:     journal.RefTo(s.prog.Plan.Source),
		Source:   "answer",
		Warnings: warnings(findings),
		Attempt:  a.Attempt,
		CapID:    a.CapID,
	}
	if !a.Bindings.IsNil() {
		resolved.Bindings = journal.RefTo(a.Bindings)
	}
	if err := s.recordPlan(edn.Vector(s.path...), c.Node, resolved); err != nil {
		return dispatch.Child{Err: err}
	}
	s.run.frames.Lock()
	s.frame = c.scope.frame.Answer(c.index, s.prog, a.Bindings)
	s.run.frames.Unlock()
	slice, refused := s.slice(ctx, c, a)
	if refused != nil {
		return dispatch.Child{Err: refused}
	}
	err := s.walk(ctx)
	s.handBack(ctx, c.Node, slice)
	return dispatch.Child{Out: contract.EmitOut(s.emitted), Run: s.account(err), Err: err, DoneOnce: s.doneOnce.Load()}
}

// prepare reads, checks and links a plan.
func prepare(
	source edn.Value, pos *edn.Positions, env plan.Env, from contract.Source, opts ...plan.Option,
) (*plan.Program, []plan.Finding, *contract.Error) {
	p, findings := plan.Parse(source, pos, opts...)
	if p != nil {
		findings = plan.Check(p, env)
	}
	if err := plan.FindingsError(findings, from); err != nil {
		return nil, findings, err
	}
	prog, err := plan.Link(p, env)
	if err != nil {
		return nil, findings, err.WithSource(from)
	}
	return prog, findings, nil
}
