package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// edges formats the edges of a program by node ids.
func edges(prog *plan.Program) []string {
	var out []string
	for _, e := range prog.Graph.Edges() {
		out = append(out, fmt.Sprintf("%s->%s (%s)", prog.Plan.Nodes[e.From].ID, prog.Plan.Nodes[e.To].ID, e.Kind))
	}
	return out
}

// walk runs the nodes one at a time, always the ready one with the lowest
// index (SCHED-009), and returns the order of ids.
func walk(prog *plan.Program) []string {
	g := prog.Graph
	left := make([]int, g.Len())
	for i := range left {
		left[i] = g.InDegree(i)
	}
	var order []string
	done := make([]bool, g.Len())
	for range left {
		i := slices.IndexFunc(left, func(n int) bool { return n == 0 })
		for done[i] {
			i += 1 + slices.IndexFunc(left[i+1:], func(n int) bool { return n == 0 })
		}
		done[i] = true
		order = append(order, prog.Plan.Nodes[i].ID)
		for _, j := range g.Succs(i) {
			left[j]--
		}
	}
	return order
}

// TestScheduleSample holds the sample of section 3 (SCHED-001, SCHED-002,
// SCHED-007, SCHED-008): its edges and its strict order.
func TestScheduleSample(t *testing.T) {
	prog := load(t, testdata(t, "schedule.edn"), testEnv(t))
	assert.ElementsMatch(t, []string{
		"a->w (slot)", "a->c (when)", "b->c (slot)", "w->v (effects)", "c->v (needs)", "b->e (slot)",
	}, edges(prog))
	assert.Equal(t, []string{"a", "b", "w", "c", "v", "e"}, walk(prog))
	assert.Equal(t, []bool{false, false, true, false, true, false}, prog.Effectful)
	assert.Equal(t, []bool{true, true, true, true, false, false}, prog.Graph.Before(4))
	assert.Equal(t, []int32{2, 3}, prog.Graph.Succs(0))
	assert.Equal(t, []int32{0, 1}, prog.Graph.Preds(3))
}

// TestEdges: SCHED-002, SCHED-007, SCHED-008, the places that make an edge.
func TestEdges(t *testing.T) {
	call := func(id, rest string) string {
		return `{:op :call :id "` + id + `" :intent :text/respond :input {:prompt "p"} ` + rest + `}`
	}
	for _, row := range []struct {
		name, nodes string
		want        []string
	}{
		{"context, constraints and system", call("a", ":as :x") + call("b", ":context {:c {:slot/id :x}}") + call("c", ":constraints {:c {:slot/path [:x :text]}}") + call("d", ":system {:slot/path [:x :text] :slot/system? true}"),
			[]string{"a->b (slot)", "a->c (slot)", "a->d (slot)"}},
		{"candidates", `{:op :let :id "a" :value {:cap/ref :llm/voice} :as :best}` + call("b", ":dispatch {:candidates [{:slot/id :best} :llm/voice]}"),
			[]string{"a->b (slot)"}},
		{"over as a keyword and inside a body", call("a", ":as :x") + call("b", ":as :y") +
			`{:op :map :id "m" :over :x :body [{:op :emit :input {:slot/path [:y :text]}}]}`,
			[]string{"a->m (slot)", "b->m (slot)"}},
		{"an inline plan", call("a", ":as :x") + `{:op :plan :id "p" :plan {:nodes [{:op :emit :input :x}]}}`, []string{"a->p (slot)"}},
		{"a plan node's binding hides the slot", call("a", ":as :x") + `{:op :plan :id "p" :bindings {:x 1} :plan {:nodes [{:op :emit :input :x}]}}`, nil},
		{"the plan's own binding hides the slot", call("a", ":as :x") + `{:op :plan :id "p" :plan {:bindings {:x 1} :nodes [{:op :emit :input :x}]}}`, nil},
		{"an item hides the slot", call("a", ":as :item") + `{:op :map :id "m" :over [1 2] :body [{:op :emit :input [{:slot/id :item} {:slot/id :item/index}]}]}`, nil},
		{"one reason is named for two", call("a", ":as :x") + call("b", `:when :x :needs ["a"] :context {:c {:slot/id :x}}`), []string{"a->b (slot)"}},
		{"needs may look forward", call("a", `:needs ["b"]`) + call("b", ""), []string{"b->a (needs)"}},
		{"no edge between emits", `{:op :emit :id "a" :input 1}{:op :emit :id "b" :input 2}`, nil},
		{"a condition with forms", call("a", ":as :x") + call("b", ":as :y") + call("c", ":when {:or [{:not {:failed? :x}} {:slot/path [:y :text]}]}"),
			[]string{"a->c (when)", "b->c (when)"}},
		{"effects of the candidates", `{:op :tool :id "a" :tool/id :fs/write :input {:path "p" :content "c"} :effects {:allowed #{:fs/write}}}` +
			`{:op :call :id "b" :intent :fs/scribe :input {}}` + call("c", "") + `{:op :call :id "d" :intent :fs/scribe :input {} :effects {:allowed #{:fs/write}}}`,
			[]string{"a->b (effects)", "b->d (effects)"}},
		{"a nested effect", `{:op :call :id "b" :intent :fs/scribe :input {}}{:op :map :id "m" :over [1] :body [{:op :call :intent :fs/scribe :input {}}]}`,
			[]string{"b->m (effects)"}},
		{"a possible plan answer waits for every earlier writer", call("a", ":as :x") + call("b", ":as :y") + call("n", "") +
			`{:op :call :id "p" :intent :plan/compile :input {} :as :z}` + call("c", ":as :w") + `{:op :call :id "q" :intent :plan/compile :input {}}`,
			[]string{"a->p (answer)", "b->p (answer)", "p->q (answer)", "c->q (answer)"}},
		{"a call that must give a value waits for nobody", call("a", ":as :x") + `{:op :call :id "p" :intent :plan/compile :input {} :result/type :value}`, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.ElementsMatch(t, row.want, edges(load(t, "{:nodes ["+row.nodes+"]}", testEnv(t))))
		})
	}
}

