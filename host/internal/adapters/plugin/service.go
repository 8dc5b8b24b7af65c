package plugin

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// service is a configured process that accepts calls: the part of an instance that callers use.
// Each process has its own.
type service struct {
	*process
	instance *instance
	binary   string

	// Guarded by unit.mu: the maximum number of concurrent calls (0: unlimited), their current
	// number and the number of all calls given, the start of the idle time, and whether the process
	// must not get further calls.
	limit, running, given int
	idleSince             time.Time
	spent                 bool
	// late is set if the process is replaced because canceled calls continue in it.
	late *contract.Error

	// probe requests a probe from the owner; it never blocks.
	probe func()
	// born is the start of the service; answered is the time from born to the last response of the
	// plugin, in nanoseconds, independent of the wall clock. missed is the number of probes without
	// an answer since then.
	born     time.Time
	answered atomic.Int64
	missed   atomic.Int32
	// idle is closed when the last call has ended after close.
	mu      sync.Mutex
	calls   map[string]*inFlight
	runs    map[string]int // number of calls in flight by run
	served  map[string]bool
	lastID  uint64
	overdue overdue
	closing bool
	idle    chan struct{}
}

// inFlight is a call that the plugin works on. Its nested requests to the host
// are bounded by it.
type inFlight struct {
	call   dispatch.Call
	ctx    context.Context
	cancel context.CancelCauseFunc

	asking sync.WaitGroup // nested requests

	mu      sync.Mutex
	began   time.Time
	asked   int // requests to the host, of which some are open
	open    int
	over    bool
	looked  bool
	handles []string
}

// lostWait is the time that a call with a broken connection waits for the exit of the process, so
// that its error is the cause and not the symptom. The sockets of a process are closed before its
// exit is noticed; on a busy machine long before.
const lostWait = time.Second

func newService(p *process, i *instance, binary string, probe func()) *service {
	s := &service{
		process: p, instance: i, binary: binary, probe: probe, born: time.Now(),
		calls: map[string]*inFlight{}, runs: map[string]int{}, served: map[string]bool{}, idle: make(chan struct{}),
	}
	context.AfterFunc(p.life, s.processEnded)
	return s
}

// processEnded cancels the calls in flight after the process has ended.
func (s *service) processEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		c.cancel(context.Cause(s.life))
	}
}

// errClosing is the error of a call after close: nothing of it left the host,
// and another process may take it.
var errClosing = errors.New("the process no longer accepts calls")

// invoke makes one call. The error is errClosing or a *contract.Error.
func (s *service) invoke(ctx context.Context, c dispatch.Call, probeTimeout time.Duration) (edn.Value, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	id, own, err := s.enter(ctx, cancel, c)
	if err != nil {
		return edn.Nil(), err
	}
	defer s.leave(id, c.Run)
	defer own.end()
	defer s.watchDeadline(c.Deadline, probeTimeout)()

	var on func(wire.Event)
	if c.OnDelta != nil || c.OnProgress != nil {
		on = func(e wire.Event) {
			switch {
			case e.Kind == wire.Delta && c.OnDelta != nil:
				c.OnDelta(e.Value)
			case e.Kind == wire.Progress && c.OnProgress != nil:
				c.OnProgress(e.Value)
			}
		}
	}
	v, err := s.wire.InvokeUntil(ctx, c.Stop, callContext(c, id, s.instance.unit.host.sampled(c.Run, c.Trace)), c.Request, on)
	if err == nil {
		s.alive()
		return v, nil
	}
	if s.refused(err) {
		return edn.Nil(), errClosing
	}
	if s.life.Err() == nil && (ctx.Err() != nil || isClosed(c.Stop) || wire.Transport(err)) {
		s.cutShort()
	}
	return edn.Nil(), s.instance.unit.log.cleanse(s.explain(ctx, err))
}

// refused reports whether the plugin rejected a call because it is being drained: the call was sent
// before the drain was announced, and another process can execute it.
func (s *service) refused(err error) bool {
	var e *contract.Error
	if !errors.As(err, &e) || e.Type != "runtime/not-ready" {
		return false
	}
	reason, _ := e.Details.Key("reason").AsKeyword()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing && reason == "draining"
}

