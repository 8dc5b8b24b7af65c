//go:build linux

package launch

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// SUP-004: each step has a hard deadline, a step that hangs is abandoned.
func TestStopLadder(t *testing.T) {
	for name, row := range map[string]struct {
		steps  func(die func()) []Step
		cancel time.Duration
		took   time.Duration
		want   string
	}{
		"each step ends at its limit": {
			steps: func(func()) []Step {
				return []Step{
					{Name: "drain", Limit: 2 * time.Second, Do: untilDone},
					{Name: "term", Limit: time.Second, Do: nothing, Await: true},
					{Name: "kill", Limit: time.Second, Do: nothing, Await: true, Last: true},
				}
			},
			took: 4 * time.Second, want: "drain:timeout term kill",
		},
		"the next step follows at once without Await": {
			steps: func(die func()) []Step {
				return []Step{
					{Name: "drain", Limit: 2 * time.Second, Do: nothing},
					{Name: "term", Limit: time.Second, Do: func(context.Context) error { die(); return nil }, Await: true},
					{Name: "kill", Limit: time.Second, Do: nothing, Await: true},
				}
			},
			want: "drain term!",
		},
		"an error ends the step": {
			steps: func(func()) []Step {
				return []Step{
					{Name: "stdin", Limit: 2 * time.Second, Do: func(context.Context) error { return errors.New("no") }, Await: true},
					{Name: "kill", Limit: time.Second, Do: nothing, Await: true},
				}
			},
			took: time.Second, want: "stdin:error kill",
		},
		"a process that ends within a step ends the stop": {
			steps: func(die func()) []Step {
				return []Step{
					{Name: "drain", Limit: 10 * time.Second, Do: func(ctx context.Context) error {
						time.AfterFunc(3*time.Second, die)
						return untilDone(ctx)
					}},
					{Name: "kill", Limit: time.Second, Do: nothing},
				}
			},
			took: 3 * time.Second, want: "drain!",
		},
		"a cancelled stop goes straight to the last step": {
			steps: func(func()) []Step {
				return []Step{
					{Name: "drain", Limit: 10 * time.Second, Do: untilDone},
					{Name: "term", Limit: 10 * time.Second, Do: nothing, Await: true},
					{Name: "kill", Limit: time.Second, Do: nothing, Await: true, Last: true},
				}
			},
			cancel: time.Second, took: 2 * time.Second, want: "drain:timeout term:skipped kill",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := make(chan struct{})
				var once sync.Once
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, cancel)
				}
				begin := time.Now()
				results := Stop(ctx, done, row.steps(func() { once.Do(func() { close(done) }) }))
				assert.Equal(t, row.took, time.Since(begin))
				var got []string
				for _, r := range results {
					s := r.Name
					switch {
					case r.Skipped:
						s += ":skipped"
					case errors.Is(r.Err, context.DeadlineExceeded) || errors.Is(r.Err, context.Canceled):
						s += ":timeout"
					case r.Err != nil:
						s += ":error"
					case r.Exited:
						s += "!"
					}
					got = append(got, s)
				}
				assert.Equal(t, row.want, strings.Join(got, " "))
			})
		})
	}
}

// A step that ignores its context is abandoned, not waited for.
func TestStopLeavesHangingStepBehind(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	results := Stop(context.Background(), make(chan struct{}), []Step{
		{Name: "hang", Limit: 20 * time.Millisecond, Do: func(context.Context) error { <-release; return nil }},
	})
	require.Len(t, results, 1)
	assert.ErrorIs(t, results[0].Err, context.DeadlineExceeded)
}

func TestStopOfEndedProcessTakesNoStep(t *testing.T) {
	done := make(chan struct{})
	close(done)
	assert.Empty(t, Stop(context.Background(), done, []Step{{Name: "kill", Limit: time.Hour, Do: nothing}}))
}

// SUP-004 and plugins.md section 8: a SIGSTOPped process, which nothing else ends,
// is killed after the grace.
func TestStopOfStoppedProcess(t *testing.T) {
	p := start(t, command("stubborn"))
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	grace := 200 * time.Millisecond
	begin := time.Now()
	results := Stop(context.Background(), p.Done(), []Step{
		{Name: "stdin", Limit: grace / 2, Do: func(context.Context) error { return p.CloseStdin() }, Await: true},
		{Name: "term", Limit: grace / 2, Do: func(context.Context) error { return p.Signal(syscall.SIGTERM) }, Await: true},
		{Name: "kill", Limit: patience, Do: func(context.Context) error { return p.Kill() }, Await: true, Last: true},
	})
	t.Logf("it ended %s after the grace", time.Since(begin)-grace)
	require.Len(t, results, 3)
	assert.True(t, results[2].Exited)
	assert.Equal(t, "killed by SIGKILL", p.Exit().String())
}

func nothing(context.Context) error { return nil }

