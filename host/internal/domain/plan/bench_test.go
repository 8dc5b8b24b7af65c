package plan_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// chain writes a plan of n calls, each reading the previous one, in inline
// plans of at most 1,000 nodes.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("{:nodes [\n")
	for left := n; left > 0; {
		size := min(left, 999)
		left -= size
		if size == left {
			left--
		}
		b.WriteString("{:op :plan :plan {:nodes [\n")
		for i := range size {
			if i == 0 {
				b.WriteString(`{:op :call :intent :text/respond :input {:prompt "begin"} :as :s0}` + "\n")
				continue
			}
			fmt.Fprintf(&b, "{:op :call :intent :text/respond :input {:prompt {:slot/path [:s%d :text]} :n %d} :dispatch {:candidates [:llm/voice] :retry {:fallback-max 0}} :as :s%d}\n", i-1, i, i)
		}
		fmt.Fprintf(&b, "{:op :emit :input {:text {:slot/path [:s%d :text]}}}]}}\n", size-1)
	}
	b.WriteString("]}")
	return b.String()
}

func parsedChain(t testing.TB, n int) (edn.Value, *edn.Positions) {
	t.Helper()
	v, pos, err := edn.ReadWithPositions([]byte(chain(n)))
	require.NoError(t, err)
	return v, pos
}

// processorTime returns the processor time of a kind of usage.
func processorTime(t *testing.T, who int) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(who, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestCheckIsLinear: CHECK-003, ten times the nodes take about ten times the
// time, and checking takes less than twice as long as parsing the text. The
// benchmarks below measure both (10,000 nodes are checked in about 20 ms).
func TestCheckIsLinear(t *testing.T) {
	if testing.Short() { // as mutants are run, whose switches take time
		t.Skip("it measures time")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	env := testEnv(t)
	best := func(f func()) time.Duration {
		best := time.Hour
		for range 5 {
			start := threadTime(t)
			f()
			best = min(best, threadTime(t)-start)
		}
		return best
	}
	run := func(n, times int) (parse, check time.Duration) {
		v, pos := parsedChain(t, n)
		var p *plan.Plan
		parse = best(func() {
			for range times {
				var fs []plan.Finding
				p, fs = plan.Parse(v, pos)
				require.Empty(t, fs)
			}
		})
		check = best(func() {
			for range times {
				require.Empty(t, plan.Check(p, env))
			}
		})
		return parse, check
	}
	smallParse, smallCheck := run(997, 10)
	parse, check := run(9_970, 1)
	text := []byte(chain(9_970))
	read := best(func() {
		_, _, err := edn.ReadWithPositions(text)
		require.NoError(t, err)
	})
	t.Logf("10 x 1,000 nodes: parse %v, check %v; 10,000 nodes: read %v, parse %v, check %v", smallParse, smallCheck, read, parse, check)
	assert.Less(t, parse, 4*smallParse, "parse: ten times the nodes, about ten times the time")
	assert.Less(t, check, 4*smallCheck, "check: ten times the nodes, about ten times the time")
	assert.Less(t, check, 2*read, "against reading the same text")
}

func BenchmarkParse10000(b *testing.B) {
	v, pos := parsedChain(b, 9_970)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := plan.Parse(v, pos)
		if p == nil {
			b.Fatal("no plan")
		}
	}
}

func BenchmarkCheck10000(b *testing.B) {
	v, pos := parsedChain(b, 9_970)
	env := testEnv(b)
	p, _ := plan.Parse(v, pos)
	b.ReportAllocs()
	for b.Loop() {
		if fs := plan.Check(p, env); len(fs) != 0 {
			b.Fatal(fs[0])
		}
	}
}

func BenchmarkLink10000(b *testing.B) {
	v, pos := parsedChain(b, 9_970)
	env := testEnv(b)
	p, _ := plan.Parse(v, pos)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Link(p, env); err != nil {
			b.Fatal(err)
		}
	}
}

// stepPlan is the node step that section 17 measures: a condition, a small
// input with one slot, a commit.
const stepPlan = `{:nodes [{:op :call :intent :text/respond :input {:prompt "A"} :as :x}
 {:op :call :intent :text/respond :when {:present? :x} :input {:prompt {:slot/path [:x :text]} :style "short"} :as :y}
 {:op :emit :input :y}]}`

func BenchmarkStep(b *testing.B) {
	prog := load(b, stepPlan, testEnv(b))
	f := plan.NewFrame(prog, edn.Nil())
	f.Set(0, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: edn.MustRead(`{:text "hello"}`)}))
	n := &prog.Plan.Nodes[1]
	out := edn.MustRead(`{:text "world"}`)
	b.ReportAllocs()
	for b.Loop() {
		if !n.When.Eval(f) {
			b.Fatal("skipped")
		}
		if _, _, err := n.Input.Fill(f, prog.Text[1]); err != nil {
			b.Fatal(err)
		}
		f.Set(1, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: out}))
		for range prog.Graph.Succs(1) {
		}
	}
}

// TestStepIsSmall: section 17, a node step without a plugin makes few
// allocations.
func TestStepIsSmall(t *testing.T) {
	prog := load(t, stepPlan, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	f.Set(0, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: edn.MustRead(`{:text "hello"}`)}))
	n := &prog.Plan.Nodes[1]
	out := edn.MustRead(`{:text "world"}`)
	allocs := testing.AllocsPerRun(1000, func() {
		if !n.When.Eval(f) {
			t.Fatal("skipped")
		}
		if _, _, err := n.Input.Fill(f, prog.Text[1]); err != nil {
			t.Fatal(err)
		}
		f.Set(1, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: out}))
	})
	assert.LessOrEqual(t, allocs, 8.0)
}
