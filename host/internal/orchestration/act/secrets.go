package act

import (
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// hidesSecrets reports whether any schema of the configuration marks a value as secret.
func hidesSecrets(reg *registry.Registry) bool {
	if reg == nil || reg.Schemas() == nil {
		return false
	}
	for _, name := range reg.Schemas().Names() {
		if s, ok := reg.Schema(name); ok && s.HidesSecret() {
			return true
		}
	}
	return false
}

// newMask returns the mask of a run; nil if no schema marks a value as secret.
func (s *Service) newMask() *journal.Mask {
	if !s.secretive {
		return nil
	}
	return journal.NewMask(s.config.SecretKey)
}

// learnSecrets is the step that finds the secrets of a request, so that none is recorded
// (JRN-022). It rejects a new request that contains a placeholder for a secret.
func learnSecrets(f *flight) *contract.Error {
	s := f.service
	if !s.secretive {
		return nil
	}
	if f.past == nil && f.act.Fill == nil && journal.Masked(f.act.Request) {
		return contract.Errorf("invalid-request", "the request has a placeholder that replaces a secret in the journal").
			WithHint("send the secret itself")
	}
	if f.mask == nil {
		f.mask = s.newMask()
	}
	if f.recorder != nil {
		f.recorder.Mask(f.mask)
	}
	f.learn()
	return nil
}

// learn finds the secrets of the request as it is now.
func (f *flight) learn() {
	if f.mask == nil {
		return
	}
	reg, r := f.service.config.Registry, &f.request
	if r.Intent != PlanIntent {
		sch, _ := reg.Schema(reg.InSchema(r.Intent, r.Requires.InSchema))
		f.mask.Learn(sch, r.Input)
		return
	}
	dispatch.LearnPlan(reg, f.mask, r.Input.Key("plan"), r.Input.Key("bindings"))
}
