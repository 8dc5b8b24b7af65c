package act

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// standing returns the rights that the caller of a recorded run has now, nil if it has no
// account. The error is auth/forbidden if it may not act any more.
func (s *Service) standing(accepted *journal.RunAccepted) (*policy.Caller, *contract.Error) {
	if s.config.Standing == nil {
		return nil, nil
	}
	now, err := s.config.Standing(accepted)
	if err != nil || now == nil {
		return nil, err
	}
	return now, s.config.Access.Operation(policy.Act, *now).Refusal("auth/forbidden", "operation", *now)
}

// stand is the step that ends a resumed run whose caller may not act any more. A call whose
// outcome is unknown needs its decision before.
func stand(f *flight) *contract.Error {
	if f.barred == nil {
		return nil
	}
	return f.undecided(f.barred)
}
