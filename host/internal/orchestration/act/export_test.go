package act

// Config returns the configuration of a service.
func (s *Service) Config() Config { return s.config }
