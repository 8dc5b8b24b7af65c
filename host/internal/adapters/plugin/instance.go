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

// instance is one process slot of an edition. One goroutine owns it: it alone
// touches the machine and decides. What takes time runs beside it and reports
// back with an event.
type instance struct {
	unit    *unit
	edition *edition
	index   int
	why     Cause // for which it was made

	// With the lock of the unit: what it is there for, the process that may be
	// called, and whether it is to end.
	role    Role
	open    *service
	leaving bool
	quit    chan struct{} // closed when it is to end
	cause   Cause         // for which it is to end

	events chan any
	over   chan struct{} // closed when the owner has returned
	ctx    context.Context
	cancel context.CancelFunc // ends starts and cuts stops short

	// Only the owner touches these.
	machine machine
	cur     *service // the process that runs, configured or not
	timers  map[timerKind]func()
	abort   context.CancelFunc // of the start under way
	probing int                // generation that is being probed, 0: none
	revive  bool               // somebody wants it back although it is being stopped
	work    sync.WaitGroup

	// Everybody reads these.
	status atomic.Pointer[Status]
	living atomic.Pointer[service] // the configured process that exists
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

// post hands an event to the owner; after the end of the owner it is dropped.
func (i *instance) post(event any) {
	select {
	case i.events <- event:
	case <-i.over:
	}
}

// begin starts the first process and the goroutine of the instance.
func (i *instance) begin() {
	i.handle(evStart{cause: i.why})
	go i.live()
}

// own is the goroutine of an instance that nobody has begun.
func (i *instance) own() {
	i.handle(evStart{cause: i.why})
	i.live()
}

// live decides until the instance is to end and no process is left.
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
			i.handle(evStop{cause: i.cause})
		}
		if quit == nil && (i.machine.state == Stopped || i.machine.state == Quarantined) {
			i.settle()
			return
		}
	}
}

// take handles one event. A process that was stopped while somebody wanted it
// back begins anew, if the instance is not to end.
func (i *instance) take(event any, stays bool) {
	if told, ok := event.(evTold); ok {
		defer close(told.heard)
		event = told.event
	}
	i.wish(event)
	i.handle(event)
	if i.revive && i.machine.state == Stopped && stays {
		i.revive = false
		i.handle(evRelease{})
	}
}

// wish remembers what an operator wants of a process that is being stopped.
func (i *instance) wish(event any) {
	switch event.(type) {
	case evRelease, evRestart:
		i.revive = i.machine.state == Draining
	case evStop, evQuarantine, evReadyProcess:
		i.revive = false
	}
}

// settle waits for everything that runs beside the owner. What it reports now
// changes nothing any more.
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

