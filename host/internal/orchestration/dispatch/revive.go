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
func (o *operation) awaitRespawn(ctx context.Context) (capID string, ok bool) {
	if capID, ok = o.next(); ok || len(o.respawning()) == 0 {
		return capID, ok
	}
	begun := o.d.Clock.Now()
	defer func() { o.waited += o.d.Clock.Now().Sub(begun) }()
	if o.w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reviveWait)
		defer cancel()
	}
	for !ok && !o.expired(ctx) && o.awaitAny(ctx) {
		o.binding = o.bind()
		capID, ok = o.next()
	}
	return capID, ok
}

// coming are the candidates that were not tried and are merely not ready: they
// come back without an operator.
func (o *operation) respawning() []string {
	if len(o.used) >= o.maxCandidates {
		return nil
	}
	var ids []string
	for _, r := range o.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && !slices.Contains(o.used, r.Cap) && o.d.Executor.State(r.Cap).willReturn() {
			ids = append(ids, r.Cap)
		}
	}
	return ids
}

// look notes in a failure whether another candidate is left, and reports whether
// one is ready.
func (o *operation) updateNextLeft(f *Failure) (ready bool) {
	_, ready = o.next()
	f.NextLeft = ready || len(o.respawning()) > 0
	return ready
}

// comesBack tells whether a capability is there, or will be without an operator.
// Who was not ready when it was bound may be so by the time that this is asked.
func (st CapState) willReturn() bool { return st.Ready || st.Standby || st.Respawning }

// revived waits until one of the candidates that are coming back is ready, and
// reports whether one is.
func (o *operation) awaitAny(ctx context.Context) bool {
	coming := o.respawning()
	if len(coming) == 0 {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := make(chan bool, len(coming))
	for _, id := range coming {
		go func() { back <- o.await(ctx, id) == nil }()
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