// TestBinding: SCHED-007, a read gets the value of the one earlier writer, else
// of a binding, never of a later writer.
func TestBinding(t *testing.T) {
	prog := load(t, `{:bindings {:x "bound"} :nodes [
	  {:op :let :value {:slot/id :x} :as :before}
	  {:op :let :value "written" :as :x}
	  {:op :let :value {:slot/id :x} :as :after}
	  {:op :emit :input [{:slot/id :before} {:slot/id :after}]}]}`, testEnv(t))
	assert.Equal(t, "[\"bound\" \"written\"]", runLets(t, prog).String())
}

// runLets runs a plan of lets, emits and inline plans in program order.
func runLets(t testing.TB, prog *plan.Program) edn.Value {
	t.Helper()
	v, err := runFrame(plan.NewFrame(prog, edn.Nil()))
	require.NoError(t, err)
	return v
}

// runFrame is a minimal evaluator for values and plans, without executors.
func runFrame(f *plan.Frame) (edn.Value, error) {
	out := edn.Nil()
	prog := f.Program()
	for i := range prog.Plan.Nodes {
		n := &prog.Plan.Nodes[i]
		if !n.When.Eval(f) {
			continue
		}
		switch n.Op {
		case plan.OpLet:
			s, err := n.FillLet(f)
			if err != nil {
				return out, err
			}
			f.Set(i, s)
		case plan.OpEmit:
			v, _, err := n.Input.Fill(f, nil)
			if err != nil {
				return out, err
			}
			out = v
		case plan.OpPlan:
			v, err := runFrame(f.Plan(i))
			if err != nil {
				return out, err
			}
			f.Set(i, plan.PlanSlot(&plan.Result{Out: v}))
		case plan.OpMap:
			items, err := n.FillOver(f, plan.DefaultLimits())
			if err != nil {
				return out, err
			}
			var results []edn.Value
			for k, item := range items {
				v, err := runFrame(f.Item(i, item, k))
				if err != nil {
					return out, err
				}
				results = append(results, v)
			}
			f.Set(i, plan.PlanSlot(&plan.Result{Out: edn.Vector(results...)}))
		}
	}
	return out, nil
}

