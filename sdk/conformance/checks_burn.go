package conformance

import (
	"context"
	"slices"
	"sync"
	"time"
)

func burnChecks() []Check {
	return []Check{
		{ID: "core/cancel/burns", Requirements: []string{"CALL-014"}, Process: true,
			Text: "calls whose callers went away use no processor time any more soon after",
			run:  cancelBurns},
		{ID: "core/deadline/burns", Requirements: []string{"CALL-014"}, Process: true,
			Text: "calls whose deadline has passed use no processor time any more soon after",
			run:  deadlineBurns},
	}
}

// cancelBurns cancels a call of every capability but solvers, for which the profile
// of solvers has a stricter check.
func cancelBurns(ctx context.Context, b *bench) error {
	notSolver := func(q question) bool { return q.capability.Kind != Solver }
	return b.cutAll(ctx, notSolver, "the callers went away", func(in Instance, batch []question) {
		callCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		over := b.callAll(callCtx, in, batch, 0)
		b.begun(ctx, in, len(batch), over)
		cancel()
		<-over
	})
}

// begun waits until n calls are in flight, or as many as the plugin begins. That the
// plugin counts them is another check.
func (b *bench) begun(ctx context.Context, in Instance, n int, over <-chan struct{}) {
	limit, cancel := context.WithTimeout(ctx, b.soon)
	defer cancel()
	if started, err := b.inFlight(limit, in, over); err == nil && started {
		b.inFlightAtLeast(limit, in, n, over)
	}
}

// burnDeadline is the deadline of calls that are to be cut by it.
const burnDeadline = 50 * time.Millisecond

func deadlineBurns(ctx context.Context, b *bench) error {
	all := func(question) bool { return true }
	return b.cutAll(ctx, all, "the deadline", func(in Instance, batch []question) {
		callCtx, cancel := context.WithTimeout(ctx, burnDeadline+b.soon)
		defer cancel()
		<-b.callAll(callCtx, in, batch, burnDeadline)
	})
}

// cutAll has calls of the chosen capabilities cut, a few at a time, and fails if the
// plugin goes on using the processor.
func (b *bench) cutAll(
	ctx context.Context, chosen func(question) bool, after string, cut func(Instance, []question),
) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	tree := treeOf(in.PID())
	idle, measured := tree.used(ctx)
	if !measured {
		return ctx.Err()
	}
	all := b.questions(d)
	if b.opts.Slow != nil {
		c, input := b.long(d)
		all = append(all, question{capability: c, intent: firstIntent(c), input: input})
	}
	all = slices.DeleteFunc(all, func(q question) bool { return !chosen(q) })
	for batch := range slices.Chunk(all, cancelBatch) {
		cut(in, batch)
	}
	return b.cools(ctx, tree, idle, after)
}

// callAll asks questions at once, with a deadline if limit is not 0. The channel is
// closed when all calls have ended; how they end is the subject of other checks.
func (b *bench) callAll(ctx context.Context, in Instance, questions []question, limit time.Duration) <-chan struct{} {
	var calls sync.WaitGroup
	for _, q := range questions {
		call := b.callContext(q.capability)
		if limit > 0 {
			call.Deadline = time.Now().Add(limit)
		}
		calls.Go(func() { _, _ = in.Client().Invoke(ctx, call, q.request(), nil) })
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		calls.Wait()
	}()
	return over
}
