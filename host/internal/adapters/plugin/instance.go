package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// instance is one process slot of an edition. One goroutine owns it: only this
// goroutine touches the machine and decides. Slow work runs in other
// goroutines, which report back with an event.
type instance struct {
	unit    *unit
	edition *edition
	index   int
	why     Cause // reason for the creation

	// Guarded by unit.mu: its role, the service that accepts calls, and whether
	// it is being stopped.
	role    Role
	open    *service
	leaving bool
	quit    chan struct{}   // closed by retire
	cause   Cause           // of retire
	fault   *contract.Error // the failure that caused retire; nil: none

	events chan any
	over   chan struct{} // closed when the owner goroutine has returned
	ctx    context.Context
	cancel context.CancelFunc // aborts a start, shortens a stop

	// Owned by the goroutine of the instance.
	machine machine
	cur     *service // the running process, configured or not
	timers  map[timerKind]func()
	abort   context.CancelFunc // aborts the current start
	probing int                // incarnation that is being probed, 0: none
	revive  bool               // start again after the current stop
	work    sync.WaitGroup

	// Readable from any goroutine.
	status atomic.Pointer[Status]
	living atomic.Pointer[service] // the configured process, while it exists
}

func newInstance(e *edition, index int, why Cause) *instance {
	u, settings := e.unit, e.settings()
	i := &instance{
		unit: u, edition: e, index: index, why: why, role: Working, quit: make(chan struct{}),
		events: make(chan any, 64), over: make(chan struct{}), timers: map[timerKind]func(){},
		machine: machine{
			restart: settings.Restart, health: settings.Health, random: u.host.random, number: u.number,
			state: Stopped, cause: CauseStopped, since: u.host.clock.Now(),
		},
	}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.publish()
	return i
}

// post sends an event to the owner; it is dropped after the owner has returned.
func (i *instance) post(event any) {
	select {
	case i.events <- event:
	case <-i.over:
	}
}

// begin starts the first process synchronously, and then the owner goroutine.
func (i *instance) begin() {
	i.handle(evStart{cause: i.why})
	go i.live()
}

// own is the owner goroutine of an instance for which begin was not called.
func (i *instance) own() {
	i.handle(evStart{cause: i.why})
	i.live()
}

// live handles events until the instance is retired and has no process.
func (i *instance) live() {
	defer func() {
		i.cancel()
		close(i.over)
		i.unit.gone(i)
	}()
	quit := i.quit
	for {
		select {
		case event := <-i.events:
			i.take(event, quit != nil)
		case <-quit:
			quit = nil
			i.handle(evStop{cause: i.cause, err: i.fault})
		}
		if quit == nil && (i.machine.state == Stopped || i.machine.state == Quarantined) {
			i.settle()
			return
		}
	}
}

// take handles one event. An instance that an operator released or restarted while it was being
// stopped starts again, unless it is retired (stays is false).
func (i *instance) take(event any, stays bool) {
	if told, ok := event.(evAcked); ok {
		defer close(told.handled)
		event = told.event
	}
	i.noteOrder(event)
	i.handle(event)
	if i.revive && (i.machine.state == Stopped || i.machine.state == Quarantined) && stays {
		i.revive = false
		i.handle(evRelease{})
	}
}

// noteOrder records whether an operator released or restarted a process that is
// being stopped.
func (i *instance) noteOrder(event any) {
	switch event.(type) {
	case evRelease, evRestart:
		i.revive = i.machine.state == Draining
	case evStop, evQuarantine, evReadyProcess:
		i.revive = false
	}
}

// settle waits for the goroutines of the instance and drops the events that they post.
func (i *instance) settle() {
	i.stopTimers()
	idle := make(chan struct{})
	go func() { defer close(idle); i.work.Wait() }()
	for {
		select {
		case <-i.events:
		case <-idle:
			return
		}
	}
}

