package prompt

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/text"
)

// Book holds the layers of one configuration. The zero value, and nil, compose
// prompts without any. It must not be changed once it is in use.
type Book struct {
	Default *Layer
	// Roles are by role, without colon; the others by intent.
	Roles   map[string]*Layer
	Intents map[string]*Layer
	System  map[string]*Layer // instead of all other layers
	Addenda map[string]*Layer
	Allowed map[string][]string // output keys by role; none: any
	// Languages are those that {language} has names for; nil: those that ship.
	Languages *text.Packs
}

// Layers are those of an intent and a role, in their order, absent ones left
// out (PRM-001).
func (b *Book) Layers(intent, role string) []*Layer {
	if b == nil {
		return nil
	}
	if l := b.System[intent]; l != nil {
		return []*Layer{l}
	}
	return slices.DeleteFunc([]*Layer{b.Default, b.Roles[role], b.Intents[intent], b.Addenda[intent]}, func(l *Layer) bool { return l == nil })
}

// RoleNames are the roles that have a layer, sorted.
func (b *Book) RoleNames() []string {
	if b == nil {
		return nil
	}
	out := make([]string, 0, len(b.Roles))
	for name := range b.Roles {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// The rules by which a role is found, strongest first (RTE-003).
const (
	RuleCall       = "call" // request or node
	RuleCapability = "capability"
	RuleIntent     = "intent"
	RuleBuiltin    = "built-in"
	RuleDefault    = "default"
)

// DefaultRole is that of an intent that nobody gave one.
const DefaultRole = "voice"

// builtinRoles are the values of builtinRole.
var builtinRoles = []string{"coder", "judge", "router", "solver", DefaultRole}

// IsBuiltinRole reports whether a role belongs to a built-in intent.
func IsBuiltinRole(role string) bool { return slices.Contains(builtinRoles, role) }

// KnownRoles are the roles that a call may name, sorted: those with a layer, those that are built in, and those of
// capabilities and intents.
func (b *Book) KnownRoles(r *registry.Registry) []string {
	roles := append(b.RoleNames(), builtinRoles...)
	for _, id := range r.Capabilities() {
		if c, ok := r.Capability(id); ok && c.Role != "" {
			roles = append(roles, c.Role)
		}
	}
	for _, id := range r.Intents() {
		if in, ok := r.Intent(id); ok && in.Role != "" {
			roles = append(roles, in.Role)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// builtinRole is the role of the intents that every installation knows.
func builtinRole(intent string) (string, bool) {
	switch intent {
	case "text/respond", "text/render":
		return "voice", true
	case "context/summarize", "problem/solve":
		return "solver", true
	case "code/generate", "code/patch", "code/explain", "code/review":
		return "coder", true
	case "eval/grade":
		return "judge", true
	case "route/classify", "route/decide":
		return "router", true
	}
	return "", false
}

// RoleOf says under which role a capability serves an intent, and the rule that
// decided. Asked is what request and node say; capability and intent may be nil.
func RoleOf(asked, intent string, c *registry.Capability, in *registry.Intent) (role, rule string) {
	switch {
	case asked != "":
		return asked, RuleCall
	case c != nil && c.Role != "":
		return c.Role, RuleCapability
	case in != nil && in.Role != "":
		return in.Role, RuleIntent
	}
	if role, ok := builtinRole(intent); ok {
		return role, RuleBuiltin
	}
	return DefaultRole, RuleDefault
}
