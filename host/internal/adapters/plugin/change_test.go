//go:build linux

package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// load calls plugins continuously from many callers and counts the results.
// Every error is kept.
type load struct {
	answered atomic.Int64
	slowest  atomic.Int64
	mu       sync.Mutex
	errs     []error
	over     chan struct{}
	callers  sync.WaitGroup
}

func (b *bench) load(callers int, ids ...string) *load {
	l := &load{over: make(chan struct{})}
	for n := range callers {
		l.callers.Go(func() {
			for k := n; ; k++ {
				select {
				case <-l.over:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				begin := time.Now()
				_, err := b.client.Invoke(ctx, call(ids[k%len(ids)], `{:x 1}`))
				cancel()
				if took := int64(time.Since(begin)); took > l.slowest.Load() {
					l.slowest.Store(took)
				}
				if err != nil {
					l.mu.Lock()
					l.errs = append(l.errs, err)
					l.mu.Unlock()
					return
				}
				l.answered.Add(1)
			}
		})
	}
	return l
}

// more waits for further answers.
func (l *load) more(t testing.TB, n int64) {
	t.Helper()
	until := l.answered.Load() + n
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answered.Load() >= until || len(l.errs) > 0
	}, patience, time.Millisecond)
}

func (l *load) stop() []error {
	close(l.over)
	l.callers.Wait()
	return l.errs
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// copySelf copies the test binary; grown changes the copy.
func copySelf(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	in, err := os.Open(played)
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return path
}

// grown replaces a program by one with other content, as an installer does.
func grown(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", append(text, "grown"...), 0o755))
	require.NoError(t, os.Rename(path+".new", path))
}

// SUP-006: calls in flight end in their process, waiting calls move, and host
// calls of a call in flight are answered.
func TestSwapMovesWaitingCalls(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.MaxInFlight = 1
	b := run(t, s).ready()
	ctx, cancel := context.WithCancel(context.Background())
	hung := make(chan error, 1)
	go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	waiting := make(chan int, 3)
	for range 3 {
		go func() {
			a, err := b.ask(context.Background(), `{}`)
			assert.NoError(t, err)
			waiting <- a.Edition
		}()
	}
	require.Eventually(t, func() bool { return b.Status()[0].Queued == 3 }, patience, time.Millisecond)
	swapped := make(chan error, 1)
	go func() { swapped <- b.Swap(within(t), "p", CauseQuality) }()
	for range 3 {
		assert.Equal(t, 2, <-waiting)
	}
	select {
	case err := <-hung:
		require.Fail(t, "the call in flight was cut", err)
	default:
	}
	roles := map[Role]int{}
	for _, st := range b.Status() {
		roles[st.Role]++
	}
	assert.Equal(t, map[Role]int{Working: 1, Leaving: 1}, roles)
	cancel()
	assert.ErrorIs(t, <-hung, contract.OfType("canceled"))
	require.NoError(t, <-swapped)
}

// SUP-006, HTTP-008: an operator order during the start of a new edition
// applies to that edition; a revoked or older order does not.
func TestOrderDuringSwap(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, during func(*Supervisor) error
		want           State
	}{
		"drain":      {during: func(s *Supervisor) error { return s.Drain("p") }, want: Stopped},
		"quarantine": {during: func(s *Supervisor) error { return s.Quarantine("p", "too slow") }, want: Quarantined},
		"released": {
			before: func(s *Supervisor) error { return s.Drain("p") },
			during: func(s *Supervisor) error { return s.Release("p") },
			want:   Ready,
		},
		"older": {before: func(s *Supervisor) error { return s.Drain("p") }, want: Ready},
	} {
		t.Run(name, func(t *testing.T) {
			b := run(t, as("good")).ready()
			if tt.before != nil {
				require.NoError(t, tt.before(b.Supervisor))
			}
			p, err := b.Prepare(within(t), Change{Cause: CauseSwap, Replace: []Settings{as("good")}})
			require.NoError(t, err)
			if tt.during != nil {
				require.NoError(t, tt.during(b.Supervisor))
			}
			select {
			case <-p.Commit():
			case <-within(t).Done():
				require.Fail(t, "the change does not end")
			}
			require.Eventually(t, func() bool {
				all := b.Status()
				return len(all) == 1 && all[0].Edition == 2 && all[0].State == tt.want
			}, patience, time.Millisecond, b.steps)
			_, err = b.ask(within(t), `{}`)
			assert.Equal(t, tt.want == Ready, err == nil, "%v", err)
			require.NoError(t, b.Release("p"))
			require.NoError(t, b.Await(within(t), "p"))
			b.mustAsk(`{}`)
		})
	}
}

