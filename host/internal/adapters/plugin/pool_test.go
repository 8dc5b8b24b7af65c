//go:build linux

package plugin

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// pool is a plugin whose processes take one call at a time.
func pool(lowest, most, standby int) Settings {
	s := as("good")
	s.MaxInFlight = 1
	s.Instances.Min, s.Instances.Max, s.Instances.Standby = lowest, most, standby
	return s
}

// hold keeps n calls in flight until release is called.
func (b *bench) hold(n int) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var held sync.WaitGroup
	for range n {
		held.Go(func() { _, _ = b.ask(ctx, `{:do "hang"}`) })
	}
	require.Eventually(b.t, func() bool { return b.sum(func(st Status) int { return st.InFlight }) >= n }, patience, time.Millisecond, b.steps())
	return func() { cancel(); held.Wait() }
}

func (b *bench) sum(f func(Status) int) int {
	total := 0
	for _, st := range b.Status() {
		total += f(st)
	}
	return total
}

// eventually waits for that many matching processes.
func (b *bench) eventually(n int, what string, fits func(Status) bool) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return b.sum(func(st Status) int {
			if fits(st) {
				return 1
			}
			return 0
		}) == n
	}, patience, time.Millisecond, what)
}

func working(st Status) bool { return st.Role == Working && st.State == Ready }
func warm(st Status) bool    { return st.Role == Standby && st.State == Ready }

// SUP-007: the number of processes follows the load within its bounds; the
// process with the fewest calls is chosen; idle processes are stopped after a
// while.
func TestPoolGrowsAndShrinks(t *testing.T) {
	s := pool(1, 3, 0)
	s.Instances.IdleTTL = 300 * time.Millisecond
	b := run(t, s).ready()
	b.eventually(1, "one to begin with", working)
	release := b.hold(3)
	b.eventually(3, "one for each call", working)
	for _, st := range b.Status() {
		assert.Equal(t, 1, st.InFlight, "least in flight")
	}
	waiting := make(chan error, 1)
	go func() { _, err := b.ask(context.Background(), `{}`); waiting <- err }()
	require.Eventually(t, func() bool { return b.Status()[0].Queued == 1 }, patience, time.Millisecond)
	assert.Len(t, b.Status(), 3, "no more than max")
	release()
	require.NoError(t, <-waiting)
	b.eventually(1, "one that stays", working)
	b.eventually(0, "the rest is gone", func(st Status) bool { return st.Role == Leaving })
	grown, idle := 0, 0
	for _, tr := range b.journal.all() {
		switch {
		case tr.To == Starting && tr.Cause == CauseLoad:
			grown++
		case tr.To == Draining && tr.Cause == CauseIdle:
			idle++
		}
	}
	assert.Equal(t, [2]int{2, 2}, [2]int{grown, idle})
	b.mustAsk(`{}`)
}

// SUP-007: with min 0 no process runs before the first call, and a call waits
// for the process that it starts.
func TestPoolSleeps(t *testing.T) {
	t.Parallel()
	s := pool(0, 2, 0)
	s.Queue = 0
	s.Instances.IdleTTL = 200 * time.Millisecond
	b := run(t, s).ready()
	assert.Empty(t, b.Status(), "no call was made")
	state := b.client.State("t/echo")
	assert.True(t, state.Ready, "a call would be served")
	b.mustAsk(`{}`)
	b.eventually(0, "idle", func(Status) bool { return true })
	b.mustAsk(`{}`)

	require.NoError(t, b.Drain("p"))
	b.eventually(0, "of them left, if it was not idle before", func(st Status) bool { return st.State != Stopped })
	_, err := b.ask(context.Background(), `{}`)
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"), "an operator wants none")
	require.NoError(t, b.Release("p"))
	b.mustAsk(`{}`)
}