// TestNested: SLOT-006, SCHED-005, IR-011, what a nested plan sees and that its
// slots do not leak.
func TestNested(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"a child sees the parent's slots", `{:nodes [{:op :let :value 1 :as :x} {:op :plan :as :p :plan {:nodes [{:op :emit :input :x}]}} {:op :emit :input {:slot/path [:p :out]}}]}`, "1"},
		{"a binding shadows a parent's slot", `{:nodes [{:op :let :value 1 :as :x} {:op :plan :as :p :bindings {:x 2} :plan {:nodes [{:op :emit :input :x}]}} {:op :emit :input [{:slot/id :x} {:slot/id :p}]}]}`, "[1 2]"},
		{"given bindings win over the plan's own", `{:nodes [{:op :plan :as :p :bindings {:x 2} :plan {:bindings {:x 3 :y 4} :nodes [{:op :emit :input [{:slot/id :x} {:slot/id :y}]}]}} {:op :emit :input :p}]}`, "[2 4]"},
		{"a child's :as shadows both from its place on", `{:nodes [{:op :let :value 1 :as :x} {:op :plan :as :p :plan {:nodes [{:op :let :value {:slot/id :x} :as :old} {:op :let :value 9 :as :x} {:op :emit :input [{:slot/id :old} {:slot/id :x}]}]}} {:op :emit :input [{:slot/id :p} {:slot/id :x}]}]}`, "[[1 9] 1]"},
		{"two levels down", `{:nodes [{:op :let :value 1 :as :x} {:op :plan :as :p :plan {:nodes [{:op :plan :as :q :plan {:nodes [{:op :emit :input :x}]}} {:op :emit :input :q}]}} {:op :emit :input :p}]}`, "1"},
		{"items of a vector", `{:nodes [{:op :map :over [5 6] :as :m :body [{:op :emit :input [{:slot/id :item} {:slot/id :item/index}]}]} {:op :emit :input :m}]}`, "[[5 0] [6 1]]"},
		{"a named item", `{:nodes [{:op :let :value ["a"] :as :xs} {:op :map :over :xs :item :x :as :m :body [{:op :emit :input :x}]} {:op :emit :input :m}]}`, `["a"]`},
		{"items of a map are pairs in canonical order", `{:nodes [{:op :map :over {:b 1 :a 2} :as :m :body [{:op :emit :input :item}]} {:op :emit :input :m}]}`, "[[:a 2] [:b 1]]"},
		{"items of a set come in canonical order", `{:nodes [{:op :map :over #{3 1 2} :as :m :body [{:op :emit :input :item}]} {:op :emit :input :m}]}`, "[1 2 3]"},
		{"items of a list", `{:nodes [{:op :map :over (5 6) :as :m :body [{:op :emit :input [{:slot/id :item} {:slot/id :item/index}]}]} {:op :emit :input :m}]}`, "[[5 0] [6 1]]"},
		{"a child's slots do not leak", `{:nodes [{:op :plan :as :p :bindings {:b 1} :plan {:nodes [{:op :let :value 9 :as :x} {:op :emit :input :x}]}} {:op :emit :input [{:slot/id :p} {:slot/id :x :slot/default :none} {:slot/id :b :slot/default :none}]}]}`, "[9 :none :none]"},
		{"an item's slots do not leak", `{:nodes [{:op :map :over [1] :as :m :body [{:op :let :value 9 :as :x} {:op :emit :input :x}]} {:op :emit :input [{:slot/id :m} {:slot/id :x :slot/default :none} {:slot/id :item :slot/default :none}]}]}`, "[[9] :none :none]"},
		{"empty gives an empty vector", `{:nodes [{:op :map :over [] :as :m :body [{:op :emit :input :item}]} {:op :emit :input :m}]}`, "[]"},
		{"a map over the result of a map", `{:nodes [{:op :map :over [1 2] :as :m :body [{:op :emit :input :item}]} {:op :map :over :m :as :n :body [{:op :emit :input [{:slot/id :item}]}]} {:op :emit :input :n}]}`, "[[1] [2]]"},
		{"a map in a map sees both items", `{:nodes [{:op :map :over [1 2] :item :x :as :m :body [{:op :map :over [3] :item :y :as :n :body [{:op :emit :input [{:slot/id :x} {:slot/id :y} {:slot/id :item/index}]}]} {:op :emit :input :n}]} {:op :emit :input :m}]}`, "[[[1 3 0]] [[2 3 0]]]"},
		{"slots in :over", `{:nodes [{:op :let :value 7 :as :v} {:op :map :over [{:slot/id :v} 8] :as :m :body [{:op :emit :input :item}]} {:op :emit :input :m}]}`, "[7 8]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, runLets(t, load(t, row.text, testEnv(t))).String())
		})
	}
}

