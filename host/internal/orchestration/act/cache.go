package act

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CacheUse selects how an act uses the cache of answers.
type CacheUse uint8

// The uses of the cache (RUN-033).
const (
	CacheRead    CacheUse = iota // use a cached answer, if there is one
	CacheRefresh                 // execute, and replace the cached answer
	CacheBypass                  // execute, and do not store the answer
)

// caching is the state of an act towards the cache of answers.
type caching struct {
	outcome string        // journal.CacheHit, CacheMiss or CacheBypass; empty: the intent is not cacheable
	key     string        // empty: the answer is not stored
	claim   *cache.Claim  // shared by acts with the same key; nil: none
	leads   bool          // this act executes the request for all that share the claim
	answer  *cache.Answer // of a hit
}

// spared reports whether the act has its answer from the cache, or expects it from
// another act. As long as it does, it costs nothing and needs no worker.
func (c *caching) spared() bool { return c.answer != nil || c.claim != nil && !c.leads }

// lookUp is the step that looks for the answer of an equal request. It runs after every
// step that checks the rights of the caller (RUN-032).
func lookUp(f *flight) *contract.Error {
	in, ok := f.service.cacheable(f.request.Intent)
	if !ok {
		return nil
	}
	f.cache.outcome = journal.CacheBypass
	if f.act.Cache == CacheBypass || !f.repeatable() {
		f.tellCache()
		return nil
	}
	f.cache.outcome, f.cache.key = journal.CacheMiss, f.cacheKey(in)
	if f.act.Cache == CacheRead {
		f.claimAnswer()
	}
	return nil
}

// cacheable returns an intent and reports whether its answers are cached: the intent is
// known and declared cacheable, and the service has a cache.
func (s *Service) cacheable(intent string) (*registry.Intent, bool) {
	in, known := s.config.Registry.Intent(intent)
	return in, known && in.Cacheable && s.config.Cache != nil
}

// tellCache passes the cache outcome to the callback Act.Cached.
func (f *flight) tellCache() {
	if f.act.Cached != nil {
		f.act.Cached(f.cache.outcome)
	}
}

// repeatable reports whether a cached answer may replace the execution of the request:
// the act is one call that returns a value and only reads.
func (f *flight) repeatable() bool {
	r := &f.request
	return f.single() && r.ResponseType == "value" && contract.OnlyReads(f.allowedEffects()) &&
		f.act.Fill == nil && f.act.Stack == nil && !f.act.Grading && !r.DebugPlan && !r.DebugTranscript
}

