package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// call checks the names, gates and candidates of a call.
func (c *checker) call(pl *place, n *Node, in *wanted) {
	p := pl.p
	known := c.intent(p, n)
	named := c.capabilities(p, n)
	given := c.slotCandidates(pl, n)
	named = c.schemas(p, n) && named
	c.role(p, n)
	c.excluded(p, n)
	c.checks(p, n)
	if !known {
		return
	}
	c.literal(p, n, in)
	l := c.merged(p, n)
	c.affordable(p, n, l)
	c.gates(p, n, l)
	c.learned(p, n)
	c.retries(p, n)
	if !named {
		return
	}
	switch {
	case n.Candidates == nil:
		c.bindable(p, n, l)
	case given != nil:
		said := *l
		said.Candidates = policy.Of(given, policy.Origin{Source: policy.SourceNode, Where: n.ID})
		c.bindable(p, n, &said)
	}
	c.parallel(p, n, l)
}

// parallel reports candidates that must not run in parallel: an effect must not
// happen twice. Candidates known only at run time are checked there.
func (c *checker) parallel(p *Plan, n *Node, l *policy.Layer) {
	strategy := c.env.base(n.Intent).Strategy
	path := p.path(n.Index, kIntent)
	if n.Layer != nil && n.Layer.Strategy.Set {
		strategy = n.Layer.Strategy
		path = p.path(n.Index, kDispatch, kStrategy)
	}
	s := strategy.Or(policy.DefaultStrategy)
	if s == policy.Cascade {
		return
	}
	if c.env.base(n.Intent).Stream.V == policy.FirstToken && s != policy.Hedge {
		c.warn(checkRaceStream, path, "with the strategy :%s no text streams before the gates pass, so the answers of :%s do not stream from their first token, in %s", s, n.Intent, showPath(path))
	}
	if n.Candidates != nil {
		return
	}
	demand := c.env.Demand(n, l)
	for _, id := range demand.Bind().Accepted {
		capability, ok := c.env.Registry.Capability(id)
		if ok && capability.StrictestRecovery() != contract.RecoveryNone {
			c.bad(checkParallel, path, edn.Nil(),
				"the strategy :%s calls several candidates at once, and :%s has effects that must not happen twice, in %s",
				strategy.V, id, showPath(path))
			return
		}
	}
}

// intent reports an unknown intent. It returns whether the registry has the intent of the node.
func (c *checker) intent(p *Plan, n *Node) bool {
	if n.Intent == "" || n.Fn && n.Intent == fnIntent {
		return false
	}
	if _, ok := c.env.Registry.Intent(n.Intent); ok {
		return true
	}
	path := p.path(n.Index, kIntent)
	near := c.env.Registry.NearestIntent(n.Intent)
	if named, ok := c.env.Registry.Tool(n.Intent); ok && len(named.Intents) > 0 {
		near = named.Intents[0] // the id of a capability stands in place of its intent
	}
	c.bad(checkIntent, path, keywordOr(near), "unknown intent :%s in %s", n.Intent,
		showPath(path))
	return false
}

// capability reports an unknown capability.
func (c *checker) capability(path []edn.Value, id, what string) bool {
	if c.env.Registry.Known(id) {
		return true
	}
	c.bad(checkCapability, path, keywordOr(c.env.Registry.NearestCapability(id)), "unknown %s :%s in %s", what, id,
		showPath(path))
	return false
}

// capabilities checks the pinned capability and the listed candidates. It returns whether all are
// known.
func (c *checker) capabilities(p *Plan, n *Node) bool {
	ok := n.CapID == "" || c.capability(p.path(n.Index, kCapID), n.CapID, "capability")
	if n.Layer != nil && n.Layer.Candidates.Set {
		for i, id := range n.Layer.Candidates.V {
			ok = c.capability(p.candidate(n, i), id, "capability") && ok
		}
	}
	if n.Candidates != nil && isCollection(n.Candidates.source) {
		i := 0
		for e := range n.Candidates.source.Elems() {
			if id, isRef := capRef(e); isRef {
				ok = c.capability(p.candidate(n, i), id, "capability") && ok
			}
			i++
		}
	}
	return ok
}

