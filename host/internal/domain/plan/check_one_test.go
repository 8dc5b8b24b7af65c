package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CHECK-001: one mistake gives one finding, at its place, with the intended
// name.
func TestOneMistake(t *testing.T) {
	const respond = `{:op :call :intent :text/respond :input {:prompt "p"} :as :r `
	const emit = `} {:op :emit :input :r}`
	const read = `{:op :map :as :r :over [{:prompt "p"}] `
	const voice = `:fn {:cap/ref :llm/voice} `
	const write = `{:op :tool :as :r :tool/id :fs/write :input {:path "p" :content "c"} `
	for _, tt := range []struct{ nodes, want string }{
		// Excluding a capability that nothing provides has no effect.
		{respond + `:dispatch {:exclude [:llm/meta :llm/solvr]}` + emit, "warning CHECK-012 [:nodes 0 :dispatch :exclude 1] :llm/solver"},
		{respond + `:dispatch {:exclude #{:no/such}}` + emit, "warning CHECK-012 [:nodes 0 :dispatch :exclude :no/such]"},
		{respond + `:dispatch {:exclude #{:llm/solver}}` + emit, ""},
		{read + voice + `:dispatch {:exclude [:llm/solvr]}` + emit, "warning CHECK-012 [:nodes 0 :dispatch :exclude 0] :llm/solver"},

		// Candidates from a slot whose value the plan contains.
		{`{:op :let :value :llm/voic :as :c} ` + respond + `:dispatch {:candidates [{:slot/id :c}]}` + emit,
			"error CHECK-012 [:nodes 1 :dispatch :candidates 0] :llm/voice"},
		{`{:op :let :value "llm/voice" :as :c} ` + respond + `:dispatch {:candidates [{:slot/id :c}]}` + emit,
			"error CHECK-015 [:nodes 1 :dispatch :candidates 0]"},
		{`{:op :let :value [:llm/voice :llm/voic] :as :c} ` + respond + `:dispatch {:candidates {:slot/id :c}}` + emit,
			"error CHECK-012 [:nodes 1 :dispatch :candidates] :llm/voice"},
		{`{:op :let :value :llm/voice :as :c} ` + respond + `:dispatch {:candidates {:slot/id :c}}` + emit,
			"error CHECK-015 [:nodes 1 :dispatch :candidates]"},
		{`{:op :let :value [:llm/voice 5] :as :c} ` + respond + `:dispatch {:candidates {:slot/id :c}}` + emit,
			"error CHECK-015 [:nodes 1 :dispatch :candidates]"},
		{`{:op :let :value {:best :llm/voic} :as :c} ` + respond + `:dispatch {:candidates [:llm/voice {:slot/path [:c :best]}]}` + emit,
			"error CHECK-012 [:nodes 1 :dispatch :candidates 1] :llm/voice"},
		{`{:op :let :value {:cap/ref :llm/voic} :as :c} ` + respond + `:dispatch {:candidates [{:slot/id :c}]}` + emit,
			"error CHECK-012 [:nodes 0 :value] :llm/voice"},
		{`{:op :let :value :chess/rules :as :c} ` + respond + `:dispatch {:candidates [{:slot/id :c}]}` + emit,
			"error CHECK-025 [:nodes 1 :dispatch :candidates]"},
		{`{:op :let :value [:llm/voice] :as :c} ` + respond + `:dispatch {:candidates {:slot/id :c}}` + emit, ""},
		{`{:op :let :value {:cap/ref :llm/voice} :as :c} ` + respond + `:dispatch {:candidates [{:slot/id :c} :llm/voice]}` + emit, ""},
		{`{:op :let :value :llm/voic :as :c} ` + read + `:fn {:slot/id :c} :intent :text/respond` + emit,
			"error CHECK-012 [:nodes 1 :fn] :llm/voice"},
		{`{:op :let :value 5 :as :c} ` + read + `:fn {:slot/id :c} :intent :text/respond` + emit, "error CHECK-015 [:nodes 1 :fn]"},
		{`{:op :let :value :llm/voice :as :c} ` + read + `:fn {:slot/id :c} :intent :text/respond` + emit, ""},

		// Call keys of a :fn belong beside it.
		{read + `:fn {:cap/ref :llm/voic}` + emit, "error CHECK-012 [:nodes 0 :fn] :llm/voice"},
		{read + voice + `:intent :text/respnd` + emit, "error CHECK-011 [:nodes 0 :intent] :text/respond"},
		{read + voice + `:done {:must #{:json-vaild}}` + emit, "error CHECK-014 [:nodes 0 :done :must] :json-valid"},
		{read + voice + `:dispatch {:strategy :rce}` + emit, "error CHECK-015 [:nodes 0 :dispatch :strategy] :race"},
		{read + voice + `:budget {:max-tokns 5}` + emit, "error CHECK-010 [:nodes 0 :budget :max-tokns] :max-tokens"},
		{read + `:fn {:slot/id "c"} :intent :text/respond` + emit, "error CHECK-015 [:nodes 0 :fn]"},
		{read + `:fn {:slot/id :ghost} :intent :text/respond` + emit, "error CHECK-017 [:nodes 0 :fn]"},
		{`{:op :map :as :r :over [{:prompt 5} {}] ` + voice + emit, "error CHECK-020 [:nodes 0 :over]"},

		{write + `:effects {:allowed #{:fs/wirte}}` + emit, "error CHECK-015 [:nodes 0 :effects :allowed] :fs/write"},
		{`{:op :let :value 1 :as :x} {:op :plan :as :r :bindings {:b {:slot/id :x}} :plan {:nodes [` +
			`{:op :call :intent :text/respond :input {:prompt {:slot/id :b}} :as :y} {:op :emit :input :y}]}` + emit,
			"error CHECK-020 [:nodes 1 :plan :nodes 0 :input :prompt]"},
		{`{:op :let :value 1 :as :x} {:op :emit :input {:slot/id :x :default 2}}`, "warning CHECK-044 [:nodes 1 :input]"},

		// The intended name.
		{respond + `:deadline 5` + emit, "error CHECK-010 [:nodes 0 :deadline] :deadline-ms"},
		{respond + `:dispatch {:strategy :tournment}` + emit, "error CHECK-015 [:nodes 0 :dispatch :strategy] :tournament"},
		{respond + `:dispatch {:policy :cost-frist}` + emit, "error CHECK-015 [:nodes 0 :dispatch :policy] :cost-first"},
		{respond + `:requires {:result/type :vlaue}` + emit, "error CHECK-015 [:nodes 0 :requires :result/type] :value"},
		{`{:op :let :value 1 :as :x} {:op :emit :input 1 :when {:presnt? :x}}`, "error CHECK-015 [:nodes 1 :when] :present?"},
		{respond + `bugdet {:max-tokens 5}` + emit, "error CHECK-010 [:nodes 0 bugdet] :budget"},
		{`{:op :let :value 1 as :x} {:op :emit input :x}`, "error CHECK-010 [:nodes 0 as] :as; error CHECK-010 [:nodes 1 input] :input"},
		{respond + `:when {:x :r}` + emit, "error CHECK-015 [:nodes 0 :when]"},
		{read + `:body [{:op :emit :input :item}] :on-item-error :kep` + emit, "error CHECK-015 [:nodes 0 :on-item-error] :keep"},
		{`{:op :tool :as :r :tool/id :fs/wrte :effects {:allowed #{:fs/write}}` + emit, "error CHECK-012 [:nodes 0 :tool/id] :fs/write"},
	} {
		p, fs := readPlan(t, `{:nodes [`+tt.nodes+`]}`)
		if p != nil {
			fs = plan.Check(p, testEnv(t))
		}
		got := make([]string, len(fs))
		for i, f := range fs {
			got[i] = strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", f.Severity, f.Check, edn.Vector(f.Path...), f.Nearest), " nil")
			assert.Positive(t, f.Line, tt.nodes)
		}
		assert.Equal(t, tt.want, strings.Join(got, "; "), tt.nodes)
	}
}

