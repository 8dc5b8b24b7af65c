package policy

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Caller holds the properties of a principal that access rules use.
type Caller struct {
	Roles []string // qualified and without colon; a limit of the credential does not shorten it
	// Narrow is the limit of the credential that the caller presented; nil: the credential
	// has all rights of its owner.
	Narrow *Narrowing
	// Tenant is the name of its tenant; empty: the host itself. A caller with a tenant may
	// not do operations that affect all tenants, whatever its roles are.
	Tenant string
	// Name is the name of the principal, as in records. Rules do not use it.
	Name string
	// Also are the other principals on whose account an act goes on: the one that replays a
	// run, or its owner with the roles that it has now. An access is permitted only if it is
	// permitted to each of them too.
	Also []Caller
	// Same reports of a member of Also that it is the principal of the run itself. The host
	// calls of a plugin have the name of the plugin, so the names do not show it there.
	Same bool
}

// denied returns the principal, c itself or one of c.Also, to which permits does not permit
// an access; nil if it is permitted to all.
func (c *Caller) denied(permits func(*Caller) bool) *Caller {
	if !permits(c) {
		return c
	}
	for i := range c.Also {
		if d := c.Also[i].denied(permits); d != nil {
			return d
		}
	}
	return nil
}

// Each returns an iterator over the principals of which each must be permitted an access: c
// and those under Also.
func (c *Caller) Each() iter.Seq[*Caller] {
	return func(yield func(*Caller) bool) {
		c.denied(yield)
	}
}

// HostTenant is the tenant of callers without one of their own, in budgets and caches.
const HostTenant = "host"

// TenantOf returns name, or HostTenant if name is empty.
func TenantOf(name string) string { return cmp.Or(name, HostTenant) }

// ofHost reports whether an operation concerns all tenants of the host.
func ofHost(operation string) bool {
	switch operation {
	case AnySession, AdminWorkspaces, ReadDiag, ReadMetrics:
		return true
	}
	return strings.HasPrefix(operation, "admin/")
}

// Narrowing limits a credential, such as a token, to a part of the rights of its owner
// (AUTH-003). It never adds a right: an access is permitted only if the roles of the owner
// permit it and the narrowing does too. A role that the narrowing leaves out permits
// nothing, but a rule that forbids it still denies. A nil list does not limit, an empty one
// permits nothing. Operations and intents are names or patterns ns/*.
type Narrowing struct {
	Roles, Operations, Intents []string
	// Session is the only session whose runs and conversations the credential can access;
	// empty: all (AUTH-004).
	Session string
}

// Value returns the narrowing as a map, nil for a nil Narrowing. A nil list is absent.
func (n *Narrowing) Value() edn.Value {
	if n == nil {
		return edn.Nil()
	}
	var b edn.MapBuilder
	for _, part := range n.parts() {
		if *part.list != nil {
			b.Key(part.key, edn.Keywords(*part.list...))
		}
	}
	b.OptText("session", n.Session)
	return b.Map()
}

// ReadNarrowing is the inverse of Value. It returns nil if v is not a map, and ignores list
// members that are not keywords.
func ReadNarrowing(v edn.Value) *Narrowing {
	if !v.IsMap() {
		return nil
	}
	n := &Narrowing{}
	n.Session, _ = v.Key("session").AsString()
	for _, part := range n.parts() {
		if !v.HasKey(part.key) {
			continue
		}
		*part.list = []string{}
		for name := range v.Key(part.key).Elems() {
			if word, ok := name.AsKeyword(); ok {
				*part.list = append(*part.list, word)
			}
		}
		slices.Sort(*part.list)
	}
	return n
}

type narrowed struct {
	key  string
	list *[]string
}

func (n *Narrowing) parts() []narrowed {
	return []narrowed{{"roles", &n.Roles}, {"operations", &n.Operations}, {"intents", &n.Intents}}
}

// Matches reports whether a list of names and patterns ns/* contains a name. It does not
// allocate.
func Matches(list []string, name string) bool {
	for _, member := range list {
		space, all := strings.CutSuffix(member, "*")
		if member == name || all && strings.HasPrefix(name, space) {
			return true
		}
	}
	return false
}

