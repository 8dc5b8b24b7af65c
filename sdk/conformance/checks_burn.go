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
			Text: "cancelled calls stop using the processor soon after",
			run:  cancelBurns},
		{ID: "core/deadline/burns", Requirements: []string{"CALL-014"}, Process: true,
			Text: "calls whose deadline has passed stop using the processor soon after",
			run:  deadlineBurns},
	}
}

// cancelBurns cancels a call of every capability except solvers, which have a
// stricter check in their profile.
func cancelBurns(ctx context.Context, b *bench) error {
	notSolver := func(q question) bool { return q.capability.Kind != profileSolver }
	return b.cutAll(ctx, notSolver, "the callers went away", func(in Instance, batch []question) {
		callCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		over := b.callAll(callCtx, in, batch, 0)
		b.begun(ctx, in, len(batch), over)
		cancel()
		<-over
	})
}

// begun waits until n calls are in flight, or as many as the plugin accepts.
// Another check tests that the plugin counts them.
func (b *bench) begun(ctx context.Context, in Instance, n int, over <-chan struct{}) {
	limit, cancel := context.WithTimeout(ctx, b.soon)
	defer cancel()
	if started, err := b.inFlight(limit, in, over); err == nil && started {
		b.inFlightAtLeast(limit, in, n, over)
	}
}

// burnDeadline is the deadline of calls that should exceed it.
const burnDeadline = 50 * time.Millisecond

func deadlineBurns(ctx context.Context, b *bench) error {
	all := func(question) bool { return true }
	return b.cutAll(ctx, all, "the deadline", func(in Instance, batch []question) {
		callCtx, cancel := context.WithTimeout(ctx, burnDeadline+b.soon)
		defer cancel()
		<-b.callAll(callCtx, in, batch, burnDeadline)
	})
}

// cutAll cuts calls of the chosen capabilities, a few at a time, and fails if
// the plugin keeps using the processor.
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

// callAll asks questions concurrently, with a deadline if limit is not 0. The
// channel is closed when all calls have ended; other checks test how they end.
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
