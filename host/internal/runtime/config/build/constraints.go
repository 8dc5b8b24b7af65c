package build

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// constraintsForm is the schema of the constraints in the request envelope. Other constraints are
// for plugins.
var constraintsForm = sync.OnceValue(func() *schema.Schema {
	return schema.MustCompile(edn.MustRead(`[:map [:language {:optional true} :keyword]
		[:style {:optional true} :keyword] [:max-chars {:optional true} [:int {:min 1 :max 12000}]]
		[:no-web {:optional true} :boolean]]`))
})

// constraints checks the constraints of an intent. An unknown name that is similar to a known one
// is a warning.
func (b *builder) constraints(s *decode.Section, v decode.Value) edn.Value {
	form := constraintsForm()
	out := decode.Fit(form, v.EDN)
	path := append(slices.Clone(s.Node.Path), "constraints")
	for _, f := range form.Validate(out) {
		d := diag.Diagnostic{
			Type:     "config/type",
			Message:  fmt.Sprintf("constraints in %s %s", s.Node.Title(), f.Message),
			Range:    v.Within(f.Path),
			Path:     path,
			Expected: edn.Text(f.Expected.String()),
			Found:    f.Got,
		}
		if len(f.Path) == 1 {
			e, _ := form.Entry(f.Path[0])
			name := language.HCLName(language.ScalarText(f.Path[0]))
			d.Message = fmt.Sprintf("%s in constraints of %s %s", name, s.Node.Title(),
				decode.Boundary(e.Schema, f.Got, f.Message))
			d.Expected = edn.Text(decode.Takes(e))
		}
		b.Report.Add(d)
	}
	var known []string
	for _, e := range form.Entries() {
		known = append(known, language.HCLName(language.ScalarText(e.Key)))
	}
	for key := range out.Entries() {
		name := language.HCLName(language.ScalarText(key))
		if near := contract.Nearest(name, known); near != "" && !slices.Contains(known, name) {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unknown-name",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("%s in constraints of %s is unknown to the host", name, s.Node.Title()),
				Range:    v.Within([]edn.Value{key}),
				Path:     path,
				Expected: diag.Words(known),
				Found:    edn.Text(name),
				Nearest:  near,
			})
		}
	}
	return out
}
