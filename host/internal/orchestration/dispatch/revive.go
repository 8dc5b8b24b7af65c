package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// reviveWait bounds the wait for a candidate that is coming back in a node
// without a deadline.
const reviveWait = 10 * time.Second

// awaitRespawn returns the best candidate that was not tried. If none can serve
// and the supervisor brings one back, it waits for it until the deadline of the
// node. A candidate that came back may be gone again before it is bound, so that
// is done more than once; the supervisor ends it with a quarantine.
func (s *serving) awaitRespawn(ctx context.Context) (capID string, ok bool) {
	if capID, ok = s.next(); ok || len(s.coming()) == 0 {
		return capID, ok
	}
	begun := s.d.Clock.Now()
	defer func() { s.waited += s.d.Clock.Now().Sub(begun) }()
	if s.w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reviveWait)
		defer cancel()
	}
	for !ok && !s.over(ctx) && s.revived(ctx) {
		s.binding = s.bind()
		capID, ok = s.next()
	}
	return capID, ok
}

// coming are the candidates that were not tried and are merely not ready: they
// come back without an operator.
func (s *serving) coming() []string {
	if len(s.used) >= s.most {
		return nil
	}
	var ids []string
	for _, r := range s.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && !slices.Contains(s.used, r.Cap) && s.d.Executor.State(r.Cap).comesBack() {
			ids = append(ids, r.Cap)
		}
	}
	return ids
}

// look notes in a failure whether another candidate is left, and reports whether
// one is ready.
func (s *serving) look(f *Failure) (ready bool) {
	_, ready = s.next()
	f.NextLeft = ready || len(s.coming()) > 0
	return ready
}

// comesBack tells whether a capability is there, or will be without an operator.
// Who was not ready when it was bound may be so by the time that this is asked.
func (st CapState) comesBack() bool { return st.Ready || st.Standby || st.Respawning }

// revived waits until one of the candidates that are coming back is ready, and
// reports whether one is.
func (s *serving) revived(ctx context.Context) bool {
	coming := s.coming()
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
