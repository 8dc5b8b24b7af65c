package act

import "github.com/fermenthq/ferment/sdk/contract"

// Config returns the configuration of a service.
func (s *Service) Config() Config { return s.config }

// CacheKey returns the name of the answer to an act in the cache, empty if it is not
// looked up there.
func (s *Service) CacheKey(a Act) (string, *contract.Error) {
	f := s.flight(a)
	defer f.publish()
	err := s.stage(s.prepare[:readSteps+1], f)
	return f.cache.key, err
}
