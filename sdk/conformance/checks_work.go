package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

func solverChecks() []Check {
	return []Check{
		{ID: "solver/input/refused", Requirements: []string{"SOLVER-001"},
			Text: "an input that does not fit the schema is refused with an error of source request and class stop",
			run: func(ctx context.Context, b *bench) error {
				return b.malformed(ctx, func(_ Instance, q question, refusal error) error {
					e := contract.AsError(refusal)
					stops := e.Class == contract.ClassStop || e.Class == contract.ClassFinal
					if !stops || e.Source != contract.SourceRequest {
						return want(fmt.Sprintf("an error of class stop and source request for %s with %s", q, cut(q.input.String())),
							"%v (%s, %s)", e, e.Class, e.Source)
					}
					return nil
				})
			}},
		{ID: "solver/input/alike", Requirements: []string{"SOLVER-002"},
			Text: "one malformed input is refused with the same error each time",
			run: func(ctx context.Context, b *bench) error {
				return b.malformed(ctx, func(in Instance, q question, refusal error) error {
					return b.sameError(ctx, in, q, refusal)
				})
			}},
		{ID: "solver/cancel/burns", Requirements: []string{"SOLVER-003"}, Process: true,
			Text: "a cancelled search stops using the processor within a second",
			run:  alone(solverBurns)},
	}
}

// malformed sends every intent of the solvers inputs that do not fit its
// schema, and passes the refusal to check.
func (b *bench) malformed(ctx context.Context, check func(Instance, question, error) error) error {
	in, d, err := b.lent(ctx)
	if err != nil {
		return err
	}
	all := b.questions(d, profileSolver)
	if len(all) == 0 {
		return untestable("the plugin has no capability of kind %s", profileSolver)
	}
	for _, q := range all {
		for _, input := range misfits(d, q) {
			q.input = input
			a, err := b.ask(ctx, in, q)
			if err == nil {
				return want(fmt.Sprintf("a refusal of %s by %s", cut(input.String()), q), "the answer %s", cut(a.out.String()))
			}
			if err := typedError(err); err != nil {
				return err
			}
			if err := check(in, q, err); err != nil {
				return err
			}
		}
	}
	return b.alive(ctx, in, "malformed inputs")
}

// misfits are inputs that do not fit the schema of a question: not a map, and
// the valid input with one entry replaced by an unacceptable value.
func misfits(d contract.Description, q question) []edn.Value {
	all := []edn.Value{edn.Int(7), edn.Text("x")}
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return all
	}
	s, ok := registry.Lookup(q.capability.InSchema.For(q.intent))
	if !ok {
		return all
	}
	odd := edn.SetOf(edn.MustTagged("conformance/odd", edn.Int(1)))
	for key := range q.input.Entries() {
		spoiled := q.input.Assoc(key, odd)
		if len(s.Validate(spoiled)) > 0 {
			all = append(all, spoiled)
		}
	}
	if len(s.Validate(edn.MustMap())) > 0 {
		all = append(all, edn.MustMap())
	}
	return all
}

func solverBurns(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	slow := b.opts.Slow
	at := -1
	if slow != nil {
		at = slices.IndexFunc(d.Capabilities,
			func(c contract.Capability) bool { return c.ID == slow.Capability && c.Kind == profileSolver })
	}
	if at < 0 {
		return untestable("no input with which a solver works for a second or more: give one in the samples as :slow {:capability :a/b :input {..}}")
	}
	c := d.Capabilities[at]
	tree := treeOf(in.PID())
	idle, measured := tree.used(ctx)
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	var early error
	go func() {
		defer close(over)
		_, early = in.Client().Invoke(callCtx, b.callContext(c), request(c, slow.Input), nil)
	}()
	started, err := b.inFlight(ctx, in, over)
	cancel()
	<-over
	if err != nil {
		return err
	}
	if !started {
		return untestable("the search with the input of :slow was over at once (%v)", early)
	}
	if !measured {
		return b.idle(ctx, in, "the caller went away")
	}
	return b.cools(ctx, tree, idle, "the search was cancelled")
}

func toolChecks() []Check {
	return []Check{
		{ID: "tool/answer/value", Requirements: []string{"TOOL-001"},
			Text: "every intent of a tool is answered with a value",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileTool, func(answer) error { return nil })
			}},
		{ID: "tool/recovery/path", Requirements: []string{"TOOL-002"},
			Text: "the path of every recovery rule leads to an entry of the input schema",
			run:  toolRecovery},
		{ID: "tool/effect-key/same", Requirements: []string{"TOOL-003"},
			Text: "an idempotent tool gives two calls with one effect key the same answer",
			run: func(ctx context.Context, b *bench) error {
				return b.again(ctx, profileTool, 0, func(c contract.Capability) bool { return c.Idempotent }, sameOut)
			}},
	}
}

// sameOut compares the outputs of two answers to one question.
func sameOut(a, b answer) error {
	if edn.Equal(a.out, b.out) {
		return nil
	}
	return want("the same answer again for "+a.String()+": "+cut(a.out.String()), "%s", cut(b.out.String()))
}