// A new edition that fails to start changes nothing.
func TestSwapRefused(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	link := func(args string) {
		text := "#!/bin/sh\nexec " + played + " " + args + "\n"
		require.NoError(t, os.WriteFile(program+".new", []byte(text), 0o755))
		require.NoError(t, os.Rename(program+".new", program))
	}
	link("role:good")
	s := as("good")
	s.Command = []string{program}
	s.Isolation.Level = confine.None // the script runs another program
	b := run(t, s).ready()
	before := b.Status()
	for args, says := range map[string]string{
		"role:exit-3": "no licence",
		"role:tools":  "another description than the running one", // other capabilities need another registry
	} {
		link(args)
		err := b.Swap(within(t), "p", CauseSwap)
		var refused *ChangeError
		require.ErrorAs(t, err, &refused, args)
		assert.Equal(t, "p", refused.Plugin)
		assert.Contains(t, err.Error(), says)
		after := b.Status()
		require.Len(t, after, 1, "nothing is left of it")
		assert.Equal(t, before[0].PID, after[0].PID)
		b.mustAsk(`{}`)
	}
	assert.ErrorContains(t, b.Swap(within(t), "q", CauseSwap), `no plugin "q"`)
}

// HCL-039 step 5: new processes run beside the old ones and take no calls
// before Commit; Rollback leaves no trace.
func TestPrepare(t *testing.T) {
	t.Parallel()
	other := as("good")
	other.Name = "other"
	b := run(t, other, as("good")).ready()
	require.NoError(t, b.Await(within(t), "other"))
	before := b.Status()

	next := as("good")
	next.Config = edn.MustRead(`{:mood "second"}`)
	added := as("good")
	added.Name = "added"
	p, err := b.Prepare(within(t), Change{Start: []Settings{added}, Replace: []Settings{next}})
	require.NoError(t, err)
	a, err := b.ask(context.Background(), `{:do "setup"}`)
	require.NoError(t, err)
	assert.Equal(t, "{}", out(a).Key("config").String())
	_, err = b.Client(map[string]Route{"a/b": {Plugin: "added"}})
	require.Error(t, err, "it is not there yet")
	staged := 0
	for _, st := range b.Status() {
		if st.Role == Staged {
			staged++
			assert.Equal(t, Ready, st.State)
		}
	}
	assert.Equal(t, 1, staged)

	impatient, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = b.Prepare(impatient, Change{Remove: []string{"p"}})
	require.ErrorContains(t, err, "another change is under way")
	p.Rollback()
	p.Rollback()
	<-p.Commit() // too late, and harmless
	after := b.Status()
	require.Len(t, after, 2)
	for n := range after {
		assert.Equal(t, before[n].PID, after[n].PID)
	}

	for what, c := range map[string]Change{
		"is named twice":                {Replace: []Settings{next}, Remove: []string{"p"}},
		"there is no plugin":            {Remove: []string{"nobody"}},
		"there is a plugin":             {Start: []Settings{next}},
		"has no command":                {Start: []Settings{DefaultSettings("x")}},
		"the changes of \"p\" need new": {Update: []Settings{next}},
	} {
		_, err = b.Prepare(within(t), c)
		require.ErrorContains(t, err, what)
	}
}

