package eval_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// byNode returns the records of a run, node by node: the order within a node
// is fixed, that among concurrent nodes is not (SCHED-003). Times are relative
// to the first record.
func byNode(records []journal.Record) edn.Value {
	type entry struct {
		path edn.Value
		list []edn.Value
	}
	var nodes []*entry
	for _, r := range records {
		i := slices.IndexFunc(nodes, func(e *entry) bool { return edn.Equal(e.path, r.Path) })
		if i < 0 {
			i = len(nodes)
			nodes = append(nodes, &entry{path: r.Path})
		}
		v := r.Value().Dissoc(edn.K("seq"), edn.K("at"), edn.K("run"), edn.K("path"), edn.K("epoch"), edn.K("v"), edn.K("of"))
		nodes[i].list = append(nodes[i].list, v.AssocKey("at-ms", edn.Int(r.At.Sub(records[0].At).Milliseconds())))
	}
	slices.SortFunc(nodes, func(a, b *entry) int { return edn.Compare(a.path, b.path) })
	out := make([]edn.Value, len(nodes))
	for i, e := range nodes {
		out[i] = edn.MustMap(edn.K("path"), e.path, edn.K("records"), edn.Vector(e.list...))
	}
	return edn.Vector(out...)
}

// started lists the process of each attempt of a capability: "n2 1:binary" per
// attempt.
func started(records []journal.Record, capID string) []string {
	var out []string
	for _, r := range records {
		if b, ok := r.Body.(*journal.AttemptStarted); ok && b.CapID == capID {
			out = append(out, fmt.Sprintf("%s %d:%s", r.Node, b.Generation, b.Binary[:5]))
		}
	}
	return out
}

// EVAL-075, SCHED-003, ATT-008 row 6, BRK-004: the crash of one process fails
// six calls. Each is a lost attempt that is repeated once the process is back;
// the breaker counts one failure. The records of each node are golden, and do
// not depend on which call the crash reached first.
func TestOneCrashCutsManyCalls(t *testing.T) {
	const calls = 6
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			w := abc(t)
			w.Dispatcher.Stats = &stats.Table{}
			first := edn.Hash(edn.Text("program"))
			alive := dispatch.CapState{Ready: true, Generation: 1, Edition: 1, Binary: first}
			w.SetState("t/a", alive)
			w.Func("t/a", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
				if w.State("t/a").Generation == 1 {
					return dispatchtest.Step{Crash: true, Delay: 10 * time.Millisecond, After: func() {
						w.SetState("t/a", dispatch.CapState{Respawning: true, Generation: 1, Edition: 1, Binary: first})
					}}
				}
				n, _ := c.Request.Key("input").Key("n").AsInt()
				return dispatchtest.Step{Value: edn.MustMap(edn.K("n"), edn.Int(10*n)), Delay: time.Duration(n) * time.Millisecond}
			})
			time.AfterFunc(50*time.Millisecond, func() {
				w.SetState("t/a", dispatch.CapState{Ready: true, Generation: 2, Edition: 1, Binary: first})
			})
			r := run(t, w, `{:nodes [{:op :map :over [1 2 3 4 5 6] :item :n :as :ys :max-parallel 6
			   :body [{:op :call :id "ask" :intent :text/respond :input {:n {:slot/id :n}} :as :r
			           :dispatch {:candidates [:t/a :t/b] :retry {:same-cap-max 1 :fallback-max 1}}}
			          {:op :emit :input {:slot/path [:r :n]}}]}
			  {:op :call :id "after" :intent :text/respond :input {:n 7} :as :z :dispatch {:candidates [:t/a :t/b]} :needs ["n0"]}
			  {:op :emit :input {:all {:slot/path [:ys :out]} :z {:slot/path [:z :n]}}}]}`)
			require.Nil(t, r.Err)
			assert.Equal(t, `{:all [10 20 30 40 50 60] :z 70}`, r.out())
			assert.Len(t, w.Dispatched(), 2*calls+1)
			assert.NotContains(t, w.Dispatched(), "t/b", "six calls that one crash cut are one failure: the breaker stays closed")
			sameAsGolden(t, "crash-cuts-many.edn", byNode(r.records))
		})
	}
}

