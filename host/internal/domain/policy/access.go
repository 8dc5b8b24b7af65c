package policy

import (
	"slices"
	"strings"

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

// BuiltinRoles returns the roles that exist without a role block in the configuration, sorted.
func BuiltinRoles() []string {
	return []string{RoleAdmin, RoleAnonymous, RoleAny, RoleOperator, RoleUser}
}

// Grantable reports whether a role can be assigned to a user: any role except RoleAny and
// RoleAnonymous, which the host derives from the credentials of a caller.
func Grantable(role string) bool { return role != RoleAny && role != RoleAnonymous }

// Rule decides which roles may have an effect or do an operation. A forbidden
// role denies. Otherwise one role of Any permits, or all roles of All together.
// The empty rule denies.
type Rule struct {
	Any, All, Forbidden []string
	// Where is the place in the configuration, empty for a builtin rule.
	Where string
}

// Permits reports whether the rule permits a caller. why is the deciding part of the rule
// (any, all, forbidden or empty), or token-roles if only the role limit of the credential
// denies. Of a caller with Also, the first principal decides that is denied. It does not
// allocate.
func (r *Rule) Permits(c Caller) (ok bool, why string) {
	ok, why = r.permitsOne(&c)
	for i := 0; ok && i < len(c.Also); i++ {
		if also, reason := r.Permits(c.Also[i]); !also {
			ok, why = false, reason
		}
	}
	return ok, why
}

// permitsOne is Permits without regard to Also.
func (r *Rule) permitsOne(c *Caller) (ok bool, why string) {
	ok, why = r.permits(c.Roles, nil)
	if !ok || c.Narrow == nil || c.Narrow.Roles == nil {
		return ok, why
	}
	if ok, _ = r.permits(c.Roles, c.Narrow.Roles); !ok {
		why = "token-roles"
	}
	return ok, why
}

// permits applies the rule to the roles that are in both lists; a nil within does not
// limit.
func (r *Rule) permits(roles, within []string) (ok bool, why string) {
	for _, role := range r.Forbidden {
		if holds(roles, within, role) {
			return false, "forbidden"
		}
	}
	for _, role := range r.Any {
		if holds(roles, within, role) {
			return true, "any"
		}
	}
	for _, role := range r.All {
		if !holds(roles, within, role) {
			if len(r.Any) > 0 {
				return false, "any"
			}
			return false, "all"
		}
	}
	switch {
	case len(r.All) > 0:
		return true, "all"
	case len(r.Any) > 0:
		return false, "any"
	}
	return false, "empty"
}

func holds(roles, within []string, role string) bool {
	return role == RoleAny || slices.Contains(roles, role) && (within == nil || slices.Contains(within, role))
}

// Value returns the rule as a map with the keys :any, :all and :forbidden; empty lists are
// absent.
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

// For returns the rule for a name. It returns false if there is none; access is then denied.
func (r Rules) For(name string) (Rule, bool) {
	if rule, ok := r[name]; ok {
		return rule, true
	}
	space := strings.IndexByte(name, '/')
	if space < 0 || space > maxName {
		return Rule{}, false
	}
	var buf [maxName + 2]byte // a lookup with a concatenation would allocate
	rule, ok := r[string(append(append(buf[:0], name[:space]...), "/*"...))]
	return rule, ok
}

// maxName is the maximum length of a namespace in bytes; a longer one has no rule ns/*.
const maxName = 128

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
