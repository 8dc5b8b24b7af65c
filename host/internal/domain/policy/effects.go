package policy

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Effects is the effect configuration: which roles may have which effects, and
// their scopes. The zero value permits none. It is immutable and safe for
// concurrent use.
type Effects struct {
	Rules Rules
	// Host holds the scopes of the configuration. An effect without an enabled
	// scope is off.
	Host Scopes
	// Roles maps a role to narrower scopes; they apply to every caller with the
	// role.
	Roles map[string]Scopes
	// Capabilities maps a capability id to narrower scopes.
	Capabilities map[string]Scopes
	// OnUnknown maps an effect to a value of registry.Intent.OnUnknown. An effect without
	// an entry suspends.
	OnUnknown map[string]string
	// InForce returns the configuration that has replaced this one; nil, or a nil result:
	// this one is in force. A replacement narrows the existing grants of this one at once
	// (HCL-040) and never widens them.
	InForce func() *Effects
}

// AllowHint returns the hint that shows how a request allows an effect.
func AllowHint(effect string) string {
	return "allow the effect :" + effect + ": `:effects {:allowed [:" + effect + "]}` in the request, `--effects " + effect +
		"` on the command line"
}

// Grant holds the permissions that Effects give to a caller. The zero
// value permits pure computation only.
type Grant struct {
	effects *Effects
	caller  Caller
	scopes  Scopes // merged from the roles
}

// Grant computes the permissions of a caller. The result can be reused for a
// whole run. All roles that the caller and those under Also hold narrow its scopes, also
// roles that a credential leaves out.
func (e *Effects) Grant(c Caller) *Grant {
	g := &Grant{effects: e, caller: c}
	if e == nil {
		return g
	}
	g.narrow(&c)
	return g
}

// narrow narrows the scopes to those of the roles of a caller.
func (g *Grant) narrow(c *Caller) {
	for _, r := range c.Roles {
		g.scopes = MeetAll(g.scopes, g.effects.Roles[r])
	}
	for i := range c.Also {
		g.narrow(&c.Also[i])
	}
}

// Need describes a call with effects.
type Need struct {
	Capability *registry.Capability
	// Layer holds the effects that request and node allow, and their narrower
	// scopes.
	Layer *Layer
	// Input is the filled input. It is checked if the capability is a tool of
	// the contract and enforces its scope itself. If it is nil, the input is
	// not known yet, and only checks that hold for every input run.
	Input edn.Value
}

func (n *Need) tool(effect string) (effects.Tool, bool) {
	if !n.Capability.Confines {
		return effects.Tool{}, false
	}
	t, ok := effects.ToolNamed(n.Capability.Advertised)
	return t, ok && t.Effect == effect
}

// Decide returns the scopes under which a call may be made, nil for a call without effects.
// It checks in the order of FX-002: the effects are declared, the roles may have them,
// every scope allows them, and the capability can be confined to its scope. The error is
// effects/missing-required, auth/forbidden-effect, effects/scope-denied,
// effects/not-enforceable, or the error of the tool for an input outside the scope.
func (g *Grant) Decide(n Need) (Scopes, *contract.Error) {
	if !n.Capability.Effectful() {
		return nil, nil
	}
	scopes, err := g.decide(n)
	if err != nil || g.effects.InForce == nil {
		return scopes, err
	}
	now := g.effects.InForce()
	if now == nil {
		return scopes, nil
	}
	narrower, err := now.Grant(g.caller).decide(n)
	if err != nil {
		return nil, err
	}
	return MeetAll(scopes, narrower), nil
}

// decide is Decide under the configuration of the grant, without InForce.
func (g *Grant) decide(n Need) (Scopes, *contract.Error) {
	if missing, ok := n.Layer.AllowsEffects(n.Capability.Effects); !ok {
		return nil, contract.Errorf("effects/missing-required", ":%s needs the effect :%s, expected one of the allowed effects %s",
			n.Capability.ID, missing, edn.Keywords(n.Layer.Effects.V...)).
			WithDetail("effect", edn.K(missing)).WithDetail("allowed", edn.Keywords(n.Layer.Effects.V...))
	}
	for _, effect := range n.Capability.Effects {
		if effect == registry.NoEffect {
			continue
		}
		if err := g.access(effect, n.Capability.ID); err != nil {
			return nil, err
		}
	}
	var out Scopes
	for _, effect := range n.Capability.Effects {
		if effect == registry.NoEffect {
			continue
		}
		s, err := g.scope(effect, n)
		if err != nil {
			return nil, err
		}
		out = MeetAll(out, Scopes{{effect, s}})
	}
	return out, nil
}

// OnUnknown returns what happens to a run when the outcome of a call is unknown (JRN-041):
// the value of the intent, else the most careful value of the writing effects of the
// capability. in is nil for a tool. The default is registry.UnknownSuspends.
func (g *Grant) OnUnknown(in *registry.Intent, c *registry.Capability) string {
	if in != nil && in.OnUnknown != "" {
		return in.OnUnknown
	}
	if g == nil || g.effects == nil || c == nil {
		return registry.UnknownSuspends
	}
	careful := []string{registry.UnknownSuspends, registry.UnknownFails, registry.UnknownIsDone, registry.UnknownRetries}
	at := len(careful)
	for _, effect := range c.Effects {
		if contract.OnlyReads([]string{effect}) {
			continue
		}
		at = min(at, max(0, slices.Index(careful, g.effects.OnUnknown[effect])))
	}
	if at == len(careful) {
		return registry.UnknownSuspends
	}
	return careful[at]
}

