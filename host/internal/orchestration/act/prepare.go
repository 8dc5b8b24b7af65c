package act

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// transportKeys do not affect the identity of a request.
var transportKeys = []edn.Value{
	edn.K("trace"), edn.K("request/id"), edn.K("response/type"), edn.K("stream?"), edn.K("queue"), edn.K("deadline-ms"),
}

// essence is a request without its transport keys.
type essence struct{ request edn.Value }

// Value implements journal.Valuer.
func (e essence) Value() edn.Value { return e.request.Dissoc(transportKeys...) }

// essence returns a reference to a request without its transport keys and secrets.
func (f *flight) essence(request edn.Value) journal.Ref {
	if !f.mask.Any() {
		return journal.RefOf(essence{request})
	}
	return journal.RefTo(f.mask.Value(essence{request}.Value()))
}

// trace returns the :trace of the run. Its :parent is the trace context of the caller,
// which the host adds; what the envelope has there is not used.
func (f *flight) trace() edn.Value {
	trace := f.request.Trace.Dissoc(edn.K("parent"))
	if f.act.TraceParent != "" {
		trace = trace.AssocKey("parent", edn.Text(f.act.TraceParent))
	}
	return trace
}

// parentOf returns the trace context of the caller in the :trace of a run.
func parentOf(trace edn.Value) string {
	text, _ := trace.Key("parent").AsString()
	return text
}

// translate converts the accepted spellings of a request to the contract form.
func translate(f *flight) *contract.Error {
	f.older = request.IsV03(f.act.Request)
	var options []request.Option
	if !f.act.Request.HasKey("trace") {
		options = append(options, request.DefaultTrace(f.service.config.NewID()))
	}
	v, warnings, err := request.Translate(f.act.Request, options...)
	if err != nil {
		return contract.AsError(err)
	}
	f.act.Request = v
	for _, w := range warnings {
		f.warnings = append(f.warnings, w.Value())
	}
	return nil
}

func compileValidate(s *Service) (func(*flight) *contract.Error, error) {
	c := &s.config
	if c.Registry == nil {
		return nil, errors.New("there is no registry")
	}
	reg := c.Registry
	s.env = request.Env{
		Intents: request.Names{
			Has: func(name string) bool {
				_, ok := reg.Intent(name)
				return ok || name == PlanIntent
			},
			List: func() []string { return append([]string{PlanIntent}, reg.Intents()...) },
		},
		Unserved: func(intent string) *contract.Error {
			if u, ok := reg.Undescribed(intent); ok {
				return u.Why
			}
			return nil
		},
		Schemas: request.Names{
			Has: func(name string) bool { _, ok := reg.Schema(name); return ok },
			List: func() []string {
				if reg.Schemas() == nil {
					return nil
				}
				return reg.Schemas().Names()
			},
		},
		Classes:   c.Classes.Names,
		Deadlines: c.Deadlines,
		Checks: request.Names{
			Has:  func(name string) bool { _, ok := reg.Check(name); return ok },
			List: reg.Checks,
		},
		Schema: reg.Schema,
		InSchema: func(intent string) string {
			if intent == PlanIntent {
				return "req/plan"
			}
			return reg.InSchema(intent, "")
		},
	}
	return func(f *flight) *contract.Error {
		env := s.env
		f.unchecked = (f.past != nil || f.act.Fill != nil) && journal.Masked(f.act.Request)
		if f.answersFromRecords() { // it was valid when it was accepted
			env.Schemas, env.Checks = request.Names{}, request.Names{}
			env.Intents.Has = func(name string) bool {
				_, undescribed := reg.Undescribed(name)
				return !undescribed || !f.replay || s.env.Intents.Has(name)
			}
		}
		if f.past != nil || f.act.Fill != nil {
			env.Deadlines.Most = 0 // it was accepted under another configuration
		}
		if f.act.Request.HasKey("budget") {
			env.Ceiling = f.ceiling
		}
		req, err := request.Parse(f.act.Request, env)
		f.request = req
		if f.act.Watched {
			f.request.ResponseType = "stream"
		}
		if f.act.Fill != nil && f.inside == nil {
			f.request.ResponseType = "value" // a replay has no reader
		}
		return err
	}, nil
}

// checkInput is the step that validates the input, after the session has filled it (RUN-002).
// A recorded request was valid when it was accepted.
func checkInput(f *flight) *contract.Error {
	if f.unchecked || f.answersFromRecords() {
		return nil
	}
	return f.request.CheckInput(&f.service.env)
}

