package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// places lists the checks and paths of all findings of a plan, in their order.
func places(t testing.TB, env plan.Env, text string) []string {
	t.Helper()
	p, fs := readPlan(t, text)
	if p != nil {
		fs = plan.Check(p, env)
	}
	out := []string{}
	for _, f := range fs {
		assert.Contains(t, []plan.Severity{plan.Error, plan.Warning}, f.Severity)
		out = append(out, f.Check+" "+edn.Vector(f.Path...).String())
	}
	return out
}

// CHECK-003: one mistake gives one finding; findings that only follow from it
// are dropped, others are kept.
func TestOneFindingForOneMistake(t *testing.T) {
	const x, emit = `{:slot/id :x}`, ` {:op :emit :input {:slot/id :x}}`
	const respond = `{:op :call :intent :text/respond :input {:prompt "p"}`
	for _, tt := range []struct {
		nodes string
		want  []string
	}{
		// The misspelt key that fills the slot.
		{`{:op :let :value 1 :as "x"}` + emit, []string{"CHECK-015 [:nodes 0 :as]"}},
		{`{:op :let :value 1 :ass :x}` + emit, []string{"CHECK-010 [:nodes 0 :ass]"}},
		{`{:op :let :value 1 :zzzzzz :x}` + emit, []string{"CHECK-010 [:nodes 0 :zzzzzz]"}},
		{`{:op :let :valu 1 :as :y}` + emit, []string{"CHECK-010 [:nodes 0 :valu]", "CHECK-017 [:nodes 1 :input]"}},
		{emit + ` {:op :let :value 1 :as "x"}`, []string{"CHECK-017 [:nodes 0 :input]", "CHECK-015 [:nodes 1 :as]"}},
		{`{:op :let :value ` + x + ` :as "x"}`, []string{"CHECK-017 [:nodes 0 :value]", "CHECK-015 [:nodes 0 :as]"}},
		{`{:op :let :value 1 :as :y} {:op :let :value 1 :as :y}` + emit, []string{"CHECK-016 [:nodes 1 :as]"}},
		{`{:op :let :value 1 :id "a"} {:op :let :value 1 :id "a"}` + emit, []string{"CHECK-016 [:nodes 1 :id]",
			"CHECK-017 [:nodes 2 :input]"}},
		{`{:op :plan :plan {:nodes [{:op :let :value 1 :as "x"}` + emit + `]}}`, []string{
			"CHECK-015 [:nodes 0 :plan :nodes 0 :as]"}},
		{`{:op :plan :plan {:nodes [{:op :let :value 1 :as "x"}]}}` + emit, []string{
			"CHECK-015 [:nodes 0 :plan :nodes 0 :as]"}},

		// The item of a map and the bindings of a plan fill slots inside.
		{`{:op :map :over [1] :item "x" :body [` + emit + `]}`, []string{"CHECK-015 [:nodes 0 :item]"}},
		{`{:op :map :over [1] :itm :x :body [` + emit + `]}`, []string{"CHECK-010 [:nodes 0 :itm]"}},
		{`{:op :map :over [1] :item "x" :body [{:op :emit}]}` + emit, []string{"CHECK-015 [:nodes 0 :item]",
			"CHECK-017 [:nodes 1 :input]"}},
		{`{:op :plan :bindings {"x" 1} :plan {:nodes [` + emit + `]}}`, []string{"CHECK-015 [:nodes 0 :bindings \"x\"]"}},
		{`{:op :plan :bindings 5 :plan {:nodes [` + emit + `]}}`, []string{"CHECK-015 [:nodes 0 :bindings]"}},
		{`{:op :plan :binding {:x 1} :plan {:nodes [` + emit + `]}}`, []string{"CHECK-010 [:nodes 0 :binding]"}},
		{`{:op :plan :bindings 5 :plan {:nodes []}}` + emit, []string{"CHECK-015 [:nodes 0 :bindings]",
			"CHECK-017 [:nodes 1 :input]"}},

		// The misspelt key that the node lacks.
		{`{:op :call :intnt :text/respond :input {:prompt "p"}}`, []string{"CHECK-010 [:nodes 0 :intnt]"}},
		{`{:op :call :intnt :text/respond}`, []string{"CHECK-020 [:nodes 0 :input :prompt]", "CHECK-010 [:nodes 0 :intnt]"}},
		{`{:op :call :intent :text/respond :inptu {:prompt 5}}`, []string{"CHECK-010 [:nodes 0 :inptu]",
			"CHECK-020 [:nodes 0 :inptu :prompt]"}},
		{`{:op :call :intent :text/respond :input {:prompt "p"} :deadline "5s"}`, []string{"CHECK-010 [:nodes 0 :deadline]"}},
		{`{:op :plan :pln {:nodes [{:op :let :value 1 :as :x}` + emit + `]}}`, []string{"CHECK-010 [:nodes 0 :pln]"}},
		{`{:op :map :over [1] :itme :x :bdy [` + emit + `]}`, []string{"CHECK-010 [:nodes 0 :itme]", "CHECK-010 [:nodes 0 :bdy]"}},
		{`{:op :tool :tool/id :fs/write :effects {:allowd #{:fs/write}} :input {:path "p" :content "c"}}`,
			[]string{"CHECK-010 [:nodes 0 :effects :allowd]"}},
		{respond + ` :as :x} {:op :emit :input 1 :when {:faled? :x}} {:op :emit :input :x :when {:not {:failed? :x}}}`,
			[]string{"CHECK-015 [:nodes 1 :when]"}},

		// A key without its colon.
		{`{:op :let :value 1 as :x}` + emit, []string{"CHECK-010 [:nodes 0 as]"}},
		{`{:op :call :intent :text/respond input {:prompt "p"}}`, []string{"CHECK-010 [:nodes 0 input]"}},
		{respond + `} {:op :emit :input 1 :when {failed? :x}}`, []string{"CHECK-015 [:nodes 1 :when]"}},
		{`{:op :map :over [1] :bdy []}`, []string{"CHECK-010 [:nodes 0 :bdy]"}},
		{`{:op :emit :inputt 1} {:op :map :over [1]}`, []string{"CHECK-010 [:nodes 0 :inputt]", "CHECK-027 [:nodes 1]"}},

		// The misspelt key that reads the slot.
		{`{:op :let :value 1 :as :x} {:op :emit :inputt :x}`, []string{"CHECK-010 [:nodes 1 :inputt]"}},
		{`{:op :let :value 1 :as :x} {:op :emit :input :z}`, []string{"CHECK-017 [:nodes 1 :input]"}},
		{`{:op :let :value 1 :as :x} {:op :let :value {:slot/id "x"}}`, []string{"CHECK-015 [:nodes 1 :value]"}},
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when false}`, []string{"CHECK-040 [:nodes 0 :as]",
			"CHECK-041 [:nodes 1 :when]"}},

		// A value that a schema rejects too.
		{`{:op :call :intent :text/respond :input 5}`, []string{"CHECK-015 [:nodes 0 :input]"}},
		{`{:op :call :intent :num/add :input {:n {:slot/id 7} :list 1}}`, []string{"CHECK-015 [:nodes 0 :input :n]",
			"CHECK-020 [:nodes 0 :input :list]"}},

		// The id that another node needs.
		{`{:op :let :id 7 :value 1} {:op :emit :needs ["seven"]}`, []string{"CHECK-015 [:nodes 0 :id]"}},

		// No candidate has a schema that does not exist, whatever else narrows the candidates.
		{respond + ` :requires {:out-schema :res/txt :in-schema :req/txt}}`, []string{
			"CHECK-013 [:nodes 0 :requires :out-schema]", "CHECK-013 [:nodes 0 :requires :in-schema]"}},
		{respond + ` :cap/id :llm/voice :requires {:out-schema :res/txt :in-schema :req/txt}}`, []string{
			"CHECK-013 [:nodes 0 :requires :out-schema]", "CHECK-013 [:nodes 0 :requires :in-schema]"}},
		{respond + ` :output {:schema :res/txt} :dispatch {:candidates [:llm/voice]}}`, []string{
			"CHECK-013 [:nodes 0 :output :schema]"}},
		{respond + ` :output {:schema :res/code} :dispatch {:candidates [:llm/voice]}}`, []string{
			"CHECK-025 [:nodes 0 :output :schema]"}},
	} {
		assert.Equal(t, tt.want, places(t, testEnv(t), "{:nodes ["+tt.nodes+"]}"), tt.nodes)
	}
	require.Equal(t, []string{"CHECK-015 [:bindings \"x\"]"}, places(t, testEnv(t),
		`{:bindings {"x" 1} :nodes [`+emit+`]}`))
	require.Equal(t, []string{"CHECK-010 [:binding]"}, places(t, testEnv(t), `{:binding {:x 1} :nodes [`+emit+`]}`))
	require.Equal(t, []string{"CHECK-010 [:mod]", "CHECK-017 [:nodes 0 :input]"}, places(t, testEnv(t),
		`{:mod :strict :nodes [`+emit+`]}`))
}

// CHECK-003, CHECK-020, CHECK-044: a slot that is data in :bindings and does not fit
// where the binding is read is one mistake, reported where it is read. Other data that
// looks like a slot has its own finding.
func TestSlotsInBindings(t *testing.T) {
	const inner = `[{:op :call :intent :num/add :input {:n {:slot/id :b}} :as :y} {:op :emit :input [{:slot/id :c} {:slot/id :y}]}]`
	const slots = `:bindings {:b {:slot/id :x} :c {:slot/id :x}}`
	sub := func(bindings string) string {
		return `{:op :plan :as :p ` + bindings + ` :plan {:nodes ` + inner + `}}`
	}
	for _, tt := range []struct {
		plan string
		want []string
	}{
		{`{:nodes [{:op :plan :as :p :plan {` + slots + ` :nodes ` + inner + `}} {:op :emit :input :p}]}`, []string{
			"CHECK-044 [:nodes 0 :plan :bindings :c]", "CHECK-020 [:nodes 0 :plan :nodes 0 :input :n]"}},
		// The bindings of the whole plan may be others in each run.
		{`{` + slots + ` :nodes ` + inner + `}`, []string{"CHECK-044 [:bindings :b]", "CHECK-044 [:bindings :c]"}},
		{`{:nodes [` + sub(slots) + ` {:op :emit :input :p}]}`, []string{
			"CHECK-044 [:nodes 0 :bindings :c]", "CHECK-020 [:nodes 0 :plan :nodes 0 :input :n]"}},
		{`{:nodes [` + sub(slots) + ` {:op :plan :as :q :bindings {:b {:slot/id :x}} :plan {:nodes [{:op :emit :input :b}]}}` +
			` {:op :emit :input [{:slot/id :p} {:slot/id :q} {:slot/id :q :note 1}]}]}`, []string{
			"CHECK-044 [:nodes 0 :bindings :c]", "CHECK-020 [:nodes 0 :plan :nodes 0 :input :n]",
			"CHECK-044 [:nodes 1 :bindings :b]", "CHECK-044 [:nodes 2 :input 2]"}},
		{`{:nodes [` + sub(`:bindings {:b 1 :c {:slot/id :x}}`) + ` {:op :emit :input :p}]}`, []string{"CHECK-044 [:nodes 0 :bindings :c]"}},
	} {
		assert.Equal(t, tt.want, places(t, testEnv(t), tt.plan), tt.plan)
	}
	got := lines(t, `{:nodes [`+sub(slots)+` {:op :emit :input :p}]}`, testEnv(t))
	assert.Contains(t, got[1], "which can never fit :req/number, because a slot in :bindings is data")
}

// CHECK-020: a plan whose secrets are gone is not checked for what never fits, and for
// everything else.
func TestUncheckedValues(t *testing.T) {
	const nodes = `{:nodes [{:op :call :intent :num/add :input {:n "one"} :as :y} {:op :emit :input [{:slot/id :y} {:slot/id :z}]}]}`
	env := testEnv(t)
	assert.Equal(t, []string{"CHECK-020 [:nodes 0 :input :n]", "CHECK-017 [:nodes 1 :input 1]"}, places(t, env, nodes))
	env.Unchecked = true
	assert.Equal(t, []string{"CHECK-017 [:nodes 1 :input 1]"}, places(t, env, nodes))
}