// HCL-039 step 6: a failure stops the new processes in reverse order and
// changes nothing, except that an optional new plugin may fail.
func TestPrepareFails(t *testing.T) {
	b := run(t, as("good")).ready()
	pid := b.pid()
	good, bad := as("good"), as("exit-3")
	good.Name, bad.Name = "good", "bad"
	bad.Restart.Backoff, bad.Restart.MaxBackoff = time.Hour, time.Hour
	change := Change{Start: []Settings{good, bad}, Replace: []Settings{as("good", "again")}}
	_, err := b.Prepare(within(t), change)
	var refused *ChangeError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "bad", refused.Plugin)
	assert.Contains(t, err.Error(), "no licence")
	require.Len(t, b.Status(), 1)
	assert.Equal(t, pid, b.pid())
	for _, tr := range b.journal.all() {
		if tr.Plugin == "good" && tr.To == Draining {
			assert.Equal(t, CauseAbandon, tr.Cause)
		}
	}

	change.Optional = map[string]bool{"bad": true}
	p, err := b.Prepare(within(t), change)
	require.NoError(t, err)
	<-p.Commit()
	c, err := b.Client(map[string]Route{"good/echo": {Plugin: "good"}, "bad/echo": {Plugin: "bad"}, "t/echo": {Plugin: "p"}})
	require.NoError(t, err)
	for id, ready := range map[string]bool{"good/echo": true, "bad/echo": false, "t/echo": true} {
		assert.Equal(t, ready, c.State(id).Ready, id)
	}
	assert.True(t, c.State("bad/echo").Respawning, "it goes on trying")
	assert.Greater(t, c.State("t/echo").Edition, 1)

	// A hanging start ends with the time of the change.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	slow := as("silent")
	slow.Name = "slow"
	_, err = b.Prepare(ctx, Change{Start: []Settings{slow}})
	require.ErrorAs(t, err, &refused)
	assert.Contains(t, err.Error(), "still starting")
}

// SUP-006, plugins.md section 8: a reload that changes 1 of 20 plugins keeps
// the processes of the 19 others, and no call fails.
func TestReloadTouchesOneOfTwenty(t *testing.T) {
	var plugins []Settings
	var ids []string
	for n := range 20 {
		s := as("good")
		s.Name = fmt.Sprintf("p%02d", n)
		plugins, ids = append(plugins, s), append(ids, s.Name+"/echo")
	}
	b := run(t, plugins...)
	for _, p := range plugins {
		require.NoError(t, b.Await(within(t), p.Name))
	}
	before := b.Status()
	l := b.load(8, ids...)
	l.more(t, 100)
	plugins[7].Config = edn.MustRead(`{:mood "changed"}`)
	plugins[3].Health.Misses = 9
	c, err := b.Plan(plugins)
	require.NoError(t, err)
	assert.Equal(t, []string{"p07"}, namesOf(c.Replace))
	assert.Equal(t, []string{"p03"}, namesOf(c.Update))
	assert.Empty(t, c.Start)
	assert.Empty(t, c.Remove)
	p, err := b.Prepare(within(t), c)
	require.NoError(t, err)
	<-p.Commit()
	l.more(t, 100)
	assert.Empty(t, l.stop())
	after := b.Status()
	require.Len(t, after, 20)
	for n := range after {
		if n == 7 {
			assert.NotEqual(t, before[n].PID, after[n].PID)
		} else {
			assert.Equal(t, before[n].PID, after[n].PID, after[n].Plugin)
		}
	}
	again, err := b.Plan(plugins)
	require.NoError(t, err)
	assert.True(t, again.Empty(), "nothing is left to do")
	t.Logf("%d calls, the slowest took %s", l.answered.Load(), time.Duration(l.slowest.Load()))
}