// handle handles one event. The new state is visible before the callers of an ended process get
// their error; after both, the sink is called.
func (i *instance) handle(event any) {
	switch e := event.(type) {
	case evReadyProcess:
		i.adopt(e.service)
		if i.machine.state != Configuring {
			// The instance was stopped while the process started.
			i.endProcess(actEnd{incarnation: e.service.incarnation, reason: CauseStop})
			return
		}
		event = evConfigured{incarnation: e.service.incarnation}
	case evExit:
		event = i.prepareExit(e)
	case evProbe:
		i.probe(i.machine.incarnation)
		return
	case evProbeDone:
		if i.probing == e.incarnation {
			i.probing = 0
		}
		event = evProbed(e)
		if i.cur != nil && i.cur.incarnation == e.incarnation && !e.ok {
			i.cur.missed.Add(1)
		} else if i.cur != nil && e.ok {
			i.cur.missed.Store(0)
		}
	}
	t, acts := i.machine.step(event, i.unit.host.clock.Now())
	if t != nil {
		t.Plugin, t.Instance, t.Edition = i.unit.name, i.index, i.edition.number
		if i.cur != nil {
			t.PID = i.cur.pid()
		}
		if t.Report != nil && t.PID == 0 {
			t.PID = t.Report.PID
		}
	}
	i.route(t)
	if e, ok := event.(evExit); ok {
		i.finishExit(e)
		if t != nil {
			t.Calls = e.calls
		}
	}
	if e, ok := event.(evHealth); ok && len(e.health.Capabilities) > 0 && e.incarnation == i.machine.incarnation {
		i.reportHealth(e)
	}
	if t != nil {
		if t.Err != nil {
			i.unit.explain(t)
		}
		i.unit.host.sink.Transition(*t)
	}
	for _, act := range acts {
		i.do(act)
	}
}

// reportHealth passes the health of single capabilities to the sink, if the
// instance belongs to the current edition.
func (i *instance) reportHealth(e evHealth) {
	i.unit.mu.Lock()
	current := i.unit.current == i.edition && !i.leaving
	i.unit.mu.Unlock()
	if current {
		i.unit.host.sink.Health(Statement{
			Plugin:       i.unit.name,
			Generation:   e.incarnation,
			At:           i.unit.host.clock.Now(),
			Capabilities: e.health.Capabilities,
		})
	}
}

// route publishes the state and, atomically with it, whether calls reach the
// process.
func (i *instance) route(t *Transition) {
	var open *service
	if i.machine.callable {
		open = i.cur
	}
	i.unit.place(i, open, i.edition.capacity(i.machine.last.MaxInFlight))
	if t != nil && i.cur != nil && !t.To.live() {
		i.cur.close()
	}
}

// finishExit ends the calls of an ended process with its error and releases its
// resources.
func (i *instance) finishExit(e evExit) {
	if i.cur == nil || i.cur.incarnation != e.incarnation {
		return
	}
	dead := i.cur
	i.cur = nil
	i.living.Store(nil)
	dead.end(e.err)
	i.work.Go(func() { dead.discard(e.err) })
}

// adopt makes a configured process the current one and starts a goroutine that waits for its exit.
func (i *instance) adopt(s *service) {
	i.cur = s
	i.living.Store(s)
	if d := i.edition.described.Load(); d != nil {
		if open := i.edition.settings().Confinement(d.Description).accepted(); open != "" {
			i.unit.note(s.process, "warn", "isolation with best_effort: "+open)
		}
	}
	// Not in i.work, for which the owner waits at its end: a process that SIGKILL does not end must
	// not block the host.
	go func() {
		<-s.done()
		i.postExit(s)
	}()
}

func (i *instance) postExit(s *service) {
	rep := s.report()
	i.post(evExit{incarnation: s.incarnation, clean: rep.Exited && rep.Exit.Clean(), report: &rep})
}

// prepareExit counts the calls that an exit interrupts and creates the error that all of them get
// (ERR-004).
func (i *instance) prepareExit(e evExit) evExit {
	s := i.cur
	if s == nil || s.incarnation != e.incarnation {
		return e
	}
	i.unit.withdraw(i)
	s.close()
	e.calls = s.inFlight()
	e.err = crashError(s.name, s.incarnation, *e.report, e.calls)
	return e
}

