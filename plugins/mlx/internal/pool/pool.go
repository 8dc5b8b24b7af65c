package pool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/worker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

// Server is a process that answers calls.
type Server interface {
	// Done is closed when the process has ended. Gone waits until all processes
	// of its session have ended; Died then returns the error that describes the
	// end.
	Done() <-chan struct{}
	Gone()
	Died() *contract.Error
	// Stop ends the process step by step, Kill at once; see package server.
	Stop(ctx context.Context, idle <-chan struct{}) []launch.StepResult
	Kill()
	// Responds reports whether it responds to any request.
	Responds(ctx context.Context) bool
}

// Settings configure a pool.
type Settings[S Server] struct {
	// PerSession gives each session its own server, at most Most at once;
	// otherwise all share one.
	PerSession bool
	Most       int
	// InFlight is the number of concurrent calls per server, Queue the number
	// of waiting calls.
	InFlight, Queue int
	// Waits makes calls wait for a starting server; otherwise they are
	// rejected.
	Waits   bool
	IdleTTL time.Duration // 0: an idle server is kept
	Recheck time.Duration // until a server that cannot run here is tried again
	Clock   transport.Clock
	// Start starts a server. It must call taken before it uses a port, and
	// spawned for each started process. If it returns an error, no process is
	// left.
	Start func(ctx context.Context, taken func(uint16) bool, spawned func(pid int, port uint16)) (S, *contract.Error)
	// Check checks whether a server can run here, without starting one.
	Check func() *contract.Error
	// Event is called for every transition. Changed is called when Status has
	// changed, except for changes of only the number of calls in flight. They
	// must not block or call the pool.
	Event   func(session string, t worker.Transition)
	Changed func()
}

// Pool assigns servers to calls.
type Pool[S Server] struct {
	set    Settings[S]
	record *worker.Record
	hurry  context.Context // canceled when Close runs out of time
	now    func() time.Time
	rush   context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{}
	over   chan struct{}

	mu      sync.Mutex
	slots   map[string]*slot[S]
	ports   map[uint16]*run[S]
	waiting []*waiter[S]
	queued  int  // waiting calls that were reported as queued
	frozen  bool // all sessions
	closed  bool
	changed bool
	starts  int
	start   time.Duration // duration of the last start
	speed   speed
	events  []Event
}

// slot is one worker.
type slot[S Server] struct {
	session string
	machine *worker.Machine
	run     *run[S] // current run, or nil
	used    time.Time
}

// run is one process from its start to its end.
type run[S Server] struct {
	id     uint64
	server S
	up     bool // it is ready
	gone   bool // the process has ended
	port   uint16
	begun  time.Time
	cancel context.CancelFunc // cancels the start
	// dead is canceled when the process ends; over is closed when err holds the
	// cause.
	dead context.Context
	die  context.CancelFunc
	over chan struct{}
	err  *contract.Error
	idle chan struct{} // of a draining run: closed when no call is left
	// ending is true if a stop was ordered, suspect if the reason was that it
	// had stopped responding.
	ending, suspect bool
}

// waiter is a waiting call.
type waiter[S Server] struct {
	session string
	waited  uint64 // the run that it waits for
	lease   *Lease[S]
	err     *contract.Error
	done    chan struct{}
}

// New returns a pool without processes. The caller must close it.
func New[S Server](s Settings[S]) *Pool[S] {
	p := &Pool[S]{
		set: s, record: worker.NewRecord(s.Recheck), now: s.Clock.Now, wake: make(chan struct{}, 1), over: make(chan struct{}),
		slots: map[string]*slot[S]{}, ports: map[uint16]*run[S]{},
	}
	p.hurry, p.rush = context.WithCancel(context.Background())
	if err := s.Check(); err != nil {
		p.record.Unavailable(p.now(), err)
	}
	p.work.Go(p.keep)
	return p
}

// step applies a change to the machines under the lock, executes its consequences, and reports it.
// It must not be called with p.mu held.
func (p *Pool[S]) step(change func(now time.Time)) {
	p.mu.Lock()
	now := p.now()
	change(now)
	p.follow(now)
	changed := p.changed || len(p.waiting) != p.queued
	p.changed, p.queued = false, len(p.waiting)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	if changed && p.set.Changed != nil {
		p.set.Changed()
	}
}