func sameAsGolden(t *testing.T, name string, v edn.Value) {
	t.Helper()
	golden(t, filepath.Join("testdata", "records", name), v)
}

// BIND-005, BRK-004, SUP-006: a plugin is swapped in the middle of a run.
// Later calls are bound anew to the new processes, which do not inherit the
// failures of the old ones: four of each leave the breaker closed.
func TestSwapInTheMiddleOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := abc(t)
		w.Dispatcher.Stats = &stats.Table{}
		old, young := edn.Hash(edn.Text("old program")), edn.Hash(edn.Text("new program"))
		w.SetState("t/a", dispatch.CapState{Ready: true, Generation: 1, Edition: 1, Binary: old})
		down := fails("provider/unavailable")
		w.On("t/a", down, down, down, down, down, down, down, down, answers(`{:n 30}`))
		w.On("t/b", dispatchtest.Step{Value: edn.MustRead(`{:n 10}`), Delay: 2 * time.Millisecond, After: func() {
			w.SetState("t/a", dispatch.CapState{Ready: true, Generation: 2, Edition: 2, Binary: young})
		}}, answers(`{:n 20}`))
		w.On("t/c", dispatchtest.Step{Value: edn.MustRead(`{:n 40}`), Delay: 500 * time.Millisecond})
		call := func(id, as, needs, candidates string) string {
			return fmt.Sprintf(`{:op :call :id %q :intent :text/respond :input {:n 1} :as %s :needs [%s] :dispatch {:candidates %s :retry {:same-cap-max 3 :fallback-max 1}}}`, id, as, needs, candidates)
		}
		r := run(t, w, `{:nodes [`+
			call("before", ":p", "", "[:t/a :t/b]")+
			call("after", ":q", `"before"`, "[:t/a :t/b]")+
			call("last", ":r", `"after"`, "[:t/a :t/b]")+
			call("beside", ":s", ``, "[:t/c]")+
			`{:op :emit :input {:all [{:slot/path [:p :n]} {:slot/path [:q :n]} {:slot/path [:r :n]} {:slot/path [:s :n]}]}}]}`)
		require.Nil(t, r.Err)
		assert.Equal(t, `{:all [10 20 30 40]}`, r.out())
		one, two := "before 1:"+old[:5], "after 2:"+young[:5]
		assert.Equal(t, []string{one, one, one, one, two, two, two, two, "last 2:" + young[:5]}, started(r.records, "t/a"))
		sameAsGolden(t, "swap-by-edition.edn", byNode(r.records))
	})
}

// A call in progress at the swap is answered by the process that it was sent
// to.
func TestSwapUnderACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := abc(t)
		old, young := edn.Hash(edn.Text("old program")), edn.Hash(edn.Text("new program"))
		w.SetState("t/a", dispatch.CapState{Ready: true, Generation: 1, Edition: 1, Binary: old})
		w.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: 30 * time.Millisecond}, answers(`{:n 2}`))
		time.AfterFunc(10*time.Millisecond, func() {
			w.SetState("t/a", dispatch.CapState{Ready: true, Generation: 2, Edition: 2, Binary: young})
		})
		r := run(t, w, `{:nodes [{:op :call :id "under" :intent :text/respond :input {} :as :x :dispatch {:candidates [:t/a]}}
		  {:op :call :id "next" :intent :text/respond :input {:n {:slot/path [:x :n]}} :as :y :dispatch {:candidates [:t/a]}}
		  {:op :emit :input [{:slot/id [:x :out :n]} {:slot/id [:y :out :n]}]}]}`)
		require.Nil(t, r.Err)
		assert.Equal(t, "{:value [1 2]}", r.out())
		assert.Equal(t, []string{"under 1:" + old[:5], "next 2:" + young[:5]}, started(r.records, "t/a"))
		sameAsGolden(t, "swap-under-a-call.edn", byNode(r.records))
	})
}