// allowedEffects returns the effects that calls of a one-node plan may have.
func (f *flight) allowedEffects() (names []string) {
	for e := range f.effects().Key("allowed").Elems() {
		name, _ := e.AsKeyword()
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// claimAnswer takes the cached answer. Without one it joins the claim of the key: as its
// leader, which executes the request, or waiting for the leader.
func (f *flight) claimAnswer() {
	answer, known, claim, leads := f.service.config.Cache.Claim(f.cache.key)
	f.cache.claim, f.cache.leads = claim, leads
	if known {
		f.hit(answer)
	}
}

var usageOfHit = edn.MustMap(edn.K("mode"), edn.K("cache"))

// hit sets a cached answer as the answer of the act, and finds its secrets.
func (f *flight) hit(a cache.Answer) {
	sch, _ := f.outSchema()
	f.mask.Learn(sch, a.Out)
	f.cache.outcome, f.cache.answer, f.cache.claim = journal.CacheHit, &a, nil
	f.outcome.Last = &dispatch.Result{Out: a.Out, Meta: a.Meta, Usage: usageOfHit}
}

// cacheKey returns the hash of everything that the answer depends on.
func (f *flight) cacheKey(in *registry.Intent) string {
	c, r := &f.service.config, &f.request
	effects := f.allowedEffects()
	k := cache.Key{
		Intent: r.Intent,
		Request: edn.Vector(f.located(), r.Context, r.Constraints, r.Requires.Value(), r.Done, edn.Keywords(effects...), f.effects().Key("scope"),
			edn.Text(r.Role), edn.Text(r.Model), edn.Text(r.ResponseType)),
		Limits:    f.outputLimits(),
		Routing:   r.Routing.Dissoc(edn.K("debug/plan?"), edn.K("debug/transcript?")),
		Plan:      f.unrouted().plan.Hash(),
		Session:   cache.Session{ID: f.session.ID, Version: f.session.Version},
		Evaluator: eval.Version,
		Policy:    c.Answers,
		Rights:    f.grant.Value(effects),
	}
	if f.raised {
		k.Rights = edn.Vector(k.Rights, edn.K(policy.RaiseBudget))
	}
	if _, overrides := prompt.Overrides(r.Intent, r.System, r.Input); overrides {
		may := c.Access.Denied(policy.OverridePrompt, f.act.caller()) == nil || f.inside != nil && c.Registry.Permits(f.inside.CapID, policy.OverridePrompt)
		k.Rights = edn.Vector(k.Rights, edn.Bool(may))
	}
	for _, id := range f.unrouted().reached(f) {
		p := cache.Program{ID: id, Binary: c.Executor.State(id).Binary}
		if capability, ok := c.Registry.Capability(id); ok {
			p.Version = capability.Version
		}
		k.Programs = append(k.Programs, p)
	}
	switch in.CacheScope {
	case registry.CachePublic:
		k.Scope = edn.K(registry.CachePublic)
	case registry.CacheTenant:
		k.Scope = edn.Vector(edn.K(registry.CacheTenant), edn.Text(policy.TenantOf(f.act.Tenant)))
	default:
		k.Scope = edn.Vector(edn.K(registry.CachePrincipal), edn.Text(f.act.Principal))
	}
	return k.Hash()
}

// unrouted returns the shape that the act had before the decision of a router.
func (f *flight) unrouted() *shape {
	if f.route.unrouted != nil {
		return f.route.unrouted
	}
	return f.shape
}

// located returns the input as plugins get it, without relative paths.
func (f *flight) located() edn.Value {
	c, r := &f.service.config, &f.request
	sch, _ := c.Registry.Schema(c.Registry.InSchema(r.Intent, r.Requires.InSchema))
	return eval.ResolvePaths(sch, r.Input, f.dir())
}

// outputLimits returns the parts of the budget that shape an answer.
func (f *flight) outputLimits() edn.Value {
	var b edn.MapBuilder
	for _, key := range []string{"max-tokens", "temperature"} {
		b.Opt(key, f.request.Budget.Key(key))
	}
	limits := f.service.config.Budgets.Around(policy.FieldsOf(f.request.Budget, policy.Origin{}))
	for _, d := range []policy.Dimension{policy.TokensIn, policy.TokensOut} {
		b.Opt("max-"+d.String(), limits.Max(d))
	}
	return b.Map()
}

// reached returns the capabilities that acts of the shape may call.
func (sh *shape) reached(f *flight) []string {
	sh.reachOnce.Do(func() { sh.reach = plan.Reach(sh.plan, f.planEnv()) })
	return sh.reach
}

// share waits for the act that executes the same request, if there is one, and takes its
// answer. If that act has no answer to share, one of the waiting acts becomes the leader
// and executes the request (RUN-034). The error is that of a canceled wait, or of
// leadSteps.
func (f *flight) share() *contract.Error {
	if !f.cache.spared() {
		return nil
	}
	for f.cache.spared() {
		c := f.cache.claim
		if c == nil {
			return nil
		}
		select {
		case <-c.Done():
		case <-f.ctx.Done():
			return f.unbegun()
		}
		if a, ok := c.Value(); ok {
			f.hit(a)
		} else {
			f.claimAnswer()
		}
	}
	return f.service.stage(f.service.lead, f)
}

// leadSteps are the steps of prepare that were skipped because the act expected the
// answer of another one.
var leadSteps = []step{
	{"budget", always(func(f *flight) *contract.Error {
		err := f.refuseWorst(f.budget.wide)
		if err == nil && f.budget.aside != nil {
			err = contract.AsError(f.recorder.Record(edn.Vector(), "", f.budget.aside))
		}
		return err
	})},
	{"queue", always(func(f *flight) *contract.Error {
		if f.place == nil {
			return nil
		}
		return f.place.Join()
	})},
}

// publish stores the answer of the act in the cache and releases the acts that wait for
// it. If the answer is not keepable, nothing is stored and the waiting acts get none.
func (f *flight) publish() {
	a, ok := f.keepable()
	switch c := &f.cache; {
	case c.claim != nil && c.leads:
		c.claim.Settle(a, ok)
	case ok && c.key != "" && c.answer == nil:
		f.service.config.Cache.Put(c.key, a)
	}
	f.cache.claim = nil
}

// keepable returns the answer and reports whether later requests may reuse it (RUN-031):
// it was accepted, is complete, does not stand in for a candidate that was out of service,
// and came from one call without effects, made by a program that still serves the capability.
func (f *flight) keepable() (a cache.Answer, ok bool) {
	last := f.outcome.Last
	if f.cache.key == "" || !f.single() || f.cache.answer != nil || f.err != nil || f.response.IsNil() || last == nil {
		return a, false
	}
	verdict := f.quality()
	down := func(a dispatch.Attempt) bool { return a.Down && a.CapID != last.CapID }
	if quality.CutShort(last.Meta, last.Out) || verdict.Key("degraded?").Truthy() ||
		slices.ContainsFunc(last.Attempts, down) {
		return a, false
	}
	for _, rec := range f.records {
		if rec.Path.Len() > 1 && !isOfRoute(rec.Path) { // calls within the call may depend on anything
			return a, false
		}
		if start, ok := rec.Body.(*journal.AttemptStarted); ok && !contract.OnlyReads(start.Effects) {
			return a, false
		}
	}
	if in, _ := f.service.cacheable(f.request.Intent); f.cacheKey(in) != f.cache.key {
		return a, false // a plugin was replaced meanwhile
	}
	return cache.Answer{Run: f.id, Out: f.out(), Meta: last.Meta, Quality: verdict}, true
}
