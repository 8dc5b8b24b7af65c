package act

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sourceRoute is the source of a plan that a router wrote.
const sourceRoute = "route"

// Outcomes of meta routing, in the record of the plan.
const (
	routeDecided = "decided" // a decision chose the capability
	routePlanned = "planned" // the plan of the router is that of the act
	routeStatic  = "static"  // the act continued without a usable decision
)

// routed is the routing state of an act.
type routed struct {
	routing.Choice
	decision *decision // nil: no decision applies
	record   edn.Value // for plan/resolved; nil: no router was called
	unrouted *shape    // of the act before the router was called; else nil
}

// decision is the decision of a router that applies to the act.
type decision struct {
	routing.Decision
	layer                policy.Layer
	candidates, excluded []string // nil: those of the request and the configuration
}

// isOfRoute reports whether a path is that of the call of the router.
func isOfRoute(path edn.Value) bool {
	first, _ := path.Nth(0)
	return path.Len() == 2 && first.Equal(eval.RoutePath()[0])
}

// chooseRouting determines whether a router is called. Requests of plugins to
// the host are not routed: they are part of a run that was.
func (f *flight) chooseRouting() *contract.Error {
	if f.route.decision != nil || f.inside != nil || f.act.Stack != nil {
		return nil
	}
	c, err := f.service.config.Routing.Choose(f.request.Intent, f.request.Routing)
	if err != nil {
		return err
	}
	if reg := f.service.config.Registry; c.Ask && c.Capability != "" && !reg.Known(c.Capability) {
		return contract.Errorf("cap/not-found", "the request names the router :%s, and there is no such capability", c.Capability).
			DidYouMean(":" + reg.NearestCapability(c.Capability))
	}
	f.route.Choice = c
	return nil
}

// decideRoute calls a router before the plan runs, and applies its decision. The
// call is a node of the run: a resumed or replayed run reads its answer from
// the records (RTE-004).
func decideRoute(f *flight) *contract.Error {
	if !f.route.Ask {
		return nil
	}
	f.route.unrouted = f.shape
	slot, err := f.askRouter()
	if err != nil {
		return err
	}
	outcome, failed := f.applyRoute(slot)
	if failed == nil {
		f.route.record = f.routeRecord(outcome, slot, nil)
		return nil
	}
	if f.route.Closed {
		return f.routeFailed(slot, failed)
	}
	f.route.record = f.routeRecord(routeStatic, slot, failed)
	f.warnings = append(f.warnings, edn.MustMap(
		edn.K("type"), edn.K("route/decide-failed"),
		edn.K("failure/type"), edn.K(failed.Type),
		edn.K("message"), edn.Text("the router gave no usable decision, so the candidates are those of the configuration: "+failed.Message),
	))
	return nil
}

// askRouter calls the router. Its answer or failure is in the slot; the error is one
// that fails the run.
func (f *flight) askRouter() (plan.Slot, *contract.Error) {
	p, env, err := f.routePlan()
	if err != nil {
		return plan.Slot{}, err
	}
	program, err := plan.Link(p, env)
	if err != nil {
		return plan.Slot{}, err
	}
	task := f.task(program)
	task.Source, task.Bindings, task.Routing = "inline", f.routeInput(), true
	task.Inside = &eval.Place{Path: eval.RoutePath(), Node: "route"}
	out := f.service.eval.Run(f.ctx, task)
	return out.Slot, out.Err
}

// routePlan returns the plan of the call of the router. Its limits follow from
// the request and the configuration alone.
func (f *flight) routePlan() (*plan.Plan, plan.Env, *contract.Error) {
	s := f.service
	var node edn.MapBuilder
	node.Key("op", edn.K("call"))
	node.Key("id", edn.Text("route"))
	node.Key("intent", edn.K(f.route.Intent))
	node.OptKeyword("cap/id", f.route.Capability)
	node.Key("input", edn.MustMap(edn.K("request"), slot("request"), edn.K("candidates"), slot("candidates")))
	node.Key("effects", edn.MustMap(edn.K("allowed"), edn.Keywords("none")))
	node.Key("dispatch", edn.MustMap(edn.K("allow-failure?"), edn.Bool(true)))
	node.Key("deadline-ms", edn.Int(f.routeTime().Milliseconds()))
	if budget := f.routeBudget(); budget.Len() > 0 {
		node.Key("budget", budget)
	}
	p, findings := plan.Parse(edn.MustMap(edn.K("nodes"), edn.Vector(node.Map())), nil, plan.WithLimits(*s.config.Limits))
	env := f.planEnv()
	env.Request, env.Outer = policy.Layer{}, func(name string) bool { return name == "request" || name == "candidates" }
	return p, env, plan.FindingsError(findings, contract.SourceHost)
}

