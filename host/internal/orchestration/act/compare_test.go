package act_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-052: two runs of one request that are served in the same way are equal, as
// they are recorded and after their values were purged; they differ from the run of
// any other request.
func TestEqualRuns(t *testing.T) {
	open := func(c *act.Config) { c.Effects = dispatchtest.Open() }
	runs := map[string][]journal.Record{}
	for name, text := range resumeCases {
		if name == "race" {
			continue // which of its attempts ends first is open
		}
		var a, b []journal.Record
		synctest.Test(t, func(t *testing.T) { // kept failures contain latencies
			_, _, a = do(t, service(t, resumeWorld(t), open), text)
			_, _, b = do(t, service(t, resumeWorld(t), open), text)
		})
		require.NotEqual(t, a[0].Run, b[0].Run)
		for _, pair := range [][2][]journal.Record{{a, b}, {a, decoded(t, b)}, {purged(t, a), b}, {purged(t, a), purged(t, b)}} {
			got := journal.Compare(pair[0], pair[1])
			assert.True(t, got.Equal(), "%s: %s", name, got.Value())
			assert.NotEmpty(t, got.Nodes, name)
			assert.Equal(t, name == "routed, closed", got.A.Key("plan").IsNil(), name) // its plan was never resolved
		}
		if name != "streams" { // it is "one call" with another transport
			runs[name] = a
		}
	}
	for name, a := range runs {
		for other, b := range runs {
			assert.Equal(t, name == other, journal.Compare(a, b).Equal(), "%s and %s", name, other)
		}
	}
}

// JRN-052, JRN-044: a suspended run is compared as far as it is recorded; one that was
// resumed is not suspended.
func TestCompareSuspendedRuns(t *testing.T) {
	text := ownPlan(payPlan, "", writes)
	a, _ := suspendedRun(t, losing(t, 1), text)
	b, _ := suspendedRun(t, losing(t, 1), text)
	got := journal.Compare(a, decoded(t, b))
	assert.True(t, got.Equal(), "%s", got.Value())
	assert.Equal(t, `[:suspended :effects/outcome-unknown]`, edn.Vector(got.A.Key("status"), got.A.Key("failure/type")).String())
	for _, n := range got.Nodes[:3] {
		assert.Equal(t, map[bool]string{true: ":unfinished", false: ":committed"}[n.Path.String() == "[0]"], n.A.Key("state").String())
	}

	b, err := resumed(t, resumeWorld(t), a, deciding("n0", journal.DecisionFail, edn.Nil()))
	require.Nil(t, err, "%v", err)
	got = journal.Compare(a, b)
	assert.Equal(t, []string{"outcome"}, got.Differs)
	assert.Equal(t, ":completed", got.B.Key("status").String())
	assert.Equal(t, ":open", journal.Compare(a, b[:len(b)-1]).B.Key("status").String())
}

// purged returns records as a store gives them back after a purge.
func purged(t *testing.T, records []journal.Record) []journal.Record {
	t.Helper()
	d := journal.Decoder{Values: func(string) edn.Value { return edn.Nil() }}
	out := make([]journal.Record, len(records))
	for i, rec := range records {
		var err error
		out[i], err = d.Decode(edn.MustRead(rec.Value().String()))
		require.NoError(t, err)
	}
	return out
}

// JRN-052: what differs between two runs of one plan: the pick of another
// candidate, the verdict of a gate, the cost.
func TestDifferentRuns(t *testing.T) {
	const text = `{:op :call :intent :text/respond :dispatch {:candidates [:a/pays :a/two] :retry {:fallback-max 1}} :input {:prompt "p"} :done {:must #{:good}} :as :x}`
	plan := ownPlan(`{:nodes [`+text+` {:op :emit :input {:slot/path [:x :out :good]}}]}`, "", "")
	run := func(pays dispatchtest.Step) []journal.Record {
		w := resumeWorld(t)
		w.Func("a/pays", func(context.Context, dispatch.Call) dispatchtest.Step { return pays })
		_, err, records := do(t, service(t, w), plan)
		require.Nil(t, err, "%v", err)
		return records
	}
	paid := func(value, usd string) dispatchtest.Step {
		step := dispatchtest.Step{Value: edn.MustRead(value)}
		step.Usage = edn.MustRead(`{:cost-usd ` + usd + `M :cost-mark :exact}`)
		return step
	}
	first := run(paid(`{:good true}`, "0.01"))
	for name, tc := range map[string]struct {
		other     []journal.Record
		run, node string
	}{
		"the same":      {run(paid(`{:good true}`, "0.01")), `[]`, `[]`},
		"dearer":        {run(paid(`{:good true}`, "0.02")), `[:cost]`, `[:cost]`},
		"another value": {run(paid(`{:good true :more 1}`, "0.01")), `[]`, `[:value]`},
		"refused":       {run(paid(`{:good false}`, "0.01")), `[]`, `[:pick :outcome :verdicts :value]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := journal.Compare(first, decoded(t, tc.other))
			assert.Equal(t, tc.run, got.Value().Key("differs").String())
			node, _ := got.Value().Key("nodes").Nth(0)
			assert.Equal(t, tc.node, node.Key("differs").String())
			assert.Equal(t, name == "the same", got.Equal())
			if name == "refused" {
				assert.Equal(t, `[:a/pays :a/two]`, edn.Vector(node.Key("a").Key("cap/id"), node.Key("b").Key("cap/id")).String())
				verdict, _ := node.Key("b").Key("verdicts").Nth(1)
				assert.Equal(t, `[1 :good false]`, edn.Vector(verdict.Key("attempt"), verdict.Key("gate"), verdict.Key("pass")).String())
			}
		})
	}
}
