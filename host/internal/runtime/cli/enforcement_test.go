package cli_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// FX-005: where the kernel confines the network of a plugin to ports and not
// to addresses, every report about a run says so: the response, the timings of
// its attempts (failed ones too), the transcript and the report, in this
// process and through a daemon. Runs of other plugins do not say it.
func TestRunsSayThatOnlyPortsAreHeld(t *testing.T) {
	t.Parallel()
	w := answering(t, fmt.Sprintf("plugin \"caller\" {\n  command = [%q, %q]\n\n  isolation {\n    network = \"ports\"\n  }\n}\n", built.helper, roleCaller))
	w.write("both.edn", `{:nodes [
 {:op :let :value [true false] :as :ways}
 {:op :map :over :ways :item :fail :as :calls :on-item-error :keep
  :body [{:op :call :intent :t/call :input {:fail {:slot/id :fail}} :as :called} {:op :emit :input {:fail {:slot/path [:called :fail]}}}]}
 {:op :call :intent :mine/data :input {} :as :data}
 {:op :emit :input {:n {:slot/path [:data :n]} :calls {:slot/path [:calls :out]}}}]}`)
	said := func(v edn.Value) string { return v.Key("enforcement").String() }
	answer := func(v edn.Value) string { return said(v.Key("invoke/meta")) }
	timings := func(v edn.Value) map[string]int {
		all := map[string]int{}
		for row := range v.Key("plan/run").Key("timings").Elems() {
			all[row.Key("cap/id").String()+" "+said(row)]++
		}
		return all
	}

	got := w.run("act", "t/call", "{:fail false}", "--edn", "--transcript")
	require.Zero(t, got.code, got.stderr)
	v := got.value(t)
	assert.Equal(t, ":port-only", answer(v))
	entry, _ := v.Key("transcript").Nth(0)
	assert.Equal(t, ":port-only", answer(entry))
	got = w.run("act", "mine/data", "{}", "--edn")
	assert.Equal(t, "nil", answer(got.value(t)), "another plugin is held by the kernel")

	got = w.run("run", "both.edn", "--edn", "--report")
	assert.Zero(t, got.code, got.stderr)
	assert.Equal(t, map[string]int{":t/call :port-only": 2, ":mine/data nil": 1}, timings(got.value(t)), got.stdout)
	assert.Regexp(t, `t/call +t/call \(port-only\) `, got.stderr)
	assert.Regexp(t, `mine/data +mine/data +`, got.stderr)

	s := w.serve()
	defer s.stop()
	v = s.ask("t/call", "{:fail false}").value(t)
	assert.Equal(t, ":port-only", answer(v))
	assert.Equal(t, map[string]int{":t/call :port-only": 1}, timings(v))
	assert.Equal(t, "{:kernel 1 :port-only 1}", s.request(context.Background(), "GET", "/health", "").value(t).Key("isolation").Key("enforcement").String())
}