// CHECK-012, CHECK-015, CHECK-025: candidates that a slot gives are checked as far as
// the plan has their value, each where it is given.
func TestCandidatesOfSlots(t *testing.T) {
	let := func(as, v string) string { return `{:op :let :value ` + v + ` :as :` + as + `} ` }
	ask := func(candidates string) string {
		return `{:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:candidates ` + candidates + `}}`
	}
	const all, one, two = `{:slot/id :a}`, `[{:slot/id :a}]`, `[{:slot/id :a} {:slot/id :b}]`
	for _, tt := range []struct {
		nodes string
		want  []string
		says  string
	}{
		{let("a", "[:llm/voice]") + ask(all), []string{}, ""},
		{let("a", ":llm/voice") + ask(one), []string{}, ""},
		{let("a", "{:cap/ref :llm/voice}") + ask(one), []string{}, ""},
		{let("a", "[:llm/voyce]") + ask(all), []string{"CHECK-012 [:nodes 1 :dispatch :candidates]"}, "unknown capability :llm/voyce"},
		{let("a", "[:llm/voice :llm/voyce :llm/mata]") + ask(all), []string{"CHECK-012 [:nodes 1 :dispatch :candidates]"},
			"unknown capability :llm/voyce"},
		{let("a", ":llm/voyce") + ask(one), []string{"CHECK-012 [:nodes 1 :dispatch :candidates 0]"}, "unknown capability :llm/voyce"},
		{let("a", "{:cap/ref :llm/voyce}") + ask(one), []string{"CHECK-012 [:nodes 0 :value]"}, ""},
		{let("a", "{:c {:cap/ref :llm/voyce}}") + ask(`[{:slot/path [:a :c]}]`), []string{"CHECK-012 [:nodes 1 :dispatch :candidates 0]"}, ""},
		{`{:op :plan :bindings {:a {:cap/ref :llm/voyce}} :plan {:nodes [` + ask(one) + `]}}`,
			[]string{"CHECK-012 [:nodes 0 :plan :nodes 0 :dispatch :candidates 0]"}, ""},
		{let("a", ":llm/voice") + ask(all), []string{"CHECK-015 [:nodes 1 :dispatch :candidates]"},
			"wanted a vector of capability ids and handles, got :llm/voice"},
		{let("a", "[7 :llm/voyce]") + ask(all), []string{"CHECK-015 [:nodes 1 :dispatch :candidates]"},
			"wanted a vector of capability ids and handles, got 7"},
		{let("a", "7") + ask(one), []string{"CHECK-015 [:nodes 1 :dispatch :candidates 0]"}, "wanted a capability id or a handle, got 7"},

		// None of the given ones serves the intent.
		{let("a", "[:num/add]") + ask(all), []string{"CHECK-025 [:nodes 1 :dispatch :candidates]"}, ""},
		{let("a", ":num/add") + let("b", ":chess/rules") + ask(two), []string{"CHECK-025 [:nodes 2 :dispatch :candidates]"}, ""},
		{let("a", ":num/add") + let("b", ":llm/voice") + ask(two), []string{}, ""},
		{let("a", ":num/add") + let("b", ":llm/voyce") + ask(two), []string{"CHECK-012 [:nodes 2 :dispatch :candidates 1]"}, ""},
		{let("a", ":num/add") + `{:op :call :intent :plan/compile :as :b} ` + ask(two), []string{}, ""},
	} {
		got := places(t, testEnv(t), "{:nodes ["+tt.nodes+"]}")
		assert.Equal(t, tt.want, got, tt.nodes)
		if tt.says != "" {
			assert.Contains(t, lines(t, "{:nodes ["+tt.nodes+"]}", testEnv(t))[0], tt.says)
		}
	}
}

