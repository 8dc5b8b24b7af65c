package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// thatLearns is a world of two plugins for one intent with the policy learned: the first
// gives bad answers, the second good ones.
func thatLearns(t testing.TB) *world {
	return newWorld(t,
		"a.edn", script(":t/a", ":demo/answer", ":in-schema :req/any :out-schema :res/any", `{:value {:n 1}}`),
		"b.edn", script(":t/b", ":demo/answer", ":in-schema :req/any :out-schema :res/any", `{:value {:good true}}`),
		"ferment.hcl", testProfile+scripted("a")+scripted("b")+onDisk+`
check "good" {
  condition = try(result.good, false)
  message   = "wants :good"
}

intent "demo/answer" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["t/a", "t/b"]
  done { must = ["good"] }
}

intent "demo/other" {
  in  = "req/any"
  out = "res/any"
}

dispatch "default" {
  policy = "learned"
  retry { fallback = 1 }
}
`)
}

// LRN-001, LRN-003, LRN-005: a daemon learns which candidate passes its gates, says that it
// starts from the priors, and goes on after a restart. What it has learned and what the
// journal says about it are shown in each format, by the daemon and on the files.
func TestDispatchStats(t *testing.T) {
	t.Parallel()
	w := thatLearns(t)
	require.Equal(t, 0, w.run("validate").code)
	assert.Contains(t, w.run("dispatch", "stats").stdout, "nothing was learned")
	s := w.serve()
	const calls = 40
	for range calls {
		require.Equal(t, 200, s.ask("demo/answer", "{}").status)
	}
	assert.Contains(t, w.run("admin", "events").stdout, "priors-reset")
	group := func(v edn.Value) edn.Value {
		g, ok := v.Key("groups").Nth(0)
		require.True(t, ok, "%s", v)
		assert.Equal(t, ":demo/answer", g.Key("intent").String())
		return g
	}
	var g edn.Value
	require.Eventually(t, func() bool {
		g = group(w.data("dispatch", "stats"))
		b, _ := g.Key("arms").Nth(1)
		return intOf(t, b.Key("outcomes")) == calls
	}, time.Minute, time.Millisecond, "every call ends with the good one")
	declared, drawn := intOf(t, g.Key("decisions").Key("declared")), intOf(t, g.Key("decisions").Key("drawn"))
	assert.GreaterOrEqual(t, declared, int64(5), "each arm has 5 outcomes then")
	assert.Less(t, declared, int64(calls)/2, "outcomes count soon after their answers")
	assert.Equal(t, int64(calls), declared+drawn)
	a, _ := g.Key("arms").Nth(0)
	b, _ := g.Key("arms").Nth(1)
	assert.Equal(t, ":t/a", a.Key("cap/id").String())
	assert.Less(t, intOf(t, a.Key("outcomes")), int64(calls), "the bad one is soon left")
	rate, _ := b.Key("rate").Key("value").AsNumber()
	f, _ := rate.Float64()
	assert.Greater(t, f, 0.9)
	assert.Equal(t, "1M", b.Key("normalised").Key("value").String())
	s.stop()

	onFiles := group(w.data("dispatch", "stats"))
	assert.Equal(t, g.Key("decisions").String(), onFiles.Key("decisions").String())
	again, _ := onFiles.Key("arms").Nth(1)
	assert.Equal(t, b.Key("outcomes").String(), again.Key("outcomes").String())
	text := w.run("dispatch", "stats")
	require.Zero(t, text.code, text.stderr)
	for _, want := range []string{"demo/answer", fmt.Sprintf("%d at random, %d in the declared order", drawn, declared), "t/a v1", "t/b v1", "pass rate"} {
		assert.Contains(t, text.stdout, want)
	}
	fits(t, text.stdout)
	asJSON, err := edn.ReadJSON([]byte(w.run("dispatch", "stats", "--json").stdout))
	require.NoError(t, err)
	assert.Equal(t, 1, asJSON.Key("groups").Len())
	assert.Equal(t, "[]", w.data("dispatch", "stats", "--intent", "demo/other").Key("groups").String())
	assert.Contains(t, w.run("dispatch", "stats", "--intent", "demo/other").stdout, "no act of :demo/other was dispatched")
	misspelt := w.run("dispatch", "stats", "--intent", "Demo/Answer")
	assert.Equal(t, 2, misspelt.code)
	assert.Contains(t, misspelt.stderr, ":demo/answer")
	assert.Equal(t, 2, w.run("dispatch", "stats", "--since", "soon").code)

	s = w.serve()
	require.Equal(t, 200, s.ask("demo/answer", "{}").status)
	assert.Equal(t, 1, strings.Count(w.run("admin", "events").stdout, "priors-reset"), "that of the first daemon: this one knows what it has learned")
	records := w.run("runs", "records", "last", "--edn").stdout
	require.Contains(t, records, ":learned {")
	assert.Contains(t, records, ":seed ")
	assert.NotContains(t, records, ":cold? true")
	s.stop()
}

func intOf(t *testing.T, v edn.Value) int64 {
	t.Helper()
	n, ok := v.AsInt()
	require.True(t, ok, "%s", v)
	return n
}
