package build

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// collectSchemas joins the built-in, the advertised and the declared schemas (SCH-014).
func (b *builder) collectSchemas() {
	from := map[string]string{}
	builtin := schema.Builtin()
	for i := range b.Plugins {
		p := &b.Plugins[i]
		for _, name := range slices.Sorted(maps.Keys(p.Description.Schemas)) {
			if b.givesWay(p.Name, name) {
				continue
			}
			spec := p.Description.Schemas[name]
			b.advertised(p, name, spec, from, builtin)
		}
	}
	for _, s := range b.All("schema") {
		b.declared(s, from, builtin)
	}
	b.compileSchemas(builtin)
}

// compileSchemas compiles all schemas together, because they may refer to each other. Invalid
// schemas are reported at their owner and omitted.
func (b *builder) compileSchemas(builtin map[string]edn.Value) {
	compiled, err := schema.NewRegistry(b.schemas)
	b.compiled = compiled
	var wrong *schema.CompileError
	if !errors.As(err, &wrong) {
		return
	}
	blocks := byLabel(b.All("schema"))
	if b.withoutOptional(wrong.Problems, blocks) {
		b.compileSchemas(builtin)
		return
	}
	for _, p := range wrong.Problems {
		message := p.Message
		if len(p.Path) > 0 {
			message += " at " + edn.Vector(p.Path...).String()
		}
		d := diag.Diagnostic{
			Type:    "config/type",
			Message: fmt.Sprintf("schema %s is invalid: %s", diag.Quote(p.Schema), diag.Sentence(message)),
			Path:    []string{"schema", p.Schema},
			Hint:    p.Hint,
		}
		if s, ok := blocks[p.Schema]; ok {
			spec := s.Attrs["spec"]
			d.Range, d.Path = spec.Within(p.Path), append(d.Path, "spec")
			if spec.EDN.Kind() == edn.KindString {
				d.Hint = `a form is EDN and no text: write spec = edn("[:map ...]")`
			}
			if *d.Range != *spec.At {
				// The diagnostic shows the place.
				d.Message = fmt.Sprintf("schema %s is invalid: %s", diag.Quote(p.Schema), diag.Sentence(p.Message))
			}
		} else if owner := b.schemaOwner(p.Schema); owner != nil {
			d.Range = b.place("plugin", owner.Name)
			d.Message = fmt.Sprintf("plugin %s: %s", diag.Quote(owner.Name), d.Message)
			b.Defect(owner, d)
			continue
		}
		b.Report.Add(d)
	}
	b.compiled, _ = schema.NewRegistry(builtin)
}

// withoutOptional reports the invalid schemas of optional plugins, and replaces them by a schema
// that accepts everything; these plugins are not started. It reports whether there are any.
func (b *builder) withoutOptional(problems []schema.Problem, blocks map[string]*decode.Section) (any bool) {
	for _, p := range problems {
		owner := b.schemaOwner(p.Schema)
		if _, own := blocks[p.Schema]; own || owner == nil || !owner.Optional {
			continue
		}
		b.Defect(owner, diag.Diagnostic{
			Message: fmt.Sprintf("plugin %s cannot be used: schema %s is invalid: %s", diag.Quote(owner.Name),
				diag.Quote(p.Schema), diag.Sentence(p.Message)),
			Range: b.place("plugin", owner.Name),
			Path:  []string{"schema", p.Schema},
			Hint:  "this is a defect of the plugin: use another version of it, or set enabled = false in its block",
		})
		b.schemas[p.Schema], any = edn.K("any"), true
	}
	return any
}

func (b *builder) schemaOwner(name string) *plugins.Plugin {
	for i := range b.Plugins {
		if _, ok := b.Plugins[i].Description.Schemas[name]; ok {
			return &b.Plugins[i]
		}
	}
	return nil
}

func (b *builder) advertised(p *plugins.Plugin, name string, spec edn.Value, from map[string]string,
	builtin map[string]edn.Value) {
	other, taken := from[name]
	if !taken {
		if _, ok := builtin[name]; ok {
			other, taken = "the host", true
		}
	}
	if !taken {
		from[name] = "plugin " + diag.Quote(p.Name)
		b.schemas[name] = spec
		return
	}
	if edn.Equal(b.schemas[name], spec) {
		return
	}
	if _, overridden := byLabel(b.All("schema"))[name]; overridden {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type: "config/duplicate",
		Message: fmt.Sprintf("plugin %s and %s advertise different schemas under the name %s", diag.Quote(p.Name), other,
			diag.Quote(name)),
		Range: b.place("plugin", p.Name),
		Path:  []string{"schema", name},
		Hint:  fmt.Sprintf("decide with a block: schema %q { spec = edn(\"...\") }", name),
	})
}

func (b *builder) declared(s *decode.Section, from map[string]string, builtin map[string]edn.Value) {
	spec, ok := s.Attrs["spec"]
	if !ok {
		return
	}
	who := from[s.Label()]
	if _, isBuiltin := builtin[s.Label()]; isBuiltin {
		who = "the host"
	}
	if who != "" {
		b.use("schema", s.Label())
		b.Report.Add(diag.Diagnostic{
			Type:     "config/overridden",
			Severity: diag.SeverityInfo,
			Message:  fmt.Sprintf("schema %s is used instead of that of %s", diag.Quote(s.Label()), who),
			Range:    s.At(),
			Path:     s.Node.Path,
		})
	}
	b.schemas[s.Label()] = formOf(spec.EDN)
}

// formOf returns the schema form of nested lists of strings in HCL. A single string is not changed;
// compileSchemas reports it, because EDN requires edn("...").
func formOf(spec edn.Value) edn.Value {
	if !spec.IsVector() {
		return spec
	}
	form, _ := schema.ReadForm(spec) // fails for a single string
	return form
}
