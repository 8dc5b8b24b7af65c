package act

import (
	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sourceTemplate is the source of the plan that the configuration has for an intent.
const sourceTemplate = "template"

// readTemplates parses the plan templates of the intents. The configuration has checked
// them.
func readTemplates(reg *registry.Registry, limits plan.Limits) (map[string]*plan.Plan, *contract.Error) {
	templates := map[string]*plan.Plan{}
	for _, id := range reg.Intents() {
		in, _ := reg.Intent(id)
		if in.Plan.IsNil() {
			continue
		}
		p, findings := plan.Parse(in.Plan, nil, plan.WithLimits(limits))
		if err := plan.FindingsError(findings, contract.SourceHost); err != nil {
			return nil, err
		}
		p.BindHandles(reg) // acts share it
		templates[id] = p
	}
	return templates, nil
}

// template returns the template for the plan of an act; nil: it is one call. A request
// that names its capability wants one call of that, and so does a plugin, whose request
// is a part of another run. A resumed run goes on with the plan that it began with, if
// it has recorded one: its values are those of the nodes of that.
func (f *flight) template() (*plan.Plan, *contract.Error) {
	if f.inside != nil || f.act.Stack != nil || f.request.CapID != "" {
		return nil, nil
	}
	if begun := f.past.At(edn.Vector()); !f.replay && begun != nil && begun.Plan != nil {
		if begun.Plan.Source != sourceTemplate {
			return nil, nil
		}
		return f.recordedTemplate(begun.Plan)
	}
	return f.service.templates[f.request.Intent], nil
}

// recordedTemplate reads the plan with which a resumed run began.
func (f *flight) recordedTemplate(recorded *journal.PlanResolved) (*plan.Plan, *contract.Error) {
	now := f.service.templates[f.request.Intent]
	if now != nil && now.Hash() == recorded.Plan.Hash() {
		return now, nil
	}
	p, findings := plan.Parse(f.mask.Restore(recorded.Plan.Value()), nil, plan.WithLimits(*f.service.config.Limits))
	if err := plan.FindingsError(findings, contract.SourceHost); err != nil {
		return nil, contract.Errorf("run/not-resumable", "run %s began with a plan of :%s that cannot be read any more: %w",
			f.id, f.request.Intent, err)
	}
	return p, nil
}

// readTemplate makes a template the plan of the act (RTE-002). Its nodes read the input
// and the context of the request as :input and :context, and inherit what the request
// says of calls, except for its candidates: these are of one intent.
func (f *flight) readTemplate(p *plan.Plan) *contract.Error {
	f.source = sourceTemplate
	around := f.request.Context
	if around.IsNil() {
		around = edn.MustMap()
	}
	f.bindings = edn.MustMap(keyInput, f.request.Input, keyContext, around)
	layer, err := f.inherited()
	if err != nil {
		return err
	}
	layer.Candidates, layer.Fallbacks = policy.Val[[]string]{}, nil
	f.layer, f.plan = &layer, p
	f.findings = plan.Check(p, f.planEnv())
	return plan.FindingsError(f.findings, contract.SourceRequest)
}