// CHECK-011, CHECK-012: a name of another kind is not hidden: an unknown intent with the
// name of a capability leads to the intent of that; an unknown excluded capability is a
// warning.
func TestNamesOfAnotherKind(t *testing.T) {
	spec := testSpec(t)
	open := serve("text/open", "llm", "", "req/any", "res/any")
	open.Intents = nil
	spec.Capabilities = append(spec.Capabilities, open)
	r, err := registry.New(spec)
	require.NoError(t, err)
	for intent, nearest := range map[string]string{
		"chess/rules": "nearest is :chess/verify-move",
		"text/open":   "unknown intent :text/open",
	} {
		got := lines(t, `{:nodes [{:op :call :intent :`+intent+` :input {:prompt "p"}}]}`, plan.Env{Registry: r})
		require.Len(t, got, 1)
		assert.Contains(t, got[0], nearest)
	}
	const excludes = `{:nodes [{:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:exclude [:llm/voyce]}}]}`
	assert.Equal(t, []string{"CHECK-012 [:nodes 0 :dispatch :exclude 0]"}, places(t, testEnv(t), excludes))
	got := lines(t, excludes, testEnv(t))
	require.Len(t, got, 1)
	assert.Contains(t, got[0], "warning CHECK-012 unknown capability :llm/voyce excludes nothing")
}

