package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// routing returns the settings of the router block.
func (b *builder) routing(book *prompt.Book) *routing.Settings {
	s := b.Root.Block("router")
	set := &routing.Settings{
		Router:   b.routingProfile(s),
		Profiles: map[string]routing.Profile{},
		Default:  s.Text("profile"),
		Share:    s.Number("meta_share"),
	}
	for _, p := range s.All("profile") {
		set.Profiles[p.Label()] = b.routingProfile(p)
	}
	b.metaIntents(s, set)
	if v := s.Attrs["profile"]; v.Written && !slices.Contains(set.Names(), set.Default) {
		b.routerFault(s, "profile", v.At, fmt.Sprintf("router names the unknown profile %s", diag.Quote(set.Default)),
			set.Default, set.Names())
	}
	b.servedRouters(s, set)
	book.Router, book.Models = b.routerRoles(s, book), b.routerModels(s)
	return set
}

func (b *builder) routingProfile(s *decode.Section) routing.Profile {
	var p routing.Profile
	for name, to := range map[string]**bool{"meta": &p.Meta, "strict": &p.Strict, "force": &p.Force} {
		if s.Written(name) {
			on := s.Flag(name)
			*to = &on
		}
	}
	p.OnError, p.Intent, p.Capability = s.Text("on_error"), s.Text("intent"), s.Text("capability")
	if v := s.Attrs["intent"]; v.Written && !b.intentKnown(p.Intent) {
		b.routerFault(s, "intent", v.At, fmt.Sprintf("%s names the unknown intent %s", s.Node.Title(), diag.Quote(p.Intent)),
			p.Intent, b.intentNames())
	}
	if v := s.Attrs["capability"]; v.Written && !b.capNames[p.Capability] && !b.blind {
		b.unknownRouter(s, p.Capability, v)
	}
	return p
}

// metaIntents adds the routed intents to the settings.
func (b *builder) metaIntents(s *decode.Section, set *routing.Settings) {
	v := s.Attrs["meta_intents"]
	if !v.Written {
		return
	}
	set.MetaIntents = []string{}
	routers := set.Intents()
	for _, item := range v.Items {
		name, _ := item.EDN.AsString()
		switch {
		case slices.Contains(routers, name):
			b.routerFault(s, "meta_intents", item.At, fmt.Sprintf("meta_intents names %s, which is the intent of a router and never routed itself",
				diag.Quote(name)), name, nil)
		case !b.intentKnown(name):
			b.routerFault(s, "meta_intents", item.At, fmt.Sprintf("meta_intents names the unknown intent %s", diag.Quote(name)),
				name, b.intentNames())
		default:
			set.MetaIntents = append(set.MetaIntents, name)
			b.routesPlan(s, name, item)
		}
	}
}

// routesPlan warns about a routed intent with a plan: a router decides on one call, so only acts that
// name a capability are routed.
func (b *builder) routesPlan(s *decode.Section, name string, at decode.Value) {
	for _, in := range b.Root.All("intent") {
		if in.Label() == name && in.Attrs["plan"].Written {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("meta_intents names %s, which has a plan: "+
					"a router is only asked if the request names a capability", diag.Quote(name)),
				Range: at.At,
				Path:  append(slices.Clone(s.Node.Path), "meta_intents"),
				Hint:  "leave it out of meta_intents, or give the intent no plan",
			})
		}
	}
}

// servedRouters reports a router that no capability can serve.
func (b *builder) servedRouters(s *decode.Section, set *routing.Settings) {
	if !s.Flag("meta") || set.Router.Intent != "" || b.intentKnown(routing.DecideIntent) {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type:    "router/invalid-config",
		Message: "router has meta = true, and no plugin has a capability that serves route/decide",
		Range:   s.Attrs["meta"].At,
		Path:    append(slices.Clone(s.Node.Path), "meta"),
		Hint:    "add a plugin with such a capability, or set meta = false",
	})
}

