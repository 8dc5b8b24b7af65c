package policy

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Rejection reasons, in the order in which the filters run (BIND-002).
const (
	ReasonNotFound    = "cap/not-found"
	ReasonIntent      = "intent/not-supported"
	ReasonResultType  = "result-type/not-supported"
	ReasonEffects     = "effects/not-allowed"
	ReasonSchema      = "requires/schema-mismatch"
	ReasonKind        = "requires/cap-kind-mismatch"
	ReasonTags        = "requires/cap-tags-mismatch"
	ReasonNotReady    = "runtime/not-ready"
	ReasonQuarantined = "runtime/quarantined"
	ReasonBreaker     = "breaker/open"
	ReasonBudget      = "budget/would-exceed"
)

// Rejection gives the reason why one candidate was rejected.
type Rejection struct {
	Cap    string
	Reason string
	// Why is the underlying error of an availability reason, else nil.
	Why *contract.Error
	// Detail is the value that did not fit: the intent, the result type, the effect, or the schema
	// or kind of the capability. It is empty for tags and availability.
	Detail string
	// Denied is the error of Permits, nil if another filter rejected the
	// candidate.
	Denied *contract.Error
}

// OutOfService reports whether the candidate was rejected for its own state, not for the
// request, the rights of the caller or its budget.
func (r Rejection) OutOfService() bool {
	switch r.Reason {
	case ReasonNotReady, ReasonQuarantined, ReasonBreaker:
		return true
	}
	return false
}

// Type returns the error type of the cause behind the reason, else the reason.
func (r Rejection) Type() string {
	for e := r.Why; e != nil; e = e.Cause {
		if e.Type != r.Reason {
			return e.Type
		}
	}
	return r.Reason
}

// Unavailable gives the reason why a matching capability cannot be used now.
// The zero value means that it is available.
type Unavailable struct {
	// Reason is ReasonNotReady, ReasonQuarantined, ReasonBreaker or ReasonBudget, or "" if the
	// capability is available.
	Reason string
	Why    *contract.Error
}

// Demand describes the call for which candidates are bound.
type Demand struct {
	Registry *registry.Registry
	Intent   string
	// CapID pins the first candidate; "" leaves the choice to the lists.
	CapID string
	// Routing lists the candidates that are used if the layer sets none and the registry
	// has none for the intent.
	Routing []string
	// Layer is the merged layer of the call, such as Policy.Layer.
	Layer *Layer
	// Permits returns the error if the caller's grant does not permit a
	// capability with effects, nil if it does; a nil function permits
	// everything.
	Permits func(c *registry.Capability) *contract.Error
	// State returns the availability of a capability. Nil means that all are
	// available, which gives the static view of the checks.
	State func(capID string) Unavailable
	// StandIn returns the capability that replaces one that is out of service,
	// "" if none does. It may be nil.
	StandIn func(capID string) string
}

// Binding is the result of Bind: accepted candidates in order, and rejected
// ones with reasons.
type Binding struct {
	// List is the whole list before filtering.
	List []string
	// Accepted passed every filter, in order.
	Accepted []string
	// Tried is the part of Accepted that may be called: the first, and as many more as
	// FallbackMax permits (BIND-004).
	Tried []string
	// Rejected are the other candidates in list order.
	Rejected []Rejection
}

// List returns the candidates of BIND-001 before any filter: base list, then
// fallbacks, without duplicates and without excluded ones. The stand-in of a
// candidate follows directly after it.
func (d *Demand) List() []string {
	var base []string
	switch {
	case d.CapID != "":
		base = []string{d.CapID}
	case d.Layer.Candidates.Set:
		base = d.Layer.Candidates.V
	default:
		base = d.Registry.Candidates(d.Intent)
		if len(base) == 0 {
			base = d.Routing
		}
	}
	out := make([]string, 0, len(base)+len(d.Layer.Fallbacks))
	add := func(named string) {
		id := named
		if other, ok := d.Layer.Swap[named]; ok {
			id = other
		}
		if !slices.Contains(out, id) && !d.Layer.Exclude.Has(id) {
			out = append(out, id)
		}
		if d.StandIn == nil || named == d.CapID {
			return // a pinned capability has no stand-in
		}
		if other := d.StandIn(id); other != "" && !slices.Contains(out, other) && !d.Layer.Exclude.Has(other) {
			out = append(out, other)
		}
	}
	for _, id := range base {
		add(id)
	}
	for i := range d.Layer.Fallbacks {
		add(d.Layer.Fallbacks[i].Name)
	}
	return out
}