// Events that only the instance handles.
type (
	evReadyProcess struct{ service *service }
	evProbe        struct{}
	// evAcked wraps an event whose sender waits until it is handled.
	evAcked struct {
		event   any
		handled chan struct{}
	}
	evProbeDone struct {
		incarnation int
		ok          bool
		why         string
	}
)

// do executes an action of the machine.
func (i *instance) do(act any) {
	switch a := act.(type) {
	case actSpawn:
		ctx, abort := context.WithCancel(i.ctx)
		i.abort = abort
		i.work.Go(func() {
			defer abort()
			i.launch(ctx, a.incarnation)
		})
	case actWatch:
		s := i.cur
		i.work.Go(func() { i.watch(s) })
	case actProbe:
		i.probe(a.incarnation)
	case actTimer:
		if stop := i.timers[a.kind]; stop != nil {
			stop()
		}
		i.timers[a.kind] = i.unit.host.clock.AfterFunc(a.wait,
			func() { i.post(evTimer{incarnation: a.incarnation, kind: a.kind}) })
	case actEnd:
		i.endProcess(a)
	}
}

func (i *instance) stopTimers() {
	for _, stop := range i.timers {
		stop()
	}
}

// endProcess stops the process, or aborts a start that has not created one yet.
func (i *instance) endProcess(a actEnd) {
	s := i.cur
	if s == nil {
		if i.abort != nil {
			i.abort()
		}
		return
	}
	i.work.Go(func() {
		s.stop(i.ctx, stopping{settings: i.edition.settings(), reason: a.reason, drain: a.drain})
		if !waitFor(s.done(), reapWait) {
			i.unit.note(s.process, "error", "the process could not be killed; the host goes on without it")
			i.postExit(s)
		}
	})
}

// probe sends one health probe, unless one is in flight.
func (i *instance) probe(incarnation int) {
	s := i.cur
	if s == nil || s.incarnation != incarnation || i.probing == incarnation || !i.machine.state.live() {
		return
	}
	i.probing = incarnation
	i.work.Go(func() {
		if err := s.checkSocketDir(); err != nil {
			i.post(evBroken{incarnation: s.incarnation, err: err})
		}
		ctx, cancel := context.WithTimeout(s.life, i.edition.settings().Health.Timeout)
		defer cancel()
		calls := s.countCalls(i.unit.host.clock.Now())
		h, err := s.wire.Probe(ctx)
		// An error sent by the plugin proves that it responds.
		ok := err == nil || !wire.Transport(err)
		if ok {
			s.alive()
		}
		if err == nil {
			i.post(evHealth{incarnation: s.incarnation, health: h})
			late, again := s.compare(calls, h.InFlight, i.unit.host.clock.Now())
			if late > 0 {
				i.unit.replaceLate(s, late)
			} else if again {
				s.probeLater()
			}
		}
		why := ""
		if !ok && ctx.Err() == nil && errors.Is(err, contract.OfType("runtime/protocol")) {
			why = err.Error() // not silence: the answer violates the contract
		}
		if !ok {
			// A broken connection fails at once, and the connection of an
			// exiting process breaks before its exit is seen. Only a full
			// timeout counts as a miss.
			<-ctx.Done()
		}
		i.post(evProbeDone{incarnation: s.incarnation, ok: ok || s.life.Err() != nil, why: why})
	})
}

