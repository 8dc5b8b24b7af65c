package act

import (
	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sourceTemplate is the source of the plan that the configuration has for an intent.
const sourceTemplate = "template"

// readTemplates returns the parsed plan templates by intent. They were checked with the
// configuration.
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

// template returns the plan template of the act's intent; nil: the act is one call.
// Requests that name a capability and requests of plugins are always one call. A resumed
// run keeps the plan that it recorded, because its recorded values belong to the nodes
// of that plan.
func (f *flight) template() (*plan.Plan, *contract.Error) {
	if f.inside != nil || f.act.Stack != nil || f.request.CapID != "" {
		return nil, nil
	}
	if begun := f.recordedPlan(); !f.replay && begun != nil {
		if begun.Source != sourceTemplate {
			return nil, nil
		}
		return f.recordedTemplate(begun)
	}
	return f.service.templates[f.request.Intent], nil
}

// recordedTemplate returns the plan with which a resumed run began. The error is
// run/not-resumable if it is no longer valid.
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

// readTemplate sets a template as the plan of the act (RTE-002). Its nodes read the
// input and the context of the request as :input and :context. They inherit the dispatch
// settings of the request except its candidates, which are for one intent.
func (f *flight) readTemplate(p *plan.Plan) *contract.Error {
	f.source = sourceTemplate
	if err := f.unroutable(); err != nil {
		return err
	}
	around := f.request.Context
	if around.IsNil() {
		around = edn.MustMap()
	}
	f.bindings = edn.MustMap(keyInput, f.request.Input, keyContext, around)
	dispatch.LearnPlan(f.service.config.Registry, f.mask, p.Source, f.bindings)
	layer, err := f.inherited()
	if err != nil {
		return err
	}
	layer.Candidates, layer.Fallbacks = policy.Val[[]string]{}, nil
	f.layer, f.plan = &layer, p
	f.findings = plan.Check(p, f.planEnv())
	return plan.FindingsError(f.findings, contract.SourceRequest)
}

// unroutable applies the routing settings to an act whose plan is a template: no router is asked,
// since its decision is for one call. An act that must not continue without a decision fails, another
// one has a warning. A run that has begun goes on as it began.
func (f *flight) unroutable() *contract.Error {
	if f.past != nil || f.act.Fill != nil {
		return nil
	}
	if err := f.chooseRouting(); err != nil || !f.route.Ask {
		return err
	}
	f.route.Ask = false
	why := routing.Refuse("decide-plan", "acts of :%s have a plan, for which no router is asked", f.request.Intent).
		WithSource(contract.SourceRequest).
		WithHint("name a capability in :cap/id, or use :routing {:meta? false}")
	if f.route.Closed {
		return why
	}
	f.warnings = append(f.warnings,
		edn.MustMap(edn.K("type"), edn.K(why.Type), edn.K("message"), edn.Text(why.Message)))
	return nil
}