// readPlan creates the plan of the request: its own, or one of a single node.
// A client's plan is checked before anything runs.
func readPlan(f *flight) *contract.Error {
	if f.request.Intent == PlanIntent {
		return f.readOwnPlan()
	}
	switch t, err := f.template(); {
	case err != nil:
		return err
	case t != nil:
		return f.readTemplate(t)
	}
	return f.readIntent()
}

func (f *flight) readOwnPlan() *contract.Error {
	s := f.service
	f.source = "request"
	source := f.request.Input.Key("plan")
	f.bindings = f.request.Input.Key("bindings")
	layer, err := f.inherited()
	if err != nil {
		return err
	}
	f.layer = &layer
	p, findings := plan.Parse(source, f.act.Positions, plan.WithLimits(*s.config.Limits))
	if p != nil {
		findings = plan.Check(p, f.planEnv())
	}
	f.plan, f.findings = p, findings
	if err := plan.FindingsError(findings, contract.SourceRequest); err != nil {
		return err
	}
	if f.past != nil {
		return nil // they were checked when the run was accepted
	}
	return f.unread()
}

// unread rejects bindings that no node reads: with a misspelled name the plan
// would silently use its default.
func (f *flight) unread() *contract.Error {
	names := plan.Unread(f.plan, f.planEnv(), f.bindings)
	if len(names) == 0 {
		return nil
	}
	name := names[0]
	err := contract.Errorf("invalid-request", "binding :%s: no node reads the slot :%s", name, name).
		WithDetail("path", edn.Vector(edn.K("input"), edn.K("bindings"), edn.K(name)))
	if near := f.plan.NearestBinding(name); near != "" {
		return err.WithDetail("nearest", edn.K(near)).WithHint("did you mean :" + near + "?")
	}
	return err.WithHint("leave it out, or name a slot that the plan reads")
}

// planEnv returns the environment in which the plan is checked. A replay has no grant in
// it: an effect whose call is recorded does not happen again, and one that would is checked
// before its call.
func (f *flight) planEnv() plan.Env {
	s, grant := f.service, f.grant
	if f.act.Fill != nil {
		grant = nil
	}
	return plan.Env{
		Registry:  s.config.Registry,
		Unchecked: f.unchecked,
		Policies:  s.config.Policies,
		Request:   *f.layer,
		Grant:     grant,
		Budgets:   s.config.Budgets,
		Prompts:   s.config.Prompts,
		Outer:     func(name string) bool { return f.bindings.Kind() == edn.KindMap && f.bindings.HasKey(name) },
		Done:      f.done(),
		Ctx:       f.ctx,
	}
}

// answersFromRecords reports whether nothing of the run is executed again: it is replayed,
// or the node of an act without a plan is done. The configuration need not have what its
// nodes name.
func (f *flight) answersFromRecords() bool {
	begun := f.recordedPlan()
	return begun != nil && (f.replay || begun.Source == sourceIntent && f.past.Done([]edn.Value{edn.Int(0)}))
}

// recordedPlan returns the plan that the run recorded when it began; nil: there is none, or the act is
// inside of another one.
func (f *flight) recordedPlan() *journal.PlanResolved {
	if f.past == nil || f.inside != nil {
		return nil
	}
	if root := f.past.At(edn.Vector()); root != nil {
		return root.Plan
	}
	return nil
}

// done returns the nodes that need no check, because their end is recorded; nil: all
// nodes are checked.
func (f *flight) done() func(path []edn.Value) bool {
	switch {
	case f.past == nil || f.inside != nil:
		return nil
	case f.answersFromRecords():
		return func([]edn.Value) bool { return true }
	}
	return f.past.Done
}

// readIntent creates the one-node plan of an act that names an intent. Data of
// the caller is passed as bindings: a slot map in it stays data. The program
// is already linked here, because only the node and the budget affect it.
func (f *flight) readIntent() *contract.Error {
	f.source = sourceIntent
	if err := f.chooseRouting(); err != nil {
		return err
	}
	if f.request.Context.Len() == 0 {
		f.bindings = edn.MustMap(keyInput, f.request.Input)
	} else {
		f.bindings = edn.MustMap(keyInput, f.request.Input, keyContext, f.request.Context)
	}
	key := f.shapeKey()
	sh := f.service.shapes.find(key)
	if sh == nil {
		var err *contract.Error
		if sh, err = f.newShape(); err != nil {
			return err
		}
		f.service.shapes.keep(key, sh)
	}
	f.plan, f.findings, f.program, f.layer, f.policies, f.shape = sh.plan, sh.findings, sh.program, &sh.layer, &sh.policies, sh
	return nil
}

var keyInput, keyContext = edn.K("input"), edn.K("context")

