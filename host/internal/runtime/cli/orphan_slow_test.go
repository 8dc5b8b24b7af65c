//go:build slow

package cli_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHostKilledAnytime: TestHostKilled at seeded moments from the start on.
func TestHostKilledAnytime(t *testing.T) {
	w := busy(t)
	random := rand.New(rand.NewPCG(killSeed, 2))
	var took []time.Duration
	for i := range 15 {
		p := w.start("", "run", "plan.edn")
		pause := time.NewTimer(time.Duration(random.IntN(500)) * time.Millisecond)
		<-pause.C
		p.signal(syscall.SIGKILL)
		begun := time.Now()
		left := awaitNone(built.root, endLimit)
		require.Empty(t, left, "round %d: still there: %s", i, describe(left))
		took = append(took, time.Since(begun).Round(time.Millisecond))
		p.wait()
	}
	t.Logf("all gone after %v", took)
}

// TestTwoHosts: concurrent commands in one directory do not affect each other
// (SUP-008).
func TestTwoHosts(t *testing.T) {
	w := busy(t)
	long := w.atWork()
	for range 3 {
		got := w.run("act", "text/render", `{:template "x"}`, "--progress", "edn")
		require.Equal(t, 0, got.code, got.stderr)
	}
	there := processesUnder(built.root)
	assert.Len(t, there, workforce, "all of the other command: %s", describe(there))
	work, err := filepath.Glob(filepath.Join(w.dir, "var", "work", "*", "testrunner", "0"))
	require.NoError(t, err)
	assert.Len(t, work, 1, "its scratch directory is there, and no other")
	long.signal(syscall.SIGINT)
	assert.Equal(t, 130, long.wait().code)
	left, err := filepath.Glob(filepath.Join(w.dir, "var", "work", "*"))
	require.NoError(t, err)
	assert.Empty(t, left, "a host that ends in peace leaves nothing")
}

// TestPluginsKilled: the child processes of a plugin end with it, while the
// host continues (SUP-004).
func TestPluginsKilled(t *testing.T) {
	w := busy(t)
	p := w.atWork()
	var plugins, others []int
	for _, pid := range processesUnder(built.root) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		require.NoError(t, err)
		switch {
		case exe == built.ferment:
		case filepath.Dir(exe) == built.plugins && parentOf(pid) == p.cmd.Process.Pid:
			plugins = append(plugins, pid)
		default:
			others = append(others, pid)
		}
	}
	require.Len(t, plugins, 4, describe(plugins))
	require.Len(t, others, workforce-2-4, describe(others))
	for _, pid := range plugins {
		// The run fails with the first of them, and the host may stop the
		// others before they are killed.
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			require.NoError(t, err)
		}
	}
	begun := time.Now()
	left := awaitProcesses(endLimit, func() ([]int, bool) {
		left := slices.DeleteFunc(slices.Clone(others), zombie)
		return left, len(left) == 0
	})
	assert.Empty(t, left, "still there: %s", describe(left))
	t.Logf("all gone after %s", time.Since(begun).Round(time.Millisecond))
	p.signal(syscall.SIGINT)
	p.wait()
}
