package pool

import (
	"context"
	"errors"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Lease permits one call to a server until Release.
type Lease[S Server] struct {
	Server S
	pool   *Pool[S]
	slot   *slot[S]
	run    *run[S]
}

// patience is the interval at which Acquire calls waiting.
const patience = 10 * time.Second

// Acquire waits for a server of a session. While it waits, it calls waiting at
// regular intervals. The caller must release the lease. The error is that of a
// server that cannot run, runtime/overloaded for a full queue, model/frozen,
// model/not-ready for a server that is starting unless Settings.Waits is set,
// runtime/not-ready after Close, or timeout/hard or canceled if ctx ends.
func (p *Pool[S]) Acquire(ctx context.Context, session string, waiting func()) (*Lease[S], *contract.Error) {
	if !p.set.PerSession {
		session = ""
	}
	t := &waiter[S]{session: session, done: make(chan struct{})}
	p.step(func(now time.Time) {
		p.waiting = append(p.waiting, t)
		p.follow(now)
		if len(p.waiting) > p.set.Queue+p.loadable() && p.drop(t) {
			t.err = contract.Errorf("runtime/overloaded", "%d calls wait for a model server, the maximum",
				len(p.waiting)).WithSource(contract.SourceDownstream).
				WithHint("try again later, or raise queue in the config block of the plugin")
			close(t.done)
		}
	})
	if isClosed(t.done) {
		return t.lease, t.err
	}
	for {
		timer := p.set.Clock.NewTimer(patience)
		select {
		case <-t.done:
			timer.Stop()
			return t.lease, t.err
		case <-timer.C():
			waiting()
		case <-ctx.Done():
			timer.Stop()
			p.step(func(time.Time) { p.drop(t) })
			if t.lease != nil { // assigned at the same moment
				t.lease.Release()
			}
			return nil, gaveUp(ctx)
		}
	}
}

// Up returns the server of a session if it is ready. It does not start a
// server, and the returned server may end at any time.
func (p *Pool[S]) Up(session string) (server S, ok bool) {
	if !p.set.PerSession {
		session = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slots[session]
	if s == nil || s.run == nil || !s.run.up || s.run.ending || s.run.gone {
		return server, false
	}
	return s.run.server, true
}

// loadable returns the number of waiting calls that do not count as queued,
// because a starting server will serve them at once. The caller must hold p.mu.
func (p *Pool[S]) loadable() int {
	n := 0
	for _, s := range p.slots {
		if s.run != nil && !s.run.up {
			n += p.set.InFlight
		}
	}
	return n
}

// drop removes a call from the queue. It returns false if the call no longer waits. The caller must
// hold p.mu.
func (p *Pool[S]) drop(t *waiter[S]) bool {
	for i, w := range p.waiting {
		if w == t {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func gaveUp(ctx context.Context) *contract.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return contract.Errorf("timeout/hard", "the deadline of the call passed while it waited for a model server").
			WithSource(contract.SourceDownstream)
	}
	return contract.Errorf("canceled", "the caller canceled the call while it waited for a model server").
		WithSource(contract.SourceRequest)
}

// loading returns the error of a call that does not wait for a starting server; the server has been
// starting for the time since.
func (p *Pool[S]) loading(since time.Duration) *contract.Error {
	left := 5 * time.Second
	if p.start > 0 {
		left = max(p.start-since, time.Second)
	}
	return contract.Errorf("model/not-ready", "the model server is loading").
		WithDetail("retry-after-ms", edn.Int(left.Milliseconds()))
}

// Context returns a context derived from ctx that is also canceled when the
// server ends. The caller must call the cancel function.
func (l *Lease[S]) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.run.dead, cancel)
	return ctx, func() { stop(); cancel() }
}

// Died returns the error of a server that has ended, or nil if it is alive. Because an exit is
// noticed with a delay, it waits for one until within has passed or ctx ends. If the server has
// ended, it also waits until the remaining processes have been killed.
func (l *Lease[S]) Died(ctx context.Context, within time.Duration) *contract.Error {
	ctx, cancel := transport.Within(ctx, l.pool.set.Clock, within)
	defer cancel()
	select {
	case <-l.run.dead.Done():
	case <-ctx.Done():
		if l.run.dead.Err() == nil {
			return nil
		}
	}
	<-l.run.over // remaining processes are being killed, so this is soon
	return l.run.err
}

// Release ends the lease. It must be called once; the server must not be called afterwards.
func (l *Lease[S]) Release() {
	l.pool.step(func(now time.Time) {
		l.slot.used = now
		if l.slot.machine.End(now, l.run.id) && l.run.idle != nil && !isClosed(l.run.idle) {
			close(l.run.idle)
		}
	})
}

// Suspect starts a check of a server that stalled, in the background; a server that does not
// respond is killed.
func (l *Lease[S]) Suspect() {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.work.Go(func() {
		if l.Server.Responds(p.hurry) || l.run.dead.Err() != nil || p.hurry.Err() != nil {
			return
		}
		why := contract.Errorf("model/died", "the model server runs, but does not respond")
		p.step(func(now time.Time) {
			l.run.suspect = true
			l.slot.machine.Suspect(now, l.run.id, why)
		})
	})
}
