package cli_test

import (
	"fmt"
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

// killSeed is the seed for the moments of kills.
const killSeed = 20

// pigeons returns an unsolvable formula that keeps a solver busy for long.
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

// busy is a world in which every kind of plugin is busy at once, with all
// their child processes: a chess program with a child, the worker of a solver,
// a test suite that leaves a child, and a plugin that hangs.
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

// workforce is the number of processes of a busy run: the host and its reaper,
// the four plugins that its plan calls (not text), the chess program with its
// child, the solver's worker, the reaper of the suites, and a suite with its
// child.
const workforce = 2 + 4 + 2 + 1 + 1 + 2

// sleepers is the number of children of the chess program and of the suite.
const sleepers = 2

// atWork starts a busy run and waits until all processes run.
func (w *world) atWork(args ...string) *process {
	w.t.Helper()
	p := w.start("", append([]string{"run", "plan.edn", "--progress", "edn"}, args...)...)
	for _, capability := range []string{"chess/engine", "sat/solver", "code/testrunner", "t/hang"} {
		p.must("a call to "+capability, 0, asked(capability))
	}
	// A Go program starts a short-lived child to probe the kernel: a process
	// seen twice is permanent. The sleepers are the last to start.
	var before []int
	there := awaitProcesses(runLimit, func() ([]int, bool) {
		pids := processesUnder(built.root)
		stay := len(pids) >= workforce && slices.Equal(pids, before)
		before = pids
		return pids, stay && strings.Count(describe(pids), " "+roleSleeper) == sleepers
	})
	require.Len(w.t, there, workforce, describe(there))
	return p
}

// TestHostKilled: one second after SIGKILL of the host none of its processes
// is left, neither plugins nor their children (SUP-008). A busy machine may need
// 5 s for the quickest of three kills.
func TestHostKilled(t *testing.T) {
	w := busy(t)
	var took []time.Duration
	for range 3 {
		p := w.atWork()
		before := describe(processesUnder(built.root))
		p.signal(syscall.SIGKILL)
		begun := time.Now()
		left := awaitNone(built.root, endLimit)
		require.Empty(t, left, "still there: %s\nthere were: %s", describe(left), before)
		took = append(took, time.Since(begun).Round(time.Millisecond))
		p.wait()
	}
	t.Logf("all gone after %v", took)
	assert.Less(t, slices.Min(took), 5*time.Second)
}

// TestInterrupted: an interrupt cancels the run, stops every process and exits
// with 130 (CLI-002, CLI-004).
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
		left := awaitNone(built.root, endLimit)
		require.Empty(t, left, "still there after %s: %s", signal, describe(left))
	}
}