// routeTime is the router's share of the time of the act.
func (f *flight) routeTime() time.Duration {
	whole := time.Duration(f.request.DeadlineMS) * time.Millisecond
	if wall := f.budget.wall; wall > 0 && wall < whole {
		whole = wall
	}
	return max(time.Millisecond, time.Duration(f.route.Share*float64(whole)))
}

// routeBudget is the router's share of the tokens of the act: of those that its
// budgets allow, else of its worst case. Nil: neither bounds them.
func (f *flight) routeBudget() edn.Value {
	limits := f.budget.limits
	share := func(of int64) edn.Value { return edn.Int(max(1, int64(f.route.Share*float64(of)))) }
	var b edn.MapBuilder
	if limits.Bounds(policy.TokensIn) {
		b.Key("max-tokens-in", share(limits.Amounts().Count(policy.TokensIn)))
	}
	most, bounded := limits.Amounts().Count(policy.TokensOut), limits.Bounds(policy.TokensOut)
	if !bounded {
		w := f.worst()
		_, open := w.Open[policy.TokensOut]
		most, bounded = w.Amounts.Count(policy.TokensOut), !open && w.Amounts.Has(policy.TokensOut)
	}
	if bounded {
		b.Key("max-tokens", share(most))
		b.Key("max-tokens-out", share(most))
	}
	return b.Map()
}

// routedKeys are the parts of a request that a router reads.
var routedKeys = []string{
	"task", "input", "context", "constraints", "done", "budget", "effects", "role", "model", "cap/id",
}

// routeInput returns the bindings of the call: the request and the candidates of
// the act. Secrets stay with the capability that they are for.
func (f *flight) routeInput() edn.Value {
	var b edn.MapBuilder
	for _, key := range routedKeys {
		b.Opt(key, f.act.Request.Key(key))
	}
	asked := b.Map()
	if f.mask.Any() {
		asked = f.mask.Value(asked)
	}
	bounds, _ := f.routeBounds() // an error is returned by applyRoute, which computes them again
	all := make([]edn.Value, len(bounds.Accepted))
	for i, id := range bounds.Accepted {
		c, _ := f.service.config.Registry.Capability(id)
		var one edn.MapBuilder
		one.Key("cap/id", edn.K(id))
		one.OptKeyword("cap/kind", c.Kind)
		if len(c.Tags) > 0 {
			one.Key("cap/tags", edn.Keywords(c.Tags...))
		}
		one.OptText("description", c.Description)
		all[i] = one.Map()
	}
	return edn.MustMap(edn.K("request"), asked, edn.K("candidates"), edn.Vector(all...))
}

// routeBounds returns the bounds that a decision must respect: the candidates, limits
// and policy of the act without a decision. It ignores which candidates are ready, so
// that a decision has the same meaning in a replay.
func (f *flight) routeBounds() (*routing.Bounds, *contract.Error) {
	env, n := f.planEnv(), f.plan.Nodes[0]
	if f.route.Unpin {
		n.CapID = ""
	}
	layer := env.Written(n.Intent, n.Layer)
	demand := env.Demand(&n, &layer)
	b := &routing.Bounds{
		Accepted: demand.Bind().Accepted,
		Pinned:   n.CapID != "",
		Limits:   f.budget.limits,
		Force:    f.route.Force,
	}
	var err error
	if b.Policy, err = layer.Resolve(); err != nil {
		return b, contract.Errorf("plan/invalid", "policy of :%s: %w", n.Intent, err)
	}
	return b, nil
}

// applyRoute applies the answer of a router and returns the outcome. If the answer
// cannot be used, the error has the reason and the act is unchanged.
func (f *flight) applyRoute(answer plan.Slot) (outcome string, err *contract.Error) {
	if failed := answer.Failure(); failed != nil {
		return "", failed
	}
	bounds, err := f.routeBounds()
	if err != nil {
		return "", err
	}
	v := answer.Value()
	result := v.Key("result")
	if inner := result.Key("result"); inner.IsMap() {
		result = inner
	}
	switch kind, _ := result.Key("type").AsKeyword(); kind {
	case "plan":
		return routePlanned, f.adopt(result.Key("plan"), result.Key("bindings"), bounds)
	case "value":
		d, err := routing.ReadDecision(v.Key("out"))
		if err != nil {
			return "", err
		}
		return routeDecided, f.obey(d, bounds)
	default:
		return "", routing.Refuse("decide-result-type-not-value", "the router answered with a %s, expected a decision or a plan", kind)
	}
}

