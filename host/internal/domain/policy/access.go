package policy

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Roles that every installation has. Role names are qualified, without colon.
const (
	RoleAny       = "role/any" // every caller; used in rules only
	RoleAnonymous = "role/anonymous"
	RoleUser      = "role/user"
	RoleOperator  = "role/operator"
	RoleAdmin     = "role/admin"
)

// BuiltinRoles are the roles that need no block, sorted.
func BuiltinRoles() []string {
	return []string{RoleAdmin, RoleAnonymous, RoleAny, RoleOperator, RoleUser}
}

// Rule decides which roles may have an effect or do an operation. A forbidden
// role denies. Otherwise one role of Any permits, or all roles of All together.
// The empty rule denies.
type Rule struct {
	Any, All, Forbidden []string
	// Where is the place in the configuration, empty for a builtin rule.
	Where string
}

// Permits reports whether a caller with these roles is permitted; why names the
// deciding part of the rule.
func (r *Rule) Permits(roles []string) (ok bool, why string) {
	has := func(role string) bool { return role == RoleAny || slices.Contains(roles, role) }
	all := len(r.All) > 0 && !slices.ContainsFunc(r.All, func(x string) bool { return !has(x) })
	switch {
	case slices.ContainsFunc(r.Forbidden, has):
		return false, "forbidden"
	case slices.ContainsFunc(r.Any, has):
		return true, "any"
	case all:
		return true, "all"
	case len(r.Any) > 0:
		return false, "any"
	case len(r.All) > 0:
		return false, "all"
	}
	return false, "empty"
}

// Value returns the rule as data.
func (r *Rule) Value() edn.Value {
	var b edn.MapBuilder
	for _, part := range []struct {
		key  string
		list []string
	}{{"any", r.Any}, {"all", r.All}, {"forbidden", r.Forbidden}} {
		if len(part.list) > 0 {
			b.Key(part.key, edn.Keywords(part.list...))
		}
	}
	return b.Map()
}

// Rules maps the name of an effect or operation to its rule. A name ns/*
// matches the whole namespace; an exact name takes precedence.
type Rules map[string]Rule

// For returns the rule for a name. If it returns false, access is denied.
func (r Rules) For(name string) (Rule, bool) {
	if rule, ok := r[name]; ok {
		return rule, true
	}
	space, _, _ := strings.Cut(name, "/")
	rule, ok := r[space+"/*"]
	return rule, ok
}

// ShippedEffectRules returns the default rules for effects, used where the
// configuration has none.
func ShippedEffectRules() Rules {
	look := Rule{Any: []string{RoleAdmin, RoleOperator}}
	change := Rule{All: []string{RoleAdmin}}
	return Rules{
		"none":    {Any: []string{RoleAny}},
		"fs/read": look, "db/read": look, "net/http": look,
		"fs/write": change, "process/run": change, "db/write": change,
	}
}

// Operations within requests, besides those of routes.
const (
	// OverridePrompt sends a caller's own system prompt to a model (PRM-003).
	OverridePrompt = "prompt/override"
	// AnySession uses the sessions of other principals (SES-021).
	AnySession = "session/any"
	// AdminWorkspaces creates, repairs and deletes workspaces (WS-061).
	AdminWorkspaces = "workspace/admin"
)

// PluginOperations are the operations that plugins check: the host tells them
// which of these the caller may do.
var PluginOperations = []string{AdminWorkspaces}

// ShippedOperationRules returns the default rules for operations, used where
// the configuration has none.
func ShippedOperationRules() Rules {
	operators := Rule{Any: []string{RoleAdmin, RoleOperator}}
	return Rules{OverridePrompt: operators, AnySession: operators, AdminWorkspaces: {Any: []string{RoleAdmin}}}
}

// Permitted returns those of the operations that a caller with these roles may
// do.
func (r Rules) Permitted(operations, roles []string) []string {
	var may []string
	for _, o := range operations {
		if r.Denied(o, roles) == nil {
			may = append(may, o)
		}
	}
	return may
}

// Denied returns the error if a caller with these roles may not do an
// operation, nil if it may.
func (r Rules) Denied(operation string, roles []string) *contract.Error {
	rule, found := r.For(operation)
	ok, why := rule.Permits(roles)
	if ok {
		return nil
	}
	if !found {
		why = "no-rule"
	}
	held := "no role"
	if len(roles) > 0 {
		held = edn.Keywords(roles...).String()
	}
	return contract.Errorf("policy/blocked", "the operation :%s is not permitted to %s", operation, held).
		WithDetail("operation", edn.K(operation)).WithDetail("rule", rule.Value()).WithDetail("reason", edn.K(why))
}
