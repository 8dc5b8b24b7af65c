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

// batched is a world whose capability count/gate notes the begin and the end of its
// calls in a file, outside of the host.
type batched struct {
	*world
	file string
}

func newBatched(t *testing.T) *batched {
	w := newWorld(t)
	b := &batched{w, filepath.Join(w.dir, "out", "calls")}
	require.NoError(t, os.Mkdir(filepath.Dir(b.file), 0o755))
	w.write("ferment.hcl", fmt.Sprintf(`ferment {
  profile       = "test"
  drain_timeout = "200ms"
}

plugin "counter" {
  command = [%q, %q]
  config {
    file = %q
  }
  isolation {
    write_paths = ["out"]
  }
}
`, built.helper, roleCounter, b.file)+onDisk+fmt.Sprintf(anyIntent, "count/gate"))
	w.env = append(w.env, "FERMENT_PROFILE=test")
	w.mustLock()
	return b
}

// inputs writes a file with a line per number.
func (b *batched) inputs(numbers ...string) {
	var text strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&text, "{\"n\": %q}\n", n)
	}
	b.write("in.jsonl", text.String())
}

// numbered returns n numbers, of which those at the given lines wait for the gate.
func numbered(n int, waiting ...int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("n%d", i+1)
		if slices.Contains(waiting, i+1) {
			out[i] = "wait" + out[i]
		}
	}
	return out
}

// calls returns the noted lines, such as "begin n1".
func (b *batched) calls() []string {
	text, err := os.ReadFile(b.file)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// await waits until a line is noted.
func (b *batched) await(call string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return slices.Contains(b.calls(), call) }, runLimit, 5*time.Millisecond, call)
}

// open lets the waiting calls go on.
func (b *batched) open() { b.write(filepath.Join("out", "calls.open"), "") }

// once requires that each call with a prefix was noted exactly once.
func (b *batched) once(prefix string, numbers []string) {
	b.t.Helper()
	var want, got []string
	for _, n := range numbers {
		want = append(want, prefix+n)
	}
	for _, call := range b.calls() {
		if strings.HasPrefix(call, prefix) {
			got = append(got, call)
		}
	}
	assert.ElementsMatch(b.t, want, got)
}

// answers returns the number of each result, and of a failed one its type.
func answers(t *testing.T, got ended) (out []string) {
	t.Helper()
	for i, v := range jsonValues(t, got.stdout) {
		m := v.(map[string]any)
		assert.EqualValues(t, i+1, m["line"], "in order")
		if e, failed := m["error"].(map[string]any); failed {
			out = append(out, e["type"].(string))
			continue
		}
		out = append(out, m["out"].(map[string]any)["n"].(string))
	}
	return out
}

// sums returns the summary of a batch with --json.
func sums(t *testing.T, got ended) map[string]any {
	t.Helper()
	all := jsonValues(t, got.stderr)
	require.NotEmpty(t, all, got.stderr)
	return all[0].(map[string]any)
}

