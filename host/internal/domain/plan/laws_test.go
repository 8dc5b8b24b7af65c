package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// letPlan is a random plan of lets, maps and plans whose result is that of its
// last emit. name returns the names of the slots.
type letPlan struct {
	nodes []string
	emit  string
}

func genLets(t *rapid.T, name func(i int) string) letPlan {
	n := rapid.IntRange(1, 6).Draw(t, "n")
	var p letPlan
	ref := func(i int) string {
		if i == 0 || rapid.IntRange(0, 3).Draw(t, "constant") == 0 {
			return rapid.SampledFrom([]string{"1", `"t"`, "nil", "false", "{:k [1 2]}"}).Draw(t, "value")
		}
		s := name(rapid.IntRange(0, i-1).Draw(t, "read"))
		return fmt.Sprintf(rapid.SampledFrom([]string{
			"{:slot/id %s :slot/default :d}", "{:slot/path [%s :v] :slot/default :d}", "{:slot/path [%s 0 :v] :slot/default nil}", "[{:slot/path [%s :out] :slot/default 0}]",
		}).Draw(t, "form"), s)
	}
	for i := range n {
		when := ""
		if i > 0 && rapid.Bool().Draw(t, "conditional") {
			when = fmt.Sprintf(":when {%s %s}", rapid.SampledFrom([]string{":present?", ":failed?"}).Draw(t, "word"), name(rapid.IntRange(0, i-1).Draw(t, "asks")))
		}
		v := ref(i)
		switch rapid.IntRange(0, 2).Draw(t, "op") {
		case 0:
			p.nodes = append(p.nodes, fmt.Sprintf("{:op :let :value {:v %s} %s :as %s}", v, when, name(i)))
		case 1:
			p.nodes = append(p.nodes, fmt.Sprintf("{:op :plan :plan {:nodes [{:op :emit :input {:v %s}}]} %s :as %s}", v, when, name(i)))
		default:
			p.nodes = append(p.nodes, fmt.Sprintf("{:op :map :over [1 {:x %s}] :body [{:op :emit :input [{:slot/id :item} %s]}] %s :as %s}", v, v, when, name(i)))
		}
	}
	p.emit = fmt.Sprintf("{:op :emit :input [{:slot/id %s :slot/default :none}]}", name(n-1))
	return p
}

func (p letPlan) text(more ...string) string {
	return "{:nodes [" + strings.Join(append(append([]string{}, p.nodes...), more...), "\n") + p.emit + "]}"
}

func evalText(t *rapid.T, text string, env plan.Env) string {
	p, _ := plan.Parse(edn.MustRead(text), nil)
	require.NotNil(t, p)
	for _, f := range plan.Check(p, env) {
		require.NotEqual(t, plan.Error, f.Severity, "%s\n%s", f.Render("plan"), text)
	}
	prog, err := plan.Link(p, env)
	require.Nil(t, err)
	v, failed := runFrame(plan.NewFrame(prog, edn.Nil()))
	if failed != nil {
		return failed.Error()
	}
	return v.String()
}

// TestPlanLaws: the pure part of EVAL-070. Renaming slots, adding an unread
// let, and wrapping the whole in a plan change nothing; skipping a node whose
// slot is unread equals removing it; the last executed emit gives the result
// (IR-005).
func TestPlanLaws(t *testing.T) {
	env := testEnv(t)
	rapid.Check(t, func(t *rapid.T) {
		p := genLets(t, func(i int) string { return fmt.Sprintf(":s%d", i) })
		want := evalText(t, p.text(), env)

		renamed := strings.NewReplacer(":s0", ":other/x0", ":s1", ":other/x1", ":s2", ":y", ":s3", ":z3", ":s4", ":w-4", ":s5", ":v.5").Replace(p.text())
		assert.Equal(t, want, evalText(t, renamed, env))
		assert.Equal(t, want, evalText(t, p.text("{:op :let :value [1 2 3] :as :unread}"), env))
		assert.Equal(t, want, evalText(t, p.text("{:op :let :value 1 :when false :as :skipped}"), env))
		assert.Equal(t, want, evalText(t, "{:nodes [{:op :plan :as :all :plan "+p.text()+"} {:op :emit :input :all}]}", env))
		assert.Equal(t, want, evalText(t, "{:nodes [{:op :emit :input 7} "+strings.TrimPrefix(p.text(), "{:nodes ["), env))
		assert.Equal(t, want, evalText(t, p.text("{:op :emit :input 1 :when false}"), env))
	})
}
