package plugin

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// unit is the state of one plugin name that is kept when its processes and editions are replaced.
// mu guards to which processes calls may go. It is never held during a call to a process or to the
// sink.
type unit struct {
	host  *shared
	name  string
	log   *pluginLog
	store *stateStore

	processes atomic.Int64 // number of started processes; also the last incarnation number
	trying    atomic.Bool  // a trial is in progress

	mu          sync.Mutex
	current     *edition   // receives the calls
	editions    []*edition // with processes, oldest first, current included
	last        int        // number of the newest edition
	waiting     []*waiter
	limits      map[string]*limiter // of single capabilities
	lost        map[string]bool     // capabilities of earlier editions that the current one lacks
	held        bool                // an operator or a remediation took it out of service
	orders      int                 // number of operator orders so far
	ordered     any                 // the event of the last order
	closed      bool                // no further process is started
	removed     bool                // no longer in the configuration
	clients     int                 // number of clients that may still call it
	trial       *trial              // of an edition that may become current; nil: no trial
	idle        func()              // stops the timer of shrink
	changed     chan struct{}       // closed and replaced at each change
	over        chan struct{}       // closed when the unit is closed and has no process
	removedDone chan struct{}       // closed when a removed plugin is cleaned up
}

func newUnit(h *shared, name string) *unit {
	return &unit{
		host:        h,
		name:        name,
		store:       newStateStore(),
		log:         &pluginLog{sink: h.sink},
		limits:      map[string]*limiter{},
		changed:     make(chan struct{}),
		over:        make(chan struct{}),
		removedDone: make(chan struct{}),
	}
}

// number returns the next incarnation number.
func (u *unit) number() int { return int(u.processes.Add(1)) }

// chores are functions that must run after a decision, without the lock.
type chores []func()

func (c chores) run() {
	for _, do := range c {
		do()
	}
}

// wake wakes the goroutines that wait for a change. The caller holds u.mu.
func (u *unit) wake() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// edition creates an edition without processes. No call is routed to it yet.
func (u *unit) edition(settings Settings, cause Cause) *edition {
	if settings.Config.IsNil() {
		settings.Config = edn.MustMap() // a block without config has an empty config
	}
	u.log.hide(settings.Secrets)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last++
	e := &edition{
		unit:   u,
		number: u.last,
		orders: u.orders,
		cause:  cause,
		pins:   map[string]*service{},
		over:   make(chan struct{}),
	}
	e.rules.Store(&settings)
	u.editions = append(u.editions, e)
	return e
}

// populate starts the first processes of a new edition: Instances.Min, but at
// least atLeast.
func (e *edition) populate(atLeast int) {
	u := e.unit
	u.mu.Lock()
	r := e.settings().Instances
	e.begun = true
	var made []*instance
	for range max(r.Min, atLeast) {
		made = append(made, e.add(Working, e.cause))
	}
	for range r.Standby {
		made = append(made, e.add(Standby, e.cause))
	}
	u.mu.Unlock()
	for _, i := range made {
		i.begin() // synchronous, so that its state is never seen as stopped
	}
}

// add creates an instance. It needs u.mu; the caller starts it.
func (e *edition) add(role Role, cause Cause) *instance {
	i := newInstance(e, e.unit.freeIndex(), cause)
	i.role = role
	e.instances = append(e.instances, i)
	return i
}

// freeIndex returns the lowest index that no instance has; the index is part of the path of the
// instance's directory. The caller holds u.mu.
func (u *unit) freeIndex() int {
	taken := map[int]bool{}
	for _, e := range u.editions {
		for _, i := range e.instances {
			taken[i.index] = true
		}
	}
	for n := 0; ; n++ {
		if !taken[n] {
			return n
		}
	}
}

// promote makes e the current edition, also for waiting calls, and stops the
// previous one. Calls in flight end in their process.
func (u *unit) promote(e *edition, cause Cause) {
	u.mu.Lock()
	todo := u.succeed(e, cause)
	u.mu.Unlock()
	todo.run()
}

// lose notes the capabilities of a replaced edition that the current one lacks: runs of an
// earlier configuration may still name them. It needs u.mu.
func (u *unit) lose(before *edition) {
	was, is := before.described.Load(), u.current.described.Load()
	if was == nil || is == nil {
		return
	}
	if u.lost == nil {
		u.lost = map[string]bool{}
	}
	for i := range was.Capabilities {
		u.lost[was.Capabilities[i].ID] = true
	}
	for i := range is.Capabilities {
		delete(u.lost, is.Capabilities[i].ID)
	}
}

// dropped returns the error of a capability that the current edition lacks, else nil. It needs
// u.mu.
func (u *unit) dropped(advertised string) *contract.Error {
	if !u.lost[advertised] {
		return nil
	}
	return contract.Errorf("runtime/not-ready", "plugin %s no longer has the capability :%s since a reload", u.name, advertised).
		WithHint("start a new run: it uses the current configuration")
}

// succeed is promote with u.mu held. If e was made before the last operator
// order that took the plugin out of service, e gets the same order.
func (u *unit) succeed(e *edition, cause Cause) chores {
	before := u.current
	u.current, u.held = e, u.held && e.orders != u.orders
	if before != nil && before != e {
		u.lose(before)
		u.leave(before, cause)
	}
	todo := u.serve(true)
	if u.held {
		ordered, instances := u.ordered, slices.Clone(e.instances)
		todo = append(todo, func() {
			for _, i := range instances {
				i.post(ordered)
			}
		})
	}
	u.wake()
	return todo
}

