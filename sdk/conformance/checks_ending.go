package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/sdk/wire"
)

func drainChecks() []Check {
	return []Check{
		{ID: "core/drain/refuses", Requirements: []string{"DRAIN-001", "HEALTH-003"},
			Text: "after Drain the plugin refuses calls with a typed error and is not ready any more",
			run:  drainRefuses},
		{ID: "core/drain/deadline", Requirements: []string{"DRAIN-002"},
			Text: "Drain returns at its deadline with the number of calls that were not over, and those stop",
			run:  drainDeadline},
	}
}

func endingChecks() []Check {
	return []Check{
		{ID: "core/shutdown/host-gone", Requirements: []string{"END-001"},
			Text: "the plugin ends when its host is gone",
			run:  hostGone},
		{ID: "core/shutdown/busy", Requirements: []string{"END-002"},
			Text: "the plugin ends when its host is gone, also while a call is in flight",
			run:  hostGoneBusy},
	}
}

func drainRefuses(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	unfinished, err := b.drain(ctx, in, b.call)
	if err != nil {
		return err
	}
	if unfinished != 0 {
		return want("no unfinished call", "%d", unfinished)
	}
	h, err := b.probe(ctx, in)
	if err != nil {
		return want("the plugin lives on after Drain", "%v", err)
	}
	if h.State.Callable() {
		return want("a state in which the plugin is not to be called", "%s", h.State)
	}
	c := d.Capabilities[0]
	_, err = in.Client().Invoke(ctx, callContext(c), request(c, b.input(d, c)), nil)
	if err == nil {
		return want("a typed error", "an answer")
	}
	return typedError(err)
}

func drainDeadline(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	c, input := b.long(d)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = in.Client().Invoke(ctx, callContext(c), request(c, input), nil)
	}()
	started, err := b.inFlight(ctx, in, over)
	if err != nil {
		return err
	}
	const limit = 100 * time.Millisecond
	unfinished, err := b.drain(ctx, in, limit)
	if err != nil {
		return err
	}
	if started && b.opts.Slow != nil && unfinished != 1 {
		return want("one unfinished call", "%d", unfinished)
	}
	select {
	case <-over:
		return nil
	case <-time.After(b.soon):
		return want("the unfinished call stops", "it still goes on after %s", b.soon)
	}
}

func hostGone(ctx context.Context, b *bench) error {
	in, _, err := b.ready(ctx)
	if err != nil {
		return err
	}
	in.Release()
	return b.ended(in)
}

func hostGoneBusy(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	c, input := b.long(d)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = in.Client().Invoke(ctx, callContext(c), request(c, input), func(wire.Event) {})
	}()
	if _, err := b.inFlight(ctx, in, over); err != nil {
		return err
	}
	in.Release()
	if err := b.ended(in); err != nil {
		return err
	}
	in.Stop()
	<-over
	return nil
}

func (b *bench) ended(in Instance) error {
	select {
	case <-in.Done():
		return nil
	case <-time.After(b.exit):
		return want(fmt.Sprintf("the plugin ends within %s", b.exit), "it still runs")
	}
}