// newShape reads and links the plan of an act that names an intent.
func (f *flight) newShape() (*shape, *contract.Error) {
	sh := &shape{}
	sh.layer.SetBudget(f.request.Budget, policy.Origin{Source: policy.SourceRequest})
	if d := f.route.decision; d != nil {
		sh.layer = policy.Merge(d.layer, sh.layer)
	}
	f.raise(&sh.layer)
	f.swap(&sh.layer)
	sh.plan, sh.findings = plan.Parse(edn.MustMap(edn.K("nodes"), edn.Vector(f.node())), nil,
		plan.WithLimits(*f.service.config.Limits))
	if err := plan.FindingsError(sh.findings, contract.SourceRequest); err != nil {
		return nil, err
	}
	if d := f.route.decision; d != nil && d.candidates != nil {
		sh.plan.Nodes[0].Layer.First = policy.Of(d.candidates[0], policy.Origin{Source: policy.SourceMeta})
	}
	f.layer = &sh.layer
	var err *contract.Error
	sh.program, err = plan.Link(sh.plan, f.planEnv())
	sh.effects = plan.Authorize(sh.plan, f.planEnv())
	return sh, err
}

// authorize rejects an act whose caller may not use its intent, or whose intent has only
// candidates that need effects the caller may not use: its run could only fail. The plan
// check covers the effects of a client's plan.
func authorize(f *flight) *contract.Error {
	if f.answersFromRecords() {
		return nil // its caller had the rights
	}
	if err := f.mayUse(f.request.Intent); err != nil {
		return err
	}
	if f.shape == nil || f.shape.effects.Harmless() {
		return nil
	}
	b, withheld := f.shape.effects.Withheld(f.planEnv(), f.request.Input)
	if !withheld {
		return nil
	}
	return dispatch.Unbound(f.shape.plan.Nodes[0].ID, f.request.Intent, b)
}

// mayUse checks that the caller may use an intent with the priority of the request, and
// adds the decision to Act.Decisions, unless access is open (AUTH-011, AUTH-013).
func (f *flight) mayUse(intent string) *contract.Error {
	access, caller := f.service.config.Access, f.act.caller()
	d := access.Intent(intent, caller)
	if err := d.Refusal("auth/forbidden", "intent", caller); err != nil {
		return err
	}
	if err := access.PriorityDenied(f.request.Priority, caller); err != nil {
		return err
	}
	if d.Reason != "open" {
		f.act.Decisions = append(slices.Clip(f.act.Decisions), d.Value())
	}
	return nil
}

// node returns the one node of the plan. Everything of the request that it
// depends on is in the key of the shape.
func (f *flight) node() edn.Value {
	var node edn.MapBuilder
	f.nodeKeys(&node)
	node.Key("op", edn.K("call"))
	node.Key("id", edn.Text("act"))
	node.Key("input", slot("input"))
	if f.request.Context.Len() > 0 {
		node.Key("context", slot("context"))
	}
	if id := f.pinned(); id != "" {
		node.Key("cap/id", edn.K(id))
	}
	if v := f.request.Requires.Value(); v.Len() > 0 {
		node.Key("requires", v)
	}
	if f.request.System != "" {
		node.Key("system", edn.Text(f.request.System))
	}
	return node.Map()
}

func slot(name string) edn.Value { return edn.MustMap(edn.K("slot/id"), edn.K(name)) }

// nodeKeys writes the dispatch settings of the request as keys of a node.
func (f *flight) nodeKeys(b *edn.MapBuilder) {
	r := &f.request
	b.Key("intent", edn.K(r.Intent))
	for _, part := range []struct {
		key string
		val edn.Value
	}{
		{"dispatch", f.dispatch()}, {"done", r.Done}, {"constraints", r.Constraints}, {"effects", f.effects()},
	} {
		if part.val.Len() > 0 {
			b.Key(part.key, part.val)
		}
	}
	if r.Role != "" {
		b.Key("role", edn.K(r.Role))
	}
	if r.Model != "" {
		b.Key("model", edn.Text(r.Model))
	}
}

// effects returns the effects that the caller allows; the default is those
// that the intent declares.
func (f *flight) effects() edn.Value {
	if !f.act.Request.HasKey("effects") {
		if in, ok := f.service.config.Registry.Intent(f.request.Intent); ok && len(in.Effects) > 0 {
			return edn.MustMap(edn.K("allowed"), edn.Keywords(in.Effects...))
		}
	}
	return f.request.Effects
}