// CHECK-029, PRM-002: a tool that is a language model takes no result in its system
// prompt, like a call.
func TestSystemOfTools(t *testing.T) {
	const made = `{:op :call :intent :plan/compile :input {} :result/type :value :as :x} `
	for node, want := range map[string][]string{
		`{:op :tool :tool/id :llm/voice :effects {:allowed #{:none}} :input {:prompt "p" :system {:slot/path [:x :text]}}}`: {
			"CHECK-029 [:nodes 1 :input :system]"},
		`{:op :tool :tool/id :llm/voice :effects {:allowed #{:none}} :input {:prompt {:slot/path [:x :text]} :system "p"}}`: {},
		`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read}} :input {:path "p" :system {:slot/path [:x :text]}}}`:  {},
	} {
		assert.Equal(t, want, places(t, testEnv(t), "{:nodes ["+made+node+"]}"), node)
	}
}

// CHECK-029, PRM-002: system messages are found also if a let, a binding or an item
// of a map holds them or their roles.
func TestSystemInOtherNodes(t *testing.T) {
	const made = `{:op :call :intent :plan/compile :input {} :result/type :value :as :x} `
	chat := func(messages string) string {
		return `{:op :tool :tool/id :llm/voice :effects {:allowed #{:none}} :input {:prompt "p" :messages ` + messages + `}}`
	}
	let := func(name, value string) string { return `{:op :let :value ` + value + ` :as ` + name + `} ` }
	const (
		system = `[{:role :system :content {:slot/path [:x :text]}} {:role :user :content "u"}]`
		user   = `[{:role :system :content "s"} {:role :user :content {:slot/path [:x :text]}}]`
		found  = "CHECK-029 [:nodes 2 :input :messages]"
	)
	for nodes, want := range map[string][]string{
		let(":m", system) + chat(`{:slot/id :m}`):                            {found},
		let(":m", `{:out `+system+`}`) + chat(`{:slot/path [:m :out]}`):      {found},
		let(":m", `{:a {"b" `+system+`}}`) + chat(`{:slot/path [:m :a :b]}`): {found},
		let(":m", user) + chat(`{:slot/id :m}`):                              {},
		let(":r", `:system`) + chat(`[{:role {:slot/id :r} :content {:slot/path [:x :text]}}]`): {
			"CHECK-029 [:nodes 2 :input :messages 0 :content]"},
		let(":r", `:user`) + chat(`[{:role {:slot/id :r} :content {:slot/path [:x :text]}}]`): {},
		let(":m", system) + let(":n", `[{:slot/path [:m 0]}]`) + chat(`{:slot/id :n}`): {
			"CHECK-029 [:nodes 3 :input :messages]"},
		let(":m", system) + `{:op :plan :plan {:nodes [` + chat(`{:slot/id :m}`) + `]}}`: {
			"CHECK-029 [:nodes 2 :plan :nodes 0 :input :messages]"},
		let(":m", `{:slot/path [:x :text]}`) + `{:op :plan :bindings {:r "system"} :plan {:nodes [` +
			chat(`[{:role {:slot/id :r} :content {:slot/id :m}}]`) + `]}}`: {
			"CHECK-029 [:nodes 2 :plan :nodes 0 :input :messages 0 :content]"},
		let(":m", `[`+system+`]`) + `{:op :map :over {:slot/id :m} :item :i :body [` + chat(`{:slot/id :i}`) + `]}`: {
			"CHECK-029 [:nodes 2 :body 0 :input :messages]"},
	} {
		assert.Equal(t, want, places(t, testEnv(t), "{:nodes ["+made+nodes+"]}"), nodes)
	}
}