// A call that waits for a process whose start fails gets the reason.
func TestPoolCannotGrow(t *testing.T) {
	s := as("exit-3")
	s.Instances.Min = 0
	s.Restart.Backoff, s.Restart.MaxBackoff = time.Hour, time.Hour
	b := run(t, s)
	_, err := b.ask(context.Background(), `{}`)
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
	assert.Contains(t, err.Error(), "no licence")
	assert.True(t, b.client.State("t/echo").Respawning)
}

// SUP-007: a standby replaces a crashed process: the next call is answered at
// once, and another standby is started.
func TestStandbyTakesOver(t *testing.T) {
	b := run(t, pool(1, 1, 1)).ready()
	for range 3 {
		b.eventually(1, "a warm one", warm)
		b.eventually(1, "one that works", working)
		var before Status
		for _, st := range b.Status() {
			if working(st) {
				before = st
			}
		}
		_, err := b.ask(context.Background(), `{:do "kill"}`)
		require.ErrorIs(t, err, contract.OfType("runtime/crashed"))
		state := b.client.State("t/echo")
		assert.True(t, state.Ready, "no call has to wait")
		a, err := b.ask(context.Background(), `{}`)
		require.NoError(t, err)
		assert.NotEqual(t, before.Generation, a.Generation)
	}
}

// FX-003: after max_calls calls a process is replaced; with 1 each call has its
// own process, and no more calls run than max allows.
func TestMaxCalls(t *testing.T) {
	t.Parallel()
	t.Run("one each", func(t *testing.T) {
		s := pool(1, 2, 1)
		s.MaxInFlight = 0
		s.Instances.MaxCalls = 1
		s.Queue = 100
		b := run(t, s).ready()
		var seen sync.Map
		var calls sync.WaitGroup
		var most atomic.Int32
		for range 12 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				c := request(`{:do "setup"}`)
				a, err := b.client.Invoke(ctx, c)
				if assert.NoError(t, err) {
					_, twice := seen.LoadOrStore(a.Generation, true)
					assert.False(t, twice, "generation %d answered two calls", a.Generation)
				}
			})
		}
		calls.Wait()
		release := b.hold(2)
		for range 20 {
			now := int32(b.sum(func(st Status) int { return min(st.InFlight, 1) }))
			most.Store(max(most.Load(), now))
		}
		assert.EqualValues(t, 2, most.Load(), "no more than max at a time")
		release()
	})
	t.Run("some", func(t *testing.T) {
		s := as("good")
		s.Instances.MaxCalls = 5
		b := run(t, s).ready()
		count := map[int]int{}
		for range 17 {
			a, err := b.ask(context.Background(), `{}`)
			require.NoError(t, err, "no call fails because a process is renewed")
			count[a.Generation]++
		}
		assert.Len(t, count, 4)
		for generation, n := range count {
			assert.LessOrEqual(t, n, 5, "generation %d", generation)
		}
		recycled := b.until(t, "end of the first", func(tr Transition) bool { return tr.To == Draining })
		assert.Equal(t, CauseRecycle, recycled.Cause)
	})
	t.Run("the last call is not cut", func(t *testing.T) {
		s := as("good")
		s.Instances.MaxCalls = 1
		s.DrainTimeout = 50 * time.Millisecond
		b := run(t, s).ready()
		ctx, cancel := context.WithCancel(context.Background())
		hung := make(chan error, 1)
		go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
		b.inFlight(1)
		next := make(chan error, 1)
		go func() { _, err := b.ask(context.Background(), `{}`); next <- err }()
		require.Eventually(t, func() bool { return b.Status()[0].Queued == 1 }, patience, time.Millisecond)
		assert.True(t, b.client.State("t/echo").Ready, "it only has to wait")
		select {
		case err := <-hung:
			require.Fail(t, "cut", err)
		case <-time.After(4 * s.DrainTimeout):
		}
		cancel()
		assert.Error(t, <-hung)
		require.NoError(t, <-next)
	})
}

