package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TestEmit: IR-005 and IR-009, which parts of a result an emit exposes.
func TestEmit(t *testing.T) {
	for _, row := range []struct{ name, input, want string }{
		{"a whole keyword names a slot and shows its :out", ":a", `{:result "r" :text "t"}`},
		{"a keyword elsewhere is data", `{:x :a}`, `{:x :a}`},
		{"the seed's form", `{:final :a}`, `{:final {:result "r" :text "t"}}`},
		{"only directly under :final", `{:x {:final :a}}`, `{:x {:final :a}}`},
		{"under :final a keyword that names nothing is data", `{:final :ready}`, `{:final :ready}`},
		{"a whole slot shows its :out", `{:answer {:slot/id :a}}`, `{:answer {:result "r" :text "t"}}`},
		{"a path", `{:answer {:slot/path [:a :text]}}`, `{:answer "t"}`},
		{"a failed slot shows its failure", ":f", `{:error {:type :timeout/hard} :failure/type :timeout/hard}`},
		{"a failed slot inside", `[{:slot/id :f}]`, `[{:error {:type :timeout/hard} :failure/type :timeout/hard}]`},
		{"a plain value", ":v", "7"},
		{"a plan slot", ":p", `{:x 1}`},
		{"the envelope does not leave: the path means the answer", `{:slot/path [:a :result]}`, `"r"`},
		{"nor does the meta", `{:slot/path [:a :invoke/meta] :slot/default :none}`, ":none"},
		{"text", `"plain"`, `"plain"`},
		{"a binding", ":b", `"x"`},
		{"a whole slot that went through a let", ":w", `{:result "r" :text "t"}`},
		{"a whole slot inside a let", ":d", `{:deep [{:result "r" :text "t"}] :n 1}`},
		{"a path into such a let", `{:slot/path [:d :deep 0]}`, `{:result "r" :text "t"}`},
		{"the failure type", `{:slot/path [:f :failure/type]}`, ":timeout/hard"},
	} {
		t.Run(row.name, func(t *testing.T) {
			prog := load(t, `{:bindings {:b "x"} :nodes [
			  {:op :call :intent :text/respond :input {:prompt "p"} :as :a}
			  {:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:allow-failure? true} :as :f}
			  {:op :let :value 7 :as :v}
			  {:op :plan :plan {:nodes []} :as :p}
			  {:op :let :value {:slot/id :a} :as :w}
			  {:op :let :value {:deep [{:slot/id :a}] :n 1} :as :d}
			  {:op :emit :input `+row.input+`}]}`, testEnv(t))
			f := plan.NewFrame(prog, edn.Nil())
			f.Set(0, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: edn.MustRead(`{:text "t" :result "r"}`), Envelope: edn.MustRead(`{:secret 1}`), Meta: edn.MustRead(`{:model "m"}`)}))
			f.Set(1, plan.CallSlot(&plan.Result{ID: "llm/voice", Error: edn.MustRead(`{:type :timeout/hard}`), FailureType: "timeout/hard"}))
			f.Set(2, plan.ValueSlot(edn.Int(7)))
			f.Set(3, plan.PlanSlot(&plan.Result{Out: edn.MustRead(`{:x 1}`), Run: edn.MustRead(`{:ok? true}`)}))
			for _, i := range []int{4, 5} {
				s, err := prog.Plan.Nodes[i].FillLet(f)
				require.Nil(t, err)
				f.Set(i, s)
			}
			v, _, err := prog.Plan.Nodes[6].Input.Fill(f, nil)
			require.Nil(t, err)
			assert.Equal(t, row.want, v.String())
		})
	}
}