// TestAnswer: SCHED-005, a plan answer sees a copy of the environment of its
// node, plus bindings, independently of how many other nodes have run.
func TestAnswer(t *testing.T) {
	env := testEnv(t)
	prog := load(t, `{:bindings {:root "r"} :nodes [
	  {:op :let :value 1 :as :x}
	  {:op :call :intent :plan/compile :input {:a {:slot/id :x}} :as :p}
	  {:op :let :value 2 :as :later}
	  {:op :let :value 3 :as :beside}
	  {:op :call :intent :text/respond :input {:prompt "p" :a {:slot/id :x}} :as :q}]}`, env)
	f := plan.NewFrame(prog, edn.Nil())
	for i, v := range map[int]int64{0: 1, 2: 2, 3: 3} {
		f.Set(i, plan.ValueSlot(edn.Int(v)))
	}
	answer := edn.MustRead(`{:bindings {:own "o"} :nodes [{:op :emit :input [{:slot/id :x} {:slot/id :root} {:slot/id :own} {:slot/id :given} {:slot/id :later :slot/default :none}]}]}`)
	bindings := edn.MustRead(`{:given "g"}`)
	p, fs := plan.Parse(answer, nil, plan.Depth(1))
	require.Empty(t, fs)
	names := f.Names(1)
	env.Outer = func(name string) bool { return bindings.HasKey(name) || names(name) }
	require.Empty(t, plan.Check(p, env))
	child, err := plan.Link(p, env)
	require.Nil(t, err)
	v, failed := runFrame(f.Answer(1, child, bindings))
	require.NoError(t, failed)
	assert.Equal(t, `[1 "r" "o" "g" :none]`, v.String())

	assert.False(t, f.Names(4)("beside"), "node 4 does not wait for node 3, so it must not see it")
	assert.True(t, f.Names(4)("x"))
	assert.Equal(t, `{:root "r" :x 1}`, f.Env(1).String())

	hidden, _ := plan.Parse(edn.MustRead(`{:nodes [{:op :emit :input :beside}]}`), nil)
	env.Outer = f.Names(4)
	require.Len(t, plan.Check(hidden, env), 1)
}

// TestAnswerInsideItem: a plan answer inside a map body sees the item and the
// environment of the map.
func TestAnswerInsideItem(t *testing.T) {
	env := testEnv(t)
	prog := load(t, `{:nodes [{:op :let :value 1 :as :x} {:op :map :over [5] :item :i :body [{:op :call :intent :plan/compile :input {} :as :p} {:op :emit :input :p}]}]}`, env)
	f := plan.NewFrame(prog, edn.Nil())
	f.Set(0, plan.ValueSlot(edn.Int(1)))
	body := f.Item(1, edn.Int(5), 0)
	env.Outer = body.Names(0)
	p, _ := plan.Parse(edn.MustRead(`{:nodes [{:op :emit :input [{:slot/id :i} {:slot/id :item/index} {:slot/id :x}]}]}`), nil)
	require.Empty(t, plan.Check(p, env))
	child, err := plan.Link(p, env)
	require.Nil(t, err)
	v, failed := runFrame(body.Answer(0, child, edn.Nil()))
	require.NoError(t, failed)
	assert.Equal(t, "[5 0 1]", v.String())
	assert.Equal(t, "{:i 5 :item/index 0 :x 1}", body.Env(0).String())
}

// TestFillOver: IR-011, values that a map rejects as collection.
func TestFillOver(t *testing.T) {
	for _, row := range []struct{ over, value, want string }{
		{":xs", `"text"`, "plan/invalid"},
		{":xs", `7`, "plan/invalid"},
		{":xs", `nil`, "slot/unresolved"},
		{"{:slot/id :xs}", `{:a 1}`, ""},
		{"{:slot/path [:xs :none]}", `{:a 1}`, "slot/unresolved"},
		{":xs", `[` + strings.Repeat("1 ", 1001) + `]`, "plan/too-large"},
	} {
		prog := load(t, `{:nodes [{:op :let :value [0] :as :xs} {:op :map :over `+row.over+` :body [{:op :emit :input :item}]}]}`, testEnv(t))
		f := plan.NewFrame(prog, edn.Nil())
		f.Set(0, plan.ValueSlot(edn.MustRead(row.value)))
		_, err := prog.Plan.Nodes[1].FillOver(f, plan.DefaultLimits())
		if row.want == "" {
			assert.Nil(t, err)
			continue
		}
		require.NotNil(t, err, row.value)
		assert.Equal(t, row.want, err.Type, row.value)
	}
}