// leave stops the processes of an edition. It needs u.mu.
func (u *unit) leave(e *edition, cause Cause) {
	if e.leaving {
		return
	}
	e.leaving = true
	for _, i := range e.instances {
		i.retire(cause)
	}
	e.arrange()
	if len(e.instances) == 0 {
		u.forget(e)
	}
}

// abandon stops an edition that never received calls and waits for its end.
func (u *unit) abandon(e *edition, cause Cause) {
	u.mu.Lock()
	u.leave(e, cause)
	u.wake()
	u.mu.Unlock()
	<-e.over
}

// forget removes an edition without processes. The caller holds u.mu.
func (u *unit) forget(e *edition) {
	close(e.over)
	u.editions = slices.DeleteFunc(u.editions, func(other *edition) bool { return other == e })
	if u.closed && len(u.editions) == 0 {
		close(u.over)
	}
}

// gone removes an instance whose owner goroutine has returned.
func (u *unit) gone(i *instance) {
	u.mu.Lock()
	e := i.edition
	e.instances = slices.DeleteFunc(e.instances, func(other *instance) bool { return other == i })
	if e.leaving && len(e.instances) == 0 {
		u.forget(e)
	}
	todo := u.serve(true)
	u.wake()
	u.mu.Unlock()
	todo.run()
}

// close stops all processes. u.over is closed when they have ended.
func (u *unit) close(cause Cause) {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return
	}
	u.closed = true
	u.stopTrial(contract.Errorf("runtime/not-ready", "plugin %s is being stopped", u.name))
	if u.idle != nil {
		u.idle()
	}
	if len(u.editions) == 0 {
		close(u.over)
	}
	for _, e := range slices.Clone(u.editions) {
		u.leave(e, cause)
	}
	todo := u.serve(true)
	u.wake()
	u.mu.Unlock()
	todo.run()
}

// all returns the instances of all editions.
func (u *unit) all() []*instance {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []*instance
	for _, e := range u.editions {
		all = append(all, e.instances...)
	}
	return all
}

// order is deliver for an operator: the event also applies to an edition that is promoted later.
func (u *unit) order(event any, held bool) {
	u.mu.Lock()
	u.orders++
	u.ordered = event
	u.mu.Unlock()
	u.deliver(event, held)
}

// deliver posts an event to the instances of the current edition and returns
// when all have handled it.
func (u *unit) deliver(event any, held bool) {
	u.mu.Lock()
	u.held = held
	instances := slices.Clone(u.current.instances)
	todo := u.serve(true)
	u.mu.Unlock()
	todo.run()
	for _, i := range instances {
		handled := make(chan struct{})
		i.post(evAcked{event, handled})
		select {
		case <-handled:
		case <-i.over:
		}
	}
}

// update applies new settings to the running current edition.
func (u *unit) update(settings Settings) {
	u.mu.Lock()
	e := u.current
	if settings.Config.IsNil() {
		settings.Config = edn.MustMap()
	}
	e.rules.Store(&settings)
	instances := slices.Clone(e.instances)
	todo := u.serve(true)
	u.wake()
	u.mu.Unlock()
	todo.run()
	u.log.setLevel(settings.LogLevel)
	for _, i := range instances {
		i.post(evRules{restart: settings.Restart, health: settings.Health})
	}
}

// output returns the function that logs the lines of one process.
func (u *unit) output(i *instance, incarnation int) func(launch.Line, int) {
	return func(l launch.Line, pid int) {
		now := u.host.clock.Now()
		line := parseLine(l, now)
		line.Plugin, line.Instance, line.Generation, line.PID = u.name, i.index, incarnation, pid
		if line.Run == "" {
			if s := i.living.Load(); s != nil && s.incarnation == incarnation {
				line.Run = s.onlyRun()
			}
		}
		u.log.take(line, now)
	}
}

// explain writes the error of a transition to the log of the plugin.
func (u *unit) explain(t *Transition) {
	level := "warn"
	if t.Report != nil || t.To == Quarantined {
		level = "error"
	}
	u.log.write(Line{
		Plugin:     u.name,
		Instance:   t.Instance,
		Generation: t.Generation,
		PID:        t.PID,
		At:         t.At,
		Level:      level,
		Message:    t.Err.Error(),
		Fields:     map[string]any{"@module": "supervisor", "from": t.From, "to": t.To, "cause": t.Cause},
	})
}

// note writes a message of the host to the log of the plugin.
func (u *unit) note(p *process, level, message string) {
	u.log.write(Line{
		Plugin:     u.name,
		Generation: p.incarnation,
		PID:        p.pid(),
		At:         u.host.clock.Now(),
		Level:      level,
		Message:    message,
		Fields:     map[string]any{"@module": "supervisor"},
	})
}

// complain logs why an edition was not promoted.
func (u *unit) complain(e *edition, err *contract.Error) {
	u.log.write(Line{
		Plugin:  u.name,
		At:      u.host.clock.Now(),
		Level:   "error",
		Message: err.Error(),
		Fields:  map[string]any{"@module": "supervisor", "edition": e.number},
	})
}