// SES-003: calls of a session go to the same process as long as it lives, and
// do not delay others.
func TestPinnedSessions(t *testing.T) {
	s := as("good")
	s.Instances.Min, s.Instances.Max, s.Instances.Pin = 3, 3, PinSession
	s.MaxInFlight = 1
	b := run(t, s).ready()
	b.eventually(3, "all", working)
	ask := func(session string) int {
		c := request(`{}`)
		c.Session = session
		a, err := b.client.Invoke(within(t), c)
		require.NoError(t, err)
		return a.Generation
	}
	busy := request(`{:do "hang"}`)
	ctx, cancel := context.WithCancel(context.Background())
	hung := make(chan error, 1)
	go func() { _, err := b.client.Invoke(ctx, busy); hung <- err }() // so that sessions are not all on the first
	require.Eventually(t, func() bool { return b.sum(func(st Status) int { return st.InFlight }) == 1 }, patience, time.Millisecond)
	mine := ask("one")
	cancel()
	assert.Error(t, <-hung)
	for range 5 {
		assert.Equal(t, mine, ask("one"))
	}
	// Its process is busy: the session waits for it, others do not.
	busy.Session = "one"
	ctx, cancel = context.WithCancel(context.Background())
	go func() { _, err := b.client.Invoke(ctx, busy); hung <- err }()
	require.Eventually(t, func() bool { return b.sum(func(st Status) int { return st.InFlight }) == 1 }, patience, time.Millisecond)
	same := make(chan int, 1)
	go func() { same <- ask("one") }()
	require.Eventually(t, func() bool { return b.Status()[0].Queued == 1 }, patience, time.Millisecond)
	assert.NotEqual(t, mine, ask("two"))
	cancel()
	assert.Error(t, <-hung)
	assert.Equal(t, mine, <-same)

	for _, st := range b.Status() {
		if st.Generation == mine {
			require.NoError(t, syscall.Kill(st.PID, syscall.SIGKILL))
			gone(t, st.PID, patience)
		}
	}
	require.Eventually(t, func() bool {
		c := request(`{}`)
		c.Session = "one"
		a, err := b.client.Invoke(context.Background(), c)
		return err == nil && a.Generation != mine
	}, patience, time.Millisecond, "another one takes the session over")
}

// SUP-007: pool sizes can be changed while processes run.
func TestPoolResized(t *testing.T) {
	b := run(t, pool(3, 3, 1)).ready()
	b.eventually(3, "three", working)
	b.eventually(1, "and one", warm)
	for _, row := range [][3]int{{1, 2, 0}, {2, 2, 2}} {
		p, err := b.Prepare(within(t), Change{Update: []Settings{pool(row[0], row[1], row[2])}})
		require.NoError(t, err)
		<-p.Commit()
		b.eventually(row[1], "as many as may be, or have to", working)
		b.eventually(row[2], "warm ones", warm)
		b.eventually(0, "nobody else", func(st Status) bool { return st.Role == Leaving })
	}
	b.mustAsk(`{}`)
}

// A pool is swapped as a whole under load.
func TestSwapPool(t *testing.T) {
	t.Parallel()
	s := pool(2, 3, 1)
	s.Queue = 100
	b := run(t, s).ready()
	b.eventually(2, "two", working)
	l := b.load(4, "p/echo")
	l.more(t, 30)
	for range 2 {
		require.NoError(t, b.Swap(within(t), "p", CauseSwap))
		l.more(t, 30)
	}
	assert.Empty(t, l.stop())
	for _, st := range b.Status() {
		assert.Equal(t, 3, st.Edition)
	}
}

// Between the exit of a process and its transition the state does not report
// that the plugin stays down.
func TestStateWhileAnEndIsNoticed(t *testing.T) {
	b := run(t, as("good")).ready()
	u, err := b.unit("p")
	require.NoError(t, err)
	i := u.all()[0]
	u.withdraw(i)
	state := b.client.State("t/echo")
	assert.False(t, state.Ready)
	assert.True(t, state.Respawning)
	awaited := make(chan error, 1)
	ctx := within(t)
	go func() { awaited <- b.client.Await(ctx, "t/echo") }()
	u.place(i, i.living.Load(), 0)
	require.NoError(t, <-awaited)
}
