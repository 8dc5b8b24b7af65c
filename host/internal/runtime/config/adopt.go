package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// adoption is a schema that a capability has only because every capability
// needs one (SCH-005): the SDK derives it from a Go type and publishes it under
// the name that follows from the intent. Where an intent block names another
// schema, the capability takes over that name, if the two can agree at all.
type adoption struct {
	capability int // in builder.caps
	intent     string
	output     bool
	derived    string // its own name
	declared   string // the name that the intent has
}

// derivedName is the name of a schema that nobody named.
func derivedName(prefix, intent string) string {
	return prefix + "/" + strings.ReplaceAll(intent, "/", ".")
}

// adoptions finds the schemas that give way to those of intent blocks. They are
// not published, so two plugins may serve one intent with types of their own.
func (b *builder) adoptions() []adoption {
	var out []adoption
	for i := range b.caps {
		c := &b.caps[i]
		for _, intent := range c.Intents {
			block := b.intents[intent]
			if block == nil {
				continue
			}
			b.unswap(block, c)
			for _, side := range []adoption{
				{derived: derivedName("req", intent), declared: block.text("in")},
				{derived: derivedName("res", intent), declared: block.text("out"), output: true},
			} {
				side.capability, side.intent = i, intent
				if side.declared != side.derived && side.ref(c).For(intent) == side.derived && b.published(side.declared) {
					out = append(out, side)
				}
			}
		}
	}
	return out
}

// unswap reports schemas of an intent block that a capability has the other way round, and reads on as it was meant.
func (b *builder) unswap(s *section, c *registry.Capability) {
	in, out := s.text("in"), s.text("out")
	if in == out || c.InSchema.For(s.label()) != out || c.OutSchema.For(s.label()) != in {
		return
	}
	b.report.add(Diagnostic{
		Type:     "config/type",
		Message:  fmt.Sprintf("in and out of %s are exchanged: capability %s takes %s", s.node.title(), quote(c.ID), out),
		Range:    s.attrs["in"].rng,
		Path:     append(slices.Clone(s.node.path), "in"),
		Expected: edn.Text(out),
		Found:    edn.Text(in),
		Hint:     fmt.Sprintf("write in = %s and out = %s", quote(out), quote(in)),
	})
	s.attrs["in"], s.attrs["out"] = s.attrs["out"], s.attrs["in"]
}

// published reports whether there is a schema of that name: the host's, that of a block, or of a plugin.
func (b *builder) published(name string) bool {
	_, builtin := b.schemas[name] // the others are collected later
	return builtin || b.place("schema", name) != nil || slices.ContainsFunc(b.config.Plugins, func(p Plugin) bool {
		_, ok := p.Description.Schemas[name]
		return ok
	})
}

func (a adoption) ref(c *registry.Capability) *contract.SchemaRef {
	if a.output {
		return &c.OutSchema
	}
	return &c.InSchema
}

// givesWay reports whether a schema of a plugin is left unpublished: its own intent names another one, and no other
// intent names it.
func (b *builder) givesWay(plugin, name string) bool {
	names := func(s *section) bool { return s.text("in") == name || s.text("out") == name }
	if slices.ContainsFunc(b.all("intent"), names) {
		return false
	}
	return slices.ContainsFunc(b.adopted, func(a adoption) bool { return a.derived == name && b.caps[a.capability].Plugin == plugin })
}

// adopt puts the names of the intents into the capabilities, after the test of
// SCH-011: only a sure no is an error.
func (b *builder) adopt() {
	for _, a := range b.adopted {
		c := &b.caps[a.capability]
		declared, ok := b.compiled.Lookup(a.declared)
		spec := b.plugins[c.Plugin].Description.Schemas[a.derived]
		if ok && !spec.IsNil() {
			b.agree(a, c, spec, declared)
		}
		ref := a.ref(c)
		names := maps.Clone(ref.ByIntent)
		if names == nil {
			names = map[string]string{}
		}
		names[a.intent] = a.declared
		*ref = contract.SchemaRef{Name: ref.Name, ByIntent: names}
	}
}

// agree reports schemas of which no value fits both.
func (b *builder) agree(a adoption, c *registry.Capability, spec edn.Value, declared *schema.Schema) {
	derived, err := schema.Compile(spec, schema.WithRegistry(b.compiled))
	if err != nil {
		return // reported where the schemas are compiled
	}
	what, from, to := "takes", declared, derived
	if a.output {
		what, from, to = "gives", derived, declared
	}
	if schema.Satisfies(from, to) != schema.No {
		if why := apart(from, to); why != "" {
			b.report.add(Diagnostic{
				Type:     "config/type",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("what capability %s %s may not fit the schema %s of intent %s: %s",
					quote(c.ID), what, a.declared, quote(a.intent), why),
				Range:    b.place("intent", a.intent),
				Path:     []string{"intent", a.intent},
				Expected: edn.Text(a.derived),
				Found:    edn.Text(a.declared),
				Hint:     "name the schema that the capability has, " + a.derived + ", or another one",
			})
		}
		return
	}
	b.defect(b.plugins[c.Plugin], Diagnostic{
		Message:  fmt.Sprintf("what capability %s of plugin %s %s can never fit the schema %s of intent %s", quote(c.ID), quote(c.Plugin), what, a.declared, quote(a.intent)),
		Range:    b.capPlace[c.ID],
		Path:     []string{"intent", a.intent},
		Expected: declared.Spec(),
		Found:    spec,
		Hint:     "name the schema in the plugin, or another one in the intent block",
	})
}

// apart says why maps of the first schema are not expected to fit the second although open maps may; empty if there
// is a pair of alternatives that agrees.
func apart(from, to *schema.Schema) string {
	why := ""
	for _, given := range mapsOf(from) {
		for _, wanted := range mapsOf(to) {
			missing := unpromised(given, wanted)
			switch {
			case missing != "":
				why = cmp.Or(why, "one of the two does not name "+missing)
			case strangers(given, wanted):
				why = cmp.Or(why, "the two have no key in common")
			default:
				return ""
			}
		}
	}
	return why
}

// mapsOf are the alternatives of a schema, nil if one of them is not a map with named keys.
func mapsOf(s *schema.Schema) []*schema.Schema {
	switch s = s.Deref(); s.Kind() {
	case schema.KindMap:
		return []*schema.Schema{s}
	case schema.KindOr:
		var out []*schema.Schema
		for _, kid := range s.Children() {
			inner := mapsOf(kid)
			if inner == nil {
				return nil
			}
			out = append(out, inner...)
		}
		return out
	}
	return nil
}

// unpromised is a key that maps of the second schema must have and the first does
// not name; empty if there is none, or if the first names no key at all.
func unpromised(from, to *schema.Schema) string {
	if len(from.Entries()) == 0 && !from.Closed() {
		return ""
	}
	for _, e := range to.Entries() {
		if _, named := from.Entry(e.Key); !named && !e.Optional {
			return e.Key.String()
		}
	}
	return ""
}

// strangers reports whether two maps name keys of which none is in both.
func strangers(from, to *schema.Schema) bool {
	if len(to.Entries()) == 0 || len(from.Entries()) == 0 && !from.Closed() {
		return false
	}
	return !slices.ContainsFunc(to.Entries(), func(e schema.Entry) bool {
		_, named := from.Entry(e.Key)
		return named
	})
}
