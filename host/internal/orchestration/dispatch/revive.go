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

// revived waits until one of the candidates that are merely not ready is, and
// tells whether one is. Those that only an operator brings back are not waited
// for.
func (s *serving) revived(ctx context.Context) bool {
	var coming []string
	for _, r := range s.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && s.d.Executor.State(r.Cap).Respawning {
			coming = append(coming, r.Cap)
		}
	}
	if len(coming) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, reviveWait)
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
