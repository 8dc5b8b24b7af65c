package eval_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func two(t testing.TB) *dispatchtest.World {
	return dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/two", "")}})
}

func value(text string) dispatchtest.Step { return dispatchtest.Step{Value: edn.MustRead(text)} }

func TestLetAndEmit(t *testing.T) {
	r := run(t, two(t), `{:nodes [{:op :let :value 7 :as :x} {:op :emit :input {:n {:slot/id :x}}}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:n 7}`, r.out())
	assert.Empty(t, r.kinds("[0]"), "EVAL-011: a pure plan writes no commits")
}

func TestCallCommits(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "hello"}`))
	r := run(t, w, `{:nodes [{:op :call :intent :text/respond :input {:prompt "A"} :as :x} {:op :emit :input :x}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:text "hello"}`, r.out())
	assert.Equal(t, []string{"node/resolved", "attempt/started", "attempt/finished", "gate/verdict", "node/committed"}, r.kinds("[0]"))
	assert.Equal(t, []string{"node/committed"}, r.kinds("[1]"))
}

// IR-009: the whole slot of a call that went through a let shows its :out; the
// envelope and the meta of the call do not leave the plan.
func TestLetOfAWholeSlot(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "hello"}`))
	r := run(t, w, `{:nodes [
	  {:op :call :intent :text/respond :input {:prompt "A"} :as :x}
	  {:op :let :value {:deep [{:slot/id :x}]} :as :y}
	  {:op :emit :input {:slot/id :y}}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:deep [{:text "hello"}]}`, r.out())

	w = two(t)
	w.On("a/one", dispatchtest.Step{Err: contract.Errorf("provider/error", "no")})
	r = run(t, w, `{:nodes [
	  {:op :call :intent :text/respond :input {:prompt "A"} :dispatch {:candidates [:a/one] :allow-failure? true} :as :x}
	  {:op :let :value {:deep [{:slot/id :x}]} :as :y}
	  {:op :emit :input {:slot/id :y}}]}`)
	require.Nil(t, r.Err)
	deep, _ := r.Out.Key("deep").Nth(0)
	assert.Equal(t, 2, deep.Len(), "of a failed one its failure, and nothing else")
	assert.Equal(t, `:provider/error`, deep.Key("failure/type").String())
	assert.Equal(t, `:provider/error`, deep.Key("error").Key("type").String())
}
