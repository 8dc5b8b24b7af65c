package conformance

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

func faultChecks() []Check {
	return []Check{
		{ID: "core/fault/pause", Requirements: []string{"LIFE-003"}, Process: true,
			Text: "a process that was stopped by SIGSTOP answers again after SIGCONT, also the calls in flight",
			run:  alone(faultPause)},
		{ID: "core/fault/interrupt", Requirements: []string{"END-005"}, Process: true,
			Text: "a process that gets SIGINT answers as before, also the calls in flight",
			run:  alone(faultInterrupt)},
		{ID: "core/fault/kill", Requirements: []string{"START-006"}, Process: true,
			Text: "after SIGKILL during a call, a new instance serves in the directory of the old one",
			run:  faultKill},
	}
}

// processOf returns the process of an instance.
func processOf(in Instance) (*launch.Process, error) {
	p, ok := in.(*remote)
	if !ok {
		return nil, &fault{errors.New("the instance is not a process")}
	}
	return p.runner.Process(), nil
}

// pauseFor is the time for which a plugin is stopped: longer than a scheduler
// delays a process, so that a plugin that watches the clock notices it.
const pauseFor = 400 * time.Millisecond

// resumed is the time in which a plugin notices that it was stopped.
const resumed = 100 * time.Millisecond

func faultPause(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	p, err := processOf(in)
	if err != nil {
		return err
	}
	pause, ok := pauseSignal()
	if !ok {
		return b.alive(ctx, in, "no pause, which this system does not have")
	}
	stop := func() error {
		if err := p.Signal(pause); err != nil {
			return &fault{fmt.Errorf("stop the process: %w", err)}
		}
		stopped := b.silent(ctx, in)
		if err := p.Signal(resumeSignal()); err != nil {
			return want("a process that lives on after a pause", "%v", err)
		}
		if !stopped {
			return &fault{errors.New("the process answers although it was stopped")}
		}
		select { // it notices the pause while its calls are still in flight
		case <-in.Done():
			return want("a process that lives on after a pause", "%s", p.Exit())
		case <-time.After(resumed):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.idleAndBusy(ctx, in, d, "a pause", stop)
}

// idleAndBusy does something to an idle plugin, then to one with calls in flight. Each time
// the plugin must serve afterwards; calls in flight must not be lost.
func (b *bench) idleAndBusy(
	ctx context.Context, in Instance, d contract.Description, what string, do func() error,
) error {
	if err := do(); err != nil {
		return err
	}
	if err := b.serves(ctx, in, d, what); err != nil {
		return err
	}
	end, err := b.busy(ctx, in, d)
	if err == nil {
		err = do()
	}
	lost := end()
	if err == nil && lost != nil {
		err = fmt.Errorf("a call in flight during %s: %w", what, lost)
	}
	if err != nil {
		return err
	}
	return b.serves(ctx, in, d, what+" with a call in flight")
}

// serves checks that the plugin is alive after something and answers a
// question.
func (b *bench) serves(ctx context.Context, in Instance, d contract.Description, after string) error {
	if err := b.alive(ctx, in, after); err != nil {
		return err
	}
	if _, err := b.ask(ctx, in, b.questions(d)[0]); err != nil {
		return typedError(err)
	}
	return nil
}

// faultInterrupt sends SIGINT, as a terminal does to every process of its
// foreground group. Only the host decides when a plugin ends.
func faultInterrupt(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	p, err := processOf(in)
	if err != nil {
		return err
	}
	return b.idleAndBusy(ctx, in, d, "SIGINT", func() error {
		if err := p.Signal(syscall.SIGINT); err != nil {
			return &fault{fmt.Errorf("interrupt the process: %w", err)}
		}
		select {
		case <-in.Done():
			return want("a process that ignores SIGINT", "%s", p.Exit())
		case <-time.After(pauseFor):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// silent waits until the plugin stops answering. A signal takes time to reach
// every thread.
func (b *bench) silent(ctx context.Context, in Instance) bool {
	for end := time.Now().Add(b.soon); time.Now().Before(end) && ctx.Err() == nil; {
		probe, cancel := context.WithTimeout(ctx, pauseFor)
		_, err := in.Client().Probe(probe)
		cancel()
		if err != nil {
			return true
		}
	}
	return false
}

func faultKill(ctx context.Context, b *bench) error {
	root, err := b.root()
	if err != nil {
		return err
	}
	setup := b.setup(root)
	in, d, err := b.readyWith(ctx, setup, b.host())
	if err != nil {
		return err
	}
	p, err := processOf(in)
	if err != nil {
		return err
	}
	if err := b.cutBy(ctx, in, d, p); err != nil {
		return err
	}
	setup.Generation++
	again, d, err := b.readyWith(ctx, setup, b.host())
	if err != nil {
		return fmt.Errorf("start again in the directory of a killed instance: %w", err)
	}
	for _, q := range b.questions(d) {
		if _, err := b.ask(ctx, again, q); err != nil && typedError(err) != nil {
			return typedError(err)
		}
	}
	return nil
}

// cutBy kills a process during a call, during its stream if it has one, and
// waits for the end of both.
func (b *bench) cutBy(ctx context.Context, in Instance, d contract.Description, p *launch.Process) error {
	c, input := b.long(d)
	for _, q := range b.questions(d) {
		if b.opts.Slow == nil && q.capability.Streams {
			c, input = q.capability, q.input
			break
		}
	}
	begun := make(chan struct{}, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = in.Client().Invoke(ctx, b.callContext(c), request(c, input), func(wire.Event) {
			select {
			case begun <- struct{}{}:
			default:
			}
		})
	}()
	working := make(chan struct{})
	go func() {
		defer close(working)
		_, _ = b.inFlight(ctx, in, over)
	}()
	select {
	case <-begun:
	case <-working:
	case <-over:
	}
	if err := p.Kill(); err != nil {
		return &fault{fmt.Errorf("kill the process: %w", err)}
	}
	<-over
	<-working
	select {
	case <-in.Done():
		return nil
	case <-time.After(b.exit):
		return &fault{fmt.Errorf("the process did not end within %s after the kill", b.exit)}
	}
}

// terminated sends SIGTERM, as an operating system does, to a process with a call in
// flight, then to an idle one.
func terminated(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	call, err := b.startLong(ctx, in, d)
	if err != nil {
		return err
	}
	if err := b.terminate(in); err != nil {
		return err
	}
	<-call.over
	idle, _, err := b.ready(ctx)
	if err != nil {
		return err
	}
	return b.terminate(idle)
}

func (b *bench) terminate(in Instance) error {
	p, err := processOf(in)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return &fault{fmt.Errorf("send SIGTERM: %w", err)}
	}
	return b.ended(in)
}
