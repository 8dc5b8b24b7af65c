package plugin

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// service is a configured process that takes calls: the part of an instance
// that callers touch. It ends with the process; the next one has its own.
type service struct {
	*process
	instance *instance
	binary   string

	// These are the unit's, under its lock: how many calls it takes at once (0:
	// any number) and has, how many it was given, since when it has none, and
	// whether it was given all that it may answer.
	limit, running, given int
	idleSince             time.Time
	spent                 bool

	// probe asks the owner for a probe now; it never blocks.
	probe func()
	// born is when the process came to its service; answered is how long after
	// that the plugin last gave a sign of life, in nanoseconds: the clock of the
	// machine may be set meanwhile. missed counts probes without one.
	born     time.Time
	answered atomic.Int64
	missed   atomic.Int32
	// over tells the owner when the last call has ended after closing.
	mu      sync.Mutex
	calls   map[string]*inFlight
	runs    map[string]int // calls in flight by run
	served  map[string]bool
	lastID  uint64
	closing bool
	idle    chan struct{}
}

// inFlight is a call that the plugin works on. What it asks of its host on
// behalf of the call is done within this.
type inFlight struct {
	call   dispatch.Call
	ctx    context.Context
	cancel context.CancelCauseFunc

	asking sync.WaitGroup // what is asked on behalf of it

	mu      sync.Mutex
	asked   int
	over    bool
	looked  bool
	handles []string
}

// lostWait is how long a call whose connection broke waits for the process to
// be seen ending, so that it gets the reason and not the symptom. The sockets
// of a process close before its end can be seen; on a busy machine long before.
const lostWait = time.Second

func newService(p *process, i *instance, binary string, probe func()) *service {
	s := &service{
		process: p, instance: i, binary: binary, probe: probe, born: time.Now(),
		calls: map[string]*inFlight{}, runs: map[string]int{}, served: map[string]bool{}, idle: make(chan struct{}),
	}
	context.AfterFunc(p.life, s.processEnded)
	return s
}

// processEnded ends the calls in flight because the process has ended.
func (s *service) processEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		c.cancel(context.Cause(s.life))
	}
}

// errClosing is a call that came after the process was told to take no more:
// nothing of it left the host, and another process may take it.
var errClosing = errors.New("the process takes no calls any more")

// invoke makes one call. The error is typed, or errClosing.
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
	if c.OnDelta != nil {
		on = func(e wire.Event) {
			if e.Kind == wire.Delta {
				c.OnDelta(e.Value)
			}
		}
	}
	v, err := s.wire.InvokeUntil(ctx, c.Stop, callContext(c, id), c.Request, on)
	if err == nil {
		s.alive()
		return v, nil
	}
	return edn.Nil(), s.instance.unit.log.cleanse(s.explain(ctx, err))
}

func callContext(c dispatch.Call, id string) wire.CallContext {
	trace, _ := c.Trace.Key("traceparent").AsString()
	return wire.CallContext{
		TraceParent: trace, Run: c.Run, Node: c.Node, Path: c.Path, Attempt: c.Attempt, Deadline: c.Deadline,
		Budget: c.Budget, Effects: c.Effects, Scope: c.Scope, EffectKey: c.EffectKey, Stack: c.Stack, CallID: id,
	}
}

// explain turns an error of the wire into what happened to the plugin.
func (s *service) explain(ctx context.Context, err error) error {
	if !wire.Transport(err) {
		s.alive() // it was the plugin that said so, or the cause of the end
		return err
	}
	if errors.Is(err, contract.OfType("runtime/crashed")) {
		// The connection broke. Mostly that is the first sign of an exit, which
		// may also have been seen since: then it is what the call is told.
		s.probe()
		timer := time.NewTimer(lostWait)
		defer timer.Stop()
		select {
		case <-s.life.Done():
			return contract.AsError(context.Cause(s.life))
		case <-ctx.Done(): // the caller, or the process: both are the cause of ctx
			return ended(ctx)
		case <-timer.C:
		}
	}
	e := callError(err)
	if e.Type == "timeout/hard" && s.missed.Load() > 0 {
		// ERR-009: not the work is slow, the plugin does not respond at all.
		return contract.Errorf("runtime/unresponsive", "plugin %s (generation %d) did not answer the call, nor a probe", s.name, s.gen)
	}
	return e
}

// watchDeadline has the plugin probed shortly before the deadline of a call
// that it has not answered, so that a timeout can be told from a plugin that
// does not respond. It returns what ends the watch.
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

// alive notes a sign of life.
func (s *service) alive() { s.answered.Store(int64(time.Since(s.born))) }

// silent is how long the plugin has given no sign of life.
func (s *service) silent(now time.Time) time.Duration {
	return now.Sub(s.born) - time.Duration(s.answered.Load())
}

// enter registers a call and gives its handle.
func (s *service) enter(ctx context.Context, cancel context.CancelCauseFunc, c dispatch.Call) (string, *inFlight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return "", nil, errClosing
	}
	s.lastID++
	id := strconv.FormatUint(s.lastID, 36)
	own := &inFlight{call: c, ctx: ctx, cancel: cancel}
	s.calls[id] = own
	if s.life.Err() != nil { // processEnded may have been here before
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

// rest needs s.mu.
func (s *service) rest() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// close takes no more calls; idle is closed when the last one has ended.
func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	if len(s.calls) == 0 {
		s.rest()
	}
}

// inFlight is how many calls the plugin works on.
func (s *service) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// find gives a call in flight.
func (s *service) find(id string) (*inFlight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.calls[id]
	return c, ok
}

// onlyRun is the run of the calls in flight if they all have the same.
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

// forgetRun says whether the process served the run, and forgets it.
func (s *service) forgetRun(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.served[run]
	delete(s.served, run)
	return had
}
