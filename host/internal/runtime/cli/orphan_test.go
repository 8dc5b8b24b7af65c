package cli_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pigeons is a formula without a solution on which a solver works for long.
func pigeons(holes int) string {
	var b strings.Builder
	for pigeon := range holes + 1 {
		b.WriteString("[")
		for hole := range holes {
			fmt.Fprintf(&b, "%d ", pigeon*holes+hole+1)
		}
		b.WriteString("] ")
		for hole := range holes {
			for other := range pigeon {
				fmt.Fprintf(&b, "[-%d -%d] ", pigeon*holes+hole+1, other*holes+hole+1)
			}
		}
	}
	return "[" + b.String() + "]"
}

// busy is a world in which every kind of plugin is at work at once, with all
// the processes that they start: a chess program with a child of its own, the
// worker of a solver, a test suite that leaves a child, and a plugin that hangs.
func busy(t testing.TB) *world {
	w := newWorld(t)
	w.write("ferment.hcl", shipped("chess", "chess", fmt.Sprintf("config {\n  engine = \"uci\"\n  path   = %q\n  args   = [%q]\n}", built.helper, roleEngine),
		fmt.Sprintf("isolation { exec = [%q] }", built.helper))+
		shipped("sat", "sat")+testrunner(w.dir)+shipped("text", "text")+scripted("hanging")+
		"intent \"demo/hang\" {\n  in  = \"req/any\"\n  out = \"res/any\"\n}\n")
	w.write("hanging.edn", script(":t/hang", ":demo/hang", ":in-schema :req/any :out-schema :res/any", hang))
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "suite"), 0o755))
	w.write("plan.edn", fmt.Sprintf(`{:nodes [{:op :call :intent :chess/best-move :input {:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"} :as :a}
 {:op :call :intent :sat/solve :input {:clauses %s} :as :b}
 {:op :call :intent :code/test :input {:dir "suite" :command [%q %q] :format :exit-code} :as :c}
 {:op :call :intent :demo/hang :input {} :as :d}
 {:op :emit :input [{:slot/id :a} {:slot/id :b} {:slot/id :c} {:slot/id :d}]}]}
`, pigeons(13), built.helper, roleForker))
	return w
}

// workforce is what a busy run consists of: the host and its reaper, the four
// plugins that its plan calls (not text), the chess program with its child, the solver's worker, the reaper of
// the suites, and a suite with its child.
const workforce = 2 + 4 + 2 + 1 + 1 + 2

// sleepers are the children of the chess program and of the suite among them.
const sleepers = 2

// atWork starts a busy run and waits until everybody is at work.
func (w *world) atWork(args ...string) *process {
	w.t.Helper()
	p := w.start("", append([]string{"run", "plan.edn", "--progress", "edn"}, args...)...)
	for _, capability := range []string{"chess/engine", "sat/solver", "code/testrunner", "t/hang"} {
		p.must("a call to "+capability, 0, asked(capability))
	}
	// A Go program starts a child that ends at once, to see what the kernel can
	// do: who is there in two looks stays. The sleepers are the last to come.
	var before []int
	there := awaitProcesses(10*time.Second, func() ([]int, bool) {
		pids := processesUnder(built.root)
		stay := len(pids) >= workforce && slices.Equal(pids, before)
		before = pids
		return pids, stay && strings.Count(describe(pids), " "+roleSleeper) == sleepers
	})
	require.Len(w.t, there, workforce, describe(there))
	return p
}

// TestHostKilled: one second after SIGKILL of the host none of its processes is
// left, neither plugins nor what they started (SUP-008).
func TestHostKilled(t *testing.T) {
	w := busy(t)
	for range 3 {
		p := w.atWork()
		before := describe(processesUnder(built.root))
		p.signal(syscall.SIGKILL)
		begun := time.Now()
		left := awaitNone(built.root, time.Second)
		require.Empty(t, left, "still there after a second: %s\nthere were: %s", describe(left), before)
		t.Logf("all gone after %s", time.Since(begun).Round(time.Millisecond))
		p.wait()
	}
}

// TestHostKilledAnytime: the same at seeded moments from the first instruction
// on.
func TestHostKilledAnytime(t *testing.T) {
	w := busy(t)
	random := rand.New(rand.NewPCG(killSeed, 2))
	for i := range 15 {
		p := w.start("", "run", "plan.edn")
		pause := time.NewTimer(time.Duration(random.IntN(500)) * time.Millisecond)
		<-pause.C
		p.signal(syscall.SIGKILL)
		left := awaitNone(built.root, time.Second)
		require.Empty(t, left, "round %d: still there after a second: %s", i, describe(left))
		p.wait()
	}
}

// TestPluginsKilled: what a plugin has started ends with it, while the host
// goes on (SUP-004).
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
		// The run fails with the first of them, and the host may take the others
		// down before it is their turn.
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			require.NoError(t, err)
		}
	}
	left := awaitProcesses(time.Second, func() ([]int, bool) {
		left := slices.DeleteFunc(slices.Clone(others), zombie)
		return left, len(left) == 0
	})
	assert.Empty(t, left, "still there after a second: %s", describe(left))
	p.signal(syscall.SIGINT)
	p.wait()
}

// TestInterrupted: an interrupt cancels the run, takes every process down and
// ends with 130 (CLI-002, CLI-004).
func TestInterrupted(t *testing.T) {
	w := busy(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := w.atWork("-o", "edn")
		begun := time.Now()
		p.signal(signal)
		got := p.wait()
		assert.Equal(t, 130, got.code, got.stderr)
		assert.Less(t, time.Since(begun), 10*time.Second)
		assert.Regexp(t, `canceling run run_[0-9A-Z]{26}`, got.stderr)
		assert.Equal(t, "canceled", word(got.value(t).Key("error").Key("type")))
		left := awaitNone(built.root, time.Second)
		require.Empty(t, left, "still there after %s: %s", signal, describe(left))
	}
}

// TestTwoHosts: commands that run at the same time in one directory do not
// touch each other (SUP-008).
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
