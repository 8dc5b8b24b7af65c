package build

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// templates checks the plan templates of the intents (RTE-002) like plans of a caller with all
// rights, with the bindings :input and :context.
func (b *builder) templates(env plan.Env) {
	env.Outer = func(name string) bool { return name == "input" || name == "context" }
	doubtful := b.Report.Doubtful("intent") || b.Report.Doubtful("capability") || b.Report.Doubtful("plugin")
	for _, s := range b.All("intent") {
		if !s.Written("plan") || b.blind {
			continue
		}
		v := s.Attrs["plan"]
		p, findings := plan.Parse(v.EDN, nil, plan.WithLimits(b.settings.Limits))
		if p != nil {
			findings = plan.Check(p, env)
		}
		for _, f := range findings {
			if f.Severity != plan.Error || doubtful && (f.Check == "CHECK-011" || f.Check == "CHECK-025") {
				continue // a name in a node may be that of an invalid block
			}
			d := diag.Diagnostic{
				Type:    "protocol/invalid",
				Message: fmt.Sprintf("the plan of %s is invalid at %s: %s (%s)", s.Node.Title(), edn.Vector(f.Path...), f.Message, f.Check),
				Range:   v.At,
				Path:    append(slices.Clone(s.Node.Path), "plan"),
				Hint:    cmp.Or(f.Hint, "correct the plan: `ferment check` reads one in a file by the same rules"),
			}
			if !f.Nearest.IsNil() {
				d.Nearest = f.Nearest.String()
			}
			b.Report.Add(d)
		}
	}
}