// callContext returns the context of a call. Its trace context is the span of its attempt; calls
// that are not attempts, such as those of gates, have the span of the run.
func callContext(c dispatch.Call, id string, sampled bool) wire.CallContext {
	attempt := c.Attempt
	if c.Shadow {
		attempt = 0
	}
	span := spans.CallContext(c.Run, c.Epoch, c.Trace, c.Path, attempt)
	return wire.CallContext{
		TraceParent: span.TraceParent(sampled), Run: c.Run, Node: c.Node, Path: c.Path, Attempt: c.Attempt, Deadline: c.Deadline,
		Budget: c.Budget, Effects: c.Effects, Scope: c.Scope, EffectKey: c.EffectKey, Stack: c.Stack, CallID: id,
		Principal: c.Principal, Permits: c.Permits,
	}
}

// explain converts an error of the wire package into the failure of the plugin.
func (s *service) explain(ctx context.Context, err error) error {
	if !wire.Transport(err) {
		s.alive() // the plugin has sent the error
		return err
	}
	if errors.Is(err, contract.OfType("runtime/crashed")) {
		// The connection broke. Usually that is the first sign of an exit, which should be the
		// error of the call.
		s.probe()
		timer := time.NewTimer(lostWait)
		defer timer.Stop()
		select {
		case <-s.life.Done():
			return contract.AsError(context.Cause(s.life))
		case <-ctx.Done(): // canceled by the caller or by the exit
			return ended(ctx)
		case <-timer.C:
		}
	}
	e := callError(err)
	if e.Type == "timeout/hard" && s.missed.Load() > 0 {
		// ERR-009: the plugin does not respond at all.
		return contract.Errorf("runtime/unresponsive", "plugin %s (instance %d) answered neither the call nor a health probe",
			s.name, s.incarnation)
	}
	return e
}

// watchDeadline probes the plugin shortly before the deadline of an unanswered call, to distinguish
// a timeout from a plugin that does not respond. The caller must call the returned function, which
// stops the timer.
func (s *service) watchDeadline(deadline time.Time, probeTimeout time.Duration) func() {
	left := time.Until(deadline)
	if deadline.IsZero() || left <= probeTimeout*5/4 {
		return func() {}
	}
	timer := time.AfterFunc(left-probeTimeout*5/4, func() {
		if s.silent(time.Now()) > probeTimeout {
			s.probe()
		}
	})
	return func() { timer.Stop() }
}

// alive records a response of the plugin.
func (s *service) alive() { s.answered.Store(int64(time.Since(s.born))) }

// silent returns the time since the last response of the plugin.
func (s *service) silent(now time.Time) time.Duration {
	return now.Sub(s.born) - time.Duration(s.answered.Load())
}

// enter registers a call and returns its id. The error is errClosing after close.
func (s *service) enter(ctx context.Context, cancel context.CancelCauseFunc, c dispatch.Call,
) (string, *inFlight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return "", nil, errClosing
	}
	s.lastID++
	id := strconv.FormatUint(s.lastID, 36)
	own := &inFlight{call: c, ctx: ctx, cancel: cancel, began: s.instance.unit.host.clock.Now()}
	s.calls[id] = own
	if s.life.Err() != nil { // processEnded may have run before this
		cancel(context.Cause(s.life))
	}
	if c.Run != "" {
		s.runs[c.Run]++
		s.served[c.Run] = true
	}
	return id, own, nil
}

func (s *service) leave(id, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, id)
	if run != "" {
		if s.runs[run]--; s.runs[run] == 0 {
			delete(s.runs, run)
		}
	}
	if s.closing && len(s.calls) == 0 {
		s.rest()
	}
}

// rest closes idle. The caller holds s.mu.
func (s *service) rest() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// close makes the service reject further calls; idle is closed when the last call has ended.
func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	if len(s.calls) == 0 {
		s.rest()
	}
}

// inFlight returns the number of calls in flight.
func (s *service) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// find returns a call in flight.
func (s *service) find(id string) (*inFlight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.calls[id]
	return c, ok
}

// onlyRun returns the run of the calls in flight if all have the same one, else "".
func (s *service) onlyRun() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) == 1 {
		for run := range s.runs {
			return run
		}
	}
	return ""
}

// forgetRun deletes a run from those that the process served, and reports whether it was one of
// them.
func (s *service) forgetRun(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.served[run]
	delete(s.served, run)
	return had
}
