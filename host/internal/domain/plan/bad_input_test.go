package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// only asserts that a plan value has exactly one finding, of this check.
func only(t *testing.T, v edn.Value, check string, opts ...plan.Option) {
	t.Helper()
	p, fs := plan.Parse(v, nil, opts...)
	if p != nil {
		fs = plan.Check(p, testEnv(t))
	}
	require.Len(t, fs, 1)
	assert.Equal(t, check, fs[0].Check, fs[0].Message)
	assert.Equal(t, plan.Error, fs[0].Severity)
}

// nodesOf makes a plan of n emits.
func nodesOf(n int) edn.Value {
	emit := edn.MustRead(`{:op :let :value 1}`)
	vs := make([]edn.Value, n)
	for i := range vs {
		vs[i] = emit
	}
	return edn.MustMap(edn.K("nodes"), edn.Vector(vs...))
}

// TestLimits: section 15, CHECK-026, each limit at its value and above it.
func TestLimits(t *testing.T) {
	p, fs := plan.Parse(nodesOf(1000), nil)
	require.Empty(t, fs)
	assert.Len(t, p.Nodes, 1000)
	only(t, nodesOf(1001), "CHECK-026")

	nested := func(levels int) edn.Value {
		v := edn.MustRead(`{:nodes [{:op :emit :input 1}]}`)
		for range levels - 1 {
			v = edn.MustMap(edn.K("nodes"), edn.Vector(edn.MustMap(edn.K("op"), edn.K("plan"), edn.K("plan"), v)))
		}
		return v
	}
	_, fs = plan.Parse(nested(16), nil)
	assert.Empty(t, fs)
	only(t, nested(17), "CHECK-026")
	only(t, nested(2), "CHECK-026", plan.Depth(15))

	eleven := make([]edn.Value, 11)
	for i := range eleven {
		eleven[i] = edn.MustMap(edn.K("op"), edn.K("plan"), edn.K("plan"), nodesOf(950))
	}
	only(t, edn.MustMap(edn.K("nodes"), edn.Vector(eleven...)), "CHECK-026")

	call := func(dispatch string) edn.Value {
		return edn.MustRead(`{:nodes [{:op :call :intent :text/respond :dispatch ` + dispatch + ` :input {:prompt "x"}}]}`)
	}
	many := func(word string, n int) string { return strings.Repeat(" "+word, n) }
	only(t, call("{:candidates ["+many(":llm/voice", 65)+"]}"), "CHECK-026")
	_, fs = plan.Parse(call("{:candidates ["+many(":llm/voice", 64)+"]}"), nil)
	assert.Empty(t, fs)
	only(t, call("{:checks ["+many(":json-valid", 33)+"]}"), "CHECK-026")
	only(t, edn.MustRead(`{:nodes [{:op :map :over [`+many("1", 1001)+`] :body [{:op :emit}]}]}`), "CHECK-026")
	_, fs = plan.Parse(edn.MustRead(`{:nodes [{:op :map :over [`+many("1", 1001)+`] :body [{:op :emit}]}]}`), nil,
		plan.WithLimits(func() plan.Limits { l := plan.DefaultLimits(); l.MapItems = 10_000; return l }()))
	assert.Empty(t, fs, "10,000 by configuration")
}

// TestBadInput: section 16, mistakes that are detected before the run: one
// typed finding each.
func TestBadInput(t *testing.T) {
	for _, row := range []struct{ name, text, check string }{
		{"a plan that is no map", `[]`, "CHECK-015"},
		{"nodes are a map", `{:nodes {:op :emit}}`, "CHECK-015"},
		{"a node without op", `{:nodes [{:input 1}]}`, "CHECK-015"},
		{"needs on itself", `{:nodes [{:op :emit :id "a" :needs ["a"]}]}`, "CHECK-019"},
		{"candidates with strings", `{:nodes [{:op :call :intent :text/respond :dispatch {:candidates ["llm/voice"]} :input {:prompt "x"}}]}`, "CHECK-015"},
		{"width 1", `{:nodes [{:op :call :intent :text/respond :dispatch {:race {:width 1}} :input {:prompt "x"}}]}`, "CHECK-015"},
		{"width 99", `{:nodes [{:op :call :intent :text/respond :dispatch {:tournament {:width 99}} :input {:prompt "x"}}]}`, "CHECK-026"},
		{"retry -1", `{:nodes [{:op :call :intent :text/respond :dispatch {:retry {:same-cap-max -1}} :input {:prompt "x"}}]}`, "CHECK-015"},
		{"score-min 2", `{:nodes [{:op :call :intent :text/respond :done {:score-min 2} :input {:prompt "x"}}]}`, "CHECK-015"},
		{"bindings are no map", `{:nodes [] :bindings 5}`, "CHECK-015"},
		{"a slot path of 1,000 steps", `{:nodes [{:op :emit :input {:slot/path [` + strings.Repeat(":a ", 1000) + `]}}]}`, "CHECK-026"},
	} {
		t.Run(row.name, func(t *testing.T) { only(t, edn.MustRead(row.text), row.check) })
	}
	p, fs := plan.Parse(edn.MustRead(`{:nodes ({:op :emit :input 1})}`), nil)
	assert.Empty(t, fs, "nodes in a list are accepted")
	assert.Len(t, p.Nodes, 1)
}