// follow executes the actions of the machines and serves waiting calls until there is nothing left
// to do. The caller must hold p.mu.
func (p *Pool[S]) follow(now time.Time) {
	for {
		p.flush(now)
		p.serve(now)
		if !p.pending() {
			break
		}
	}
	for key, s := range p.slots {
		if state, _ := s.machine.State(); p.set.PerSession && (state == worker.Cold || state == worker.Failed) && s.run == nil {
			delete(p.slots, key)
		}
	}
}

func (p *Pool[S]) flush(now time.Time) {
	for _, s := range p.slots {
		transitions, actions := s.machine.Take()
		for _, t := range transitions {
			p.note(s.session, t)
		}
		for _, a := range actions {
			p.obey(s, a, now)
		}
	}
}

func (p *Pool[S]) pending() bool {
	for _, s := range p.slots {
		if s.machine.Pending() {
			return true
		}
	}
	return false
}

// obey executes one action of a machine. The caller must hold p.mu.
func (p *Pool[S]) obey(s *slot[S], a worker.Action, now time.Time) {
	if a.Do == worker.Spawn {
		r := &run[S]{id: a.Run, begun: now, over: make(chan struct{})}
		r.dead, r.die = context.WithCancel(context.Background())
		ctx, cancel := context.WithCancel(p.hurry)
		r.cancel, s.run, s.used = cancel, r, now
		p.starts++
		p.work.Go(func() { p.live(ctx, s, r) })
		return
	}
	r := s.run
	if r == nil || r.id != a.Run {
		return
	}
	r.ending = true
	r.cancel()
	if !r.up {
		return // the start ends together with its process
	}
	if a.Do == worker.Kill {
		r.server.Kill()
		return
	}
	r.idle = make(chan struct{})
	if s.machine.Calls() == 0 {
		close(r.idle)
	}
	idle := r.idle
	p.work.Go(func() { r.server.Stop(p.hurry, idle) })
}

// live runs a process from its start to its end. It returns when no process of the run is left.
func (p *Pool[S]) live(ctx context.Context, s *slot[S], r *run[S]) {
	defer r.cancel()
	server, err := p.set.Start(ctx, func(port uint16) bool { return p.reserve(port, r) }, func(pid int, port uint16) {
		p.step(func(time.Time) {
			r.port = port
			s.machine.Spawned(r.id, pid)
		})
	})
	if err != nil {
		p.end(s, r, err)
		return
	}
	p.step(func(now time.Time) {
		r.server, r.up, p.start = server, true, now.Sub(r.begun)
		s.used = now
		if r.ending { // stopped before it was ready
			server.Kill()
		}
		s.machine.Answers(now, r.id)
	})
	<-server.Done()
	r.die()
	p.step(func(time.Time) { r.gone = true })
	server.Gone()
	p.end(s, r, server.Died())
}

// end records the end of a run.
func (p *Pool[S]) end(s *slot[S], r *run[S], err *contract.Error) {
	p.step(func(now time.Time) {
		s.run = nil
		for port, owner := range p.ports {
			if owner == r {
				delete(p.ports, port)
			}
		}
		s.machine.Gone(now, r.id, err)
		switch r.err = err; {
		case r.ending && !r.suspect:
			r.err = contract.Errorf("model/died", "the model server was stopped during the call")
		case s.machine.Died() != nil:
			r.err = s.machine.Died()
		}
		if r.idle != nil && !isClosed(r.idle) {
			close(r.idle)
		}
	})
	r.die()
	close(r.over)
}

// reserve reserves a port for a run. It returns true if another run has the port.
func (p *Pool[S]) reserve(port uint16, r *run[S]) (taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner := p.ports[port]; owner != nil && owner != r {
		return true
	}
	p.ports[port] = r
	return false
}

