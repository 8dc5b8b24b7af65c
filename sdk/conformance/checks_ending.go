package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

func drainChecks() []Check {
	return []Check{
		{ID: "core/drain/refuses", Requirements: []string{"DRAIN-001", "HEALTH-003"},
			Text: "after Drain the plugin refuses calls with an error of type :" + notReady + " and is no longer ready",
			run:  alone(drainRefuses)},
		{ID: "core/drain/deadline", Requirements: []string{"DRAIN-002", "DRAIN-003"},
			Text: "Drain returns at its deadline, not before, with the number of unfinished calls, which are stopped",
			run:  alone(drainDeadline)},
		{ID: "core/drain/again", Requirements: []string{"DRAIN-002"},
			Text: "Drain returns at its deadline also while an earlier one waits, stops the calls, and returns at once after that",
			run:  alone(drainAgain)},
		{ID: "core/drain/in-flight", Requirements: []string{"DRAIN-003"},
			Text: "calls in flight at Drain are not cut before its deadline",
			run:  alone(drainInFlight)},
	}
}

func endingChecks() []Check {
	return []Check{
		{ID: "core/shutdown/host-gone", Process: true, Requirements: []string{"END-001"},
			Text: "the plugin ends when its host is gone",
			run:  alone(hostGone)},
		{ID: "core/shutdown/busy", Process: true, Requirements: []string{"END-002"},
			Text: "the plugin ends when its host is gone, also while a call is in flight",
			run:  hostGoneBusy},
		{ID: "core/shutdown/exit-code", Process: true, Requirements: []string{"END-004"},
			Text: "the plugin exits with 0 when its host is gone, also while a call is in flight",
			run:  alone(exitCode)},
		{ID: "core/shutdown/terminate", Requirements: []string{"END-003"}, Process: true,
			Text: "the plugin ends when it gets SIGTERM, also while a call is in flight",
			run:  alone(terminated)},
	}
}

func drainRefuses(ctx context.Context, b *bench, in Instance, d contract.Description) error {
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
	response, err := in.Client().Invoke(ctx, b.callContext(c), request(c, b.input(d, c)), nil)
	return refused(response, err, notReady)
}

func drainDeadline(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	call, err := b.startLong(ctx, in, d)
	if err != nil {
		return err
	}
	began := time.Now()
	unfinished, err := b.drain(ctx, in, drainLimit)
	took := time.Since(began)
	if err != nil {
		return err
	}
	if call.started && b.opts.Slow != nil && unfinished != 1 {
		return want("one unfinished call", "%d", unfinished)
	}
	if unfinished == 0 {
		b.tooQuick()
	}
	if unfinished > 0 && took < drainLimit-clockSlack {
		return want(fmt.Sprintf("an unfinished call goes on until the deadline, %s away", drainLimit),
			"Drain returned after %s", took)
	}
	return b.stops(call)
}

// drainLimit is the time until the deadline of a Drain that a call does not end before.
const drainLimit = 100 * time.Millisecond

// stops fails if a call goes on after the deadline of Drain.
func (b *bench) stops(call *ongoing) error {
	select {
	case <-call.over:
		return nil
	case <-time.After(b.soon):
		return want("the unfinished call stops", "it still goes on after %s", b.soon)
	}
}

// drainAgain drains as a host does: at once, with much time, then again with little while
// the first Drain still waits for a call, and once more when none is in flight.
func drainAgain(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	call, err := b.startLong(ctx, in, d)
	if err != nil {
		return err
	}
	first := make(chan error, 1)
	go func() {
		_, err := b.drain(ctx, in, b.call)
		first <- err
	}()
	if err := b.awaitDraining(ctx, in); err != nil {
		return err
	}
	select {
	case <-call.over:
		b.tooQuick()
	default:
	}
	if _, err := b.drain(ctx, in, drainLimit); err != nil {
		return fmt.Errorf("during another Drain: %w", err)
	}
	if err := b.stops(call); err != nil {
		return err
	}
	select {
	case err := <-first:
		if err != nil {
			return err
		}
	case <-time.After(b.soon):
		return want("Drain returns when no call is in flight", "it still waits after %s", b.soon)
	}
	unfinished, err := b.drain(ctx, in, 0)
	if err != nil {
		return fmt.Errorf("after another Drain: %w", err)
	}
	if unfinished != 0 {
		return want("no unfinished call after another Drain", "%d", unfinished)
	}
	return nil
}