// Admits reports whether any call of the caller may have the effect: the rules permit it, and its
// scope is enabled.
func (g *Grant) Admits(effect string) bool {
	if _, _, ok := g.rule(effect); !ok {
		return false
	}
	s, known := g.effects.Host.Of(effect)
	return known && s.Enabled.V
}

// Value returns a map from each effect to [permitted? scope], where the scope is that of
// the roles. Under one configuration, grants with equal values decide alike.
func (g *Grant) Value(effects []string) edn.Value {
	var b edn.MapBuilder
	for _, effect := range effects {
		if effect == registry.NoEffect {
			continue
		}
		_, _, ok := g.rule(effect)
		scope, _ := g.scopes.Of(effect)
		b.Key(effect, edn.Vector(edn.Bool(ok), scope.Value(effect)))
	}
	return b.Map()
}

// access checks the access rule of one effect.
func (g *Grant) access(effect, by string) *contract.Error {
	rule, why, ok := g.rule(effect)
	if ok {
		return nil
	}
	held, caller := "none", g.Caller()
	denied := caller.denied(func(c *Caller) bool { ok, _ := rule.permitsOne(c); return ok })
	if denied == nil { // the effect has no rule, so the caller itself is denied
		denied = &caller
	}
	if len(denied.Roles) > 0 {
		held = edn.Keywords(denied.Roles...).String()
	}
	err := contract.Errorf("auth/forbidden-effect",
		":%s needs the effect :%s, which is not permitted to the caller (roles: %s)", by, effect, held).
		WithDetail("effect", edn.K(effect)).WithDetail("rule", rule.Value()).WithDetail("reason", edn.K(why))
	if why == "token-roles" {
		return err.WithHint("the token is limited to the roles " + edn.Keywords(denied.Narrow.Roles...).String() + "; use one without this limit")
	}
	return err.WithHint("permit it with effects { rule \"" + effect + "\" { any = [...] } } in ferment.hcl")
}

func (g *Grant) rule(effect string) (r Rule, why string, ok bool) {
	if g == nil || g.effects == nil {
		return Rule{}, "no-rule", false
	}
	r, found := g.effects.Rules.For(effect)
	if !found {
		return r, "no-rule", false
	}
	ok, why = r.Permits(g.caller)
	return r, why, ok
}

// scope returns the effective scope of one effect of a call.
func (g *Grant) scope(effect string, n Need) (effects.Scope, *contract.Error) {
	standing, known := g.effects.Host.Of(effect) // access has verified that the effect is configured
	if own, ok := g.effects.Capabilities[n.Capability.ID].Of(effect); ok {
		standing = Meet(standing, own)
	}
	s := standing
	if narrower, ok := g.scopes.Of(effect); ok {
		s = Meet(s, narrower)
	}
	if asked, ok := n.Layer.Scopes.Of(effect); ok {
		s = Meet(s, asked)
	}
	if !known || !s.Enabled.V {
		return s, disabled(effect, n.Capability.ID)
	}
	if t, ok := n.tool(effect); ok && !n.Input.IsNil() {
		if err := t.Permit(n.Input, &s); err != nil {
			return s, err
		}
	}
	if !n.Capability.Confines && !edn.Equal(s.Value(effect), standing.Value(effect)) {
		return s, contract.Errorf("effects/not-enforceable",
			":%s cannot enforce a narrower scope of :%s for a single call, because its process serves many calls", n.Capability.ID, effect).
			WithDetail("effect", edn.K(effect)).WithDetail("scope", s.Value(effect)).
			WithHint("call one of the shipped tools, or remove the scope from the request, the node or the role")
	}
	return s, nil
}

func disabled(effect, by string) *contract.Error {
	return contract.Errorf("effects/scope-denied", ":%s needs the effect :%s, which is disabled", by, effect).
		WithDetail("reason", edn.K("disabled")).WithDetail("effect", edn.K(effect)).
		WithHint("enable it with effects { scope \"" + effect + "\" { enabled = true } } in ferment.hcl")
}

// Caller returns the caller that the grant was made for.
func (g *Grant) Caller() Caller {
	if g == nil {
		return Caller{}
	}
	return g.caller
}

// Overlap returns the first of the reached directories that contains or lies
// below a forbidden path, and that path; "" means none. All paths must be
// absolute and clean.
func Overlap(reached, forbidden []string) (dir, path string) {
	for _, dir := range reached {
		for _, f := range forbidden {
			if effects.Covers(effects.KindDirs, dir, f) || effects.Covers(effects.KindDirs, f, dir) {
				return dir, f
			}
		}
	}
	return "", ""
}

// Reach returns the absolute directories that a scope reaches.
func Reach(s *effects.Scope) []string {
	var out []string
	for _, root := range s.Roots.V {
		for _, prefix := range s.Allow.V {
			switch {
			case prefix == ".":
				out = append(out, root)
			case root == "/":
				out = append(out, "/"+prefix)
			default:
				out = append(out, root+"/"+prefix)
			}
		}
	}
	return append(out, slices.Clone(s.AllowCWD.V)...)
}
