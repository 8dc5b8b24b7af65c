package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
)

// CHECK-001, CHECK-003: the checks with findings in a plan, and their places.
func TestPlacesOfFindings(t *testing.T) {
	const respond = `{:op :call :intent :text/respond :input {:prompt "p"}`
	const write = `{:op :call :intent :fs/write :input {:path "a" :content "b"} :effects {:allowed #{:fs/write}}`
	const number = `{:op :call :intent :num/add :input {:n {:slot/path [:x :s]}}}`
	for _, tt := range []struct {
		nodes string
		want  []string
	}{
		// Cycles: at the :needs of the last node, or at the node that only reads.
		{`{:op :let :id "a" :value 1 :as :x :needs ["b"]} {:op :let :id "b" :value {:slot/id :x}}`, []string{
			"CHECK-019 [:nodes 1]"}},
		{`{:op :let :id "a" :value 1 :needs ["b"]} {:op :let :id "b" :value 1 :needs ["a"]}`, []string{
			"CHECK-019 [:nodes 1 :needs]"}},

		// Emits.
		{`{:op :emit :input 1} {:op :emit :input 2 :when false}`, []string{"CHECK-041 [:nodes 1 :when]"}},
		{`{:op :let :value 1} {:op :emit :input 1} {:op :emit :input 2}`, []string{"CHECK-042 [:nodes 1]"}},
		{`{:op :let :value 1 :as :x} {:op :emit :input 1 :when :x} {:op :emit :input 2 :when :x}`, []string{}},
		{`{:op :emit :input 1} {:op :emit :input 2 :when {:not false}} {:op :emit :input 3 :when {:not true}}`, []string{
			"CHECK-042 [:nodes 0]", "CHECK-041 [:nodes 2 :when]"}},

		// Slots that nothing reads.
		{`{:op :let :value 1 :as :x}`, []string{"CHECK-040 [:nodes 0 :as]"}},
		{`{:op :call :intent :plan/compile :as :x}`, []string{"CHECK-040 [:nodes 0 :as]"}},
		{`{:op :let :value 1 :as :x} {:op :call :intent :plan/compile} {:op :let :value 1 :as :y}`, []string{
			"CHECK-040 [:nodes 2 :as]"}},
		{`{:op :plan :plan {:nodes [{:op :let :value 1 :as :x}]}}`, []string{"CHECK-040 [:nodes 0 :plan :nodes 0 :as]"}},
		{`{:op :map :over [1] :body [{:op :let :value 1 :as :x}]}`, []string{}},
		{`{:op :map :over [1] :body [{:op :let :value 1 :as :x} {:op :let :value 1 :as :y}]}`, []string{
			"CHECK-040 [:nodes 0 :body 0 :as]"}},
		{`{:op :map :over [1] :body [{:op :emit :input 1} {:op :let :value 1 :as :x}]}`, []string{
			"CHECK-040 [:nodes 0 :body 1 :as]"}},

		// Two nodes that write one slot are one mistake, whatever their
		// conditions.
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when :x :as :y} {:op :let :value 1 :when :x :as :y} ` +
			`{:op :emit :input :y}`,
			[]string{"CHECK-016 [:nodes 2 :as]"}},

		// Slots whose writer never runs. A plan that may be skipped may skip the reader too.
		{`{:op :let :value 1 :when false :as :s} {:op :emit :input :s}`, []string{
			"CHECK-041 [:nodes 0 :when]", "CHECK-017 [:nodes 1 :input]"}},
		{`{:op :let :value 1 :as :x} {:op :plan :when :x :plan {:nodes [{:op :let :value 1 :when false :as :s} ` +
			`{:op :emit :input :s}]}}`,
			[]string{"CHECK-041 [:nodes 1 :plan :nodes 0 :when]", "CHECK-045 [:nodes 1 :plan :nodes 1 :input]"}},

		// Candidates and handles.
		{respond + ` :dispatch {:candidates [{:slot/id :h} {:cap/ref :llm/vioce} :llm/voise]}}`, []string{
			"CHECK-017 [:nodes 0 :dispatch :candidates 0]",
			"CHECK-012 [:nodes 0 :dispatch :candidates 1]",
			"CHECK-012 [:nodes 0 :dispatch :candidates 2]"}},
		{respond + ` :dispatch {:candidates [:llm/voise :llm/voice]}}`, []string{
			"CHECK-012 [:nodes 0 :dispatch :candidates 0]"}},
		{respond + ` :dispatch {:candidates [:chess/rules]}}`, []string{"CHECK-025 [:nodes 0 :dispatch :candidates]"}},
		// An absent capability may be named: its readiness is checked at run
		// time.
		{respond + ` :dispatch {:candidates [:llm/absent]}}`, []string{}},
		{respond + ` :dispatch {:candidates [:llm/absent :chess/rules]}}`, []string{}},
		{`{:op :call :intent :text/respond :input {:prompt "a"} :cap/id :llm/absent}`, []string{}},
		{`{:op :let :value {:cap/ref :llm/absent}}`, []string{}},
		{`{:op :let :value :llm/vioce} {:op :let :value {:cap/ref :llm/vioce}} {:op :let :value [{:cap/ref :llm/vioce}]}`,
			[]string{
				"CHECK-012 [:nodes 1 :value]"}},
		{`{:op :let :value {:cap/ref :fs/write} :as :h} ` + write + ` :dispatch {:strategy :race :candidates [{:slot/id :h}]}}`, []string{}},
		{respond + ` :output {:schema :res/txt} :requires {:out-schema :res/txt}}`, []string{
			"CHECK-013 [:nodes 0 :output :schema]"}},
		{respond + ` :dispatch {:retry {:same-cap-max 1 :fallback-max 1}}}`, []string{
			"CHECK-043 [:nodes 0 :dispatch :retry]"}},

		// The key whose removal would leave a candidate.
		{respond + ` :requires {:out-schema :res/code}}`, []string{"CHECK-025 [:nodes 0 :requires :out-schema]"}},
		{respond + ` :requires {:in-schema :req/code}}`, []string{"CHECK-025 [:nodes 0 :requires :in-schema]"}},
		{respond + ` :requires {:result/type :plan}}`, []string{"CHECK-025 [:nodes 0 :requires :result/type]"}},
		{respond + ` :requires {:cap/kind :tool}}`, []string{"CHECK-025 [:nodes 0 :requires :cap/kind]"}},
		{respond + ` :requires {:cap/tags #{:fast}}}`, []string{"CHECK-025 [:nodes 0 :requires :cap/tags]"}},
		{write + ` :requires {:effects/allowed #{:none}}}`, []string{"CHECK-025 [:nodes 0 :requires :effects/allowed]"}},
		{write + ` :requires {:effects/allowed #{:none}} :dispatch {:candidates [:fs/write :llm/voice]}}`, []string{
			"CHECK-025 [:nodes 0 :requires :effects/allowed]"}},
		{respond + ` :dispatch {:exclude #{:llm/voice}}}`, []string{"CHECK-025 [:nodes 0 :dispatch :exclude]"}},
		{respond + ` :cap/id :llm/meta}`, []string{"CHECK-025 [:nodes 0 :cap/id]"}},
		{respond + ` :requires {:cap/kind :tool :cap/tags #{:fast}}}`, []string{"CHECK-025 [:nodes 0 :requires :cap/kind]"}},

		// Tools pass the same checks.
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read}} :done {:must [:legal-mov]}}`, []string{
			"CHECK-014 [:nodes 0 :done :must]"}},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read}} :budget {:max-attempts 0}}`, []string{
			"CHECK-023 [:nodes 0 :budget :max-attempts]"}},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read}} :done {:must [:tests-pass]}}`, []string{
			"CHECK-022 [:nodes 0 :done :must]"}},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:none}}}`, []string{"CHECK-021 [:nodes 0 :effects]"}},
		{`{:op :tool :tool/id :fs/write :effects {:allowed #{:fs/write}} :input {:path "a"}}`, []string{
			"CHECK-020 [:nodes 0 :input :content]"}},

		// The producer of a slot: a call, the schema that it requires, or a tool.
		{`{:op :call :intent :num/add :input {:n 1} :as :x} ` + number, []string{"CHECK-020 [:nodes 1 :input :n]"}},
		{`{:op :call :intent :plan/compile :as :x} ` + number, []string{}},
		{`{:op :call :intent :num/add :input {:n 1} :output {:schema :res/number} :as :x} ` + number, []string{
			"CHECK-020 [:nodes 1 :input :n]"}},
		{`{:op :tool :tool/id :fs/write :effects {:allowed #{:fs/write}} :input {:path "a" :content "b"} :as :x}
		  {:op :call :intent :text/respond :input {:prompt {:slot/path [:x :bytes]}}}`, []string{"CHECK-020 [:nodes 1 :input :prompt]"}},
		{`{:op :let :value 1 :as :x} {:op :map :over {:slot/path [:x :a]} :body []}`, []string{}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} ` +
			`{:op :call :intent :num/add :input {:n 1 :other {:slot/path [:x :n]}}}`,
			[]string{"CHECK-020 [:nodes 1 :input :other]"}},
		{`{:op :let :value "1" :as :x} {:op :call :intent :num/add :input {:n 1 :other {:slot/id :x}}}`, []string{
			"CHECK-020 [:nodes 1 :input :other]"}},

		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :emit :input {:slot/path [:x :mny]}}`, []string{
			"CHECK-049 [:nodes 1 :input]"}},

		// Slots that a later node fills, also in an outer plan.
		{`{:op :emit :input :x} {:op :let :value 1 :as :x}`, []string{"CHECK-018 [:nodes 0 :input]"}},
		{`{:op :plan :plan {:nodes [{:op :emit :input :x}]}} {:op :let :value 1 :as :x}`, []string{
			"CHECK-018 [:nodes 0 :plan :nodes 0 :input]"}},
		{`{:op :plan :plan {:nodes [{:op :let :value 1} {:op :let :value 1} {:op :emit :input :x}]}} ` +
			`{:op :let :value 1 :as :x}`,
			[]string{"CHECK-018 [:nodes 0 :plan :nodes 2 :input]"}},
		{`{:op :plan :as :x :plan {:nodes [{:op :emit :input :x}]}}`, []string{"CHECK-018 [:nodes 0 :plan :nodes 0 :input]"}},
		{`{:op :let :value 1 :as :x} {:op :plan :plan {:nodes [{:op :emit :input :x}]}}`, []string{}},
		{`{:op :let :value {:slot/id :x :slot/default 1}} {:op :let :value 1 :as :x}`, []string{}},
		{`{:op :emit :input {:final :x}} {:op :let :value 1 :as :x}`, []string{"CHECK-018 [:nodes 0 :input :final]"}},
		{`{:op :emit :input {:final :x}}`, []string{}},
	} {
		assert.Equal(t, tt.want, places(t, testEnv(t), "{:nodes ["+tt.nodes+"]}"), tt.nodes)
	}
}