// Decision is the outcome of an access check for a caller (AUTH-013).
type Decision struct {
	What string // effect, operation or intent
	OK   bool
	Rule Rule
	// Reason is the deciding part of the rule (any, all, forbidden, empty), or no-rule,
	// open, token-roles, token-operations, token-intents, role-intents or tenant.
	Reason string
	// to is the principal under Caller.Also to which the access is denied; nil: the caller
	// itself.
	to *Caller
}

// Value returns the decision as it is written to records: what was decided, the rule and
// the reason.
func (d Decision) Value() edn.Value {
	return edn.MustMap(
		edn.K("what"), edn.K(d.What),
		edn.K("rule"), d.Rule.Value(),
		edn.K("reason"), edn.K(d.Reason),
	)
}

// Refusal returns an error of type typ if the decision denies, nil if it permits. kind is
// operation or intent.
func (d Decision) Refusal(typ, kind string, c Caller) *contract.Error {
	if d.OK {
		return nil
	}
	if d.to != nil {
		c = *d.to
	}
	held := "no role"
	limited := strings.HasPrefix(d.Reason, "token-")
	switch {
	case limited:
		held = "this token"
	case len(c.Roles) > 0:
		held = edn.Keywords(c.Roles...).String()
	}
	err := contract.Errorf(typ, "the %s :%s is not permitted to %s", kind, d.What, held).
		WithDetail(kind, edn.K(d.What)).WithDetail("rule", d.Rule.Value()).WithDetail("reason", edn.K(d.Reason))
	if d.Reason == "tenant" {
		return err.WithHint("it affects all tenants of the host: use a user without a tenant")
	}
	if limited {
		return err.WithHint("the token is limited; use one without this limit")
	}
	return err
}

// Denial returns the error in the chain of err by which a rule denied an operation, an
// intent or an effect, and the decision in the form of Decision.Value; nil if there is
// none.
func Denial(err *contract.Error) (*contract.Error, edn.Value) {
	for e := range err.Chain() {
		for _, kind := range []string{"operation", "intent", "effect"} {
			if d := e.Details; d.HasKey(kind) && d.HasKey("rule") && d.HasKey("reason") {
				return e, edn.MustMap(
					edn.K("what"), d.Key(kind),
					edn.K("rule"), d.Key("rule"),
					edn.K("reason"), d.Key("reason"),
				)
			}
		}
	}
	return nil, edn.Nil()
}

// Access decides which operations and intents callers may use. It is immutable
// and safe for concurrent use. The zero value permits no operation.
type Access struct {
	Operations Rules
	// Intents has the rules of intents. An intent without a rule is open to all callers
	// that have the operation Act.
	Intents Rules
	// RoleIntents maps a role to the intents that its holders may use, names or ns/*. A
	// role without an entry permits all intents. One role that permits an intent suffices.
	RoleIntents map[string][]string
	// RolePriority maps a role to the highest priority of the acts of its holders. A role
	// without an entry has 0, operators and administrators have 9.
	RolePriority map[string]int
}

// ShippedAccess returns the access of a configuration that defines no access rules.
func ShippedAccess() *Access { return &Access{Operations: ShippedOperationRules()} }

// Operation decides whether a caller may do an operation. It does not allocate if the
// access is permitted. A nil Access permits none.
func (a *Access) Operation(name string, c Caller) Decision {
	d := a.operation(name, &c)
	for i := 0; d.OK && i < len(c.Also); i++ {
		if also := a.Operation(name, c.Also[i]); !also.OK {
			d = also.of(&c.Also[i])
		}
	}
	return d
}

// of returns the decision about a principal under Caller.Also.
func (d Decision) of(c *Caller) Decision {
	if d.to == nil {
		d.to = c
	}
	return d
}

// operation is Operation without regard to Also.
func (a *Access) operation(name string, c *Caller) Decision {
	if a == nil {
		return Decision{What: name, Reason: "no-rule"}
	}
	rule, found := a.Operations.For(name)
	d := Decision{What: name, Rule: rule, Reason: "no-rule"}
	if !found {
		return d
	}
	d.OK, d.Reason = rule.permitsOne(c)
	if d.OK && c.Tenant != "" && ofHost(name) {
		d.OK, d.Reason = false, "tenant"
	}
	if d.OK && c.Narrow != nil && c.Narrow.Operations != nil && !Matches(c.Narrow.Operations, name) {
		d.OK, d.Reason = false, "token-operations"
	}
	return d
}

