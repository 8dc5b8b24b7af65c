package build

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// adoption replaces a schema that the SDK derived from a Go type and published under a name derived
// from the intent (SCH-005). If the intent block names another schema, the capability uses that
// one, if any value can match both.
type adoption struct {
	capability int // in builder.caps
	intent     string
	output     bool
	derived    string // name of the derived schema
	declared   string // name in the intent block
}

// derivedName returns the name that the SDK gives to a derived schema.
func derivedName(prefix, intent string) string {
	return prefix + "/" + strings.ReplaceAll(intent, "/", ".")
}

// adoptions returns the derived schemas that the schemas of intent blocks replace. They are not
// published, so two plugins may serve one intent with their own types.
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
				{derived: derivedName("req", intent), declared: block.Text("in")},
				{derived: derivedName("res", intent), declared: block.Text("out"), output: true},
			} {
				side.capability, side.intent = i, intent
				if side.declared != side.derived && side.ref(c).For(intent) == side.derived &&
					b.published(side.declared) {
					out = append(out, side)
				}
			}
		}
	}
	return out
}

// unswap reports an intent block with in and out exchanged, and exchanges them to avoid further
// diagnostics.
func (b *builder) unswap(s *decode.Section, c *registry.Capability) {
	in, out := s.Text("in"), s.Text("out")
	if in == out || c.InSchema.For(s.Label()) != out || c.OutSchema.For(s.Label()) != in {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type: "config/type",
		Message: fmt.Sprintf("in and out of %s are exchanged: capability %s takes %s", s.Node.Title(), diag.Quote(c.ID),
			out),
		Range:    s.Attrs["in"].At,
		Path:     append(slices.Clone(s.Node.Path), "in"),
		Expected: edn.Text(out),
		Found:    edn.Text(in),
		Hint:     fmt.Sprintf("write in = %s and out = %s", diag.Quote(out), diag.Quote(in)),
	})
	s.Attrs["in"], s.Attrs["out"] = s.Attrs["out"], s.Attrs["in"]
}

// published reports whether the host, a block or a plugin has a schema with a name.
func (b *builder) published(name string) bool {
	_, builtin := b.schemas[name] // the others are collected later
	return builtin || b.place("schema", name) != nil || slices.ContainsFunc(b.Plugins, func(p plugins.Plugin) bool {
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

// givesWay reports whether a schema of a plugin is not published because the block of its intent
// names another schema and no other intent refers to it.
func (b *builder) givesWay(plugin, name string) bool {
	names := func(s *decode.Section) bool { return s.Text("in") == name || s.Text("out") == name }
	if slices.ContainsFunc(b.All("intent"), names) {
		return false
	}
	return slices.ContainsFunc(b.adopted,
		func(a adoption) bool { return a.derived == name && b.caps[a.capability].Plugin == plugin })
}

// adopt sets the schema names of the intents in the capabilities after the compatibility test of
// SCH-011. Only a definite mismatch is an error.
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

// agree reports two schemas that no value can match both.
func (b *builder) agree(a adoption, c *registry.Capability, spec edn.Value, declared *schema.Schema) {
	derived, err := schema.Compile(spec, schema.WithRegistry(b.compiled))
	if err != nil {
		return // reported by compileSchemas
	}
	what, from, to := "takes", declared, derived
	if a.output {
		what, from, to = "gives", derived, declared
	}
	if schema.Satisfies(from, to) != schema.No {
		if why := apart(from, to); why != "" {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/type",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("what capability %s %s may not fit the schema %s of intent %s: %s",
					diag.Quote(c.ID), what, a.declared, diag.Quote(a.intent), why),
				Range:    b.place("intent", a.intent),
				Path:     []string{"intent", a.intent},
				Expected: edn.Text(a.derived),
				Found:    edn.Text(a.declared),
				Hint:     "name the schema that the capability has, " + a.derived + ", or another one",
			})
		}
		return
	}
	b.Defect(b.plugins[c.Plugin], diag.Diagnostic{
		Message: fmt.Sprintf("what capability %s of plugin %s %s can never fit the schema %s of intent %s",
			diag.Quote(c.ID), diag.Quote(c.Plugin), what, a.declared, diag.Quote(a.intent)),
		Range:    b.capPlace[c.ID],
		Path:     []string{"intent", a.intent},
		Expected: declared.Spec(),
		Found:    spec,
		Hint:     "name the schema in the plugin, or another one in the intent block",
	})
}

// apart returns why maps of the first schema are unlikely to match the second, although open maps
// can; empty if a pair of alternatives agrees.
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

// mapsOf returns the alternatives of a schema; nil if one of them is not a map with named keys.
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

// unpromised returns a key that the second schema requires and the first does not have; empty if
// there is none, or if the first is an open map without named keys.
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

// strangers reports whether both maps have named keys, but none in common.
func strangers(from, to *schema.Schema) bool {
	if len(to.Entries()) == 0 || len(from.Entries()) == 0 && !from.Closed() {
		return false
	}
	return !slices.ContainsFunc(to.Entries(), func(e schema.Entry) bool {
		_, named := from.Entry(e.Key)
		return named
	})
}
