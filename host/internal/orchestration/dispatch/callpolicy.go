package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/text"
)

// CallPolicy is the effective policy for calls of one intent, together with
// what follows from it: the candidates, the gates and the constant parts of the
// request. It is immutable except for caches and safe for concurrent use.
type CallPolicy struct {
	policy.Policy
	intent string
	capID  string

	static     policy.Binding // assuming that all candidates are ready
	effects    bool           // some candidates have effects
	candidates []journal.Candidate
	rejected   []journal.Rejection
	out        *schema.Schema
	outName    string
	gates      []quality.Gate
	judgePanel *judgePanel // nil without a judge
	done       edn.Value
	stats      map[string]*stats.Candidate // by capability; nil without statistics
	scoreMin   edn.Value
	limits     policy.Limits // of the budget of one node
	// Wall and Depth come from the budget; a Wall of 0 is no limit.
	Wall  time.Duration
	Depth request.Limit

	prompts   *prompt.Book
	languages *text.Packs
	reg       *registry.Registry

	mu        sync.Mutex
	prepared  map[string]*prepared     // by capability
	envelopes map[string]fixedEnvelope // by capability: the request without its input
	metas     map[metaKey]edn.Value
}

// maxMetas bounds the cached metadata, since every restart of a plugin adds an
// entry.
const maxMetas = 64

// fixedEnvelope holds an envelope with the trace of the last run; calls of one
// run share the trace.
type fixedEnvelope struct{ trace, v edn.Value }

type metaKey struct {
	capID, plugin string
	generation    int
}

// CallPolicy computes the policy for calls of an intent. capID pins the first
// candidate; empty: none.
func (d *Dispatcher) CallPolicy(pol policy.Policy, intent, capID string) *CallPolicy {
	p := d.policyWithoutStats(pol, intent, capID)
	if d.Stats != nil {
		p.stats = make(map[string]*stats.Candidate, len(p.static.List))
		for _, id := range p.static.List {
			if to := d.addStats(p, id); to != "" {
				d.addStats(p, to)
			}
		}
	}
	return p
}

// first returns the candidate that stays first in every order: the pinned one, else that of a
// router; empty: none.
func (p *CallPolicy) first() string {
	if p.capID != "" {
		return p.capID
	}
	return p.Layer.First.V
}

// addStats adds the statistics of a capability and returns the capability that
// may replace it.
func (d *Dispatcher) addStats(p *CallPolicy, capID string) (swapTo string) {
	c, ok := d.Registry.Capability(capID)
	if !ok {
		return ""
	}
	rules := c.Quality
	if in, ok := d.Registry.Intent(p.intent); ok {
		rules = in.Quality.Over(rules)
	}
	p.stats[capID] = d.Stats.For(c, p.intent, c.Breaker.Over(p.Layer.Breaker), rules, d.Clock.Now())
	return rules.SwapTo
}

// HidesSecret reports whether the schema of the answer marks a value as secret.
func (p *CallPolicy) HidesSecret() bool { return p.out != nil && p.out.HidesSecret() }

// policyWithoutStats computes a policy that ignores breakers and statistics.
func (d *Dispatcher) policyWithoutStats(pol policy.Policy, intent, capID string) *CallPolicy {
	p := &CallPolicy{
		Policy:    pol,
		intent:    intent,
		capID:     capID,
		prompts:   d.Prompts,
		languages: d.Checks.Languages(),
		reg:       d.Registry,
	}
	demand := p.demand(d.Registry)
	p.static = demand.Bind()
	p.effects = p.effectful(d.Registry)
	p.candidates = candidateRecords(p.static.Accepted)
	p.rejected = rejections(p.static.Rejected)
	p.outName = d.Registry.OutSchema(intent, pol.Layer.Requires.OutSchema.V)
	if sch, ok := d.Registry.Schema(p.outName); ok {
		p.out = sch
	}
	p.gates = d.Checks.Gates(pol.Must, pol.Should, p.out != nil)
	p.done = p.doneValue()
	if r, ok := pol.ScoreMin.AsNumber(); ok && r.Sign() > 0 {
		p.scoreMin = pol.ScoreMin
	}
	p.budget()
	p.judgePanel = d.judgePanel(p)
	return p
}

// budget reads the limits, which were validated with the configuration.
func (p *CallPolicy) budget() {
	if p.Budget.Len() == 0 {
		return
	}
	p.limits, _ = policy.LimitsOf(p.Budget)
	if b, err := request.ParseBudget(p.Budget); err == nil {
		p.Wall, p.Depth = policy.WallLimit(b.MaxWallMS), b.MaxDepth
	}
}

// effectful reports whether any candidate has effects.
func (p *CallPolicy) effectful(reg *registry.Registry) bool {
	return slices.ContainsFunc(p.static.Accepted, func(id string) bool {
		c, ok := reg.Capability(id)
		return ok && c.Effectful()
	})
}

func (p *CallPolicy) demand(reg *registry.Registry) policy.Demand {
	return policy.Demand{Registry: reg, Intent: p.intent, CapID: p.capID, Layer: &p.Layer}
}

func candidateRecords(ids []string) []journal.Candidate {
	out := make([]journal.Candidate, len(ids))
	for i, id := range ids {
		out[i].CapID = id
	}
	return out
}

func rejections(rs []policy.Rejection) []journal.Rejection {
	if len(rs) == 0 {
		return nil
	}
	out := make([]journal.Rejection, len(rs))
	for i, r := range rs {
		out[i] = journal.Rejection{CapID: r.Cap, Reason: r.Reason}
		if ownCause(r) {
			out[i].Why = r.Why.Type
		}
	}
	return out
}

