package plugin

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

// killWait is what the last rung of the ladder may take.
const killWait = 500 * time.Millisecond

// stopping is what the ladder of one process needs.
type stopping struct {
	settings Settings
	reason   Cause
	drain    bool // calls in flight may end by themselves
}

// stop takes a process down: no new calls, time for those in flight, then the
// rungs of the ladder, each more emphatic. It returns when the process is gone,
// or was killed and is still there after killWait. A second caller of ctx's
// cancel function goes straight to SIGKILL.
func (s *service) stop(ctx context.Context, how stopping) []launch.StepResult {
	grace := how.settings.StopGrace
	begin := time.Now()
	if how.drain && s.awaitIdle(ctx, how.settings) {
		begin = time.Now() // a plugin that responds gets the whole grace
	}
	s.cut(how.reason)
	// A quarter of what is left for each of the first rungs, so that a plugin
	// which is deaf to all of them still gets SIGTERM with time to spare.
	rung := max(0, grace-time.Since(begin)) / 4
	steps := []launch.Step{
		{Name: "drain", Limit: rung, Do: func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			_, err := s.wire.Drain(ctx, deadline, string(how.reason))
			return err
		}},
		{Name: "close-stdin", Limit: rung, Await: true, Do: func(context.Context) error {
			return s.runner.Process().CloseStdin()
		}},
		{Name: "shutdown", Limit: rung, Await: true, Do: s.shutdown},
		{Name: "terminate", Limit: rung, Await: true, Do: func(context.Context) error {
			return s.runner.Terminate()
		}},
		{Name: "kill", Limit: killWait, Await: true, Last: true, Do: s.runner.Kill},
	}
	return launch.Stop(ctx, s.done(), steps)
}

// awaitIdle waits until the calls in flight have ended, at most DrainTimeout,
// and no longer than the plugin answers probes. It reports whether the plugin
// still responds.
func (s *service) awaitIdle(ctx context.Context, settings Settings) bool {
	if s.inFlight() == 0 {
		return true
	}
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

// cut ends the calls that are still in flight.
func (s *service) cut(reason Cause) {
	n := s.inFlight()
	if n == 0 {
		return
	}
	e := contract.Errorf("runtime/crashed", "plugin %s (generation %d) was stopped (%s) before it answered", s.name, s.gen, reason)
	if reason == CauseUnresponsive {
		e = contract.Errorf("runtime/unresponsive", "plugin %s (generation %d) does not answer probes and is being replaced", s.name, s.gen)
	}
	s.end(e)
}
