package policy

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Roles that every installation has. Role names are qualified, without colon.
const (
	RoleAny       = "role/any" // everybody, named in rules only
	RoleAnonymous = "role/anonymous"
	RoleUser      = "role/user"
	RoleOperator  = "role/operator"
	RoleAdmin     = "role/admin"
)

// BuiltinRoles are the roles that need no block, sorted.
func BuiltinRoles() []string {
	return []string{RoleAdmin, RoleAnonymous, RoleAny, RoleOperator, RoleUser}
}

// Rule says who may do a thing. A forbidden role denies. With Any, one hit or
// all of All permits; All alone must be held whole. The empty rule denies.
type Rule struct {
	Any, All, Forbidden []string
	// Where is the place in the configuration, empty for a shipped rule.
	Where string
}

// Permits decides for somebody with these roles; why names the deciding part.
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

// Value is the rule as data.
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

// Rules are rules by the name of what they are about. A name ns/* stands for
// its namespace; an exact name wins over it.
type Rules map[string]Rule

// For returns the rule for a name. Without one everybody is denied.
func (r Rules) For(name string) (Rule, bool) {
	if rule, ok := r[name]; ok {
		return rule, true
	}
	space, _, _ := strings.Cut(name, "/")
	rule, ok := r[space+"/*"]
	return rule, ok
}

// ShippedEffectRules say who may have which effect where the configuration says
// nothing else.
func ShippedEffectRules() Rules {
	look := Rule{Any: []string{RoleAdmin, RoleOperator}}
	change := Rule{All: []string{RoleAdmin}}
	return Rules{
		"none":    {Any: []string{RoleAny}},
		"fs/read": look, "db/read": look, "net/http": look,
		"fs/write": change, "process/run": change, "db/write": change,
	}
}

// OverridePrompt is the operation of speaking to a model with the voice of the
// operator: a system prompt of the caller's own (PRM-003).
const OverridePrompt = "prompt/override"

// ShippedOperationRules say who may do what beside asking, where the
// configuration says nothing else.
func ShippedOperationRules() Rules {
	return Rules{OverridePrompt: {Any: []string{RoleAdmin, RoleOperator}}}
}

// Denied is why somebody with these roles may not do an operation; nil: he may.
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