// CLI-001, CLI-002: batch prints one result per line in the order of the lines,
// although a later one is ready first. A line that cannot be read, one that is
// refused and one whose run fails do not stop the others, and the exit code is 1.
// RUN-022: the same command executes no line again, --retry-failed only the failed
// ones, and --name only changed ones.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := newBatched(t)
	s := b.serve()
	numbers := numbered(10, 1)
	numbers[5] = "fail"
	b.inputs(numbers...)
	text, err := os.ReadFile(filepath.Join(b.dir, "in.jsonl"))
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	lines[2], lines[3] = "{\"n\n", "[1]\n"
	b.write("in.jsonl", strings.Join(lines, ""))
	want := slices.Clone(numbers)
	want[2], want[3], want[5] = "invalid-request", "invalid-request", "policy/blocked"

	p := b.start("", "batch", "in.jsonl", "--intent", "count/gate", "--json")
	b.await("end n10")
	b.open()
	first := p.wait()
	assert.Equal(t, 1, first.code, first.stderr)
	assert.Equal(t, want, answers(t, first))
	for key, n := range map[string]float64{"lines": 10, "accepted": 7, "failed": 3, "stored": 0, "cost-unknown": 8} {
		assert.InDelta(t, n, sums(t, first)[key], 0, key)
	}

	again := b.run("batch", "in.jsonl", "--intent", "count/gate", "--file", "results.jsonl")
	assert.Equal(t, 1, again.code, again.stderr)
	assert.Empty(t, again.stdout)
	kept, err := os.ReadFile(filepath.Join(b.dir, "results.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, first.stdout, string(kept), "the same runs and results")
	assert.Contains(t, again.stderr, "7 accepted, 3 failed; 8 executed by an earlier command")
	assert.Contains(t, again.stderr, "line 3: ")
	ran := []string{"waitn1", "n2", "n5", "n7", "n8", "n9", "n10"}
	b.once("begin ", ran)

	retried := b.run("batch", "in.jsonl", "--intent", "count/gate", "--retry-failed", "--json")
	assert.Equal(t, 1, retried.code)
	assert.Equal(t, want, answers(t, retried))
	assert.InDelta(t, 7, sums(t, retried)["stored"], 0, "the failed line was executed again")
	b.once("begin ", ran)
	assert.Len(t, b.recorded(t, "failed"), 2)

	b.inputs("a", "b")
	assert.Equal(t, 0, b.run("batch", "in.jsonl", "--intent", ":count/gate", "--name", "two").code)
	piped := b.feed("\ufeff{\"n\": \"a\"}\r\n{\"n\": \"c\"}", "batch", "-", "--intent", "count/gate", "--name", "two", "--json")
	assert.Equal(t, 0, piped.code, piped.stderr)
	assert.Equal(t, []string{"a", "c"}, answers(t, piped))
	b.once("begin ", append(ran, "a", "b", "c"))
	moved := b.feed("{\"n\": \"d\"}\n{\"n\": \"c\"}\n{\"n\": \"b\"}", "batch", "-", "--intent", "count/gate", "--name", "two", "--json")
	assert.Equal(t, []string{"d", "c", "b"}, answers(t, moved), "a line may have another place")
	b.once("begin ", append(ran, "a", "b", "c", "d"))
	s.stop()
}

// RUN-022: after --retry-failed the same command prints the result of the later run of a line, not
// that of the failed one, and executes nothing.
func TestBatchAfterRetryFailed(t *testing.T) {
	t.Parallel()
	b := newBatched(t)
	s := b.serve()
	b.inputs("waitn1")
	batch := func(more ...string) ended {
		return b.run(append([]string{"batch", "in.jsonl", "--intent", "count/gate", "--json"}, more...)...)
	}
	failed := batch("--deadline", "500ms")
	require.Equal(t, []string{"queue/deadline-exceeded"}, answers(t, failed), failed.stderr)
	b.open()
	again := batch()
	assert.Equal(t, 1, again.code)
	assert.Equal(t, failed.stdout, again.stdout, "no run is made without the flag")
	retried := batch("--retry-failed")
	require.Equal(t, 0, retried.code, retried.stderr)
	require.Equal(t, []string{"waitn1"}, answers(t, retried))
	after := batch()
	assert.Equal(t, 0, after.code, after.stderr)
	assert.Equal(t, retried.stdout, after.stdout, "the same run and result")
	assert.InDelta(t, 1, sums(t, after)["stored"], 0)
	assert.Len(t, b.recorded(t, "expired"), 1)
	assert.Len(t, b.recorded(t, "completed"), 1)
	s.stop()
}

// RUN-022: after kill -9 of the command in the middle, the same command gets the
// results of finished lines, awaits the run in progress, and executes the rest: no
// line is executed twice.
func TestBatchKilled(t *testing.T) {
	t.Parallel()
	b := newBatched(t)
	s := b.serve()
	numbers := numbered(12, 6)
	b.inputs(numbers...)
	args := []string{"batch", "in.jsonl", "--intent", "count/gate", "--concurrency", "1", "--json"}
	p := b.start("", args...)
	b.await("begin waitn6")
	p.signal(syscall.SIGKILL)
	p.wait()
	b.open()
	got := b.run(args...)
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, numbers, answers(t, got))
	assert.GreaterOrEqual(t, sums(t, got)["stored"], 5.0)
	b.once("begin ", numbers)
	b.once("end ", numbers)
	assert.Len(t, b.recorded(t, "completed"), 12, "one run per line")
	s.stop()
}