// excluded warns of an excluded capability that nothing provides: the exclusion
// has no effect.
func (c *checker) excluded(p *Plan, n *Node) {
	exclude, _ := p.nodeValue(n.Index).GetIn(kDispatch, kExclude)
	i := 0
	for e := range exclude.Elems() {
		id, named := e.AsKeyword()
		if _, known := c.env.Registry.Capability(id); named && !known {
			path := p.path(n.Index, kDispatch, kExclude, elementStep(exclude, e, i))
			near := keywordOr(c.env.Registry.NearestCapability(id))
			c.report(Finding{
				Check: checkCapability, Severity: Warning, Path: path, Nearest: near,
				Message: fmt.Sprintf("unknown capability :%s excludes nothing, in %s", id, showPath(path)) + suggest(near),
			}, false)
		}
		i++
	}
}

// candidate returns the path of candidate i of a call.
func (p *Plan) candidate(n *Node, i int) []edn.Value {
	if n.Fn {
		return p.path(n.Index, kFn)
	}
	return p.path(n.Index, kDispatch, kCandidates, edn.Int(int64(i)))
}

// handle checks a capability handle that is the value of a let.
func (c *checker) handle(p *Plan, n *Node) {
	v := n.Value.Source()
	if v.Kind() != edn.KindMap {
		return
	}
	if id, ok := capRef(v); ok {
		c.capability(p.path(n.Index, kValue), id, "handle")
	}
}

// role reports a role that no prompt, capability or intent declares (RTE-003).
func (c *checker) role(p *Plan, n *Node) {
	if n.Layer == nil || !n.Layer.Role.Set || c.env.Prompts == nil {
		return
	}
	if c.roles == nil {
		c.roles = c.env.Prompts.KnownRoles(c.env.Registry)
	}
	if role := n.Layer.Role.V; !slices.Contains(c.roles, role) {
		path := p.path(n.Index, edn.K("role"))
		c.bad(checkType, path, nearest(role, c.roles), "unknown role :%s in %s", role, showPath(path))
	}
}

// schemas checks the schemas that a call names, and reports whether all of them exist.
func (c *checker) schemas(p *Plan, n *Node) (known bool) {
	if n.Layer == nil || c.env.Registry.Schemas() == nil {
		return true
	}
	known = true
	check := func(v policy.Val[string], spellings ...[]edn.Value) {
		if !v.Set {
			return
		}
		if _, ok := c.env.Registry.Schema(v.V); ok {
			return
		}
		path := p.path(n.Index)
		for _, s := range spellings {
			if _, written := p.nodeValue(n.Index).GetIn(s...); written {
				path = p.path(n.Index, s...)
				break
			}
		}
		known = false
		c.bad(checkSchema, path, keywordOr(c.env.Registry.NearestSchema(v.V)), "unknown schema :%s in %s", v.V,
			showPath(path))
	}
	check(n.Layer.Requires.InSchema, []edn.Value{kRequires, edn.K("in-schema")})
	check(n.Layer.Requires.OutSchema, []edn.Value{kOutput, kSchema}, []edn.Value{kRequires, edn.K("out-schema")})
	return known
}

// nodeValue returns the node as it was written.
func (p *Plan) nodeValue(i int) edn.Value {
	nodes := p.Source
	if nodes.Kind() == edn.KindMap {
		nodes = nodes.Key("nodes")
	}
	v, _ := nodes.Nth(i)
	return v
}

