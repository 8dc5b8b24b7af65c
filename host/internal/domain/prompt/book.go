package prompt

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Book holds the prompt layers of one configuration. The zero value and nil
// have no layers. It must not be changed once it is in use.
type Book struct {
	Default *Layer
	// Roles is keyed by role without colon; Intents, System and Addenda are keyed by
	// intent.
	Roles   map[string]*Layer
	Intents map[string]*Layer
	System  map[string]*Layer // replaces all other layers
	Addenda map[string]*Layer
	Allowed map[string][]string // permitted output keys by role; none: any
	// Languages are the languages that {language} can name; nil: the built-in
	// ones.
	Languages *text.Packs
	// Router assigns roles, and Models assigns model keys.
	Router, Models RouterRules
}

// RouterRules are the names that the router block assigns to capabilities and intents
// (RTE-003).
type RouterRules struct {
	Capability, Intent map[string]string
	IntentDefault      map[string]string // used only in place of a built-in name
}

// Layers returns the layers of an intent and a role, in order, without absent
// ones (PRM-001).
func (b *Book) Layers(intent, role string) []*Layer {
	if b == nil {
		return nil
	}
	if l := b.System[intent]; l != nil {
		return []*Layer{l}
	}
	return slices.DeleteFunc([]*Layer{b.Default, b.Roles[role], b.Intents[intent], b.Addenda[intent]}, func(l *Layer) bool { return l == nil })
}

// RoleNames returns the roles that have a layer, sorted.
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

// The rules that determine a role or a model key (RTE-003). RoleOf and ModelOf apply them in this
// order: call, capability, capability in the router block, intent, intent in the router block,
// default of the intent in the router block, built-in, default.
const (
	RuleCall       = "call" // request or node
	RuleCapability = "capability"
	RuleIntent     = "intent"
	RuleBuiltin    = "built-in"
	RuleDefault    = "default"

	RuleRouterCapability = "router/capability-role"
	RuleRouterIntent     = "router/intent-role"
	RuleRouterDefault    = "router/intent-default-role"

	RuleRouterCapabilityModel = "router/capability-model-key"
	RuleRouterIntentModel     = "router/intent-model-key"
	RuleRouterDefaultModel    = "router/intent-default-model-key"
)

// DefaultRole is the role of an intent without a configured or built-in role.
const DefaultRole = "voice"

// builtinRoles are the results of builtinRole.
var builtinRoles = []string{"coder", "judge", "router", "solver", DefaultRole}

// BuiltinRoles returns the roles of the built-in intents, sorted.
func BuiltinRoles() []string { return slices.Clone(builtinRoles) }

// IsBuiltinRole reports whether a role belongs to a built-in intent.
func IsBuiltinRole(role string) bool { return slices.Contains(builtinRoles, role) }

// KnownRoles returns the roles that a call may name, sorted: those with a
// layer, the built-in ones, and those of capabilities and intents.
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

// builtinRole returns the role of a built-in intent.
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

// RoleOf returns the role under which a capability serves an intent, and the rule that
// determined it. asked is the role of the request or the node, "" for none; c and in may be
// nil.
func (b *Book) RoleOf(asked, intent string, c *registry.Capability, in *registry.Intent) (role, rule string) {
	var router RouterRules
	if b != nil {
		router = b.Router
	}
	own := []ruled{
		{asked, RuleCall},
		{"", RuleCapability},
		{"", RuleRouterCapability},
		{"", RuleIntent},
		{router.Intent[intent], RuleRouterIntent},
		{router.IntentDefault[intent], RuleRouterDefault},
	}
	if c != nil {
		own[1].name, own[2].name = c.Role, router.Capability[c.ID]
	}
	if in != nil {
		own[3].name = in.Role
	}
	if role, rule := strongest(own); role != "" {
		return role, rule
	}
	if role, ok := builtinRole(intent); ok {
		return role, RuleBuiltin
	}
	return DefaultRole, RuleDefault
}

// ruled is a name and the rule that gives it. An empty name means that the rule sets none.
type ruled struct{ name, rule string }

// strongest returns the first name that is set, and its rule; both are empty if there is
// none.
func strongest(all []ruled) (name, rule string) {
	for _, x := range all {
		if x.name != "" {
			return x.name, x.rule
		}
	}
	return "", ""
}

// ModelOf returns the model key with which a language model is called for an intent, and
// the rule that determined it (RTE-003). asked is the :model of the request or the node,
// nil for none; c and in may be nil. If no rule sets a key, it is nil: the capability uses
// its own model.
func (b *Book) ModelOf(asked edn.Value, intent string, c *registry.Capability, in *registry.Intent) (key edn.Value, rule string) {
	if !asked.IsNil() {
		return asked, RuleCall
	}
	var router RouterRules
	if b != nil {
		router = b.Models
	}
	own := []ruled{
		{"", RuleCapability},
		{"", RuleRouterCapabilityModel},
		{"", RuleIntent},
		{router.Intent[intent], RuleRouterIntentModel},
		{router.IntentDefault[intent], RuleRouterDefaultModel},
	}
	if c != nil {
		own[0].name, own[1].name = c.ModelKey, router.Capability[c.ID]
	}
	if in != nil {
		own[2].name = in.ModelKey
	}
	name, rule := strongest(own)
	if name == "" {
		return edn.Nil(), ""
	}
	return edn.Text(name), rule
}

// IsModelKey reports whether a text can be a model key: a name, or "provider/name" with both parts,
// of at most 256 bytes and without spaces.
func IsModelKey(s string) bool {
	if s == "" || len(s) > maxModelKey || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' }) {
		return false
	}
	provider, name, both := strings.Cut(s, "/")
	return !both || provider != "" && name != ""
}

// maxModelKey limits a model key, in bytes.
const maxModelKey = 256
