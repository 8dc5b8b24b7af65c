package act

import (
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
)

// shape is what all acts of an intent have in common that say the same about
// how they are to be served: everything but input, context and trace. It is
// immutable but for the terms, which guard themselves, and the worst case, which
// is worked out when it is first asked for.
type shape struct {
	plan     *plan.Plan
	findings []plan.Finding
	program  *plan.Program
	layer    policy.Layer
	terms    eval.TermsBook

	worstOnce sync.Once
	worst     plan.Worst
}

// shapes remembers the shapes of a configuration, so that a caller who asks the
// same kind of thing again does not have its plan read and linked and its
// policy merged again. The zero value is ready to use.
type shapes struct {
	mu    sync.RWMutex
	known map[string]*shape
}

// Both bounds keep callers who never ask the same way twice from filling the
// memory: a long key is not worth keeping, and a full table starts anew.
const (
	maxShapes   = 512
	maxShapeKey = 2 << 10
)

func (s *shapes) find(key []byte) *shape {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[string(key)]
}

func (s *shapes) keep(key []byte, sh *shape) {
	if len(key) > maxShapeKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxShapes {
		s.known = make(map[string]*shape)
	}
	s.known[string(key)] = sh
}
