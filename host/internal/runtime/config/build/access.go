package build

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// access returns the rules of operations and intents, and the intents of roles.
func (b *builder) access() *policy.Access {
	out := &policy.Access{
		Operations:  policy.ShippedOperationRules(),
		Intents:     policy.Rules{},
		RoleIntents: map[string][]string{}, RolePriority: map[string]int{},
	}
	known := append(policy.Operations(), policy.AdminOperations...)
	rules := b.Root.Block("operations").All("rule")
	for _, s := range rules {
		b.rule(s, "operation", known, rules, out.Operations)
	}
	for _, in := range b.All("intent") {
		s := in.Block("access")
		if s.Written("any") || s.Written("all") || s.Written("forbidden") {
			out.Intents[in.Label()] = b.ruleOf(s)
		}
	}
	for _, s := range b.All("role") {
		if s.Written("max_priority") {
			out.RolePriority[roleName(s.Label())] = s.Integer("max_priority")
		}
		names, _ := s.Texts("intents")
		if len(names) == 0 {
			continue
		}
		for i, name := range names {
			if !language.IsQualifiedLabel(name) {
				b.Report.Add(diag.Diagnostic{
					Type:    "config/type",
					Message: fmt.Sprintf("%s: %s is not the name of an intent", s.Node.Title(), diag.Quote(name)),
					Range:   s.Attrs["intents"].Items[i].At,
					Path:    s.PathOf("intents"),
					Found:   edn.Text(name),
					Hint:    "write its whole name, such as \"text/respond\", or \"text/*\"",
				})
				continue
			}
			b.permitsNoIntent(s, name, s.Attrs["intents"].Items[i].At)
		}
		slices.Sort(names)
		out.RoleIntents[roleName(s.Label())] = names
	}
	return out
}

// permitsNoIntent warns about a name or pattern in the intents of a role that matches no intent
// (HCL-029).
func (b *builder) permitsNoIntent(s *decode.Section, name string, at *diag.Range) {
	known := b.intentNames()
	matches := func(intent string) bool { return policy.Matches([]string{name}, intent) }
	if b.blind || slices.ContainsFunc(known, matches) || b.Report.Doubts("intent", name) {
		return
	}
	if strings.HasSuffix(name, "/*") {
		for i := range known {
			known[i] = namespace(known[i]) + "/*"
		}
		known = slices.Compact(known)
	}
	near := diag.Nearest(name, known)
	if near == "" && b.disabled(name, s) != nil {
		return
	}
	d := diag.Diagnostic{
		Type:     "config/dangling-reference",
		Severity: diag.SeverityWarning,
		Message:  fmt.Sprintf("%s permits the unknown intent %s", s.Node.Title(), diag.Quote(name)),
		Range:    at,
		Path:     s.PathOf("intents"),
		Expected: choices("intent", name, known),
		Found:    edn.Text(name),
		Nearest:  near,
	}
	b.Report.Fold("intent of roles "+name, d)
}

// rule adds the rule of an effect or operation. A rule of a namespace replaces the shipped rules of
// its names, unless they have their own block in all.
func (b *builder) rule(s *decode.Section, kind string, known []string, all []*decode.Section, rules policy.Rules) {
	name := s.Label()
	if space, whole := strings.CutSuffix(name, "*"); whole {
		within := func(w string) bool { return strings.HasPrefix(w, space) }
		if !slices.ContainsFunc(known, within) {
			b.dangling(s, "", kind, name, known, s.At())
			return
		}
		for _, w := range slices.DeleteFunc(slices.Clone(known), func(w string) bool { return !within(w) }) {
			if !slices.ContainsFunc(all, func(x *decode.Section) bool { return x.Label() == w }) {
				delete(rules, w)
			}
		}
	} else if !slices.Contains(known, name) {
		b.dangling(s, "", kind, name, known, s.At())
		return
	}
	rules[name] = b.ruleOf(s)
}

