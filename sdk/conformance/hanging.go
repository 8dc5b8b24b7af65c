package conformance

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// hanging records on which samples calls do not end. The maps are only read while a
// check runs; what the check observes is added after it. A sample is asked again only
// by checks that need no answer.
type hanging struct {
	known map[string]string // sample -> check that observed it
	slow  map[string]bool   // capabilities with such a sample

	mu       sync.Mutex
	running  int
	crowds   int // times that a call began during another
	observed []question
	met      *blocked // a check asked for the answer to a known sample
}

func (q question) sample() string { return q.String() + " " + q.input.String() }

// blocks returns the error of a call with a sample on which calls do not end, else nil.
func (h *hanging) blocks(q question) error {
	if len(h.known) == 0 {
		return nil
	}
	by, ok := h.known[q.sample()]
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.met = &blocked{by: by, hangs: true}
	return h.met
}

// begin records the begin of a call. The result reports at its end whether it was the
// only one all the time: a call among others may only have waited for its turn.
func (h *hanging) begin() (alone func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running++
	if h.running > 1 {
		h.crowds++
	}
	first, before := h.running == 1, h.crowds
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running--
		return first && before == h.crowds
	}
}

// late is the error of a call that ended at its deadline, whether the plugin or
// the host gave it up.
type late struct{ error }

func (e *late) Unwrap() error { return e.error }

// invoke makes a call that needs an answer. It fails at once for a sample on which
// calls do not end.
func (b *bench) invoke(
	ctx context.Context, in Instance, q question, envelope edn.Value, emit func(wire.Event),
) (edn.Value, error) {
	if err := b.hanging.blocks(q); err != nil {
		return edn.Nil(), err
	}
	call := b.context(q)
	alone := b.hanging.begin()
	response, err := in.Client().Invoke(ctx, call, envelope, emit)
	if alone() && err != nil && ctx.Err() == nil && reached(call.Deadline) {
		b.hanging.mu.Lock()
		defer b.hanging.mu.Unlock()
		b.hanging.observed = append(b.hanging.observed, q)
		err = &late{err}
	}
	return response, err
}

// clockSlack is the largest time by which a deadline of the plugin may be earlier
// than that of the host: it is sent as time of day, which is read a little before
// or after the monotonic clock.
const clockSlack = 10 * time.Millisecond

// reached reports whether a call that ended now did so at its deadline.
func reached(deadline time.Time) bool { return time.Until(deadline) <= clockSlack }

// callLimit is the time limit for a call of a capability. It is short once a call
// with its sample did not end.
func (b *bench) callLimit(c contract.Capability) time.Duration {
	if b.hanging.slow[c.ID] {
		return min(b.call, b.opts.long(hangingCall))
	}
	return b.call
}

// remember adds the observations of a failed check to those that later checks use.
func (h *hanging) remember(of *hanging, check string) {
	of.mu.Lock()
	defer of.mu.Unlock()
	if len(of.observed) == 0 {
		return
	}
	known, slow := map[string]string{}, map[string]bool{} // earlier checks may still read the others
	maps.Copy(known, h.known)
	maps.Copy(slow, h.slow)
	h.known, h.slow = known, slow
	for _, q := range of.observed {
		if h.known[q.sample()] == "" {
			h.known[q.sample()] = check
		}
		h.slow[q.capability.ID] = true
	}
}