func toolRecovery(ctx context.Context, b *bench) error {
	_, _, d, err := b.startDescribed(ctx)
	if err != nil {
		return err
	}
	registry, err := schema.NewRegistry(schemasOf(d))
	if err != nil {
		return untestable("the schemas of the plugin cannot be read: %v", err)
	}
	found := false
	for _, c := range d.Capabilities {
		if c.Kind != profileTool {
			continue
		}
		found = true
		for _, rule := range c.RecoveryRules {
			if !slices.ContainsFunc(inSchemas(registry, c), func(s *schema.Schema) bool { return leads(s, rule.Path) }) {
				return want(fmt.Sprintf("a path that the input schema of capability %s has", c.ID), "the recovery rule %s",
					rule.Value())
			}
		}
	}
	if !found {
		return untestable("the plugin has no capability of kind %s", profileTool)
	}
	return nil
}

// inSchemas are the input schemas of a capability.
func inSchemas(registry *schema.Registry, c contract.Capability) []*schema.Schema {
	names := append([]string{c.InSchema.Name}, slices.Collect(maps.Values(c.InSchema.ByIntent))...)
	var all []*schema.Schema
	for _, name := range names {
		if s, ok := registry.Lookup(name); ok {
			all = append(all, s)
		}
	}
	return all
}

// leads reports whether a schema has something at a path, or leaves it open.
func leads(s *schema.Schema, path []edn.Value) bool {
	for n := range path {
		for _, at := range s.Branches(path[:n]...) {
			at = at.Deref()
			if at.Kind() == schema.KindAny || (at.Kind() == schema.KindMap && len(at.Entries()) == 0) {
				return true
			}
		}
	}
	return len(s.Branches(path...)) > 0
}

func agentChecks() []Check {
	return []Check{
		{ID: "agent/answer/messages", Requirements: []string{"AGENT-001"},
			Text: "an agent answers with :messages, each with a role, and with :agent/stop",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileAgent, agentAnswer)
			}},
		{ID: "agent/bound/stops", Requirements: []string{"AGENT-002"},
			Text: "an agent whose model requests tools without end stops at a bound, with an error or an :agent/stop that names it",
			run:  agentBound},
	}
}

func agentAnswer(a answer) error {
	messages := a.out.Key("messages")
	if !collection(messages) {
		return want(":messages, a vector, for "+a.String(), "%s", cut(a.out.String()))
	}
	roles := []string{"system", "user", "assistant", "tool"}
	for m := range messages.Elems() {
		if !slices.Contains(roles, wordOf(m.Key("role"))) {
			return want(fmt.Sprintf("a message with a :role out of %v for %s", roles, a), "%s", cut(m.String()))
		}
	}
	if wordOf(a.out.Key("agent/stop")) == "" {
		return want(":agent/stop, a keyword, for "+a.String(), "%s", cut(a.out.String()))
	}
	return nil
}

// agentCalls exceeds what an agent may ask of its host before it stops: fifty
// rounds of one model call and sixteen tool calls.
const agentCalls = 50 * 17

func agentBound(ctx context.Context, b *bench) error {
	host := &Host{}
	var asked atomic.Int64
	tooMany := make(chan struct{})
	again := edn.MustRead(`{:text "" :finish :tool-calls :tool/calls [{:id "1" :tool/id :conformance/tool :args {}}]}`)
	host.answerOthers(func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		if asked.Add(1) == agentCalls+1 {
			close(tooMany)
		}
		return contract.ValueResult(again), nil
	})
	root, err := b.root()
	if err != nil {
		return err
	}
	in, d, err := b.readyWith(ctx, b.setup(root), host)
	if err != nil {
		return err
	}
	all := b.questions(d, profileAgent)
	if len(all) == 0 {
		return untestable("the plugin has no capability of kind %s", profileAgent)
	}
	for _, q := range all {
		if err := b.bounded(ctx, in, q, tooMany); err != nil {
			return err
		}
	}
	if asked.Load() == 0 {
		return untestable("the agent asks its host for nothing: give an input with which it asks a model in the samples, under :%s", all[0].intent)
	}
	return nil
}

func (b *bench) bounded(ctx context.Context, in Instance, q question, tooMany <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type ended struct {
		answer
		err error
	}
	over := make(chan ended, 1)
	go func() {
		a, err := b.ask(ctx, in, q)
		over <- ended{a, err}
	}()
	var end ended
	select {
	case end = <-over:
	case <-tooMany:
		cancel()
		<-over
		return want("an end of "+q.String()+" at a bound", "it has asked its host more than %d times", agentCalls)
	}
	const bounds = "an error :agent/iteration-limit or :agent/tool-loop, or an :agent/stop that is not :done"
	switch e := contract.AsError(end.err); {
	case e == nil && wordOf(end.out.Key("agent/stop")) == "done":
		return want(bounds+" for "+q.String(), "%s", cut(end.out.String()))
	case e == nil, e.Type == "agent/iteration-limit", e.Type == "agent/tool-loop":
		return nil
	default:
		return want(bounds+" for "+q.String(), "%v", end.err)
	}
}