// TestHugePlans: section 16, 10^5 and 10^6 nodes are rejected at once.
func TestHugePlans(t *testing.T) {
	for _, n := range []int{100_000, 1_000_000} {
		v := nodesOf(n)
		start := time.Now()
		only(t, v, "CHECK-026")
		assert.Less(t, time.Since(start), 5*time.Second)
	}
}

// TestWideEdges: a plan in which every call may answer with a plan has a number
// of edges linear in its nodes.
func TestWideEdges(t *testing.T) {
	var b strings.Builder
	b.WriteString("{:nodes [")
	for i := range 900 {
		fmt.Fprintf(&b, "{:op :call :intent :plan/compile :as :s%d}", i)
	}
	b.WriteString("]}")
	prog := load(t, b.String(), testEnv(t))
	assert.Len(t, prog.Graph.Edges(), 899)
	before := prog.Graph.Before(899)
	for i := range 899 {
		assert.True(t, before[i])
	}
}

// TestManyForwardReads: one node reads a slot of a later node very often, and waits in
// a ring with others. The check searches for each ring once, and looks up no positions
// beyond the findings that it keeps.
func TestManyForwardReads(t *testing.T) {
	const n = 20_000
	plainly := "{:nodes [{:op :let :as :x :value [" + strings.Repeat("{:slot/id :y} ", n) + "]} {:op :let :as :y :value 1} {:op :emit :input :x}]}"
	ring := strings.Replace(plainly, ":value 1", ":value ["+strings.Repeat("{:slot/id :x} ", n)+"]", 1)
	for text, want := range map[string]int{plainly: plan.MaxFindings, ring: 1} {
		p, fs := readPlan(t, text)
		require.Empty(t, fs)
		start := time.Now()
		assert.Len(t, plan.Check(p, testEnv(t)), want)
		assert.Less(t, time.Since(start), 30*time.Second)
	}
}

// TestWideTemplates: SLOT-009, filling costs time linear in the slots.
func TestWideTemplates(t *testing.T) {
	fill := func(n int) time.Duration {
		var b strings.Builder
		b.WriteString("{:nodes [{:op :let :value {:text \"t\"} :as :x} {:op :let :as :y :value {")
		for i := range n {
			fmt.Fprintf(&b, ":k%d {:slot/path [:x :text]} ", i)
		}
		b.WriteString("}} {:op :emit :input :y}]}")
		prog := load(t, b.String(), testEnv(t))
		f := plan.NewFrame(prog, edn.Nil())
		f.Set(0, plan.ValueSlot(edn.MustRead(`{:text "t"}`)))
		best := time.Hour
		for range 25 {
			start := time.Now()
			v, _, err := prog.Plan.Nodes[1].Value.Fill(f, nil)
			best = min(best, time.Since(start))
			require.Nil(t, err)
			require.Equal(t, n, v.Len())
		}
		return best
	}
	small, large := fill(500), fill(10_000)
	assert.Less(t, large, 100*small+20*time.Millisecond, "twenty times the slots")
}

// TestSharedValues: SLOT-009, a filled value is the slot's own, not a copy.
func TestSharedValues(t *testing.T) {
	prog := load(t, `{:nodes [{:op :let :value 0 :as :x} {:op :let :value {:a {:slot/id :x} :b {:slot/id :x}} :as :y} {:op :emit :input :y}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	big := make([]edn.Value, 10_000)
	for i := range big {
		big[i] = edn.Int(int64(i))
	}
	f.Set(0, plan.ValueSlot(edn.Vector(big...)))
	n := &prog.Plan.Nodes[1]
	allocs := testing.AllocsPerRun(100, func() {
		if _, _, err := n.Value.Fill(f, nil); err != nil {
			t.Fatal(err)
		}
	})
	assert.LessOrEqual(t, allocs, 4.0)
}