func untilDone(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// SUP-008 and plugins.md section 8: SIGKILL of a host leaves no plugin and no
// grandchild, after one second on an idle machine, and no directory.
func TestHostKilledLeavesNothing(t *testing.T) {
	for _, role := range []string{"host", "host-stop-reaper"} {
		t.Run(role, func(t *testing.T) {
			base := shortDir(t)
			h := start(t, command(role, "BASE="+base))
			family := pids(t, h.Stdout())
			require.GreaterOrEqual(t, len(family), 4, "reaper, plugin and two grandchildren")
			held, err := os.ReadDir(base)
			require.NoError(t, err)
			require.Len(t, held, 1)
			for _, pid := range family[len(family)-4:] {
				assert.True(t, alive(pid))
			}
			// The host alone: the group could include the starting reaper.
			require.NoError(t, syscall.Kill(h.PID(), syscall.SIGKILL))
			killed := time.Now()
			reaper, plugins := family[len(family)-4], family[len(family)-3:]
			for _, pid := range plugins {
				gone(t, pid, patience)
			}
			t.Logf("all gone after %s", time.Since(killed))
			gone(t, reaper, patience)
			left, err := os.ReadDir(base)
			require.NoError(t, err)
			assert.Empty(t, left, "the reaper removed the directory")
		})
	}
}

// nobody is a user id without privileges.
const nobody = 65534

// SUP-008: descendants in other sessions, also orphaned ones, end within a second with a
// killed host, at every level of confinement and for every user.
func TestHostKilledEndsEscaped(t *testing.T) {
	users := map[string]*syscall.Credential{"own user": nil}
	if os.Getuid() == 0 {
		users["another user"] = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	rounds := proof.Size(t, "kills of hosts with children in other sessions", 1, 50)
	for user, credential := range users {
		for _, level := range []confine.Level{confine.None, confine.Limits, confine.Strict} {
			t.Run(user+" "+string(level), func(t *testing.T) {
				t.Parallel()
				for range rounds {
					host := self("host-escape")
					host.Env = append(host.Env, "LEVEL="+string(level))
					host.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: credential}
					out, err := host.StdoutPipe()
					require.NoError(t, err)
					require.NoError(t, host.Start())
					family := pids(t, out)
					require.Len(t, family, 3, "the plugin, its child and its orphaned grandchild")
					require.NoError(t, host.Process.Kill())
					killed := time.Now()
					_ = host.Wait()
					for _, pid := range family {
						gone(t, pid, patience)
					}
					assert.Less(t, time.Since(killed), time.Second)
				}
			})
		}
	}
}

// SUP-004, SUP-008: they also end with the plugin that started them.
func TestExitEndsEscaped(t *testing.T) {
	for _, level := range []confine.Level{confine.None, confine.Strict} {
		p := start(t, escaping(level))
		family := pids(t, p.Stdout())
		require.Len(t, family, 2)
		await(t, p.Settled(), patience, "end of the family")
		assert.Equal(t, 8, p.Exit().Code)
		assert.Equal(t, 2, p.outlived())
		for _, pid := range family {
			gone(t, pid, patience)
		}
	}
}

// SUP-008: without a reaper the death signal still takes the plugin itself.
func TestHostKilledWithoutReaper(t *testing.T) {
	h := start(t, command("host-no-reaper"))
	family := pids(t, h.Stdout())
	require.Len(t, family, 3)
	t.Cleanup(func() {
		for _, pid := range family[:2] {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			gone(t, pid, patience)
		}
	})
	require.NoError(t, syscall.Kill(h.PID(), syscall.SIGKILL))
	gone(t, family[2], patience)
}

// A reaper starts with the first command, not before.
func TestReaperForgetsEndedSessions(t *testing.T) {
	r := NewReaper("")
	assert.Zero(t, r.pid())
	c := command("exit-3")
	c.Reaper = r
	p := start(t, c)
	await(t, p.Settled(), patience, "end of process")
	r.mu.Lock()
	assert.Empty(t, r.families)
	r.mu.Unlock()
	pid := r.pid()
	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "a second close succeeds")
	gone(t, pid, patience)
	require.NoError(t, NewReaper("").Close(), "one that never started")
}

// A reaper that is closed kills the remaining processes.
func TestReaperCloseKillsTheRest(t *testing.T) {
	r := NewReaper("")
	c := command("keep-grandchildren")
	c.Reaper = r
	p := start(t, c)
	family := pids(t, p.Stdout())
	require.NoError(t, r.Close())
	for _, pid := range family {
		gone(t, pid, patience)
	}
}

func TestReadFamilies(t *testing.T) {
	got := readFamilies(strings.NewReader("+ 10 5 1\n+ 11 6 2\nrubbish\n- 10 0 0\n+ x 1 1\n+ 1 1 1\n+ 0 1 1\n* 12 1 1\n+ 13 y 1\n+ 14 7 0"))
	assert.ElementsMatch(t, []family{{session: 11, start: 6, mark: 2}, {session: 14, start: 7}}, got)
}

// A reused session number is left alone.
func TestReapSparesReusedNumbers(t *testing.T) {
	p := start(t, command("until-eof"))
	endFamilies([]family{{session: p.PID(), start: startTime(p.PID()) + 1}}, reapLimit)
	assert.True(t, alive(p.PID()))
	assert.False(t, killOne(stat{pid: p.PID(), session: p.PID(), start: startTime(p.PID()) - 1}))
	assert.True(t, alive(p.PID()))
	endFamilies([]family{{session: p.PID(), start: startTime(p.PID())}}, reapLimit)
	gone(t, p.PID(), patience)
}
