package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// waiter is a call that waits for a place in a process.
type waiter struct {
	session string
	place   chan struct{} // closed when service or err is set
	service *service
	err     *contract.Error
}

// startQueue is the minimum length of the queue while no process is ready and the number of its
// places is unknown.
const startQueue = 32

// enter takes a place in a process of the current edition, or of the edition on trial, and waits
// for one if necessary. The caller must return the place with exit. Errors are of type
// *contract.Error.
func (u *unit) enter(ctx context.Context, session string) (*service, error) {
	u.mu.Lock()
	if e := u.canary(session); e != nil {
		if s := e.pick(""); s != nil {
			e.give(s, "")
			todo := u.spend(s)
			u.mu.Unlock()
			todo.run()
			return s, nil
		}
	}
	e := u.current
	if s := e.pick(session); s != nil {
		e.give(s, session)
		todo := u.spend(s)
		u.mu.Unlock()
		todo.run()
		return s, nil
	}
	if err := u.full(e); err != nil {
		u.mu.Unlock()
		return nil, err
	}
	w := &waiter{session: session, place: make(chan struct{})}
	u.waiting = append(u.waiting, w)
	todo := u.serve(true)
	u.mu.Unlock()
	todo.run()

	select {
	case <-w.place:
	case <-ctx.Done():
		if u.giveUp(w) {
			return nil, ended(ctx)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.service, nil
}

// full returns the error for a call that may not even wait; nil if it may. The caller holds u.mu.
func (u *unit) full(e *edition) *contract.Error {
	if why := u.refusal(e); why != nil {
		return why
	}
	room := e.settings().Queue
	if len(e.ready) == 0 {
		room = max(room, e.capacity(0), startQueue)
	}
	if len(u.waiting) < room {
		return nil
	}
	running := 0
	for _, i := range e.instances {
		if s := i.living.Load(); s != nil {
			running += s.running
		}
	}
	return contract.Errorf("runtime/overloaded",
		"plugin %s: its queue is full: %d calls are in flight and %d wait", u.name, running,
		len(u.waiting)).
		WithDetail("in-flight", edn.Int(int64(running))).WithDetail("queued", edn.Int(int64(len(u.waiting))))
}

// giveUp removes a waiter from the queue. It returns false if the waiter has already got a place or
// an error.
func (u *unit) giveUp(w *waiter) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := slices.Index(u.waiting, w); n >= 0 {
		u.waiting = slices.Delete(u.waiting, n, n+1)
		return true
	}
	return false
}

// exit returns a place.
func (u *unit) exit(s *service) {
	u.mu.Lock()
	s.running--
	var todo chores
	if s.running == 0 {
		s.idleSince = u.host.clock.Now()
	}
	if len(u.waiting) > 0 || s.spent && s.running == 0 {
		todo = u.serve(false)
	}
	u.watchIdle()
	u.mu.Unlock()
	todo.run()
}

// pick returns the callable service with the fewest calls and a free place; for a pinned session
// its own service. It returns nil if no place is free. The caller holds u.mu.
func (e *edition) pick(session string) *service {
	if s := e.pins[session]; s != nil && session != "" {
		if s.limit == 0 || s.running < s.limit {
			return s
		}
		return nil
	}
	var best *service
	for _, s := range e.ready {
		if (s.limit == 0 || s.running < s.limit) && (best == nil || s.running < best.running) {
			best = s
		}
	}
	return best
}

// maxPins is the maximum number of pinned sessions; when it is reached, all pins are deleted.
const maxPins = 10_000

// give counts a call for a process, and pins its session if required. The caller holds u.mu.
func (e *edition) give(s *service, session string) {
	r := e.settings().Instances
	s.running++
	s.given++
	if session != "" && r.Pin == PinSession {
		if len(e.pins) >= maxPins {
			clear(e.pins)
		}
		e.pins[session] = s
	}
	if r.MaxCalls > 0 && s.given >= r.MaxCalls {
		s.spent = true
		e.arrange()
	}
}

// spend starts a replacement for a process that must not get further calls. The caller holds u.mu.
func (u *unit) spend(s *service) chores {
	if !s.spent {
		return nil
	}
	return u.balance(s.instance.edition)
}

// place records the service of i that may be called, nil if none, and its
// number of concurrent calls.
func (u *unit) place(i *instance, open *service, limit int) {
	u.mu.Lock()
	if i.leaving {
		open = nil
	}
	if open != nil {
		open.limit = limit
		if i.open != open {
			open.idleSince = u.host.clock.Now()
		}
	}
	i.open = open
	i.publish()
	u.checkTrial(i)
	i.edition.arrange()
	todo := u.serve(true)
	u.watchIdle()
	u.wake()
	u.mu.Unlock()
	todo.run()
}

// withdraw removes the service of an ended process and promotes a standby, before the next state of
// the instance is determined.
func (u *unit) withdraw(i *instance) {
	u.mu.Lock()
	i.open = nil
	i.edition.arrange()
	todo := u.serve(false)
	u.mu.Unlock()
	todo.run()
}

// arrange replaces working instances that are not callable by standbys, and rebuilds the list of
// callable services. The caller holds u.mu.
func (e *edition) arrange() {
	for _, i := range e.instances {
		if i.role == Working && i.open == nil && !i.leaving {
			if warm := e.warm(); warm != nil {
				i.role, warm.role = Standby, Working
			}
		}
	}
	e.ready = e.ready[:0]
	for _, i := range e.instances {
		if i.role == Working && i.open != nil && !i.leaving && !i.open.spent {
			e.ready = append(e.ready, i.open)
		}
	}
	for session, s := range e.pins {
		if !slices.Contains(e.ready, s) {
			delete(e.pins, session)
		}
	}
}

// warm returns a callable standby, nil if there is none. The caller holds u.mu.
func (e *edition) warm() *instance {
	for _, i := range e.instances {
		if i.role == Standby && i.open != nil && !i.leaving {
			return i
		}
	}
	return nil
}

// serve applies a change of the processes or of the queue: it assigns places to
// waiting calls and starts or stops processes. If final is set and no process
// is expected, the waiting calls fail. It needs u.mu.
func (u *unit) serve(final bool) chores {
	var todo chores
	for _, e := range slices.Clone(u.editions) {
		todo = append(todo, u.balance(e)...)
	}
	if u.current == nil {
		return todo
	}
	u.admit()
	if final && len(u.waiting) > 0 {
		if why := u.refusal(u.current); why != nil {
			for _, w := range u.waiting {
				w.err = why
				close(w.place)
			}
			u.waiting = nil
		}
	}
	return todo
}

// admit assigns places to waiting calls, in order. It needs u.mu.
func (u *unit) admit() {
	e := u.current
	kept := u.waiting[:0]
	for n, w := range u.waiting {
		s := e.pick(w.session)
		if s == nil {
			kept = append(kept, w)
			if w.session == "" || e.settings().Instances.Pin == PinNone {
				kept = append(kept, u.waiting[n+1:]...)
				break // no later waiter finds a place either
			}
			continue
		}
		e.give(s, w.session)
		w.service = s
		close(w.place)
	}
	clear(u.waiting[len(kept):])
	u.waiting = kept
}

// refusal returns the error for a plugin that cannot serve calls, neither now nor with a process
// that is starting; nil if it can. The caller holds u.mu.
func (u *unit) refusal(e *edition) *contract.Error {
	switch {
	case u.closed && u.removed:
		return contract.Errorf("runtime/not-ready", "plugin %s is no longer part of the configuration", u.name).
			WithHint("start a new run: it uses the current configuration")
	case u.closed:
		return notServing(u.name, Stopped, nil)
	case len(e.ready) > 0, !u.held && e.expects():
		return nil
	}
	st := e.face()
	return notServing(u.name, st.State, st.Err)
}

// expects reports whether calls may wait for a process that is starting. A
// restart after a failure does not count: the caller decides whether to wait
// for it (ATT-008). It needs u.mu.
func (e *edition) expects() bool {
	for _, i := range e.instances {
		if s := i.open; s != nil && s.spent && i.role == Working {
			return true // its replacement is starting
		}
		if i.fresh() && (i.why == CauseLoad || i.why == CauseRecycle) {
			return true
		}
	}
	return e.scaledToZero()
}

// scaledToZero reports whether the edition has no processes because it had no calls. The caller
// holds u.mu.
func (e *edition) scaledToZero() bool {
	for _, i := range e.instances {
		if !i.leaving {
			return false
		}
	}
	return !e.leaving
}

// fresh reports whether the first start of the instance is not finished.
func (i *instance) fresh() bool {
	st := i.status.Load()
	return !i.leaving && (st.Generation == 0 || st.State == Starting || st.State == Configuring)
}

// face returns the status that represents the edition: that of a callable instance, else of one
// that is restarting, else of the first one. The caller holds u.mu.
func (e *edition) face() Status {
	if len(e.ready) > 0 {
		return *e.ready[0].instance.status.Load()
	}
	best := Status{Plugin: e.unit.name, Edition: e.number, State: Stopped, Cause: CauseIdle}
	for n, i := range e.instances {
		if st := i.status.Load(); n == 0 || st.respawning() && !best.respawning() {
			best = *st
		}
	}
	return best
}

// balance starts and stops processes until the edition has the number that it
// should have. It needs u.mu.
func (u *unit) balance(e *edition) chores {
	if e.leaving || u.closed || u.held || !e.begun {
		return nil
	}
	n := u.count(e)
	r := e.settings().Instances
	want, cause := max(r.Min, n.working), CauseRecycle
	if e == u.current {
		if more := u.shortage(e) - n.coming; more > 0 {
			want, cause = max(want, n.working+more), CauseLoad
		}
	}
	// A process that works on its last call counts against the maximum, unless no other process
	// could accept a call.
	most := r.Max - n.busy
	if most < 1 && r.MaxCalls != 1 {
		most = 1
	}
	want = min(want, max(most, 0))
	var made []*instance
	for ; n.working < want; n.working++ {
		if warm := e.warm(); warm != nil {
			warm.role = Working
			n.warm--
			continue
		}
		made = append(made, e.add(Working, cause))
	}
	for ; n.warm < r.Standby; n.warm++ {
		made = append(made, e.add(Standby, CauseStandby))
	}
	for ; n.working > r.Max; n.working-- {
		e.drop(Working)
	}
	for ; n.warm > r.Standby; n.warm-- {
		e.drop(Standby)
	}
	e.arrange()
	var todo chores
	for _, i := range made {
		todo = append(todo, func() { go i.own() })
	}
	return todo
}

// headcount is the number of instances of an edition by kind.
type headcount struct {
	working int // accept calls, or will
	coming  int // those of working that were never ready
	warm    int // standbys
	busy    int // work on their last call
}

// count returns the headcount of an edition, and retires the instances that have answered their
// last call. The caller holds u.mu.
func (u *unit) count(e *edition) headcount {
	var n headcount
	for _, i := range e.instances {
		switch s := i.open; {
		case i.leaving:
		case i.role == Standby:
			n.warm++
		case s != nil && s.spent && s.running > 0:
			n.busy++
		case s != nil && s.spent && s.late != nil:
			i.fault = s.late
			i.retire(CauseOverdue)
		case s != nil && s.spent:
			i.retire(CauseRecycle)
		default:
			n.working++
			if s == nil && i.fresh() {
				n.coming++
			}
		}
	}
	return n
}

// shortage returns the number of processes that the waiting calls would occupy. The caller holds
// u.mu.
func (u *unit) shortage(e *edition) int {
	n := len(u.waiting)
	places := e.capacity(0)
	if most := e.settings().Instances.MaxCalls; most > 0 && (places == 0 || most < places) {
		places = most
	}
	switch {
	case n == 0:
		return 0
	case places == 0:
		return 1 // one process accepts all of them
	}
	return (n + places - 1) / places
}

// drop retires the least loaded instance of a role. It needs u.mu.
func (e *edition) drop(role Role) {
	var least *instance
	for _, i := range e.instances {
		if i.leaving || i.role != role || i.open != nil && i.open.spent {
			continue
		}
		if least == nil || i.load() <= least.load() {
			least = i
		}
	}
	if least != nil {
		least.retire(CauseShrink)
	}
}

// load returns the number of calls in flight; -1 without a callable process. The caller holds u.mu.
func (i *instance) load() int {
	if i.open == nil {
		return -1
	}
	return i.open.running
}

// retire makes the owner stop the instance. It needs u.mu.
func (i *instance) retire(cause Cause) {
	if !i.leaving {
		i.leaving, i.cause, i.open = true, cause, nil
		close(i.quit)
	}
}

// watchIdle schedules shrink for the time when the next process exceeds
// IdleTTL. It needs u.mu.
func (u *unit) watchIdle() {
	e := u.current
	if u.idle != nil || u.closed || e == nil {
		return
	}
	r := e.settings().Instances
	if r.IdleTTL <= 0 || len(e.ready) <= r.Min {
		return
	}
	now, next := u.host.clock.Now(), time.Duration(0)
	for _, s := range e.ready {
		if s.running == 0 {
			if left := r.IdleTTL - now.Sub(s.idleSince); next == 0 || left < next {
				next = max(left, time.Millisecond)
			}
		}
	}
	if next > 0 {
		u.idle = u.host.clock.AfterFunc(next, u.shrink)
	}
}

// shrink retires processes above Instances.Min that were idle for IdleTTL.
func (u *unit) shrink() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.idle = nil
	e := u.current
	r := e.settings().Instances
	now := u.host.clock.Now()
	for n := len(e.ready) - 1; n >= 0 && len(e.ready) > r.Min; n-- {
		s := e.ready[n]
		if s.running == 0 && now.Sub(s.idleSince) >= r.IdleTTL && r.IdleTTL > 0 {
			s.instance.retire(CauseIdle)
			e.arrange()
		}
	}
	u.watchIdle()
}