// obey applies a decision as if the request stated it. Where the request itself has a
// setting, that of the request takes precedence.
func (f *flight) obey(d routing.Decision, bounds *routing.Bounds) *contract.Error {
	p, findings := plan.Parse(edn.MustMap(edn.K("nodes"), edn.Vector(d.Node(f.request.Intent))), nil,
		plan.WithLimits(*f.service.config.Limits))
	if err := plan.FindingsError(findings, contract.SourcePlugin); err != nil {
		return routing.Refuse("decide-invalid", "the decision is invalid: %s", err.Message).WithCause(err)
	}
	next := &decision{Decision: d}
	if l := p.Nodes[0].Layer; l != nil {
		next.layer = *l
	}
	if err := f.knownChecks(&next.layer); err != nil {
		return err
	}
	var err *contract.Error
	if next.candidates, next.excluded, err = bounds.Order(&d); err != nil {
		return err
	}
	env := f.planEnv()
	env.Request = policy.Merge(next.layer, *f.layer)
	layer := env.Written(f.request.Intent, f.plan.Nodes[0].Layer)
	after, fault := layer.Resolve()
	if fault != nil {
		return routing.Refuse("decide-invalid", "the decision is invalid: %v", fault)
	}
	if !f.decided() {
		if err := bounds.Check(&next.layer, &after); err != nil {
			return err
		}
	}
	f.route.decision = next
	if err := f.readIntent(); err != nil {
		f.route.decision = nil
		return routing.Refuse("decide-invalid", "the decision is invalid: %s", err.Message).WithCause(err)
	}
	return nil
}

// decided reports whether the decision of the router is recorded as one that applies to the act. A
// resumed or replayed run keeps it, also if the configuration or the rules for decisions have changed.
func (f *flight) decided() bool {
	begun := f.recordedPlan()
	return begun != nil && begun.Route.Key("outcome").Equal(edn.K(routeDecided))
}

// knownChecks rejects a decision that names an unknown check.
func (f *flight) knownChecks(l *policy.Layer) *contract.Error {
	for _, list := range []policy.Names{l.Must, l.Should, l.Soft, l.Checks.Names()} {
		for _, name := range list.Strings() {
			if _, ok := f.service.config.Registry.Check(name); !ok {
				return routing.Refuse("decide-invalid", "the decision names the unknown check :%s", name)
			}
		}
	}
	return nil
}

// pinned returns the capability to which the node of the act is pinned; empty if none,
// or if the candidates of a decision replace it.
func (f *flight) pinned() string {
	if d := f.route.decision; d != nil && d.candidates != nil {
		return ""
	}
	return f.request.CapID
}

// dispatch returns the :dispatch of the request with the candidates of a
// decision.
func (f *flight) dispatch() edn.Value {
	v, d := f.request.Dispatch, f.route.decision
	if d == nil || d.candidates == nil {
		return v
	}
	v = v.AssocKey("candidates", keywordVector(d.candidates))
	if len(d.excluded) == 0 {
		return v
	}
	excluded := slices.Collect(v.Key("exclude").Elems())
	for _, id := range d.excluded {
		if k := edn.K(id); !slices.ContainsFunc(excluded, k.Equal) {
			excluded = append(excluded, k)
		}
	}
	return v.AssocKey("exclude", edn.Vector(excluded...))
}

func keywordVector(names []string) edn.Value {
	all := make([]edn.Value, len(names))
	for i, name := range names {
		all[i] = edn.K(name)
	}
	return edn.Vector(all...)
}