// checks reports unknown checks that a node names.
func (c *checker) checks(p *Plan, n *Node) {
	l := n.Layer
	if l == nil {
		return
	}
	look := func(list policy.Names, where ...edn.Value) {
		for i := range list {
			name := list[i].Name
			if _, ok := c.env.Registry.Check(name); ok {
				continue
			}
			path := p.path(n.Index, where...)
			c.bad(checkCheck, path, keywordOr(c.env.Registry.NearestCheck(name)), "unknown check :%s in %s", name,
				showPath(path))
		}
	}
	look(l.Must, kDone, kMust)
	look(l.Should, kDone, kShould)
	look(l.Checks.Base.V, kDispatch, kChecksHard)
	look(l.Checks.Add.V, kDispatch, kChecks)
	look(l.Soft, kDispatch, kChecksSoft)
}

// retries warns of retry limits without a :switch-on set.
func (c *checker) retries(p *Plan, n *Node) {
	if n.Layer == nil || n.Layer.SameCapMax.V+n.Layer.FallbackMax.V == 0 {
		return
	}
	if n.Layer.SwitchOn.Written() || c.env.base(n.Intent).SwitchOn.Written() {
		return
	}
	path := p.path(n.Index, kDispatch, kRetry)
	c.warn(checkNoSwitchOn, path,
		"retry or fallback without :switch-on goes on after every failure of class retry, switch or repair, in %s",
		showPath(path))
}

// bindable reports a call that no candidate can serve. An absent candidate is
// not a mistake of the plan: readiness is checked at run time.
func (c *checker) bindable(p *Plan, n *Node, l *policy.Layer) {
	d := c.env.Demand(n, l)
	d.Permits = c.permits(n, l)
	if d.AnyFits() {
		return
	}
	b := d.Bind()
	if slices.ContainsFunc(b.Rejected, func(r policy.Rejection) bool { return r.Reason == policy.ReasonNotReady }) {
		return
	}
	if len(b.List) > 0 && c.effectsOnly(p, n, l, b.Rejected) {
		return
	}
	path := p.path(n.Index, kIntent)
	key := c.narrowing(p, n, d)
	if key != nil {
		path = p.path(n.Index, key.written...)
	}
	if len(b.List) == 0 {
		all := *l
		all.Exclude = nil
		d.Layer = &all
		switch {
		case len(d.List()) > 0:
			c.bad(checkNoCandidate, path, edn.Nil(), "no candidate can serve :%s: all are excluded, in %s", n.Intent,
				showPath(path))
		case l.Candidates.Set:
			c.bad(checkNoCandidate, path, edn.Nil(),
				"no candidate can serve :%s: the list of candidates is empty, in %s", n.Intent, showPath(path))
		default:
			c.bad(checkNoCandidate, path, edn.Nil(), "nothing serves :%s in %s", n.Intent, showPath(path))
		}
		return
	}
	reasons := make([]string, 0, len(b.Rejected))
	for i, r := range b.Rejected {
		if i == 4 {
			reasons = append(reasons, fmt.Sprintf("and %d more", len(b.Rejected)-i))
			break
		}
		reasons = append(reasons, fmt.Sprintf(":%s is %s", r.Cap, r.Reason))
	}
	c.bad(checkNoCandidate, path, edn.Nil(), "no candidate can serve :%s in %s: %s", n.Intent, showPath(path),
		strings.Join(reasons, ", "))
}

// narrowKey is a node key that narrows the candidates of the node.
type narrowKey struct {
	written []edn.Value
	// undo removes the key from a demand; base is the merged weaker layers.
	undo func(d *policy.Demand, base *policy.Layer)
}

// narrowing returns the key of a node whose removal would leave a candidate, or
// the first of several that exclude all only together. It is nil if the node is
// not the cause.
func (c *checker) narrowing(p *Plan, n *Node, d policy.Demand) *narrowKey {
	if n.Fn {
		return nil // the keys are those of the map
	}
	base := c.env.base(n.Intent)
	keys := p.narrowKeys(n)
	without := func(d policy.Demand, key *narrowKey) policy.Demand {
		l := *d.Layer
		d.Layer = &l
		key.undo(&d, base)
		return d
	}
	for i := range keys {
		if one := without(d, &keys[i]); one.AnyFits() {
			return &keys[i]
		}
	}
	for i := range keys {
		if d = without(d, &keys[i]); d.AnyFits() {
			return &keys[0]
		}
	}
	return nil
}