func (b *builder) ruleOf(s *decode.Section) policy.Rule {
	r := policy.Rule{
		Any:       b.roles(s, "any"),
		All:       b.roles(s, "all"),
		Forbidden: b.roles(s, "forbidden"),
		Where:     s.Where(),
	}
	if len(r.Forbidden) > 0 && len(r.Any)+len(r.All) == 0 {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("%s permits no caller: forbidden only takes from what any or all permits", s.Node.Title()),
			Range:    s.Attrs["forbidden"].At,
			Path:     s.PathOf("forbidden"),
			Hint:     "add the roles that may, such as any = [\"user\", \"operator\", \"admin\"]",
		})
	}
	return r
}

// identity returns the settings of the block auth.
func (b *builder) identity() *identity.Settings {
	s := b.Root.Block("auth")
	basic, tokens, locks := s.Block("basic"), s.Block("tokens"), s.Block("locks")
	out := &identity.Settings{
		Required:  s.Flag("required"),
		Known:     b.roleNames(),
		Anonymous: b.role(s, "anonymous_role"),
		LoggedIn:  b.role(s, "logged_in_role"),
		Global:    b.roles(s, "global_context"),
		Basic: identity.Basic{
			Enabled:  basic.Flag("enabled"),
			Remember: basic.Duration("remember"),
			MinBytes: basic.Integer("min_bytes"),
			Memory:   uint32(basic.Integer("memory") >> 10),
			Time:     uint32(basic.Integer("time")),
		},
		TokenTTL:    tokens.Duration("ttl"),
		MaxTokenTTL: tokens.Duration("max_ttl"),
		Locks: identity.Locks{
			StrongMax:    locks.Integer("strong_max"),
			StrongWindow: locks.Duration("strong_window"),
			Max:          locks.Integer("max"),
			Window:       locks.Duration("window"),
			Forgive:      locks.Duration("forgive"),
			MaxDelay:     locks.Duration("max_delay"),
		},
	}
	b.ordered(tokens, "ttl", "max_ttl", false)
	out.Strong, _ = s.Texts("strong_types")
	for i, name := range out.Strong {
		b.accountType(s, "strong_types", name, s.Attrs["strong_types"].Items[i].At)
	}
	types := s.Attrs["account_roles"]
	for i, name := range types.Keys {
		b.accountType(s, "account_roles", name, cmp.Or(types.Items[i].Key, types.Items[i].At))
	}
	out.Account = b.roleMap(s, "account_roles")
	out.Issuers = b.issuers(s)
	session, browser := s.Block("session_token"), s.Block("browser")
	out.Sessions = identity.SessionTokens{IdleTTL: session.Duration("idle_ttl"), Refresh: session.Duration("refresh")}
	out.Sessions.Operations, _ = session.Texts("operations")
	b.ordered(session, "refresh", "idle_ttl", true)
	if browser.Flag("enabled") {
		out.BrowserTTL = browser.Duration("ttl")
	}
	out.Certificates = b.certificates(s.Block("client_cert"))
	return out
}

// roleMap returns a map to sets of roles, and reports unknown roles.
func (b *builder) roleMap(s *decode.Section, attr string) map[string][]string {
	known, out := b.roleNames(), map[string][]string{}
	v := s.Attrs[attr]
	for i, name := range v.Keys {
		for _, member := range v.Items[i].Items {
			role, _ := member.EDN.AsString()
			if full := roleName(role); slices.Contains(known, full) {
				out[name] = append(out[name], full)
			} else {
				b.dangling(s, attr, "role", role, shortRoles(known), member.At)
			}
		}
	}
	return out
}

// accountType reports an invalid name of an account type.
func (b *builder) accountType(s *decode.Section, attr, name string, at *diag.Range) {
	if language.IsIdentLabel(name) {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type:    "config/type",
		Message: fmt.Sprintf("%s in auth: %s is not an account type", attr, diag.Quote(name)),
		Range:   at,
		Path:    s.PathOf(attr),
		Found:   edn.Text(name),
		Hint:    "write a-z, 0-9 and . _ + -, beginning with a letter or digit",
	})
}

// role returns the name of a role, and reports an unknown one.
func (b *builder) role(s *decode.Section, attr string) string {
	full := roleName(s.Text(attr))
	if known := b.roleNames(); !slices.Contains(known, full) && s.Written(attr) {
		b.dangling(s, attr, "role", s.Text(attr), shortRoles(known), s.Attrs[attr].At)
	}
	return full
}
