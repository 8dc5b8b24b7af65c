package pool

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/plugins/mlx/internal/worker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a server without a process. Servers with processes are tested with
// the plugin; here the clock moves only when a test advances it.
type stub struct {
	factory *factory
	once    sync.Once
	done    chan struct{}
	port    uint16
}

func (s *stub) Done() <-chan struct{}         { return s.done }
func (s *stub) Gone()                         {}
func (s *stub) Died() *contract.Error         { return contract.Errorf("model/died", "it died") }
func (s *stub) Responds(context.Context) bool { return true }
func (s *stub) Kill()                         { s.end() }

func (s *stub) Stop(ctx context.Context, idle <-chan struct{}) []launch.StepResult {
	select {
	case <-idle:
	case <-ctx.Done():
	}
	s.end()
	return nil
}

func (s *stub) end() {
	s.once.Do(func() {
		s.factory.mu.Lock()
		s.factory.live--
		s.factory.mu.Unlock()
		close(s.done)
	})
}

// factory starts and counts stubs.
type factory struct {
	mu         sync.Mutex
	live, most int
	fail       *contract.Error // returned by starts
	missing    *contract.Error // returned by checks
	gate       chan struct{}   // starts wait for it, unless nil
}

func (h *factory) start(ctx context.Context, taken func(uint16) bool, spawned func(int, uint16)) (*stub, *contract.Error) {
	port := uint16(1000)
	for taken(port) {
		port++
	}
	h.mu.Lock()
	fail, gate := h.fail, h.gate
	if fail == nil {
		h.live++
		h.most = max(h.most, h.live)
	}
	h.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	s := &stub{factory: h, done: make(chan struct{}), port: port}
	spawned(1, port)
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			s.end()
			return nil, contract.Errorf("model/not-ready", "stopped")
		}
	}
	return s, nil
}

func (h *factory) check() *contract.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.missing
}

func (h *factory) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

type rig struct {
	*Pool[*stub]
	t       testing.TB
	factory *factory
	clock   *wiretest.Clock
}

const ttl = 15 * time.Minute

func newRig(t testing.TB, change func(*Settings[*stub], *factory)) *rig {
	r := &rig{t: t, factory: &factory{}, clock: wiretest.NewClock()}
	s := Settings[*stub]{
		PerSession: true, Most: 2, InFlight: 1, Queue: 4, Waits: true, IdleTTL: ttl, Recheck: 5 * time.Minute, Clock: r.clock,
		Start: r.factory.start, Check: r.factory.check,
	}
	if change != nil {
		change(&s, r.factory)
	}
	r.Pool = New(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit) // a failed test may keep its lease
		defer cancel()
		r.Close(ctx)
		assert.Zero(t, r.factory.live, "a server is left")
		assert.LessOrEqual(t, r.factory.most, s.Most)
	})
	return r
}

func (r *rig) get(session string) *Lease[*stub] {
	r.t.Helper()
	l, err := r.Acquire(r.t.Context(), session, func() {})
	require.Nil(r.t, err, "%v", err)
	return l
}

func (r *rig) states() map[string]worker.State {
	all := map[string]worker.State{}
	for _, w := range r.Status().Workers {
		all[w.Session] = w.State
	}
	return all
}

const limit = 20 * time.Second

// MLX-010: an idle server is stopped after its TTL; each call restarts the TTL.
func TestIdleTTL(t *testing.T) {
	r := newRig(t, nil)
	r.get("a").Release()
	r.clock.Advance(ttl - time.Second)
	r.get("a").Release()
	r.clock.Advance(ttl - time.Second)
	assert.Equal(t, worker.Ready, r.states()["a"])
	r.clock.Fire(t, time.Second)
	require.Eventually(t, func() bool { return len(r.Status().Workers) == 0 }, limit, time.Millisecond)
	cause := ""
	for _, e := range r.Status().Events {
		if e.To == worker.Draining {
			cause = e.Cause
		}
	}
	assert.Equal(t, worker.TTLExpired, cause)
	held := r.get("b")
	r.clock.Advance(10 * ttl)
	assert.Equal(t, worker.Busy, r.states()["b"], "who works is not idle")
	held.Release()
}

// MLX-012: a server that cannot run here is checked again when its time comes;
// if it can run then, calls start it.
func TestRecheck(t *testing.T) {
	r := newRig(t, func(_ *Settings[*stub], h *factory) { h.missing = contract.Errorf("model/unavailable", "not here") })
	fails := func() {
		_, err := r.Acquire(t.Context(), "a", func() {})
		require.NotNil(t, err)
		assert.Equal(t, "model/unavailable", err.Type)
	}
	fails()
	r.clock.Fire(t, 5*time.Minute)
	r.clock.Wait(t, 5*time.Minute) // checked once, and scheduled again
	fails()
	r.factory.set(func() { r.factory.missing = nil })
	r.clock.Fire(t, 5*time.Minute)
	require.Eventually(t, func() bool { return r.Status().Blocked == nil }, limit, time.Millisecond)
	r.get("a").Release()
	assert.Equal(t, 1, r.Status().Starts)
}

// crowded is a clock whose first timer fires while the pool is woken too.
type crowded struct {
	*wiretest.Clock
	once sync.Once
	wake func()
}

func (c *crowded) NewTimer(d time.Duration) transport.Timer {
	t := c.Clock.NewTimer(d)
	c.once.Do(func() {
		c.wake()
		c.Advance(d)
	})
	return t
}