// routerRoles returns the roles in the router block for intents and capabilities (RTE-003).
func (b *builder) routerRoles(s *decode.Section, book *prompt.Book) prompt.RouterRules {
	known := append(book.RoleNames(), prompt.BuiltinRoles()...)
	for _, c := range b.caps {
		if c.Role != "" {
			known = append(known, c.Role)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	return b.routerRules(s, "role", func(attr, role string, at *diag.Range) {
		if !slices.Contains(known, role) {
			b.routerFault(s, attr, at, fmt.Sprintf("%s names the role %s, which has no prompt", attr, diag.Quote(role)), role, known)
		}
	})
}

// routerModels returns the model keys in the router block.
func (b *builder) routerModels(s *decode.Section) prompt.RouterRules {
	return b.routerRules(s, "model_key", func(attr, key string, at *diag.Range) {
		if !prompt.IsModelKey(key) {
			b.routerFault(s, attr, at, fmt.Sprintf(
				"%s has %s, which is not a model key: expected a name, or provider/name", attr, diag.Quote(key)), key, nil)
		}
	})
}

// modelKey returns the model key of a capability or an intent.
func (b *builder) modelKey(s *decode.Section) string {
	key := s.Text("model_key")
	if key != "" && !prompt.IsModelKey(key) {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("model_key is %s, which is not a model key", diag.Quote(key)),
			Range:    s.Attrs["model_key"].At,
			Path:     append(slices.Clone(s.Node.Path), "model_key"),
			Expected: edn.Text("a name, or provider/name with both parts"),
			Found:    edn.Text(key),
		})
	}
	return key
}

// routerRules returns the maps with a name, by capability and by intent. check reports invalid
// names.
func (b *builder) routerRules(s *decode.Section, name string, check func(attr, name string, at *diag.Range)) prompt.RouterRules {
	read := func(attr, kind string, names []string) map[string]string {
		v := s.Attrs[attr]
		for i, key := range v.Keys {
			switch {
			case b.blind:
			case !slices.Contains(names, key) && kind == "capability":
				b.unknownRouter(s, key, v.Items[i])
			case !slices.Contains(names, key):
				b.routerFault(s, attr, v.Items[i].At, fmt.Sprintf("%s names the unknown %s %s", attr, kind, diag.Quote(key)), key, names)
			}
			given, _ := v.Items[i].EDN.AsString()
			check(attr, given, v.Items[i].At)
		}
		return s.Mapping(attr)
	}
	return prompt.RouterRules{
		Capability:    read("capability_"+name, "capability", slices.Sorted(maps.Keys(b.capNames))),
		Intent:        read("intent_"+name, "intent", b.intentNames()),
		IntentDefault: read("intent_default_"+name, "intent", b.intentNames()),
	}
}

// routerFault reports an invalid setting of the router (RTE-009). known are the valid names; nil if
// the error is not a name.
func (b *builder) routerFault(s *decode.Section, attr string, at *diag.Range, message, name string, known []string) {
	d := diag.Diagnostic{
		Type:    "router/invalid-config",
		Message: message,
		Range:   at,
		Path:    append(slices.Clone(s.Node.Path), attr),
	}
	if name != "" {
		d.Found = edn.Text(name)
	}
	if known != nil {
		kind := strings.TrimPrefix(attr, "meta_")
		d.Expected, d.Nearest = choices(strings.TrimSuffix(kind, "s"), name, known), diag.Nearest(name, known)
	}
	b.Report.Add(d)
}

// unknownRouter reports a capability that no plugin provides (RTE-009).
func (b *builder) unknownRouter(s *decode.Section, id string, v decode.Value) {
	known := slices.Sorted(maps.Keys(b.capNames))
	d := diag.Diagnostic{
		Type:     "router/unknown-capability",
		Message:  fmt.Sprintf("%s names the unknown capability %s", s.Node.Title(), diag.Quote(id)),
		Range:    v.At,
		Path:     append(slices.Clone(s.Node.Path), "capability"),
		Expected: choices("capability", id, known),
		Found:    edn.Text(id),
		Nearest:  diag.Nearest(id, known),
	}
	if r := b.renames[id]; r != nil {
		d.Nearest = r.Label()
		d.Related = []diag.Related{{Range: r.At(), Message: "renames it to " + diag.Quote(r.Label())}}
	}
	b.Report.Add(d)
}
