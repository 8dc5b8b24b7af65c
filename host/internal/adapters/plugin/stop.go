package plugin

import (
	"context"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

// killWait is the time limit of the last stop step.
const killWait = 500 * time.Millisecond

// stopping is the input of stop.
type stopping struct {
	settings Settings
	reason   Cause
	drain    bool // wait for calls in flight
}

// stop ends a process: it accepts no new calls, waits for those in flight, and executes stop steps
// of increasing force. It returns when the process has ended, or killWait after SIGKILL. Canceling
// ctx skips to SIGKILL.
func (s *service) stop(ctx context.Context, how stopping) []launch.StepResult {
	grace := how.settings.StopGrace
	begin := time.Now()
	if how.drain && s.awaitIdle(ctx, how.settings) {
		begin = time.Now() // a plugin that responds gets the whole grace
	}
	s.cut(how.reason)
	// Each of the first steps gets a quarter of the remaining time, so that a plugin that ignores
	// all of them still has time after SIGTERM.
	stepLimit := max(0, grace-time.Since(begin)) / 4
	proc := s.runner.Process()
	steps := []launch.Step{
		{Name: "drain", Limit: stepLimit, Do: func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			_, err := s.wire.Drain(ctx, deadline, string(how.reason))
			return err
		}},
		{Name: "close-stdin", Limit: stepLimit, Await: true, Do: func(context.Context) error {
			return proc.CloseStdin()
		}},
		{Name: "shutdown", Limit: stepLimit, Await: true, Do: s.shutdown},
		proc.SignalStep("terminate", syscall.SIGTERM, stepLimit),
		proc.SignalStep("kill", syscall.SIGKILL, killWait),
	}
	return launch.Stop(ctx, s.done(), steps)
}

// awaitIdle waits for the calls in flight, for at most DrainTimeout and only while the plugin
// answers probes. It reports whether the plugin responds.
func (s *service) awaitIdle(ctx context.Context, settings Settings) bool {
	if s.inFlight() == 0 {
		return true
	}
	s.announceDrain(ctx, settings)
	ctx, cancel := context.WithTimeout(ctx, settings.DrainTimeout)
	defer cancel()
	deaf := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			probe, done := context.WithTimeout(ctx, settings.Health.Timeout)
			_, err := s.wire.Probe(probe)
			missed := err != nil && probe.Err() != nil && ctx.Err() == nil
			done()
			if missed {
				close(deaf)
				return
			}
			waitFor(ctx.Done(), settings.Health.Timeout)
		}
	}()
	select {
	case <-s.idle:
	case <-s.done():
	case <-ctx.Done():
	case <-deaf:
		return false
	}
	return true
}

// announceDrain announces the drain to the plugin while calls are in flight, so that calls without
// an end of their own end now. The announced deadline is later than that of the host, which cancels
// the remaining calls with the reason of the stop.
func (s *service) announceDrain(ctx context.Context, settings Settings) {
	limit := settings.DrainTimeout + settings.StopGrace
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	deadline := time.Now().Add(limit)
	go func() {
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		_, _ = s.wire.Drain(ctx, deadline, "drain") // stop calls Drain again and reports errors
	}()
}

// cut fails the calls in flight with an error that has the reason.
func (s *service) cut(reason Cause) {
	n := s.inFlight()
	if n == 0 {
		return
	}
	e := contract.Errorf("runtime/crashed", "plugin %s (instance %d) was stopped (%s) before it answered", s.name,
		s.incarnation, reason)
	if reason == CauseUnresponsive {
		e = contract.Errorf("runtime/unresponsive", "plugin %s (instance %d) does not answer health probes and is being replaced",
			s.name, s.incarnation)
	}
	s.end(e)
}
