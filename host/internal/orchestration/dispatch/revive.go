package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// reviveWait bounds the wait for a respawning candidate of a node without a
// deadline.
const reviveWait = 10 * time.Second

// awaitRespawn returns the best candidate that was not tried. If none is
// available and one is respawning, it waits until the deadline of the node. A
// respawned candidate may exit again before it is bound; the wait then repeats
// until the supervisor quarantines it.
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

// respawning returns the candidates that were not tried and will become ready
// without an operator.
func (o *operation) respawning() []string {
	if o.machine.Exhausted() {
		return nil
	}
	return slices.DeleteFunc(o.returning(), o.machine.Tried)
}

// returning returns the candidates that are not ready and will be without an
// operator.
func (o *operation) returning() (ids []string) {
	for _, r := range o.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && o.d.Executor.State(r.Cap).willReturn() {
			ids = append(ids, r.Cap)
		}
	}
	return ids
}

// willReturn reports whether a capability is ready or will be without an
// operator. It may have become ready since binding.
func (st CapState) willReturn() bool { return st.Ready || st.Standby || st.Respawning }

// awaitAny waits until a respawning candidate is ready and reports whether one
// is.
func (o *operation) awaitAny(ctx context.Context) bool {
	coming := o.respawning()
	if len(coming) == 0 {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := make(chan bool, len(coming))
	for _, id := range coming {
		go func() { back <- o.awaitReady(ctx, id) == nil }()
	}
	ready := false
	for range coming {
		if <-back {
			ready = true
			cancel() // one is enough
		}
	}
	return ready
}