// MLX-012: an expired timeout is handled even if a call comes at the same
// moment. Which of the two is seen first is random, hence the rounds.
func TestRecheckBesideCall(t *testing.T) {
	for range 30 {
		var p *Pool[*stub]
		clock := &crowded{Clock: wiretest.NewClock()}
		began := make(chan struct{})
		clock.wake = func() {
			<-began
			p.wake <- struct{}{}
		}
		looks := make(chan struct{}, 8)
		r := newRig(t, func(s *Settings[*stub], _ *factory) {
			s.Clock = clock
			s.Check = func() *contract.Error {
				looks <- struct{}{}
				return contract.Errorf("model/unavailable", "not here")
			}
		})
		p = r.Pool
		close(began)
		for look := range 2 {
			select {
			case <-looks:
			case <-time.After(limit):
				require.FailNow(t, "it was not looked for again", "look %d", look)
			}
		}
	}
}

// A call that waits long reports it, and gives up with its caller.
func TestWaiting(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(_ *Settings[*stub], h *factory) { h.gate = gate })
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan struct{})
	over := make(chan *contract.Error)
	go func() {
		_, err := r.Acquire(ctx, "a", func() { said <- struct{}{} })
		over <- err
	}()
	r.clock.Fire(t, patience)
	<-said
	cancel()
	assert.Equal(t, "canceled", (<-over).Type)
	assert.Zero(t, r.Status().Waiting)
	close(gate)
	r.get("a").Release()
}

// MLX-009: Died waits no longer than within and than the call; a known death
// needs no wait.
func TestDeathIsAwaited(t *testing.T) {
	r := newRig(t, nil)
	l := r.get("a")
	defer l.Release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Nil(t, l.Died(ended, limit))

	told := make(chan *contract.Error)
	die := func() { told <- l.Died(t.Context(), limit) }
	go die()
	r.clock.Fire(t, limit)
	assert.Nil(t, <-told, "it lives")
	go die()
	r.clock.Wait(t, limit)
	l.Server.Kill()
	assert.Equal(t, "model/died", (<-told).Type)
	assert.Equal(t, "model/died", l.Died(ended, 0).Type)
}

// All calls that wait for a start fail with it; the start is not retried for
// each.
func TestAllFailWithTheStart(t *testing.T) {
	r := newRig(t, func(s *Settings[*stub], h *factory) {
		s.PerSession, s.Most, s.Queue = false, 1, 100
		h.fail = contract.Errorf("model/start-failed", "no")
	})
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			_, err := r.Acquire(t.Context(), "", func() {})
			assert.NotNil(t, err)
		})
	}
	calls.Wait()
	assert.LessOrEqual(t, r.Status().Starts, 3, "then it is a crash loop")
}

// MLX-010, MLX-023: for any sequence of calls, commands and deaths, the number
// of servers never exceeds the limit, each call gets a server or an error, and
// no server is left after Close.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, clock := &factory{}, wiretest.NewClock()
		p := New(Settings[*stub]{
			PerSession: true, Most: 2, InFlight: 2, Queue: 3, Waits: true, IdleTTL: ttl, Recheck: 5 * time.Minute, Clock: clock,
			Start: h.start, Check: h.check,
		})
		ctx, cancel := context.WithCancel(context.Background())
		var calls sync.WaitGroup
		session := func(t *rapid.T) string { return rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "session") }
		var mu sync.Mutex
		var held []*Lease[*stub]
		take := func() *Lease[*stub] {
			mu.Lock()
			defer mu.Unlock()
			if len(held) == 0 {
				return nil
			}
			l := held[0]
			held = held[1:]
			return l
		}
		rt.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				s := session(t)
				calls.Go(func() {
					l, err := p.Acquire(ctx, s, func() {})
					if (l == nil) == (err == nil) {
						panic("a lease or an error")
					}
					if l != nil {
						mu.Lock()
						held = append(held, l)
						mu.Unlock()
					}
				})
			},
			"release": func(*rapid.T) {
				if l := take(); l != nil {
					l.Release()
				}
			},
			"die": func(*rapid.T) {
				if l := take(); l != nil {
					l.Server.Kill()
					if l.Died(context.Background(), limit) == nil {
						panic("it lives")
					}
					l.Release()
				}
			},
			"suspect": func(*rapid.T) {
				if l := take(); l != nil {
					l.Suspect()
					l.Release()
				}
			},
			"freeze": func(t *rapid.T) { _ = p.Freeze(session(t), rapid.Bool().Draw(t, "all")) },
			"thaw":   func(t *rapid.T) { p.Thaw(session(t), rapid.Bool().Draw(t, "all")) },
			"warm":   func(t *rapid.T) { p.Warm(session(t), "test") },
			"quit":   func(t *rapid.T) { p.Quit(session(t), rapid.Bool().Draw(t, "all")) },
			"time": func(t *rapid.T) {
				clock.Advance(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second)
			},
		})
		if rapid.Bool().Draw(rt, "hurry") {
			cancel()
		}
		closing, stop := context.WithCancel(context.Background())
		stop() // busy servers get no time
		p.Close(closing)
		calls.Wait()
		cancel()
		require.LessOrEqual(rt, h.most, 2)
		require.Zero(rt, h.live, "a server is left")
		_, err := p.Acquire(context.Background(), "a", func() {})
		require.NotNil(rt, err)
	})
}