// RUN-022, JRN-040: a daemon that is killed or stopped in the middle does not end the
// command. It reaches the next daemon, which resumes what was cut: no finished line is
// executed again, and there is one run per line.
func TestBatchOverDaemonRestart(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBatched(t)
			s := b.serve()
			numbers := numbered(12, 4, 5)
			b.inputs(numbers...)
			p := b.start("", "batch", "in.jsonl", "--intent", "count/gate", "--concurrency", "2", "--json")
			b.await("begin waitn4")
			b.await("begin waitn5")
			s.signal(signal)
			s.wait()
			left := awaitProcesses(runLimit, func() ([]int, bool) { // a plugin of the first daemon must not end its calls
				plugins := slices.DeleteFunc(processesUnder(built.root), func(pid int) bool { return !same(pid, built.helper) || !names(pid, b.rt) })
				return plugins, len(plugins) == 0
			})
			require.Empty(t, left)
			s = b.serve()
			b.open()
			got := p.wait()
			require.Equal(t, 0, got.code, got.stderr)
			assert.Equal(t, numbers, answers(t, got))
			assert.Zero(t, sums(t, got)["stored"], "all lines were executed by this command")
			b.once("end ", numbers)
			assert.Len(t, b.recorded(t, "completed"), 12, "one run per line")
			s.stop()
		})
	}
}

// CLI-002, CLI-004: --concurrency bounds the runs at once. An interrupt ends the
// command with code 130 and the next step; the runs in progress go on, and the same
// command continues.
func TestBatchInterrupted(t *testing.T) {
	t.Parallel()
	b := newBatched(t)
	s := b.serve()
	numbers := numbered(9, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	b.inputs(numbers...)
	args := []string{"batch", "in.jsonl", "--intent", "count/gate", "--concurrency", "3"}
	p := b.start("", args...)
	require.Eventually(t, func() bool { return len(b.calls()) == 3 }, runLimit, 5*time.Millisecond)
	p.signal(syscall.SIGINT)
	got := p.wait()
	assert.Equal(t, 130, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "the same command continues")
	assert.Len(t, b.recorded(t, "running"), 3)

	p = b.start("", args...)
	b.open()
	got = p.wait()
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, numbers, answers(t, got))
	b.once("begin ", numbers)
	running, most := 0, 0
	for _, call := range b.calls() {
		if strings.HasPrefix(call, "begin ") {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	assert.Equal(t, 3, most)
	s.stop()
}

// CLI-002: without a daemon the error names the command that starts one. A daemon
// that goes away for longer than --wait ends the command, not its lines; so does one
// that keeps no keys.
func TestBatchWithoutDaemon(t *testing.T) {
	t.Parallel()
	b := newBatched(t)
	b.inputs(numbered(3, 2)...)
	args := []string{"batch", "in.jsonl", "--intent", "count/gate", "--concurrency", "1", "--wait", "100ms", "--json"}
	got := b.run(args...)
	assert.Equal(t, 3, got.code)
	assert.Contains(t, got.stderr, "ferment serve")
	s := b.serve()
	p := b.start("", args...)
	b.await("begin waitn2")
	s.signal(syscall.SIGKILL)
	s.wait()
	got = p.wait()
	assert.Equal(t, 3, got.code)
	assert.Equal(t, []string{"n1"}, answers(t, got))
	assert.InDelta(t, 0, sums(t, got)["failed"], 0)
	assert.Contains(t, got.stderr, "runtime/not-ready")

	memory := answering(t, "store {\n  driver = \"memory\"\n}\n")
	memory.write("in.edn", "{}\n{}\n")
	s = memory.serve()
	got = memory.run("batch", "in.edn", "--intent", "mine/data")
	assert.Equal(t, 3, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "db/not-configured")
	s.stop()
}

// CLI-002: command lines that batch rejects.
func TestBatchUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "in.jsonl", "{}\n", "p.edn", "{:nodes 7}", "ferment.hcl", testProfile)
	for args, code := range map[string]int{
		"batch":          2,
		"batch in.jsonl": 2,
		"batch in.jsonl --intent a/b --plan p.edn":      2,
		"batch in.jsonl --intent ab":                    2,
		"batch in.jsonl --intent a/b --concurrency 0":   2,
		"batch in.jsonl --intent a/b --wait -1s":        2,
		"batch in.jsonl --intent a/b --bind x --bind y": 2,
		"batch - --intent a/b":                          2,
		"batch absent.jsonl --intent a/b":               3,
		"batch in.jsonl --plan absent.edn":              3,
		"batch in.jsonl --plan p.edn":                   1,
		"batch in.jsonl --intent a/b":                   3, // no daemon
	} {
		assert.Equal(t, code, w.run(strings.Fields(args)...).code, args)
	}
}

