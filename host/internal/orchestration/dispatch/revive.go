package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// reviveWait is how long a node that nobody can serve at the moment waits for a
// candidate that is coming back by itself. A restart takes a fraction of it;
// one that takes longer is a failure that the caller should hear of.
const reviveWait = 10 * time.Second

// awaitRespawn waits until a node that nobody can serve has a candidate again,
// if one comes back by itself. Who comes back may be gone again before it is
// bound, so that is done more than once.
func (s *serving) awaitRespawn(ctx context.Context) {
	if len(s.binding.Tried) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reviveWait)
	defer cancel()
	for len(s.binding.Tried) == 0 && ctx.Err() == nil && s.revived(ctx) {
		s.binding = s.bind()
	}
}

// comesBack tells whether a capability is there, or will be without an operator.
// Who was not ready when it was bound may be so by the time that this is asked.
func (st CapState) comesBack() bool { return st.Ready || st.Standby || st.Respawning }

// revived waits until one of the candidates that are merely not ready is, and
// tells whether one is. Those that only an operator brings back are not waited
// for.
func (s *serving) revived(ctx context.Context) bool {
	var coming []string
	for _, r := range s.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && s.d.Executor.State(r.Cap).comesBack() {
			coming = append(coming, r.Cap)
		}
	}
	if len(coming) == 0 {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := make(chan bool, len(coming))
	for _, id := range coming {
		go func() { back <- s.await(ctx, id) == nil }()
	}
	ready := false
	for range coming {
		if <-back {
			ready = true
			cancel() // one is enough; the others are not waited for any longer
		}
	}
	return ready
}
