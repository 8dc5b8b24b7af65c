package plugin

import (
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// machine is the state machine of one instance, a function of events without
// processes, clocks and goroutines. Its owner passes events and carries out the
// actions.
//
//	Stopped ──start──> Starting ──started──> Configuring ──ready──> Ready <─> Degraded
//	   ^                  │                      │                     │          │
//	   │                  └──── failed ──────────┴── crashed ──────────┴──────────┤
//	   │                            v                                            v
//	   └──── Draining <── stop   Backoff ──over──> Starting      Quarantined <─ permanent, crash loop
type machine struct {
	restart Restart
	health  Health
	random  func() float64 // returns a number in [0, 1)
	number  func() int     // returns the next incarnation number; nil: incarnation + 1

	state       State
	cause       Cause
	since       time.Time
	callable    bool
	err         *contract.Error
	last        wire.Health
	incarnation int
	misses      int

	failures int         // number of consecutive failures, for the backoff
	starts   []time.Time // times of the restarts within the window
	service  time.Time   // start of the time in service; zero: not in service
	next     time.Time   // end of the current backoff

	after sequel // what follows the current stop
}

// sequel is the transition to make after a process has stopped.
type sequel struct {
	to    State
	cause Cause
	err   *contract.Error
	fail  bool // the stop counts as a failure of the process
}

// Events of a machine. Events of a process have its incarnation number; events of an earlier
// incarnation are ignored.
type (
	evStart   struct{ cause Cause } // empty: CauseStart
	evStarted struct{ incarnation int }
	// evStartFailed reports that a start failed and no process is left.
	evStartFailed struct {
		incarnation int
		cause       Cause
		err         *contract.Error
		report      *launch.Report
		permanent   bool
		refused     bool // not permitted: neither retried nor quarantined
		uncounted   bool // fault of a downstream system; does not count towards quarantine
	}
	evConfigured struct{ incarnation int }
	evHealth     struct {
		incarnation int
		health      wire.Health
	}
	evProbed struct {
		incarnation int
		ok          bool
		why         string // why the answer is not valid; "" without an answer
	}
	evExit struct {
		incarnation int
		clean       bool
		report      *launch.Report
		calls       int             // number of calls in flight
		err         *contract.Error // error of these calls
	}
	// evBroken reports that the process lacks a part of the protocol.
	evBroken struct {
		incarnation int
		err         *contract.Error
	}
	evTimer struct {
		incarnation int
		kind        timerKind
	}
	evStop struct {
		cause Cause           // empty: CauseStop
		err   *contract.Error // the failure that caused it; nil: none
	}
	evRestart    struct{ cause Cause } // empty: CauseRestart
	evRelease    struct{}
	evQuarantine struct{ err *contract.Error }
	// evRules changes the restart and health settings.
	evRules struct {
		restart Restart
		health  Health
	}
)

type timerKind uint8

const (
	timerReady timerKind = iota + 1
	timerBackoff
	timerProbe
)

// Actions of a machine.
type (
	actSpawn struct{ incarnation int }
	actWatch struct{ incarnation int } // read the health stream of the process
	actProbe struct{ incarnation int }
	// actEnd stops the process, after a drain or, if it does not respond,
	// without one.
	actEnd struct {
		incarnation int
		drain       bool
		reason      Cause
	}
	actTimer struct {
		incarnation int
		kind        timerKind
		wait        time.Duration
	}
)

// step handles one event. It returns the transition, nil if the state does not change, and the
// actions to execute.
func (m *machine) step(event any, now time.Time) (*Transition, []any) {
	switch e := event.(type) {
	case evStart:
		if m.state == Stopped {
			return m.start(either(e.cause, CauseStart), now)
		}
	case evRelease:
		if m.state == Quarantined || m.state == Stopped {
			m.failures, m.starts = 0, nil
			return m.start(CauseRelease, now)
		}
	case evStarted:
		if m.current(e.incarnation) && m.state == Starting {
			return m.move(Configuring, CauseStarted, nil, now), nil
		}
	case evConfigured:
		if m.current(e.incarnation) && m.state == Configuring {
			return nil, []any{actWatch{m.incarnation}, m.timer(timerReady, m.health.ReadyTimeout),
				m.timer(timerProbe, m.probeWait())}
		}
	case evStartFailed:
		if m.current(e.incarnation) {
			return m.startFailed(e, now)
		}
	case evHealth:
		if m.current(e.incarnation) && m.state.live() {
			return m.healthy(e.health, now)
		}
	case evProbed:
		if m.current(e.incarnation) && m.state.live() {
			return m.probed(e, now)
		}
	case evExit:
		if m.current(e.incarnation) {
			return m.exited(e, now)
		}
	case evTimer:
		if m.current(e.incarnation) {
			return m.timed(e.kind, now)
		}
	case evBroken:
		if m.current(e.incarnation) && m.state.live() {
			return m.end(sequel{to: Quarantined, cause: CauseProtocol, err: e.err}, CauseProtocol, now)
		}
	case evStop:
		t, acts := m.end(sequel{to: Stopped, cause: CauseStopped}, either(e.cause, CauseStop), now)
		if t != nil {
			t.Err = e.err
		}
		return t, acts
	case evRestart:
		why := either(e.cause, CauseRestart)
		return m.end(sequel{to: Starting, cause: why}, why, now)
	case evRules:
		return m.applyRules(e)
	case evQuarantine:
		return m.end(sequel{to: Quarantined, cause: CauseQuarantine, err: e.err}, CauseQuarantine, now)
	}
	return nil, nil
}

func either(cause, other Cause) Cause {
	if cause == "" {
		return other
	}
	return cause
}

// applyRules applies new settings. They are used from the next probe on; a backoff that has begun
// keeps its duration.
func (m *machine) applyRules(e evRules) (*Transition, []any) {
	shorter := e.health.Interval < m.health.Interval
	m.restart, m.health = e.restart, e.health
	if shorter && m.state.live() {
		return nil, []any{m.timer(timerProbe, m.probeWait())}
	}
	return nil, nil
}

func (m *machine) current(incarnation int) bool { return incarnation == m.incarnation }

// move changes the state. err is the reason why the instance is not ready; nil if it is ready or
// starting.
func (m *machine) move(to State, cause Cause, err *contract.Error, now time.Time) *Transition {
	t := &Transition{Generation: m.incarnation, From: m.state, To: to, Cause: cause, At: now, Err: err}
	m.state, m.cause, m.since = to, cause, now
	if err != nil || !m.again(to, cause) {
		m.err = err
	}
	m.callable = to == Ready || to == Degraded && m.last.State.Callable()
	t.Callable = m.callable
	switch {
	case m.callable && m.service.IsZero():
		m.service = now
	case !to.live():
		m.service = time.Time{}
	}
	return t
}

// again reports whether a move belongs to a restart after a failure. Then m.err keeps that failure
// until the instance is ready.
func (m *machine) again(to State, cause Cause) bool {
	return to == Starting && cause == CauseBackoffOver || to == Configuring
}

// start begins the next incarnation.
func (m *machine) start(cause Cause, now time.Time) (*Transition, []any) {
	if m.number != nil {
		m.incarnation = m.number()
	} else {
		m.incarnation++
	}
	m.misses, m.last, m.after, m.next = 0, wire.Health{}, sequel{}, time.Time{}
	return m.move(Starting, cause, nil, now), []any{actSpawn{m.incarnation}}
}

func (m *machine) timer(kind timerKind, wait time.Duration) actTimer {
	return actTimer{incarnation: m.incarnation, kind: kind, wait: wait}
}

// probeWait returns the time to the next probe, with a jitter of 5 % in both directions, so that
// the probes of many plugins are spread.
func (m *machine) probeWait() time.Duration {
	return time.Duration(float64(m.health.Interval) * (0.95 + 0.1*m.random()))
}

func (m *machine) timed(kind timerKind, now time.Time) (*Transition, []any) {
	switch {
	case kind == timerBackoff && m.state == Backoff:
		return m.start(CauseBackoffOver, now)
	case kind == timerProbe && m.state.live():
		return nil, []any{actProbe{m.incarnation}, m.timer(timerProbe, m.probeWait())}
	case kind == timerReady && m.state == Configuring:
		err := contract.Errorf("runtime/not-ready", "it did not report ready within %s%s", m.health.ReadyTimeout,
			reasonSuffix(m.last.Reason))
		return m.move(Degraded, CauseReadyTimeout, m.withSource(err), now), nil
	}
	return nil, nil
}

// healthy handles a health report. A plugin that reports not ready is only excluded from dispatch;
// waiting callers get the error at once.
func (m *machine) healthy(h wire.Health, now time.Time) (*Transition, []any) {
	m.last = h
	switch h.State {
	case wire.HealthReady:
		if m.state != Ready {
			return m.move(Ready, CauseReady, nil, now), nil
		}
	case wire.HealthDegraded:
		err := m.withSource(contract.Errorf("runtime/not-ready", "it is degraded%s", reasonSuffix(h.Reason)))
		if m.state != Degraded || m.cause != CauseDegraded {
			return m.move(Degraded, CauseDegraded, err, now), nil
		}
		m.err = err
	case wire.HealthNotReady, wire.HealthDraining, wire.HealthStarting, wire.HealthUnknown:
		err := m.withSource(contract.Errorf("runtime/not-ready", "it reports %s%s", h.State, reasonSuffix(h.Reason)))
		if named := namedReason(h.Reason); named != nil {
			err = err.WithCause(named)
		}
		switch {
		case m.state == Configuring && h.State != wire.HealthNotReady:
			m.err = err // still starting: it has until ReadyTimeout to get ready
		case m.state == Degraded && !m.callable:
			m.err = err
		default:
			return m.move(Degraded, CauseNotReady, err, now), nil
		}
	}
	return nil, nil
}

// withSource sets the source of an error to the one that the plugin reported.
func (m *machine) withSource(err *contract.Error) *contract.Error {
	if m.last.Source != 0 {
		return err.WithSource(m.last.Source)
	}
	return err.WithSource(contract.SourcePlugin)
}

// probed handles the result of a probe.
func (m *machine) probed(e evProbed, now time.Time) (*Transition, []any) {
	if e.ok {
		m.misses = 0
		return nil, nil
	}
	m.misses++
	if m.misses < m.health.Misses {
		return nil, nil
	}
	err := contract.Errorf("runtime/unresponsive", "no answer to %d health probes in a row, each with a timeout of %s", m.misses,
		m.health.Timeout)
	if e.why != "" {
		err = contract.Errorf("runtime/unresponsive", "%s: %s", err.Message, e.why)
	}
	m.after = sequel{fail: true, cause: CauseUnresponsive, err: err}
	t := m.move(Draining, CauseUnresponsive, err, now)
	return t, []any{actEnd{incarnation: m.incarnation, reason: CauseUnresponsive}}
}

// startFailed handles a failed start.
func (m *machine) startFailed(e evStartFailed, now time.Time) (*Transition, []any) {
	var t *Transition
	var acts []any
	switch {
	case m.state == Draining:
		t, acts = m.ended(now)
	case m.state != Starting && m.state != Configuring:
		return nil, nil
	case e.refused:
		t = m.move(Stopped, e.cause, e.err, now)
	case e.permanent:
		t = m.move(Quarantined, e.cause, e.err, now)
	default:
		t, acts = m.failed(e.cause, e.err, e.uncounted, now)
	}
	t.Report = e.report
	return t, acts
}

// exited handles the exit of a configured process.
func (m *machine) exited(e evExit, now time.Time) (*Transition, []any) {
	var t *Transition
	var acts []any
	switch {
	case m.state == Draining:
		t, acts = m.ended(now)
	case !m.state.live():
		return nil, nil
	case e.clean && e.calls == 0: // with calls in flight, exit status 0 is a crash too
		t, acts = m.failed(CauseExited, e.err, false, now)
	default:
		t, acts = m.failed(CauseCrashed, e.err, false, now)
	}
	t.Report = e.report
	return t, acts
}

// ended handles the exit of a process that was being stopped.
func (m *machine) ended(now time.Time) (*Transition, []any) {
	after := m.after
	switch {
	case after.fail:
		return m.failed(after.cause, after.err, false, now)
	case after.to == Starting:
		m.failures, m.starts = 0, nil
		return m.start(after.cause, now)
	case after.to == Quarantined:
		return m.move(Quarantined, after.cause, after.err, now), nil
	default:
		return m.move(Stopped, after.cause, nil, now), nil
	}
}

// failed decides what follows after a process ended or failed by itself: stop, quarantine or
// backoff.
func (m *machine) failed(cause Cause, err *contract.Error, uncounted bool, now time.Time) (*Transition, []any) {
	if !m.service.IsZero() && now.Sub(m.service) >= m.restart.ResetAfter {
		m.failures, m.starts = 0, nil
	}
	if m.restart.Policy == Never || cause == CauseExited && m.restart.Policy == OnFailure {
		return m.move(Stopped, cause, err, now), nil
	}
	m.starts = launch.Recent(m.starts, m.restart.Window, now)
	if !uncounted {
		if len(m.starts) >= m.restart.Max {
			loop := contract.Errorf("runtime/quarantined", "it failed %d times within %s", len(m.starts)+1, m.restart.Window).
				WithCause(err)
			return m.move(Quarantined, CauseCrashLoop, loop, now), nil
		}
		m.starts = append(m.starts, now)
	}
	m.failures++
	wait := m.restart.delay(m.failures, m.random())
	t := m.move(Backoff, cause, err, now)
	m.next, t.Delay = now.Add(wait), wait
	return t, []any{m.timer(timerBackoff, wait)}
}

// delay returns the wait before the restart after n consecutive failures.
func (r Restart) delay(n int, random float64) time.Duration {
	return time.Duration(float64(launch.Backoff(n, r.Backoff, r.MaxBackoff)) * (1 + r.Jitter*(2*random-1)))
}

// end stops the process on request.
func (m *machine) end(then sequel, cause Cause, now time.Time) (*Transition, []any) {
	switch m.state {
	case Stopped, Backoff, Quarantined:
		return m.endIdle(then, now)
	case Draining:
		// The later request replaces the earlier one, but a stop is final.
		if m.after.fail || m.after.to != Stopped {
			m.after, m.cause = then, cause
		}
		return nil, nil
	}
	m.after = then
	return m.move(Draining, cause, then.err, now), []any{actEnd{incarnation: m.incarnation, drain: true, reason: cause}}
}

// endIdle is end for an instance without a process.
func (m *machine) endIdle(then sequel, now time.Time) (*Transition, []any) {
	switch {
	case then.to == Starting:
		m.failures, m.starts = 0, nil
		return m.start(then.cause, now)
	case then.to == m.state:
		return nil, nil
	case then.to == Stopped && m.state == Quarantined:
		return nil, nil // the quarantine stays visible to operators
	}
	m.next = time.Time{}
	return m.move(then.to, then.cause, then.err, now), nil
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// namedReason returns the error that a plugin states in the reason of its health, such as
// ":provider/not-configured: there is no key"; nil for any other text.
func namedReason(reason string) *contract.Error {
	name, sentence, found := strings.Cut(reason, ": ")
	typ, keyword := strings.CutPrefix(name, ":")
	if !found || !keyword {
		return nil
	}
	if _, known := contract.Lookup(typ); !known {
		return nil
	}
	return contract.Errorf(typ, "%s", sentence)
}
