package plan_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// FuzzPlan: EVAL-075, any EDN gives findings or a plan that links and fills;
// nothing panics. Findings have positions inside the text.
func FuzzPlan(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.edn")
	require.NoError(f, err)
	more, err := filepath.Glob("testdata/seeds/*.edn")
	require.NoError(f, err)
	for _, name := range append(seeds, more...) {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	for _, s := range []string{
		`{:nodes [{:op :map :over [1 {:slot/id :x}] :item :i :body [{:op :emit :input {:final :i}}] :as :m}]}`,
		`{:nodes [{:op :plan :bindings {:a 1} :plan {:nodes [{:op :emit :input {:slot/path [:a :b 0 "c"] :slot/default nil}}]} :as :p} {:op :emit :input :p}]}`,
		`{:nodes [{:op :call :intent :text/respond :when {:and [{:not :x} {:or [{:failed? :y}]}]} :needs ["n0"] :dispatch {:candidates [{:slot/id :z}] :switch-on #{:timeout/*}}}]}`,
		`{:nodes [{:op :tool :tool/id :fs/write :effects {:allowed #{:fs/write}} :input {:path {:slot/id :a} :content #{{:slot/id :b}}}}]}`,
	} {
		f.Add([]byte(s))
	}
	env := testEnv(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		v, pos, err := edn.ReadWithPositions(text, edn.WithLimits(edn.Config))
		if err != nil {
			return
		}
		p, fs := plan.Parse(v, pos)
		if p == nil {
			require.True(t, plan.HasErrors(fs))
			return
		}
		fs = plan.Check(p, env)
		require.LessOrEqual(t, len(fs), plan.MaxFindings)
		for _, x := range fs {
			require.Positive(t, x.Line, x.Message)
			require.Positive(t, x.Column)
			require.NotEmpty(t, x.Render("plan.edn"))
			require.False(t, x.Value().IsNil())
		}
		prog, linkErr := plan.Link(p, env)
		if plan.HasErrors(fs) {
			return
		}
		require.Nil(t, linkErr)
		fillAll(t, plan.NewFrame(prog, edn.Nil()), 0)
	})
}

// fillAll evaluates every condition and fills every template of a program, like
// an evaluator whose executors all answer with a text.
func fillAll(t *testing.T, f *plan.Frame, depth int) {
	t.Helper()
	prog := f.Program()
	answer := &plan.Result{ID: "llm/voice", Out: edn.MustRead(`{:text "t"}`)}
	for i := range prog.Plan.Nodes {
		n := &prog.Plan.Nodes[i]
		if !n.When.Eval(f) {
			continue
		}
		_, _, _ = n.Input.Fill(f, prog.Text[i])
		_, _ = n.FillLayer(f)
		_, _ = n.FillSystem(f)
		switch n.Op {
		case plan.OpLet:
			if s, err := n.FillLet(f); err == nil {
				f.Set(i, s)
			}
		case plan.OpCall:
			f.Set(i, plan.CallSlot(answer))
		case plan.OpTool:
			f.Set(i, plan.ToolSlot(answer))
		case plan.OpPlan:
			fillAll(t, f.Plan(i), depth+1)
			f.Set(i, plan.PlanSlot(answer))
		case plan.OpMap:
			if items, err := n.FillOver(f, plan.DefaultLimits()); err == nil && len(items) > 0 && depth < 4 {
				fillAll(t, f.Item(i, items[0], 0), depth+1)
			}
			f.Set(i, plan.PlanSlot(answer))
		}
		_ = f.Env(i)
		_ = f.Slot(i).Value()
		_ = f.Slot(i).Emitted()
	}
}