// handle takes one event. Callers of a process that ended are told after the
// new state can be seen and before anybody else is told.
func (i *instance) handle(event any) {
	switch e := event.(type) {
	case evReadyProcess:
		i.adopt(e.service)
		if i.machine.state != Configuring {
			// It was wanted when its start began and is not wanted any more.
			i.endProcess(actEnd{gen: e.service.gen, reason: CauseStop})
			return
		}
		event = evConfigured{gen: e.service.gen}
	case evExit:
		event = i.mourn(e)
	case evProbe:
		i.probe(i.machine.gen)
		return
	case evProbeDone:
		if i.probing == e.gen {
			i.probing = 0
		}
		event = evProbed(e)
		if i.cur != nil && i.cur.gen == e.gen && !e.ok {
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
		i.bury(e)
		if t != nil {
			t.Calls = e.calls
		}
	}
	if e, ok := event.(evHealth); ok && len(e.health.Capabilities) > 0 && e.gen == i.machine.gen {
		i.told(e)
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

// told hands on what the process says of single capabilities, if it is one that
// calls go to.
func (i *instance) told(e evHealth) {
	i.unit.mu.Lock()
	current := i.unit.current == i.edition && !i.leaving
	i.unit.mu.Unlock()
	if current {
		i.unit.host.sink.Health(Statement{Plugin: i.unit.name, Generation: e.gen, At: i.unit.host.clock.Now(), Capabilities: e.health.Capabilities})
	}
}

// route makes the state visible and lets callers reach the process as long as it
// takes calls, both at once.
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

// bury tells the callers of a process why it ended, and clears up after it.
func (i *instance) bury(e evExit) {
	if i.cur == nil || i.cur.gen != e.gen {
		return
	}
	dead := i.cur
	i.cur = nil
	i.living.Store(nil)
	dead.end(e.err)
	i.work.Go(func() { dead.discard(e.err) })
}

// adopt makes a configured process the one of the instance and follows it.
func (i *instance) adopt(s *service) {
	i.cur = s
	i.living.Store(s)
	if d := i.edition.described.Load(); d != nil {
		if open := i.edition.settings().Confinement(d.Description).accepted(); open != "" {
			i.unit.note(s.process, "warn", "isolation with best_effort: "+open)
		}
	}
	// Not one of those that the end of the owner waits for: a process that even
	// SIGKILL does not end must not hold the host.
	go func() {
		<-s.done()
		i.postExit(s)
	}()
}

func (i *instance) postExit(s *service) {
	rep := s.report()
	i.post(evExit{gen: s.gen, clean: rep.Exited && rep.Exit.Clean(), report: &rep})
}

// mourn counts the calls that an exit cut and makes the one error that all of
// them get (ERR-004).
func (i *instance) mourn(e evExit) evExit {
	s := i.cur
	if s == nil || s.gen != e.gen {
		return e
	}
	i.unit.withdraw(i)
	s.close()
	e.calls = s.inFlight()
	e.err = crashError(s.name, s.gen, *e.report, e.calls)
	return e
}

// Events that the machine does not know.
type (
	evReadyProcess struct{ service *service }
	evProbe        struct{}
	// evTold is an event whose sender waits until it was taken.
	evTold struct {
		event any
		heard chan struct{}
	}
	evProbeDone struct {
		gen int
		ok  bool
	}
)

// do carries out what the machine asks for.
func (i *instance) do(act any) {
	switch a := act.(type) {
	case actSpawn:
		ctx, abort := context.WithCancel(i.ctx)
		i.abort = abort
		i.work.Go(func() {
			defer abort()
			i.launch(ctx, a.gen)
		})
	case actWatch:
		s := i.cur
		i.work.Go(func() { i.watch(s) })
	case actProbe:
		i.probe(a.gen)
	case actTimer:
		if stop := i.timers[a.kind]; stop != nil {
			stop()
		}
		i.timers[a.kind] = i.unit.host.clock.AfterFunc(a.wait, func() { i.post(evTimer{gen: a.gen, kind: a.kind}) })
	case actEnd:
		i.endProcess(a)
	}
}

func (i *instance) stopTimers() {
	for _, stop := range i.timers {
		stop()
	}
}

// endProcess takes the process down, or ends the start that has not made one.
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

// probe makes one round trip to the process, if none is under way.
func (i *instance) probe(gen int) {
	s := i.cur
	if s == nil || s.gen != gen || i.probing == gen || !i.machine.state.live() {
		return
	}
	i.probing = gen
	i.work.Go(func() {
		if err := s.litter(); err != nil {
			i.post(evBroken{gen: s.gen, err: err})
		}
		ctx, cancel := context.WithTimeout(s.life, i.edition.settings().Health.Timeout)
		defer cancel()
		h, err := s.wire.Probe(ctx)
		// An error that the plugin itself sent is a sign of life too.
		ok := err == nil || !wire.Transport(err)
		if ok {
			s.alive()
		}
		if err == nil {
			i.post(evHealth{gen: s.gen, health: h})
		}
		if !ok {
			// A connection that breaks fails at once, and a process that is about
			// to end breaks it first. Only silence for the whole time is a miss.
			<-ctx.Done()
		}
		i.post(evProbeDone{gen: s.gen, ok: ok || s.life.Err() != nil})
	})
}

// watch follows what the plugin says about itself until the process ends. A
// stream that breaks is opened again after an interval; the probes between say
// whether that is worth anything.
func (i *instance) watch(s *service) {
	broken := s.wire.Broken()
	defer context.AfterFunc(broken, func() {
		i.post(evBroken{gen: s.gen, err: contract.AsError(context.Cause(broken))})
	})()
	for s.life.Err() == nil {
		err := s.wire.Watch(s.life, func(h wire.Health) error {
			s.alive()
			i.post(evHealth{gen: s.gen, health: h})
			return nil
		})
		if s.life.Err() != nil || err != nil && waitFor(s.life.Done(), lostWait) {
			return // the exit says more than the stream that it broke
		}
		var line *wire.TransportError
		if errors.As(err, &line) && line.Code == codes.Unimplemented {
			i.post(evBroken{gen: s.gen, err: contract.Errorf("runtime/protocol", "the plugin does not serve Health: %w", line)})
			return
		}
		if err != nil {
			i.unit.note(s.process, "warn", "health stream: "+err.Error())
		}
		waitFor(s.life.Done(), i.edition.settings().Health.Interval)
	}
}

// launch starts a process, describes and configures it. Either it is handed to
// the owner, or nothing is left of it.
func (i *instance) launch(ctx context.Context, gen int) {
	s, err := i.edition.start(ctx, i, gen, func() { i.post(evStarted{gen: gen}) })
	if err == nil {
		i.post(evReadyProcess{service: s})
		return
	}
	i.post(evStartFailed{gen: gen, cause: err.cause, err: err.err, report: err.report, permanent: err.permanent, refused: err.refused, uncounted: err.uncounted})
}

// notServing says why a plugin takes no calls. The message ends with the first cause,
// because many readers see the message alone.
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

// publish makes the state of the machine visible. It needs the lock of the unit
// as soon as the instance is part of it.
func (i *instance) publish() {
	m := &i.machine
	st := Status{
		Plugin: i.unit.name, Instance: i.index, Edition: i.edition.number, Generation: m.gen,
		State: m.state, Cause: m.cause, Since: m.since, Callable: m.callable, Err: m.err,
		Health: m.last, Restarts: len(m.starts), Misses: m.misses, NextStart: m.next, Command: i.edition.settings().Command,
	}
	if i.cur != nil {
		st.PID = i.cur.pid()
	}
	st.told = byName(m.last.Capabilities)
	if d := i.edition.described.Load(); d != nil {
		st.Name, st.Version, st.Binary, st.Features = d.Name, d.Version, d.Binary, d.Features
		c := i.edition.settings().Confinement(d.Description)
		st.Confinement = &c
	}
	i.status.Store(&st)
}

// snapshot is the state with what changes too often to be published. It needs
// the lock of the unit.
func (i *instance) snapshot() Status {
	st := *i.status.Load()
	st.Role, st.Queued = i.role, len(i.unit.waiting)
	if s := i.living.Load(); s != nil {
		st.InFlight, st.Served = s.inFlight(), s.given
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
