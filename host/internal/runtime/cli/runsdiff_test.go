package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// comparing is a world with two runs of one plan: the first candidate answers the
// first run, and its answer to the second one is refused.
func comparing(t testing.TB) *world {
	w := newWorld(t,
		"ferment.hcl", testProfile+scripted("mine")+onDisk+`
check "good" {
  condition = result.good
  message   = "it is not good"
}

intent "mine/pick" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["mine/first", "mine/second"]

  done { must = ["good"] }
}

dispatch "default" {
  switch_on = ["eval/must-failed"]

  retry { fallback = 1 }
}
`,
		"plan.edn", `{:nodes [{:op :call :intent :mine/pick :as :x} {:op :emit :input {:slot/path [:x :out :good]}}]}`,
		"mine.edn", `{:capabilities
 {:mine/first {:intents #{:mine/pick} :in-schema :req/any :out-schema :res/any
   :steps [{:value {:good true} :usage {:cost-usd 0.01M :cost-mark :exact}} {:value {:good false} :usage {:cost-usd 0.02M :cost-mark :exact}}]}
  :mine/second {:intents #{:mine/pick} :in-schema :req/any :out-schema :res/any :steps [{:value {:good true :n 2}}]}}}`)
	return w
}

// JRN-052, CLI-001, CLI-002, CLI-007: two runs of one plan are compared through the
// daemon, and on the files after it has stopped, with the same result. Package act
// covers what differs.
func TestRunsDiff(t *testing.T) {
	t.Parallel()
	w := comparing(t)
	s := w.serve()
	for range 2 {
		got := w.run("run", "plan.edn")
		require.Equal(t, 0, got.code, got.stderr)
	}
	ids := w.listed("run")
	there := w.run("runs", "diff", ids[1], "last", "--edn")
	s.stop()

	here := w.run("runs", "diff", ids[1][:29], ids[0], "--edn")
	require.Equal(t, 1, here.code, here.stderr)
	assert.Empty(t, here.stderr)
	assert.Equal(t, there.stdout, here.stdout, "the daemon gives the same comparison")
	assert.Equal(t, there.code, here.code)
	v := here.value(t)
	assert.Equal(t, "false", v.Key("equal?").String())
	assert.Equal(t, edn.Text(ids[1]).String(), v.Key("a").Key("run").String())
	assert.Equal(t, edn.Text(ids[0]).String(), v.Key("b").Key("run").String())
	assert.Equal(t, "[:cost]", v.Key("differs").String())
	node, _ := v.Key("nodes").Nth(0)
	assert.Equal(t, "[:pick :outcome :verdicts :value :cost]", node.Key("differs").String())
	emitted, _ := v.Key("nodes").Nth(1)
	assert.Equal(t, "[]", emitted.Key("differs").String())
	asJSON := jsonValues(t, w.run("runs", "diff", ids[1], ids[0], "--json").stdout)
	require.Len(t, asJSON, 1)
	assert.Equal(t, false, asJSON[0].(map[string]any)["equal?"])

	text := w.run("runs", "diff", ids[1], ids[0])
	assert.Equal(t, 1, text.code)
	for _, part := range []string{
		ids[0], ids[1], "mine/first", "mine/second", "0.01 usd", "0.02 usd", "good FAILED", "eval/must-failed",
	} {
		assert.Contains(t, text.stdout, part)
	}
	for line := range strings.Lines(text.stdout) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100, line)
	}

	same := w.run("runs", "diff", "last", "last")
	assert.Equal(t, 0, same.code, same.stderr)
	assert.Contains(t, same.stdout, "nothing differs")
	lost := w.run("runs", "diff", "last", "run_nobody")
	assert.Equal(t, 5, lost.code)
	assert.Contains(t, lost.stderr, "run/not-found")
	assert.Equal(t, 2, w.run("runs", "diff", "last").code)

	require.Equal(t, 0, w.run("runs", "purge", ids[0], "--yes").code)
	purged := w.run("runs", "diff", ids[1], ids[0], "--edn")
	assert.Equal(t, 1, purged.code)
	assert.Equal(t, "false", purged.value(t).Key("values?").String())
	node, _ = purged.value(t).Key("nodes").Nth(0)
	assert.Equal(t, "[:pick :outcome :verdicts :cost]", node.Key("differs").String())
}