// CLI-006: the examples of batch --help work, on JSON, text and standard input, with
// an intent and with a plan.
func TestBatchExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		"ferment.hcl", testProfile+shipped("text", "text")+onDisk,
		"plan.edn", "{:bindings {:data 2} :nodes [{:op :emit :input {:both [{:slot/id :template} {:slot/id :data}]}}]}",
		"articles.txt", "Bees dance. They tell the hive where food is.\n\n{not a map}\n",
		"inputs.jsonl", "{\"template\": \"{{a}}\", \"data\": {\"a\": 1}}\n{\"template\": \"x\"}\n")
	w.mustLock()
	s := w.serve()
	var outs []string
	for _, line := range examplesOf(t, w, "batch") {
		got := w.shell(line)
		require.Equal(t, 0, got.code, "%s\n%s", line, got.stderr)
		text := got.stdout
		if strings.Contains(line, "--file results.jsonl") {
			kept, err := os.ReadFile(filepath.Join(w.dir, "results.jsonl"))
			require.NoError(t, err)
			text = string(kept)
		}
		if strings.Contains(line, "--edn") {
			for _, v := range ednValues(t, text) {
				outs = append(outs, v.Key("line").String()+" "+v.Key("out").Key("text").String())
			}
			continue
		}
		for _, v := range jsonValues(t, text) {
			outs = append(outs, fmt.Sprint(v.(map[string]any)["line"], v.(map[string]any)["out"]))
		}
	}
	assert.Equal(t, []string{
		"1 map[text:1]", "2 map[text:x]",
		"1 map[both:[{{a}} map[a:1]]]", "2 map[both:[x 2]]",
		`1 "They tell the hive where food is."`, `3 "{not a map}"`,
		"1 map[text:1]", "2 map[text:x]",
	}, outs)
	s.stop()
}

// CLI-001: a terminal shows progress and the summary.
func TestBatchOnTerminal(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	w.write("in.edn", "{:n 1}\n{:n 2}\n")
	s := w.serve()
	code, seen := w.onTerminal(nil, "batch", "in.edn", "--intent", "mine/data", "--file", "out.json")
	assert.Equal(t, 0, code)
	assert.Regexp(t, "(?s)^\r\x1b\\[K[12] of 2 lines, [0-9.e+]+ lines/s.*\r\x1b\\[Kbatch [0-9a-f]{16}: 2 lines in .*: 2 accepted, 0 failed; cost unknown\n$", seen)
	s.stop()
}