func namesOf(all []Settings) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// The plan for each difference: settings of a process need a new process,
// others do not (configuration.md 2.2).
func TestPlan(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.Command[0] = copySelf(t)
	file := filepath.Join(t.TempDir(), "book")
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o600))
	s.ConfigFiles = []string{file}
	b := run(t, s).ready()
	for name, row := range map[string]struct {
		change func(*Settings)
		update bool
	}{
		"env":         {func(s *Settings) { s.Env = map[string]string{"A": "b"} }, false},
		"workdir":     {func(s *Settings) { s.Workdir = "/tmp" }, false},
		"encoding":    {func(s *Settings) { s.Encoding = "json" }, false},
		"secret":      {func(s *Settings) { s.Secrets = edn.MustRead(`{[:key] "other"}`) }, false},
		"max_calls":   {func(s *Settings) { s.Instances.MaxCalls = 3 }, false},
		"arguments":   {func(s *Settings) { s.Command = append([]string{}, s.Command[0], "role:good", "x") }, false},
		"queue":       {func(s *Settings) { s.Queue = 7 }, true},
		"limit":       {func(s *Settings) { s.MaxInFlight = 7 }, true},
		"level":       {func(s *Settings) { s.LogLevel = "error" }, true},
		"grace":       {func(s *Settings) { s.StopGrace = 7 * time.Second }, true},
		"cancel":      {func(s *Settings) { s.CancelGrace = 7 * time.Second }, true},
		"backoff":     {func(s *Settings) { s.Restart.Max = 7 }, true},
		"interval":    {func(s *Settings) { s.Health.Interval = 7 * time.Second }, true},
		"pool":        {func(s *Settings) { s.Instances.Max = 7 }, true},
		"swap":        {func(s *Settings) { s.Swap.Mode = SwapCanary }, true},
		"description": {func(s *Settings) { s.Described = edn.MustRead(`{:a 1}`) }, true}, // derived from the rest
	} {
		want := s
		row.change(&want)
		c, err := b.Plan([]Settings{want})
		require.NoError(t, err, name)
		switch {
		case name == "description":
			assert.True(t, c.Empty(), name)
		case row.update:
			assert.Len(t, c.Update, 1, name)
		default:
			assert.Len(t, c.Replace, 1, name)
		}
	}
	grown(t, s.Command[0])
	c, err := b.Plan([]Settings{s})
	require.NoError(t, err)
	assert.Len(t, c.Replace, 1, "another binary")
	require.NoError(t, b.Swap(within(t), "p", CauseSwap))
	require.NoError(t, os.WriteFile(file, []byte("two"), 0o600))
	c, err = b.Plan([]Settings{s})
	require.NoError(t, err)
	assert.Len(t, c.Replace, 1, "another content of a file that the configuration names")
	c, err = b.Plan(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"p"}, c.Remove)
	_, err = b.Plan([]Settings{s, s})
	require.Error(t, err)
}

// configuration.md 2.2, U: running processes take new values and stay.
func TestUpdate(t *testing.T) {
	s := as("good")
	s.Queue, s.MaxInFlight = 0, 1
	b := run(t, s).ready()
	pid := b.pid()
	ctx, cancel := context.WithCancel(context.Background())
	hung := make(chan error, 1)
	go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	_, err := b.ask(context.Background(), `{}`)
	require.ErrorIs(t, err, contract.OfType("runtime/overloaded"))
	s.MaxInFlight, s.LogLevel = 2, "error"
	s.Restart.Policy = Never
	p, err := b.Prepare(within(t), Change{Update: []Settings{s}})
	require.NoError(t, err)
	<-p.Commit()
	require.Eventually(t, func() bool { _, err := b.ask(context.Background(), `{}`); return err == nil }, patience, time.Millisecond)
	cancel()
	assert.Error(t, <-hung)
	assert.Equal(t, pid, b.pid())
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	b.to(t, Stopped, 1) // the new policy applies to the running process
}

