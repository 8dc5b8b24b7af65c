package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TestSample holds the sample of section 14: one plan with five findings,
// verbatim and in order (CHECK-003).
func TestSample(t *testing.T) {
	got := lines(t, testdata(t, "bad.edn"), testEnv(t))
	assert.Equal(t, testdata(t, "bad.golden"), strings.Join(got, "\n")+"\n")
}

// TestSeedPlans: the plans of the seeds parse unchanged and have no errors
// (EVAL-076).
func TestSeedPlans(t *testing.T) {
	for _, name := range []string{"acid.edn", "summary.edn"} {
		t.Run(name, func(t *testing.T) {
			text := testdata(t, "seeds/"+name)
			prog := load(t, text, testEnv(t))
			assert.Empty(t, lines(t, text, testEnv(t)))
			assert.True(t, edn.Equal(edn.MustRead(text), prog.Plan.Source))
		})
	}
	t.Run("chess-node.edn", func(t *testing.T) {
		text := "{:nodes [" + testdata(t, "seeds/chess-node.edn") + " {:op :emit :input :move1}]}"
		assert.Empty(t, lines(t, text, testEnv(t)))
	})
}

// TestPlanAnswerHasPathsOnly: findings of a plan without text have no position.
func TestPlanAnswerHasPathsOnly(t *testing.T) {
	p, _ := plan.Parse(edn.MustRead(testdata(t, "bad.edn")), nil)
	require.NotNil(t, p)
	fs := plan.Check(p, testEnv(t))
	require.Len(t, fs, 5)
	for _, f := range fs {
		assert.Zero(t, f.Line)
	}
	var checks []string
	for _, f := range fs {
		checks = append(checks, f.Check)
	}
	assert.Equal(t, []string{"CHECK-011", "CHECK-016", "CHECK-017", "CHECK-018", "CHECK-021"}, checks, "in the order of nodes")
	assert.Equal(t, "plan: error CHECK-018 slot :c is filled later, by node 3 at [:nodes 3]; move the emit or use :slot/default", fs[3].Render("plan"))
	assert.Equal(t, `{:check "CHECK-011" :message "unknown intent :text/respnd in [:nodes 0 :intent]; nearest is :text/respond" :nearest :text/respond :path [:nodes 0 :intent] :severity :error}`, fs[0].Value().String())
}
