package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// hanging records on which samples calls do not end. The map is only read while a
// check runs; what the check observes is added after it. A sample is asked again only
// by checks that need no answer.
type hanging struct {
	known map[string]string // sample -> check that observed it
	slow  map[string]bool   // capabilities with such a sample

	mu       sync.Mutex
	observed []question
	met      *blocked // a check asked for the answer to a known sample
}

func (q question) sample() string { return q.String() + " " + q.input.String() }

// invoke makes a call that needs an answer. It fails at once for a sample on which
// calls do not end.
func (b *bench) invoke(
	ctx context.Context, in Instance, q question, envelope edn.Value, emit func(wire.Event),
) (edn.Value, error) {
	return b.invokeAs(ctx, in, q, envelope, b.context(q), emit)
}

func (b *bench) invokeAs(ctx context.Context, in Instance, q question, envelope edn.Value, call wire.CallContext,
	emit func(wire.Event),
) (edn.Value, error) {
	if by, ok := b.hanging.known[q.sample()]; ok {
		b.hanging.mu.Lock()
		defer b.hanging.mu.Unlock()
		b.hanging.met = &blocked{by: by, hangs: true}
		return edn.Nil(), b.hanging.met
	}
	response, err := in.Client().Invoke(ctx, call, envelope, emit)
	if err != nil && ctx.Err() == nil && !time.Now().Before(call.Deadline) {
		b.hanging.mu.Lock()
		defer b.hanging.mu.Unlock()
		b.hanging.observed = append(b.hanging.observed, q)
	}
	return response, err
}

// callLimit is the time limit for a call of a capability. It is short once a call
// with its sample did not end.
func (b *bench) callLimit(c contract.Capability) time.Duration {
	if b.hanging.slow[c.ID] {
		return min(b.call, b.opts.long(hangingCall))
	}
	return b.call
}

// remember adds what a failed check observed to what later ones know.
func (h *hanging) remember(of *hanging, check string) {
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, q := range of.observed {
		if h.known == nil {
			h.known, h.slow = map[string]string{}, map[string]bool{}
		}
		if h.known[q.sample()] == "" {
			h.known[q.sample()] = check
		}
		h.slow[q.capability.ID] = true
	}
}
