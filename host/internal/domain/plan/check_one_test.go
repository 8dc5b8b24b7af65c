package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
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
		{respond + `:when {:presnt? :r}` + emit, "error CHECK-015 [:nodes 0 :when] :present?"},
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