// watch reads the health stream until the process ends. If the stream breaks, it is opened again
// after an interval; in the meantime probes detect whether the process responds.
func (i *instance) watch(s *service) {
	broken := s.wire.Broken()
	defer context.AfterFunc(broken, func() {
		i.post(evBroken{incarnation: s.incarnation, err: contract.AsError(context.Cause(broken))})
	})()
	pace := &healthPace{clock: i.unit.host.clock, take: func(h wire.Health, dropped int) {
		if dropped > 0 {
			i.unit.note(s.process, "warn", fmt.Sprintf("the health changes faster than it is read: %d events were dropped", dropped))
		}
		i.post(evHealth{incarnation: s.incarnation, health: h})
	}}
	defer pace.close()
	for s.life.Err() == nil {
		err := s.wire.Watch(s.life, func(h wire.Health) error {
			s.alive()
			pace.add(h)
			return nil
		})
		if s.life.Err() != nil || err != nil && waitFor(s.life.Done(), lostWait) {
			return // the exit explains more than the stream
		}
		var line *wire.TransportError
		if errors.As(err, &line) && line.Code == codes.Unimplemented {
			i.post(evBroken{incarnation: s.incarnation,
				err: contract.Errorf("runtime/protocol", "the plugin does not serve Health: %w", line)})
			return
		}
		if err != nil {
			i.unit.note(s.process, "warn", "health stream: "+err.Error())
		}
		waitFor(s.life.Done(), i.edition.settings().Health.Interval)
	}
}

// launch starts, describes and configures a process, and posts either the
// service or the failure.
func (i *instance) launch(ctx context.Context, incarnation int) {
	s, err := i.edition.start(ctx, i, incarnation, func() { i.post(evStarted{incarnation: incarnation}) })
	if err == nil {
		i.post(evReadyProcess{service: s})
		return
	}
	i.post(evStartFailed{
		incarnation: incarnation,
		cause:       err.cause,
		err:         err.err,
		report:      err.report,
		permanent:   err.permanent,
		refused:     err.refused,
		uncounted:   err.uncounted,
	})
}

// notServing returns the error for a plugin that does not accept calls. The message ends with the
// root cause, because many readers see only the message.
func notServing(name string, state State, why *contract.Error) *contract.Error {
	typ := "runtime/not-ready"
	if state == Quarantined {
		typ = "runtime/quarantined"
	}
	root := ""
	for cause := range why.Chain() {
		root = ": " + cause.Message
	}
	text := fmt.Sprintf("plugin %s is %s%s", name, state, root)
	e := contract.Errorf(typ, "%s", text).WithDetail("state", edn.K(string(state)))
	if state == Stopped || state == Quarantined {
		e = e.WithHint("\"ferment plugin list\" shows why; \"ferment plugin release " + name + "\" starts it")
	}
	if why != nil {
		e = e.WithCause(why)
		if typ == "runtime/not-ready" && (why.Source == contract.SourceDownstream || why.Source == contract.SourcePlugin) {
			e = e.WithSource(why.Source)
		}
	}
	return e
}

// publish makes the state of the machine visible. It needs u.mu once the
// instance is part of the unit.
func (i *instance) publish() {
	m := &i.machine
	st := Status{
		Plugin: i.unit.name, Instance: i.index, Edition: i.edition.number, Generation: m.incarnation,
		State: m.state, Cause: m.cause, Since: m.since, Callable: m.callable, Err: m.err,
		Health: m.last, Restarts: len(m.starts), Misses: m.misses, NextStart: m.next, Command: i.edition.settings().Command,
	}
	if i.cur != nil {
		st.PID = i.cur.pid()
	}
	st.capHealth = byName(m.last.Capabilities)
	if d := i.edition.described.Load(); d != nil {
		st.Name, st.Version, st.Binary, st.Features = d.Name, d.Version, d.Binary, d.Features
		c := i.edition.settings().Confinement(d.Description)
		st.Confinement = &c
	}
	i.status.Store(&st)
}

// snapshot returns the published status with the values that change with every call. The caller
// holds u.mu.
func (i *instance) snapshot() Status {
	st := *i.status.Load()
	st.Role, st.Queued = i.role, len(i.unit.waiting)
	if s := i.living.Load(); s != nil {
		st.InFlight, st.Served = s.inFlight(), s.given
		if s.late != nil && st.Err == nil {
			st.Err = s.late
		}
	}
	switch u := i.unit; {
	case i.leaving:
		st.Role = Leaving
	case u.trial != nil && u.trial.edition == i.edition:
		st.Role = Trial
	case u.current != i.edition:
		st.Role = Staged
	}
	return st
}
