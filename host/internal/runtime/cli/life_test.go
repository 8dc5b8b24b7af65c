package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const anyIntent = "intent %q {\n  in  = \"req/any\"\n  out = \"res/any\"\n}\n"

// instant returns the time of an event.
func (e event) instant(t testing.TB) time.Time {
	t.Helper()
	at, ok := e.Key("at").AsInst()
	require.True(t, ok, "%s", e.Value)
	return at
}

// TestNextCandidateStartsAtOnce: after a process exits in mid-call the next
// candidate is called within 10 ms (ATT-007). The minimum of several exits
// counts, because the test machine is busy.
func TestNextCandidateStartsAtOnce(t *testing.T) {
	const times = 7
	w := newWorld(t)
	var config, nodes strings.Builder
	for i := range times {
		name := fmt.Sprintf("a%d", i)
		w.write(name+".edn", script(":t/"+name, ":demo/answer", ":in-schema :req/any :out-schema :res/any", sigkill))
		config.WriteString(scripted(name, slowly))
		fmt.Fprintf(&nodes, " {:op :call :intent :demo/answer :dispatch {:candidates [:t/%s :t/b] :retry {:fallback-max 1}} :as :%s}\n", name, name)
	}
	w.write("b.edn", script(":t/b", ":demo/answer", ":in-schema :req/any :out-schema :res/any", `{:value {:n 1}}`))
	w.write("ferment.hcl", config.String()+scripted("b")+fmt.Sprintf(anyIntent, "demo/answer"))
	w.write("plan.edn", "{:mode :strict :nodes [\n"+nodes.String()+"]}\n")
	p := w.start("", "run", "plan.edn", "--progress", "edn")
	var waits []time.Duration
	for i := range times {
		exit := p.must("the end of a process", 0, entered(fmt.Sprintf("a%d", i), "backoff"))
		cut := p.must("the attempt", 0, asked(fmt.Sprintf("t/a%d", i)))
		// Of the same node: the failure of the call may be known before the
		// exit is reported.
		next := p.must("the next attempt", cut.at, func(e event) bool { return asked("t/b")(e) && e.word("node") == cut.word("node") })
		waits = append(waits, next.instant(t).Sub(exit.instant(t)))
	}
	require.Equal(t, 0, p.wait().code)
	assert.LessOrEqual(t, slices.Min(waits), 10*time.Millisecond, "all: %v", waits)
}

// TestStopped: a plugin that is stopped by SIGSTOP in mid-call is detected by
// health probes, the next candidate serves, and the stopped process is gone
// when the command exits (SUP-003, SUP-004, EVAL-075).
func TestStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		"ferment.hcl", scripted("a", "stop_grace = \"1s\"", "health {\n  interval = \"200ms\"\n  timeout  = \"100ms\"\n  misses   = 2\n}", slowly)+scripted("b")+fmt.Sprintf(anyIntent, "demo/answer"),
		"a.edn", script(":t/a", ":demo/answer", ":in-schema :req/any :out-schema :res/any", hang),
		"b.edn", script(":t/b", ":demo/answer", ":in-schema :req/any :out-schema :res/any", `{:value {:n 2}}`),
		"plan.edn", `{:nodes [{:op :call :intent :demo/answer :dispatch {:candidates [:t/a :t/b] :retry {:fallback-max 1}} :as :x} {:op :emit :input :x}]}`)
	p := w.start("", "run", "plan.edn", "--progress", "edn", "--transcript", "-o", "edn")
	ready := p.must("plugin a is ready", 0, entered("a", "ready"))
	p.must("a call", 0, asked("t/a"))
	frozen := time.Now()
	require.NoError(t, syscall.Kill(ready.number("pid"), syscall.SIGSTOP))
	got := p.wait()
	assert.Less(t, time.Since(frozen), 5*time.Second)
	require.Equal(t, 0, got.code, got.stderr)
	response := got.value(t)
	assert.Equal(t, "{:n 2}", response.Key("result").Key("out").String())
	assert.Equal(t, "a1 b2", asks(response.Key("transcript"), false))
	first, _ := response.Key("transcript").Nth(0)
	assert.Equal(t, "runtime/unresponsive", word(first.Key("failure/type")))
	assert.Empty(t, w.left(endLimit))
}

// TestEndlessPlans: a capability that answers with a plan that calls it again
// ends with one typed error, and no process is left (SCHED-005).
func TestEndlessPlans(t *testing.T) {
	t.Parallel()
	again := `{:plan {:nodes [{:op :call :intent :demo/answer :dispatch {:candidates [:t/%s]} :as :y} {:op :emit :input :y}]}}`
	for _, row := range []struct{ name, a, b string }{
		{"itself", "a", "b"},
		{"two in turn", "b", "a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			meta := ":in-schema :req/any :out-schema :res/any :can-produce #{:value :plan}"
			w := newWorld(t,
				"ferment.hcl", scripted("a")+scripted("b")+"intent \"demo/answer\" {\n  in           = \"req/any\"\n  out          = \"res/any\"\n  result_types = [\"value\", \"plan\"]\n}\n",
				"a.edn", script(":t/a", ":demo/answer", meta, fmt.Sprintf(again, row.a)),
				"b.edn", script(":t/b", ":demo/answer", meta, fmt.Sprintf(again, row.b)))
			got := w.run("act", "demo/answer", "{}", "-o", "edn", "--transcript")
			assert.Equal(t, 1, got.code)
			response := got.value(t)
			assert.Equal(t, "plan/too-deep", word(response.Key("error").Key("type")), got.stdout)
			assert.Equal(t, 1+16, response.Key("transcript").Len(), "one attempt at the root and at each level")
		})
	}
}