// inherited returns the policy layer that every node of a client's plan
// inherits from the request. It is parsed like a node, so that keys mean the
// same in both places. Requirements on the result are not inherited: they
// apply to the outcome of the whole plan.
func (f *flight) inherited() (policy.Layer, *contract.Error) {
	var node edn.MapBuilder
	f.nodeKeys(&node)
	node.Key("op", edn.K("call"))
	if f.request.Context.Len() > 0 {
		node.Key("context", f.request.Context)
	}
	p, findings := plan.Parse(edn.MustMap(edn.K("nodes"), edn.Vector(node.Map())), nil,
		plan.WithLimits(*f.service.config.Limits))
	if err := plan.FindingsError(findings, contract.SourceRequest); err != nil {
		return policy.Layer{}, err
	}
	layer := policy.Layer{}
	if l := p.Nodes[0].Layer; l != nil {
		layer = *l
	}
	layer.SetBudget(f.request.Budget, policy.Origin{Source: policy.SourceRequest})
	f.swap(&layer)
	return layer, nil
}

func compileAccept(s *Service) (func(*flight) *contract.Error, error) {
	c := &s.config
	switch {
	case c.Journal == nil:
		return nil, errors.New("there is no journal")
	case c.Hash == "":
		return nil, errors.New("the configuration has no hash")
	}
	return func(f *flight) *contract.Error {
		if f.seed = c.NewSeed(); f.act.Fill != nil {
			f.seed = f.act.Fill.past.Accepted.Seed
		}
		f.deadline = f.begun.Add(time.Duration(f.request.DeadlineMS) * time.Millisecond)
		if end := f.begun.Add(f.budget.wall); f.budget.wall > 0 && end.Before(f.deadline) {
			f.deadline, f.walled = end, true
		}
		f.recorder = eval.NewRecorder(context.Background(), c.Journal, c.Clock, f.id, 1)
		if f.learn(); f.mask != nil { // its session may have filled the request
			f.recorder.Mask(f.mask)
		}
		f.pace, f.live = f.reader()
		if err := f.recorder.Record(edn.Nil(), "", f.accepted()); err != nil {
			return contract.AsError(err)
		}
		if !f.alone { // after the first record, so that the journal finds the run in memory
			f.follow = c.Journal.Follow(f.id, 0)
		}
		if f.budget.aside != nil {
			if err := f.recorder.Record(edn.Vector(), "", f.budget.aside); err != nil {
				return contract.AsError(err)
			}
		}
		if f.request.IdempotencyKey != "" || f.request.ResponseType == "accepted" || f.act.Accepted != nil {
			return contract.AsError(f.recorder.Sync()) // before the run starts or its caller gets its id (JRN-004)
		}
		return nil
	}, nil
}

// reader returns the back pressure and the live stream between the run and its reader;
// both are nil if the run is not watched.
func (f *flight) reader() (*stream.Pace, *stream.Live) {
	if !f.act.Watched {
		return nil, nil
	}
	return stream.NewPace(), stream.NewLive()
}

func (f *flight) accepted() *journal.RunAccepted {
	r, a := &f.request, &f.act
	rec := &journal.RunAccepted{
		Principal:     a.Principal,
		PrincipalType: a.PrincipalType,
		Roles:         a.Roles,
		Narrow:        a.Narrow.Value(),
		Tenant:        a.Tenant,
		Access:        a.Decisions,
		Operation:     "act/run",
		Intent:        r.Intent,
		Request:       journal.RefTo(a.Request),
		Fingerprint:   f.print,
		ResponseType:  r.ResponseType,
		Class:         f.class,
		Priority:      r.Priority,
		DeadlineAt:    f.deadline,
		Config:        f.service.config.Hash,
		Evaluator:     eval.Version,
		Seed:          f.seed,
		Budget:        amounts(r.Budget),
		Trace:         f.trace(),
		RequestID:     r.RequestID,
		Dir:           a.Dir,
	}
	rec.Key = f.key
	if f.session.ID != "" {
		rec.SessionID, rec.SessionVersion = f.session.ID, int(f.session.Version)
		rec.SessionOwner, rec.SessionCreated = f.session.Owner, f.session.Created
	}
	if fill := a.Fill; fill != nil {
		rec.ReplayOf, rec.ReplayMode, rec.ReplayBy = fill.run, journal.ReplayFill, fill.by
	}
	return rec
}

// amounts returns the limits of a budget by dimension, without the prefix "max-", as in
// records.
func amounts(budget edn.Value) edn.Value {
	var b edn.MapBuilder
	for k, v := range budget.Entries() {
		name, _ := k.AsKeyword()
		dimension, limit := strings.CutPrefix(name, "max-")
		if limit || name == "usd" || name == "wall-ms" {
			b.Key(dimension, v)
		}
	}
	return b.Map()
}