// Permitted returns those of the operations that a caller may do, nil if there are none.
func (a *Access) Permitted(operations []string, c Caller) []string {
	var may []string
	for _, o := range operations {
		if a.Operation(o, c).OK {
			may = append(may, o)
		}
	}
	return may
}

// Denied returns a policy/blocked error if a caller may not do an operation that its
// request needs, nil if it may.
func (a *Access) Denied(operation string, c Caller) *contract.Error {
	return a.Operation(operation, c).Refusal("policy/blocked", "operation", c)
}

// Intent decides whether a caller may use an intent. A nil Access permits all intents. It
// does not allocate if the intent is permitted.
func (a *Access) Intent(name string, c Caller) Decision {
	d := a.intent(name, &c)
	for i := 0; d.OK && i < len(c.Also); i++ {
		if also := a.Intent(name, c.Also[i]); !also.OK {
			d = also.of(&c.Also[i])
		}
	}
	return d
}

// intent is Intent without regard to Also.
func (a *Access) intent(name string, c *Caller) Decision {
	d := Decision{What: name, OK: true, Reason: "open"}
	if a == nil {
		return d
	}
	if rule, found := a.Intents.For(name); found {
		d.Rule = rule
		if d.OK, d.Reason = rule.permitsOne(c); !d.OK {
			return d
		}
	}
	switch {
	case !a.roleFor(name, c):
		d.OK, d.Reason = false, "role-intents"
	case c.Narrow != nil && c.Narrow.Intents != nil && !Matches(c.Narrow.Intents, name):
		d.OK, d.Reason = false, "token-intents"
	}
	return d
}

// IntentDenied returns an auth/forbidden error if a caller may not use an intent, nil if it
// may.
func (a *Access) IntentDenied(name string, c Caller) *contract.Error {
	return a.Intent(name, c).Refusal("auth/forbidden", "intent", c)
}

// roleFor reports whether the caller has a role whose RoleIntents permit the intent.
func (a *Access) roleFor(name string, c *Caller) bool {
	if len(a.RoleIntents) == 0 {
		return true
	}
	for _, role := range c.Roles {
		if c.Narrow != nil && c.Narrow.Roles != nil && !slices.Contains(c.Narrow.Roles, role) {
			continue
		}
		if list, limited := a.RoleIntents[role]; !limited || Matches(list, name) {
			return true
		}
	}
	return false
}

// PriorityDenied returns a policy/blocked error if the priority of an act is above the
// highest of the roles of its caller (RUN-011), nil if it is not.
func (a *Access) PriorityDenied(priority int, c Caller) *contract.Error {
	if a == nil || priority <= 0 {
		return nil
	}
	return a.priorityDenied(priority, c)
}

func (a *Access) priorityDenied(priority int, c Caller) *contract.Error {
	most := 0
	denied := c.denied(func(c *Caller) bool {
		most = a.highest(c)
		return priority <= most
	})
	if denied == nil {
		return nil
	}
	c = *denied
	return contract.Errorf("policy/blocked", "the priority %d is above %d, the highest for the roles %s", priority, most, edn.Keywords(c.Roles...)).
		WithDetail("max-priority", edn.Int(int64(most))).
		WithHint("ask with a lower priority, or raise role { max_priority } in ferment.hcl")
}

// highest returns the highest priority of the acts of one principal.
func (a *Access) highest(c *Caller) (most int) {
	for _, role := range c.Roles {
		if c.Narrow == nil || c.Narrow.Roles == nil || slices.Contains(c.Narrow.Roles, role) {
			most = max(most, a.priorityOf(role))
		}
	}
	return most
}

func (a *Access) priorityOf(role string) int {
	if most, set := a.RolePriority[role]; set {
		return most
	}
	if role == RoleOperator || role == RoleAdmin {
		return maxPriority
	}
	return 0
}

const maxPriority = 9