// serve assigns servers to waiting calls as far as possible. The caller must
// hold p.mu.
func (p *Pool[S]) serve(now time.Time) {
	freeing := 0 // places that become free without further action
	for _, s := range p.slots {
		if state, _ := s.machine.State(); state == worker.Draining {
			freeing++
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(t *waiter[S]) bool {
		settled := p.place(t, now, &freeing)
		if settled {
			close(t.done)
		}
		return settled
	})
}

// place assigns a server to a call if one is available, and otherwise starts one if possible. It
// returns true if the call has a lease or an error. freeing is the number of places that become
// free without further action. The caller must hold p.mu.
func (p *Pool[S]) place(t *waiter[S], now time.Time, freeing *int) (settled bool) {
	if p.closed {
		t.err = worker.Ending()
		return true
	}
	s := p.slots[t.session]
	if s == nil {
		if p.frozen {
			t.err = contract.Errorf("model/frozen", "the model servers of all sessions were frozen by an operator")
			return true
		}
		if t.err = p.record.Blocked(now); t.err != nil {
			return true
		}
		if !p.room(now, freeing) {
			return false
		}
		s = &slot[S]{session: t.session, machine: worker.New(p.record, now), used: now}
		p.slots[t.session] = s
	}
	if s.run != nil && s.run.gone || !p.mayStart(s, t, now, freeing) {
		return false
	}
	cause := "call"
	if s.machine.Died() != nil {
		cause = worker.Restart
	}
	verdict, err := s.machine.Want(now, t.waited, cause)
	switch verdict {
	case worker.Refuse:
		t.err = err
		return true
	case worker.Wait:
		t.waited = s.machine.Run()
		if state, since := s.machine.State(); state == worker.Starting && !p.set.Waits {
			t.err = p.loading(now.Sub(since))
		}
		return t.err != nil
	}
	if s.machine.Calls() >= p.set.InFlight || !s.machine.Begin(now, s.run.id) {
		return false
	}
	s.used = now
	t.lease = &Lease[S]{Server: s.run.server, pool: p, slot: s, run: s.run}
	return true
}

// mayStart returns false if a worker would start a process for which there is
// no room yet. The caller must hold p.mu.
func (p *Pool[S]) mayStart(s *slot[S], t *waiter[S], now time.Time, freeing *int) bool {
	state, _ := s.machine.State()
	starts := state == worker.Cold || state == worker.Failed && s.machine.Run() != t.waited
	return !starts || p.record.Blocked(now) != nil || p.room(now, freeing)
}

// room reports whether one more process may be started. If not, it stops the
// one that was idle longest, unless a place becomes free anyway. The caller
// must hold p.mu.
func (p *Pool[S]) room(now time.Time, freeing *int) bool {
	alive := 0
	var oldest *slot[S]
	for _, s := range p.slots {
		if !s.machine.Alive() {
			continue
		}
		alive++
		state, _ := s.machine.State()
		if state == worker.Ready && !s.run.gone && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if alive < p.set.Most {
		return true
	}
	if *freeing--; *freeing < 0 && oldest != nil {
		oldest.machine.Quit(now, worker.MaxPerModel)
	} else if *freeing < 0 {
		*freeing = 0
	}
	return false
}

// keep stops idle servers and ends pauses when their time comes, until the pool is closed.
func (p *Pool[S]) keep() {
	var next time.Time
	for {
		now := p.now()
		if !next.IsZero() && !now.Before(next) { // also if a call came at the same time
			p.tick()
		}
		p.mu.Lock()
		next = p.next(now)
		p.mu.Unlock()
		var due <-chan time.Time
		stop := func() {}
		if !next.IsZero() {
			timer := p.set.Clock.NewTimer(max(next.Sub(now), 0))
			due, stop = timer.C(), timer.Stop
		}
		select {
		case <-due:
		case <-p.wake:
		case <-p.over:
			stop()
			return
		}
		stop()
	}
}

// next returns the time of the next timeout. The caller must hold p.mu.
func (p *Pool[S]) next(now time.Time) time.Time {
	next := p.record.Until(now)
	for _, s := range p.slots {
		if state, _ := s.machine.State(); state != worker.Ready || p.set.IdleTTL <= 0 {
			continue
		}
		if at := s.used.Add(p.set.IdleTTL); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// tick stops servers that were idle too long, and checks again whether a
// blocked server can run.
func (p *Pool[S]) tick() {
	missing := p.set.Check()
	p.step(func(now time.Time) {
		p.changed = true
		if missing != nil && p.record.Blocked(now) == nil {
			p.record.Unavailable(now, missing)
		}
		for _, s := range p.slots {
			state, _ := s.machine.State()
			if state == worker.Ready && p.set.IdleTTL > 0 && !now.Before(s.used.Add(p.set.IdleTTL)) {
				s.machine.Quit(now, worker.TTLExpired)
			}
			if state == worker.Failed && p.record.Blocked(now) == nil {
				s.machine.Quit(now, "recheck")
			}
		}
	})
}

// Close stops all servers; when ctx ends, the remaining ones are killed. It
// returns when no process is left.
func (p *Pool[S]) Close(ctx context.Context) {
	p.step(func(now time.Time) {
		p.closed = true
		for _, s := range p.slots {
			s.machine.Close(now)
		}
	})
	select {
	case <-p.over:
	default:
		close(p.over)
	}
	done := make(chan struct{})
	go func() {
		p.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		p.rush()
		<-done
	}
	p.rush()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