// narrowKeys lists the written keys of a node that narrow its candidates.
func (p *Plan) narrowKeys(n *Node) []narrowKey {
	var out []narrowKey
	add := func(undo func(*policy.Demand, *policy.Layer), key ...edn.Value) {
		if _, written := p.nodeValue(n.Index).GetIn(key...); written {
			out = append(out, narrowKey{written: key, undo: undo})
		}
	}
	outSchema := func(d *policy.Demand, base *policy.Layer) { d.Layer.Requires.OutSchema = base.Requires.OutSchema }
	add(func(d *policy.Demand, _ *policy.Layer) { d.CapID = "" }, kCapID)
	add(func(d *policy.Demand, base *policy.Layer) { d.Layer.Candidates = base.Candidates }, kDispatch, kCandidates)
	add(func(d *policy.Demand, base *policy.Layer) { d.Layer.Exclude = base.Exclude }, kDispatch, kExclude)
	add(outSchema, kOutput, kSchema)
	add(outSchema, kRequires, edn.K("out-schema"))
	add(func(d *policy.Demand, base *policy.Layer) {
		d.Layer.Requires.InSchema = base.Requires.InSchema
	}, kRequires, edn.K("in-schema"))
	add(func(d *policy.Demand, base *policy.Layer) {
		d.Layer.Requires.ResultType = base.Requires.ResultType
	}, kRequires, edn.K("result/type"))
	add(func(d *policy.Demand, base *policy.Layer) {
		d.Layer.Requires.CapKind = base.Requires.CapKind
	}, kRequires, edn.K("cap/kind"))
	add(func(d *policy.Demand, base *policy.Layer) {
		d.Layer.Requires.CapTags = base.Requires.CapTags
	}, kRequires, edn.K("cap/tags"))
	add(func(d *policy.Demand, base *policy.Layer) {
		d.Layer.Requires.Effects = base.Requires.Effects
	}, kRequires, edn.K("effects/allowed"))
	return out
}

// effectsOnly reports an effect error and returns true if all candidates of a call were rejected
// for disallowed effects. It returns false if only :requires excludes the effect: that is a
// mismatch of the candidates.
func (c *checker) effectsOnly(p *Plan, n *Node, l *policy.Layer, rejected []policy.Rejection) bool {
	for _, r := range rejected {
		if r.Reason != policy.ReasonEffects {
			return false
		}
	}
	// Prefer an effect that the request can allow.
	first := slices.IndexFunc(rejected, func(r policy.Rejection) bool { return r.Denied == nil && c.refused(n, r.Cap) == nil })
	r := rejected[max(0, first)]
	if r.Denied != nil {
		c.denied(p, n, l, &r, kIntent)
		return true
	}
	if _, allowed := l.AllowsEffects([]string{r.Detail}); allowed {
		return false
	}
	c.uncovered(p, n, r.Detail, r.Cap, kIntent)
	return true
}

// uncovered reports an effect that is needed and not allowed, at the node's own
// list if that list omits it.
func (c *checker) uncovered(p *Plan, n *Node, effect, by string, key edn.Value) {
	if n.Layer != nil && n.Layer.Effects.Set {
		if _, ok := n.Layer.AllowsEffects([]string{effect}); !ok {
			c.bad(checkEffects, p.path(n.Index, kEffects), edn.Nil(), ":%s is needed by :%s and not in %s", effect, by,
				showPath(p.path(n.Index, kEffects, kAllowed)))
			return
		}
	}
	path := p.path(n.Index, key)
	if err := c.refused(n, by); err != nil {
		c.forbidden(path, err)
		return
	}
	c.report(Finding{
		Check: checkEffects, Path: path, Effect: effect,
		Message: fmt.Sprintf(":%s is needed by :%s and not allowed to the request in %s", effect, by, showPath(path)),
	}, false)
}