// awaitDraining waits until the plugin is not to be called any more.
func (b *bench) awaitDraining(ctx context.Context, in Instance) error {
	limit := time.Now().Add(b.soon)
	for {
		h, err := b.probe(ctx, in)
		if err != nil {
			return want("the plugin answers probes while it drains", "%v", err)
		}
		if !h.State.Callable() {
			return nil
		}
		if time.Now().After(limit) {
			return &blocked{by: "core/health/changes"}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drainCalls is the number of concurrent calls before Drain.
const drainCalls = 32

func drainInFlight(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	questions := b.questions(d)
	answered := make([]bool, len(questions))
	quick, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	for i, q := range questions {
		_, err := b.ask(quick, in, q)
		answered[i] = err == nil
	}
	calls := b.flood(ctx, in, questions, drainCalls)
	began := time.Now()
	unfinished, err := b.drain(ctx, in, b.call)
	took := time.Since(began)
	ended := calls.wait()
	if err != nil {
		return err
	}
	if unfinished > 0 && took < b.call/2 {
		return want(fmt.Sprintf("no unfinished call before the deadline, %s away", b.call), "%d after %s", unfinished, took)
	}
	if cut := ended.cut(); cut != nil && took < b.call/2 {
		return want("calls in flight end as they would have ended", "%v", cut)
	}
	if dropped := ended.dropped(answered); dropped != nil {
		return want("calls in flight end as they would have ended, with an answer", "%v", dropped)
	}
	return ended.lost()
}

// flooding is a number of concurrent calls.
type flooding struct {
	wg      sync.WaitGroup
	all     endings
	started bool // one was in flight
}

type endings []error

// flood starts n calls and returns when the first is in flight or over.
func (b *bench) flood(ctx context.Context, in Instance, questions []question, n int) *flooding {
	f := &flooding{all: make(endings, n)}
	first := make(chan struct{})
	var once sync.Once
	for i := range n {
		f.wg.Go(func() {
			_, f.all[i] = b.ask(ctx, in, questions[i%len(questions)])
			once.Do(func() { close(first) })
		})
	}
	f.started, _ = b.inFlight(ctx, in, first)
	return f
}

func (f *flooding) wait() endings {
	f.wg.Wait()
	return f.all
}

// cut returns an error if a call was ended from outside.
func (e endings) cut() error {
	for _, err := range e {
		if f := contract.AsError(err); f != nil && !wire.Transport(err) &&
			(f.Type == "canceled" || f.Type == "timeout/hard") {
			return err
		}
	}
	return nil
}

// dropped returns an error if a question that was answered before now fails,
// unless the error is about Drain or transient. Calls cycle through the
// questions.
func (e endings) dropped(answered []bool) error {
	for i, err := range e {
		f := contract.AsError(err)
		if f == nil || !answered[i%len(answered)] || wire.Transport(err) {
			continue
		}
		if f.Type != notReady && f.Class != contract.ClassRetry && !overloaded(err) {
			return err
		}
	}
	return nil
}

// lost returns an error if a call got no answer at all.
func (e endings) lost() error {
	for _, err := range e {
		if err != nil && typedError(err) != nil {
			return typedError(err)
		}
	}
	return nil
}

func hostGone(ctx context.Context, b *bench, in Instance, _ contract.Description) error {
	in.Release()
	return b.ended(in)
}

// exitCode closes standard input of an idle process, then of one with a call in
// flight.
func exitCode(ctx context.Context, b *bench, in Instance, _ contract.Description) error {
	in.Release()
	if b.ended(in) != nil {
		return &blocked{by: "core/shutdown/host-gone"}
	}
	if err := exitedClean(in, "at the end of standard input"); err != nil {
		return err
	}
	in, err := b.releaseBusy(ctx)
	if err != nil {
		return err
	}
	if b.ended(in) != nil {
		return &blocked{by: "core/shutdown/busy"}
	}
	return exitedClean(in, "at the end of standard input while a call is in flight")
}

func exitedClean(in Instance, when string) error {
	p, err := processOf(in)
	if err != nil {
		return err
	}
	if exit := p.Exit(); !exit.Clean() {
		return want("exit status 0 "+when, "%s", exit)
	}
	return nil
}

func hostGoneBusy(ctx context.Context, b *bench) error {
	in, err := b.releaseBusy(ctx)
	if err != nil {
		return err
	}
	return b.ended(in)
}

// releaseBusy closes standard input of an instance with a call in flight.
func (b *bench) releaseBusy(ctx context.Context) (Instance, error) {
	in, d, err := b.ready(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.startLong(ctx, in, d); err != nil {
		return nil, err
	}
	in.Release()
	return in, nil
}

func (b *bench) ended(in Instance) error {
	select {
	case <-in.Done():
		return nil
	case <-time.After(b.exit):
		return want(fmt.Sprintf("the plugin ends within %s", b.exit), "it still runs")
	}
}