// adopt replaces the plan of the act by the plan of a router. Its nodes read the input
// and the context of the request as :input and :context.
func (f *flight) adopt(source, given edn.Value, bounds *routing.Bounds) *contract.Error {
	layer, err := f.inherited()
	if err != nil {
		return err
	}
	// The candidates of the request are for its own intent, not for all nodes. The check
	// against the bounds covers them.
	layer.Candidates, layer.Fallbacks = policy.Val[[]string]{}, nil
	bindings := f.bindings
	if given.IsMap() {
		bindings = bindings.Merge(given)
	}
	env := f.planEnv()
	env.Request, env.Outer = layer, bindings.HasKey
	p, findings := plan.Parse(source, nil, plan.WithLimits(*f.service.config.Limits))
	if p != nil {
		findings = plan.Check(p, env)
	}
	if err := plan.FindingsError(findings, contract.SourcePlugin); err != nil {
		return routing.Refuse("decide-invalid", "the plan of the router is invalid: %s", err.Message).WithCause(err)
	}
	check := routing.PlanCheck{Env: env, Intent: f.request.Intent, Bounds: bounds}
	if err := check.Check(p); err != nil {
		return err
	}
	worst := plan.WorstCase(p, env)
	if err := f.affords(&worst, env, p); err != nil {
		return err
	}
	program, err := plan.Link(p, env)
	if err != nil {
		return routing.Refuse("decide-invalid", "the plan of the router is invalid: %s", err.Message).WithCause(err)
	}
	f.plan, f.findings, f.program, f.source = p, findings, program, sourceRoute
	f.layer, f.bindings, f.policies, f.shape = &layer, bindings, nil, nil
	if len(f.budget.around)+len(f.budget.counted) > 0 {
		f.budget.worst, f.budget.unbounded = worst.Value(), len(worst.Open) > 0
	}
	return nil
}

// affords rejects a plan that may cost more than the budgets of the act allow, or than
// was reserved for the whole run.
func (f *flight) affords(w *plan.Worst, env plan.Env, p *plan.Plan) *contract.Error {
	if f.budget.budgets != nil {
		env.Budgets = f.budget.budgets
		for _, finding := range plan.WithinBudget(w, env, p) {
			if finding.Severity == plan.Error {
				return routing.Refuse("widened", "the plan of the router: %s", finding.Message)
			}
		}
	}
	if f.budget.aside == nil {
		return nil
	}
	reserved := policy.AmountsOf(f.budget.aside.Amount)
	for _, d := range policy.Dimensions() {
		if _, open := w.Open[d]; reserved.Has(d) && (open || w.Amounts.Exceeds(reserved, d)) {
			return routing.Refuse("widened", "the plan of the router may use more %s than the %s that are reserved for the run", d, reserved.Of(d))
		}
	}
	return nil
}

// worstWithRoute returns the worst case of the call of the router, if any, followed by
// the plan.
func (f *flight) worstWithRoute() (*plan.Worst, *contract.Error) {
	w := f.worst()
	if !f.route.Ask {
		return w, nil
	}
	p, env, err := f.routePlan()
	if err != nil {
		return nil, err
	}
	whole := plan.WorstCase(p, env)
	whole = whole.Then(w)
	return &whole, nil
}

// routeRecord returns the :route of the record of the plan.
func (f *flight) routeRecord(outcome string, answer plan.Slot, failed *contract.Error) edn.Value {
	var b edn.MapBuilder
	b.Key("outcome", edn.K(outcome))
	b.OptKeyword("profile", f.route.Profile)
	b.Key("intent", edn.K(f.route.Intent))
	b.Opt("cap/id", answer.Value().Key("cap/id"))
	if d := f.route.decision; d != nil {
		b.Key("decision", d.Value)
		if d.candidates != nil {
			b.Key("candidates", keywordVector(d.candidates))
		}
	}
	if failed != nil {
		b.Key("failure/type", edn.K(failed.Type))
		b.Opt("reason", failed.Details.Key("reason"))
	}
	return b.Map()
}

// routeFailed returns the error of an act that must not continue without a decision. Its
// source is that of cause.
func (f *flight) routeFailed(answer plan.Slot, cause *contract.Error) *contract.Error {
	e := contract.Errorf("route/decide-failed", "the router :%s gave no usable decision: %s", f.route.Intent, cause.Message).
		WithSource(cause.Source).
		WithWhere("node", edn.Text("route")).WithWhere("path", edn.Vector(append(eval.RoutePath(), edn.Int(0))...)).
		WithHint(fmt.Sprintf("\"ferment explain %s\" shows the routers; :on-error :fail-open goes on without a decision", f.route.Intent))
	var details edn.MapBuilder
	details.Key("route/intent", edn.K(f.route.Intent))
	details.Opt("route/cap-id", answer.Value().Key("cap/id"))
	details.Key("failure/type", edn.K(cause.Type))
	details.Key("node", edn.Text("route"))
	for key, from := range map[string]string{
		"reason": "reason", "attempts": "attempts", "candidates": "candidates", "rejected-candidates": "rejected",
		"switch-on": "switch-on", "retry-policy": "retry", "last-check": "findings", "accepted": "accepted",
	} {
		details.Opt(key, cause.Details.Key(from))
	}
	if cause.Type != "route/decide-failed" {
		e = e.WithCause(cause)
	}
	return e.WithDetails(details.Map())
}
