package act

import (
	"fmt"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/sdk/edn"
)

// shape is the linked plan and policy that all acts with the same shapeKey share: acts
// of one intent that differ only in input, context and trace. It is safe for concurrent
// use: the policies lock themselves, worst and reach are computed once at their first
// use, and all other fields are immutable.
type shape struct {
	plan     *plan.Plan
	findings []plan.Finding
	program  *plan.Program
	layer    policy.Layer
	policies eval.PolicyCache
	effects  *plan.Authorization

	worstOnce sync.Once
	worst     plan.Worst

	reachOnce sync.Once
	reach     []string // capabilities that may be called
}

// shapes caches the shapes of a configuration, so that acts of the same shape
// share the parsed and linked plan and the merged policy. The zero value is
// ready to use.
type shapes struct {
	mu    sync.RWMutex
	known map[shapeKey]*shape
}

// shapeKey holds everything but the configuration on which the shape of an act depends.
// Values are their EDN text; an empty value is the empty string.
type shapeKey struct {
	intent, capID, role, model, system                     string
	dispatch, done, constraints, effects, requires, budget string
	raised                                                 bool   // the budget may be above that of the intent
	ownEffects                                             bool   // the effects are those of the request, not of the intent
	context                                                bool   // the request has a context
	swap                                                   string // of a replay
	decision                                               string // of a router, and whether it replaces a pin
}

func (f *flight) shapeKey() shapeKey {
	r := &f.request
	k := shapeKey{
		intent: r.Intent, capID: r.CapID, role: r.Role, model: r.Model, system: r.System,
		dispatch: spelled(r.Dispatch), done: spelled(r.Done), constraints: spelled(r.Constraints), budget: spelled(r.Budget),
		requires:   spelled(f.act.Request.Key("task").Key("requires")),
		raised:     f.raised,
		ownEffects: f.act.Request.HasKey("effects"),
		context:    r.Context.Len() > 0,
	}
	if k.ownEffects {
		k.effects = spelled(r.Effects)
	}
	if d := f.route.decision; d != nil {
		k.decision = fmt.Sprint(d.Value, f.route.Unpin, f.route.Force)
	}
	if f.act.Fill != nil {
		k.swap = fmt.Sprint(f.act.Fill.Swap)
	}
	return k
}

func spelled(v edn.Value) string {
	if v.Len() == 0 {
		return ""
	}
	return v.String()
}

func (k *shapeKey) size() int {
	return len(k.intent) + len(k.capID) + len(k.role) + len(k.model) + len(k.system) +
		len(k.dispatch) + len(k.done) + len(k.constraints) + len(k.effects) + len(k.requires) + len(k.budget) + len(k.swap) + len(k.decision)
}

// The limits bound the memory that callers with ever new requests can use: a key longer
// than maxShapeKey bytes is not cached, and a table of maxShapes entries is cleared.
const (
	maxShapes   = 512
	maxShapeKey = 2 << 10
)

func (s *shapes) find(key shapeKey) *shape {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[key]
}

func (s *shapes) keep(key shapeKey, sh *shape) {
	if key.size() > maxShapeKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxShapes {
		s.known = make(map[shapeKey]*shape)
	}
	s.known[key] = sh
}
