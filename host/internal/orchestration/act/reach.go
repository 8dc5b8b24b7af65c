package act

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Reach returns the capabilities that an act may call, as plan.Reach does. It
// uses only the configuration part of c, so that it can be called before
// plugins start. The error is the one with which a service of the
// configuration rejects the act.
func Reach(c Config, a Act) ([]string, *contract.Error) {
	c.defaults()
	s := &Service{config: c}
	read, err := compile("prepare", prepareSteps[:readSteps], s)
	if err != nil {
		return nil, contract.AsError(err)
	}
	templates, failed := readTemplates(c.Registry, *c.Limits)
	if failed != nil {
		return nil, failed
	}
	s.templates = templates
	f := s.flight(a)
	if err := s.stage(read, f); err != nil {
		return nil, err
	}
	reach := plan.Reach(f.plan, f.planEnv())
	if f.route.Ask {
		router, env, err := f.routePlan()
		if err != nil {
			return nil, err
		}
		reach = append(reach, plan.Reach(router, env)...)
		slices.Sort(reach)
		reach = slices.Compact(reach)
	}
	return reach, nil
}