// Bind filters the list (BIND-002) and cuts it to the candidates that may be
// tried (BIND-004).
func (d *Demand) Bind() Binding {
	b := Binding{List: d.List()}
	for _, id := range b.List {
		if rej, ok := d.reject(id); ok {
			b.Rejected = append(b.Rejected, rej)
			continue
		}
		b.Accepted = append(b.Accepted, id)
	}
	b.Tried = b.Accepted[:min(len(b.Accepted), 1+d.Layer.FallbackMax.V)]
	return b
}

// reject runs the filters in order; the first that rejects gives the reason.
func (d *Demand) reject(id string) (Rejection, bool) {
	rej := Rejection{Cap: id}
	c, ok := d.Registry.Capability(id)
	if !ok {
		rej.Reason = ReasonNotFound
		if a, known := d.Registry.Absent(id); known {
			rej.Reason, rej.Why = ReasonNotReady, a.Why
		}
		return rej, true
	}
	if rej.Reason, rej.Detail = d.misfit(c); rej.Reason != "" {
		return rej, true
	}
	if d.Permits != nil && c.Effectful() {
		if rej.Denied = d.Permits(c); rej.Denied != nil {
			rej.Reason = ReasonEffects
			rej.Detail, _ = rej.Denied.Details.Key("effect").AsKeyword()
			return rej, true
		}
	}
	if d.State == nil {
		return rej, false
	}
	u := d.State(id)
	rej.Reason, rej.Why = u.Reason, u.Why
	return rej, u.Reason != ""
}

// misfit runs the filters that read metadata only; reason is "" if the capability passes.
func (d *Demand) misfit(c *registry.Capability) (reason, detail string) {
	if !c.Serves(d.Intent) {
		return ReasonIntent, d.Intent
	}
	if !d.typeFits(c) {
		return ReasonResultType, d.Layer.Requires.ResultType.V
	}
	if e, ok := d.Layer.AllowsEffects(c.Effects); !ok {
		return ReasonEffects, e
	}
	req := &d.Layer.Requires
	if req.Effects.Set {
		for _, e := range c.Effects {
			if e != registry.NoEffect && !slices.Contains(req.Effects.V, e) {
				return ReasonEffects, e
			}
		}
	}
	if req.InSchema.Set && c.InSchema.For(d.Intent) != req.InSchema.V {
		return ReasonSchema, c.InSchema.For(d.Intent)
	}
	if req.OutSchema.Set && c.OutSchema.For(d.Intent) != req.OutSchema.V {
		return ReasonSchema, c.OutSchema.For(d.Intent)
	}
	if req.CapKind.Set && c.Kind != req.CapKind.V {
		return ReasonKind, c.Kind
	}
	if req.CapTags.Set && !c.HasTags(req.CapTags.V) {
		return ReasonTags, ""
	}
	return "", ""
}

func (d *Demand) typeFits(c *registry.Capability) bool {
	if t := d.Layer.Requires.ResultType; t.Set {
		return c.Produces(t.V)
	}
	in, _ := d.Registry.Intent(d.Intent) // the registry declares every intent that a capability serves
	return slices.ContainsFunc(in.Types(), c.Produces)
}

// AnyFits reports whether any candidate passes the filters, without recording
// rejections.
func (d *Demand) AnyFits() bool {
	for _, id := range d.List() {
		if _, rejected := d.reject(id); !rejected {
			return true
		}
	}
	return false
}

// CheckEffects are the effects that a capability check or a judge may have.
var CheckEffects = []string{registry.NoEffect, "fs/read", "db/read"}

// CheckLayer returns the policy layer of a call to a capability check (GATE-009). It allows
// CheckEffects only, and excludes the author of the answer and the capabilities that may
// not answer the check (Check.MayAsk).
func CheckLayer(r *registry.Registry, check *registry.Check, author string) Layer {
	excluded := []string{author}
	for _, id := range r.Serving(check.Intent) {
		if c, ok := r.Capability(id); ok && !check.MayAsk(c) && id != author {
			excluded = append(excluded, id)
		}
	}
	return Layer{Effects: Of(CheckEffects, Origin{}), Exclude: NamesOf(Origin{}, excluded...)}
}

// Judgeable reports whether any capability may serve a check of an answer of author (GATE-009).
func Judgeable(r *registry.Registry, check *registry.Check, author string) bool {
	l := CheckLayer(r, check, author)
	d := Demand{Registry: r, Intent: check.Intent, Layer: &l}
	return d.AnyFits()
}