// HCL-040: a removed plugin serves the clients of older configurations until
// the last is closed, or its drain timeout is over.
func TestRemovedPluginServesOldRuns(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"the last client goes": true, "the drain timeout is over": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, other := as("good"), as("good")
			other.Name = "other"
			s.DrainTimeout = time.Hour
			if !closes {
				s.DrainTimeout = 300 * time.Millisecond
			}
			b := run(t, other, s).ready()
			p, err := b.Prepare(within(t), Change{Remove: []string{"p"}})
			require.NoError(t, err)
			done := p.Commit()
			if closes {
				b.mustAsk(`{}`)
				assert.True(t, b.client.State("t/echo").Ready)
				require.Error(t, b.Restart("p"), "the plugin was removed")
				b.client.Close()
				b.client.Close()
			}
			<-done
			_, err = b.ask(context.Background(), `{}`)
			require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
			assert.Contains(t, err.Error(), "no longer part of the configuration")
			require.ErrorIs(t, b.client.Await(context.Background(), "t/echo"), contract.OfType("runtime/not-ready"))
			assert.False(t, b.client.State("t/echo").Respawning)
			last := b.to(t, Draining, 1)
			assert.Equal(t, CauseRemove, last.Cause)
			require.Len(t, b.Status(), 1, "the other one stays")

			p, err = b.Prepare(within(t), Change{Start: []Settings{s}})
			require.NoError(t, err, "its name is free again")
			<-p.Commit()
			require.NoError(t, b.Await(within(t), "p"))
		})
	}
}

// HCL-040: a call that was bound before a reload took its capability from the plugin fails as not
// ready, so that the next candidate is called, not as a capability that does not exist.
func TestTakenCapabilityIsNotReady(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	b.mustAsk(`{:do "own"}`)
	p, err := b.Prepare(within(t), Change{Replace: []Settings{as("tools")}})
	require.NoError(t, err)
	<-p.Commit()
	_, err = b.ask(within(t), `{:do "own"}`)
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
	assert.Contains(t, err.Error(), "no longer has the capability :t/echo")
	assert.Equal(t, "runtime/not-ready", b.client.State("t/echo").Reason)
}

// A removed plugin that is added again keeps serving old runs.
func TestRemovedPluginComesBack(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.DrainTimeout = time.Hour
	b := run(t, s).ready()
	p, err := b.Prepare(within(t), Change{Remove: []string{"p"}})
	require.NoError(t, err)
	removed := p.Commit()
	p, err = b.Prepare(within(t), Change{Start: []Settings{s}})
	require.NoError(t, err)
	<-p.Commit()
	<-removed
	a, err := b.ask(context.Background(), `{}`)
	require.NoError(t, err)
	assert.Equal(t, 2, a.Edition, "a name means the edition that is current")
	b.client.Close()
	require.NoError(t, b.Await(within(t), "p"))
}

// A new edition whose process ends between Prepare and Commit is promoted when
// it is back; until then the old one serves.
func TestCommitAfterACrash(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	next := as("good", "next")
	next.Restart.Backoff, next.Restart.MaxBackoff = 300*time.Millisecond, 300*time.Millisecond
	p, err := b.Prepare(within(t), Change{Replace: []Settings{next}})
	require.NoError(t, err)
	l := b.load(2, "p/echo")
	for _, st := range b.Status() {
		if st.Role == Staged {
			require.NoError(t, syscall.Kill(st.PID, syscall.SIGKILL))
		}
	}
	b.until(t, "crash of the new edition", func(tr Transition) bool { return tr.Edition == 2 && tr.To == Backoff })
	done := p.Commit()
	l.more(t, 10)
	<-done
	l.more(t, 10)
	assert.Empty(t, l.stop())
	assert.Equal(t, 2, b.client.State("t/echo").Edition)
}

// Close during a change leaves nothing behind.
func TestCloseWhilePrepared(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	added := as("good")
	added.Name = "added"
	p, err := b.Prepare(within(t), Change{Start: []Settings{added}, Replace: []Settings{as("good", "next")}})
	require.NoError(t, err)
	var pids []int
	for _, st := range b.Status() {
		pids = append(pids, st.PID)
	}
	require.NoError(t, b.Supervisor.Close(within(t)))
	<-p.Commit()
	for _, pid := range pids {
		gone(t, pid, patience)
	}
	require.Eventually(t, func() bool { return len(b.Status()) == 0 }, patience, time.Millisecond)
	assert.Error(t, b.Swap(within(t), "p", CauseSwap))
}