// doneValue returns the gates as data; nil without any.
func (p *CallPolicy) doneValue() edn.Value {
	if len(p.Must) == 0 && len(p.Should) == 0 {
		return edn.Nil()
	}
	var b edn.MapBuilder
	if len(p.Must) > 0 {
		b.Key("must", edn.Keywords(p.Must...))
	}
	if len(p.Should) > 0 {
		b.Key("should", edn.Keywords(p.Should...))
	}
	b.Key("score-min", p.ScoreMin)
	return b.Map()
}

var (
	keyInput  = edn.K("input")
	keySystem = edn.K("system")
	keyTrace  = edn.K("trace")
)

// envelope returns the request for the plugin: the task reduced to intent and
// capability, everything else as effective for this call.
func (p *CallPolicy) envelope(c *registry.Capability, trace, input edn.Value, system string) edn.Value {
	p.mu.Lock()
	fixed, ok := p.envelopes[c.ID]
	if !ok {
		fixed.v = p.fixed(c)
		if p.envelopes == nil {
			p.envelopes = make(map[string]fixedEnvelope)
		}
	}
	if !ok || !edn.Equal(fixed.trace, trace) {
		fixed = fixedEnvelope{trace, fixed.v.Assoc(keyTrace, trace)}
		p.envelopes[c.ID] = fixed
	}
	p.mu.Unlock()
	v := fixed.v.Assoc(keyInput, input)
	if system != "" {
		v = v.Assoc(keySystem, edn.Text(system))
	}
	return v
}

// fixed returns the part of the request that does not depend on the input.
func (p *CallPolicy) fixed(c *registry.Capability) edn.Value {
	var b edn.MapBuilder
	b.Key("proto", edn.Int(1))
	b.Set(keyTrace, edn.MustMap())
	b.Key("task", edn.MustMap(edn.K("intent"), journal.Keyword(p.intent), edn.K("cap/id"),
		journal.Keyword(c.Advertised)))
	b.Set(keyInput, edn.MustMap())
	b.Key("effects", edn.MustMap(edn.K("allowed"), edn.Keywords(effects(c)...)))
	set := func(key string, v edn.Value) {
		if !v.IsNil() && (v.Kind() != edn.KindMap || v.Len() > 0) {
			b.Key(key, v)
		}
	}
	set("context", p.Context)
	set("constraints", p.Constraints)
	set("done", p.done)
	budget := p.Budget
	if !p.Temperature.IsNil() {
		if budget.IsNil() {
			budget = edn.MustMap()
		}
		budget = budget.AssocKey("temperature", p.Temperature)
	}
	set("budget", budget)
	set("model", p.modelOf(c))
	if role := p.roleOf(c); role != "" {
		b.Key("role", journal.Keyword(role))
	}
	return b.Map()
}

// effects returns the effects that a call may have: those declared by the
// capability. Binding has checked that the policy allows them.
func effects(c *registry.Capability) []string {
	if len(c.Effects) == 0 {
		return []string{registry.NoEffect}
	}
	return c.Effects
}

// meta merges the metadata of the plugin with that of the host; the host's keys
// win.
func (p *CallPolicy) meta(given edn.Value, c *registry.Capability, a *Answer) edn.Value {
	key := metaKey{c.ID, a.Plugin, a.Generation}
	p.mu.Lock()
	own, ok := p.metas[key]
	if !ok {
		own = p.hostMeta(c, a)
		if p.metas == nil || len(p.metas) >= maxMetas {
			p.metas = make(map[metaKey]edn.Value)
		}
		p.metas[key] = own
	}
	p.mu.Unlock()
	if given.Kind() != edn.KindMap || given.Len() == 0 {
		return own
	}
	return given.Merge(own)
}

func (p *CallPolicy) hostMeta(c *registry.Capability, a *Answer) edn.Value {
	var b edn.MapBuilder
	b.Key("intent", journal.Keyword(p.intent))
	b.Key("cap/id", journal.Keyword(c.ID))
	b.Key("cap/version", edn.Text(c.Version))
	for name, value := range map[string]string{"cap/model": c.Model, "cap/family": c.Family} {
		if value != "" { // for the same-family rule of judges (JDG-009)
			b.Key(name, edn.Text(value))
		}
	}
	if role := p.roleOf(c); role != "" {
		b.Key("role", journal.Keyword(role))
	}
	if a.Plugin != "" {
		b.Key("plugin", edn.Text(a.Plugin))
		b.Key("generation", edn.Int(int64(a.Generation)))
	}
	if a.Enforcement != "" {
		b.Key("enforcement", journal.Keyword(a.Enforcement))
	}
	return b.Map()
}

// subject returns the part of the request that checks may read.
func (p *CallPolicy) subject(input edn.Value) edn.Value {
	var b edn.MapBuilder
	b.Key("intent", journal.Keyword(p.intent))
	b.Set(keyInput, input)
	for _, part := range []struct {
		key string
		val edn.Value
	}{
		{"context", p.Context}, {"constraints", p.Constraints}, {"done", p.done}, {"budget", p.Budget},
	} {
		if part.val.IsNil() {
			part.val = edn.MustMap()
		}
		b.Key(part.key, part.val)
	}
	if p.Role != "" {
		b.Key("role", journal.Keyword(p.Role))
	}
	return b.Map()
}

// Limits returns the budget limits of one node.
func (p *CallPolicy) Limits() policy.Limits { return p.limits }