// TestFillLayer: SLOT-002, SLOT-007, candidates, context, constraints and
// system are filled and then validated.
func TestFillLayer(t *testing.T) {
	prog := load(t, `{:nodes [
	  {:op :let :value {:cap/ref :llm/voice} :as :best}
	  {:op :let :when :best :value "en" :as :lang}
	  {:op :let :when :best :value {:cap/id :llm/voice :other 1} :as :wrong}
	  {:op :call :intent :text/respond :input {:prompt "p"} :context {:l {:slot/id :lang}} :constraints {:max-chars 5 :note {:slot/id :lang}}
	   :system {:slot/id :lang} :dispatch {:candidates [{:slot/id :best} :llm/solver {:cap/ref :llm/meta}]} :temperature 0.5}
	  {:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:candidates [{:slot/id :wrong}]} :system {:slot/id :wrong}}
	  {:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:candidates {:slot/id :lang}} :context {:slot/id :lang}}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	for i := range 3 {
		s, err := prog.Plan.Nodes[i].FillLet(f)
		require.Nil(t, err)
		f.Set(i, s)
	}
	n := &prog.Plan.Nodes[3]
	l, err := n.FillLayer(f)
	require.Nil(t, err)
	assert.Equal(t, []string{"llm/voice", "llm/solver", "llm/meta"}, l.Candidates.V)
	assert.Equal(t, `{:l "en"}`, l.Context.Value().String())
	assert.Equal(t, `{:max-chars 5 :note "en"}`, l.Constraints.Value().String())
	assert.Equal(t, "0.5", l.Temperature.V.String())
	system, err := n.FillSystem(f)
	require.Nil(t, err)
	assert.Equal(t, "en", system)
	assert.Empty(t, n.Layer.Candidates.V, "the node's own layer stays as it is")

	_, err = prog.Plan.Nodes[4].FillLayer(f)
	require.NotNil(t, err)
	assert.Equal(t, "plan/invalid", err.Type)
	_, err = prog.Plan.Nodes[4].FillSystem(f)
	require.NotNil(t, err)
	assert.Contains(t, err.Message, ":system must be a string")
	_, err = prog.Plan.Nodes[5].FillLayer(f)
	require.NotNil(t, err)
	assert.Contains(t, err.Message, "candidates")
}

// TestGraphLaws: edges never form a cycle in a plan that Check accepts, every
// edge but a forward need points from an earlier to a later node, and the
// successors mirror the predecessors.
func TestGraphLaws(t *testing.T) {
	env := testEnv(t)
	rapid.Check(t, func(t *rapid.T) {
		text := genPlan(t)
		p, fs := plan.Parse(edn.MustRead(text), nil)
		require.NotNil(t, p)
		if plan.HasErrors(plan.Check(p, env)) {
			return
		}
		require.False(t, plan.HasErrors(fs))
		prog, err := plan.Link(p, env)
		require.Nil(t, err)
		n := 0
		for i := range p.Nodes {
			for _, j := range prog.Graph.Succs(i) {
				n++
				assert.Contains(t, prog.Graph.Preds(int(j)), int32(i))
			}
			before := prog.Graph.Before(i)
			assert.False(t, before[i])
			for _, j := range prog.Graph.Preds(i) {
				assert.True(t, before[j])
			}
		}
		assert.Len(t, prog.Graph.Edges(), n)
		for _, e := range prog.Graph.Edges() {
			assert.True(t, e.From < e.To || e.Kind == plan.EdgeNeeds, "%v", e)
		}
		assert.Len(t, walk(prog), len(p.Nodes))
	})
}

// genPlan writes a random, mostly valid plan.
func genPlan(t *rapid.T) string {
	n := rapid.IntRange(1, 8).Draw(t, "n")
	var b strings.Builder
	b.WriteString("{:nodes [")
	slot := func(i int) string {
		if i == 0 {
			return "1"
		}
		k := rapid.IntRange(0, i-1).Draw(t, "reads")
		return fmt.Sprintf("{:slot/path [:s%d :text] :slot/default \"d\"}", k)
	}
	for i := range n {
		when, needs := "", ""
		if i > 0 && rapid.Bool().Draw(t, "conditional") {
			when = fmt.Sprintf(":when {:present? :s%d}", rapid.IntRange(0, i-1).Draw(t, "asks"))
		}
		if rapid.Bool().Draw(t, "needy") {
			needs = fmt.Sprintf(`:needs ["n%d"]`, rapid.IntRange(0, n-1).Draw(t, "needs"))
		}
		common := fmt.Sprintf("%s %s :as :s%d}", when, needs, i)
		switch rapid.IntRange(0, 4).Draw(t, "op") {
		case 0:
			b.WriteString("{:op :let :value [" + slot(i) + "] " + common)
		case 1:
			b.WriteString("{:op :tool :tool/id :fs/write :input {:path \"p\" :content " + slot(i) + "} :effects {:allowed #{:fs/write}} " + common)
		case 2:
			b.WriteString("{:op :plan :plan {:nodes [{:op :emit :input {:x " + slot(i) + "}}]} " + common)
		case 3:
			b.WriteString("{:op :call :intent :plan/compile :input {:x " + slot(i) + "} " + common)
		default:
			b.WriteString("{:op :call :intent :text/respond :input {:prompt " + slot(i) + "} " + common)
		}
	}
	b.WriteString("{:op :emit :input {:final :s0}}]}")
	return b.String()
}