// refused returns the error of a capability whose effects the caller may not
// have even if the request allows them; nil if the caller may have them.
func (c *checker) refused(n *Node, by string) *contract.Error {
	capability, known := c.env.Registry.Tool(by) // a tool may be named by its alias
	if !known || c.env.Grant == nil {
		return nil
	}
	allowed := c.env.Written(n.Intent, n.Layer)
	allowed.Effects = policy.Of(capability.Effects, policy.Origin{Source: policy.SourceRequest})
	_, err := c.env.Grant.Decide(policy.Need{Capability: capability, Layer: &allowed})
	return err
}

// forbidden reports an effect that the configuration denies to the caller.
func (c *checker) forbidden(path []edn.Value, err *contract.Error) {
	c.report(Finding{
		Check: checkEffects, Path: path, Hint: err.Hint, Message: fmt.Sprintf("%s, in %s", err.Message, showPath(path)),
		denied: err,
	}, false)
}

// denied reports a candidate that the caller's grant denies: at the input if
// another input would be permitted, else at the key that names the callee.
func (c *checker) denied(p *Plan, n *Node, l *policy.Layer, r *policy.Rejection, key edn.Value) {
	if capability, ok := c.env.Registry.Capability(r.Cap); ok {
		if _, err := c.env.Grant.Decide(policy.Need{Capability: capability, Layer: l}); err == nil {
			key = edn.K("input")
		}
	}
	c.forbidden(p.path(n.Index, key), r.Denied)
}

// permits returns the grant check for the effects of a node (FX-002), the same
// as at run time; nil without a grant.
func (c *checker) permits(n *Node, l *policy.Layer) func(*registry.Capability) *contract.Error {
	if c.env.Grant == nil {
		return nil
	}
	return func(capability *registry.Capability) *contract.Error {
		_, err := c.env.Grant.Decide(policy.Need{Capability: capability, Layer: l, Input: c.knownInput(n)})
		return err
	}
}

// knownInput returns the input of a node as far as a scope can be checked
// against it before the run; nil if it is unknown or does not fit its schema.
func (c *checker) knownInput(n *Node) edn.Value {
	if !n.Input.Constant() {
		return edn.Nil()
	}
	return c.env.decidable(n, n.Input.Source())
}

// decidable returns an input as far as a scope can be checked against it before
// the run; nil if it depends on the directory of the run or does not fit its
// schema.
func (e *Env) decidable(n *Node, input edn.Value) edn.Value {
	for _, key := range []string{"root", "cwd"} {
		if dir, ok := input.Key(key).AsString(); ok && !strings.HasPrefix(dir, "/") {
			return edn.Nil() // relative to the directory of the run
		}
	}
	if s, ok := e.Registry.Schema(e.inSchema(n)); ok && !s.Valid(input) {
		return edn.Nil()
	}
	return input
}

// tool checks the id of a tool node and the effects that it needs.
func (c *checker) tool(p *Plan, n *Node, in *wanted) {
	c.checks(p, n)
	if n.ToolID == "" {
		return
	}
	capability, ok := c.env.Registry.Tool(n.ToolID)
	if !ok {
		path := p.path(n.Index, kToolID)
		c.bad(checkCapability, path, keywordOr(c.env.Registry.NearestTool(n.ToolID)), "unknown tool :%s in %s", n.ToolID,
			showPath(path))
		return
	}
	l := c.merged(p, n)
	c.literal(p, n, in)
	c.affordable(p, n, l)
	c.gates(p, n, l)
	// A node without :effects is rejected for that alone.
	if n.Layer == nil || !n.Layer.Effects.Set {
		return
	}
	if e, ok := l.AllowsEffects(capability.Effects); !ok {
		c.uncovered(p, n, e, n.ToolID, kToolID)
		return
	}
	if permits := c.permits(n, l); permits != nil {
		if err := permits(capability); err != nil {
			c.denied(p, n, l, &policy.Rejection{Cap: capability.ID, Denied: err}, kToolID)
		}
	}
}