// CHECK-017: the nearest name is one that a node or a binding fills, in this
// plan or an outer one. Names of fewer than three letters have no nearest name.
func TestNearestSlots(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{:nodes [{:op :let :value 1 :as :title} {:op :emit :input :titel}]}`, ":title"},
		{`{:nodes [{:op :let :value 1 :as :abc} {:op :emit :input :abd}]}`, ":abc"},
		{`{:nodes [{:op :let :value 1 :as :ab} {:op :emit :input :abd}]}`, "nil"},
		{`{:nodes [{:op :let :value 1 :as :abc} {:op :emit :input :ab}]}`, "nil"},
		{`{:bindings {:title 1} :nodes [{:op :emit :input :titel}]}`, ":title"},
		{`{:nodes [{:op :let :value 1 :as :title} {:op :plan :plan {:nodes [{:op :emit :input :titel}]}}]}`, ":title"},
		{`{:nodes [{:op :plan :bindings {:title 1} :plan {:nodes [{:op :emit :input :titel}]}}]}`, ":title"},
		{`{:nodes [{:op :plan :plan {:bindings {:title 1} :nodes [{:op :emit :input :titel}]}}]}`, ":title"},
		{`{:nodes [{:op :emit :input :titel}]}`, "nil"},
	} {
		p, _ := readPlan(t, tt.text)
		require.NotNil(t, p)
		var near []string
		for _, f := range plan.Check(p, testEnv(t)) {
			if f.Check == "CHECK-017" {
				near = append(near, f.Nearest.String())
			}
		}
		assert.Equal(t, []string{tt.want}, near, tt.text)
	}
}

// CHECK-024, CHECK-027: one finding for candidates with effects, and a handle of several intents.
func TestSeveralCapabilities(t *testing.T) {
	spec := testSpec(t)
	spec.Capabilities = append(spec.Capabilities,
		serve("fs/other", "tool", "fs/write", "req/fs.write", "res/fs.write", withEffects("fs/write")),
		serve("num/both", "solver", "num/add", "req/number", "res/number", func(c *contract.Capability) {
			c.Intents = append(c.Intents, "num/sub")
		}))
	r, err := registry.New(spec)
	require.NoError(t, err)
	env := plan.Env{Registry: r}
	const write = `{:op :call :intent :fs/write :input {:path "a" :content "b"} :effects {:allowed #{:fs/write}} :dispatch {:strategy :race}}`
	assert.Equal(t, []string{"CHECK-024 [:nodes 0 :dispatch :strategy]"}, places(t, env, `{:nodes [`+write+`]}`))
	assert.Equal(t, []string{"CHECK-027 [:nodes 0 :fn]"}, places(t, env,
		`{:nodes [{:op :map :over [{:n 1}] :fn {:cap/ref :num/both}}]}`))
	assert.Empty(t, places(t, env, `{:nodes [{:op :map :over [{:n 1}] :fn {:cap/ref :num/both} :intent :num/add}]}`))
}

// CHECK-019: a cycle is shown from its first node in program order, even if an
// earlier node waits for it.
func TestCycleBehindAnotherNode(t *testing.T) {
	p, _ := readPlan(t, `{:nodes [{:op :let :id "a" :value 1 :needs ["c"]} {:op :let :id "b" :value 1 :needs ["c"]} {:op :let :id "c" :value 1 :needs ["b"]}]}`)
	require.NotNil(t, p)
	fs := plan.Check(p, testEnv(t))
	require.Len(t, fs, 1)
	assert.Contains(t, fs[0].Message, "b -> c -> b")
}

// CHECK-026: a plan that is too large has no other findings.
func TestTooManyNodes(t *testing.T) {
	many := "[" + strings.Repeat("{:op :cal}\n", plan.DefaultLimits().Nodes+1) + "]"
	assert.Equal(t, []string{"CHECK-026 [:nodes]"}, places(t, testEnv(t), "{:nodes "+many+"}"))
	assert.Equal(t, []string{"CHECK-026 [:nodes 0 :plan :nodes]"}, places(t, testEnv(t),
		fmt.Sprintf("{:nodes [{:op :plan :plan {:nodes %s}}]}", many)))
}
