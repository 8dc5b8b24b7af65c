package config

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// constraintsForm is the schema of the constraints of the request envelope. Other constraints are for plugins.
var constraintsForm = sync.OnceValue(func() *schema.Schema {
	return schema.MustCompile(edn.MustRead(`[:map [:language {:optional true} :keyword]
		[:style {:optional true} :keyword] [:max-chars {:optional true} [:int {:min 1 :max 12000}]]
		[:no-web {:optional true} :boolean]]`))
})

// constraints checks the constraints of an intent. An unknown name that is similar to a known one is a warning.
func (b *builder) constraints(s *section, v value) edn.Value {
	form := constraintsForm()
	out := fit(form, v.v)
	path := append(slices.Clone(s.node.path), "constraints")
	for _, f := range form.Validate(out) {
		d := Diagnostic{
			Type:     "config/type",
			Message:  fmt.Sprintf("constraints in %s %s", s.node.title(), f.Message),
			Range:    v.within(f.Path),
			Path:     path,
			Expected: edn.Text(f.Expected.String()),
			Found:    f.Got,
		}
		if len(f.Path) == 1 {
			e, _ := form.Entry(f.Path[0])
			name := hclName(scalarText(f.Path[0]))
			d.Message = fmt.Sprintf("%s in constraints of %s %s", name, s.node.title(),
				boundary(e.Schema, f.Got, f.Message))
			d.Expected = edn.Text(takes(e))
		}
		b.report.add(d)
	}
	var known []string
	for _, e := range form.Entries() {
		known = append(known, hclName(scalarText(e.Key)))
	}
	for key := range out.Entries() {
		name := hclName(scalarText(key))
		if near := contract.Nearest(name, known); near != "" && !slices.Contains(known, name) {
			b.report.add(Diagnostic{
				Type:     "config/unknown-name",
				Severity: SeverityWarning,
				Message:  fmt.Sprintf("%s in constraints of %s is unknown to the host", name, s.node.title()),
				Range:    v.within([]edn.Value{key}),
				Path:     path,
				Expected: words(known),
				Found:    edn.Text(name),
				Nearest:  near,
			})
		}
	}
	return out
}
