package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// portfolio is a world of two plugins for one intent: the first gives bad
// answers from the start, the second good ones.
func portfolio(t testing.TB, quality string) *world {
	return newWorld(t,
		"a.edn", script(":t/a", ":demo/answer", ":in-schema :req/any :out-schema :res/any", `{:value {:n 1}}`),
		"b.edn", script(":t/b", ":demo/answer", ":in-schema :req/any :out-schema :res/any", `{:value {:good true}}`),
		"ferment.hcl", testProfile+scripted("a")+scripted("b")+`
check "good" {
  condition = try(result.good, false)
  message   = "wants :good"
}

capability "t/a" {
  plugin = "a"
  cost { usd = 0.002 }
}

intent "demo/answer" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["t/a", "t/b"]
  done { must = ["good"] }
  quality {
    min_pass_rate = 0.6
    min_samples   = 5
    window        = 5
`+quality+`
  }
}

dispatch "default" {
  policy = "quality-aware"
  retry { fallback = 1 }
}
`)
}

var measured = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`\b\d+ ms\b`), "N ms"},
	{regexp.MustCompile(`again in \S+`), "again in D"},
	{regexp.MustCompile(`"latency-ms":\d+`), `"latency-ms":0`},
	{regexp.MustCompile(`:latency-ms \d+`), `:latency-ms 0`},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
}

// goldenText compares output with a file of testdata, without measured values.
func (w *world) goldenText(name, got string) {
	w.t.Helper()
	got = w.mask(got)
	for _, m := range measured {
		got = m.from.ReplaceAllString(got, m.to)
	}
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(w.t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(w.t, err)
	assert.Equal(w.t, string(want), got)
}

// BIND-006: an explanation in each format, by declared figures without a
// daemon, by observed ones with it.
func TestExplainGolden(t *testing.T) {
	t.Parallel()
	w := portfolio(t, `    swap_to = "t/b"`)
	forms := func(prefix string) {
		for form, flag := range map[string]string{"txt": "text", "json": "json", "edn": "edn"} {
			got := w.run("explain", "demo/answer", "-o", flag)
			require.Equal(t, 0, got.code, got.stderr)
			w.goldenText(filepath.Join("explain", prefix+"."+form), got.stdout)
		}
	}
	forms("declared")
	s := w.serve()
	for range 6 {
		require.Equal(t, 200, s.ask("demo/answer", "{}").status)
	}
	forms("observed")
	for _, args := range []string{"explain demo/anser", "explain demo/answer --capability t/b", "explain nonsense! --local"} {
		got := w.run(strings.Fields(args)...)
		if strings.Contains(args, "capability") {
			assert.Equal(t, 0, got.code, got.stderr)
			assert.Contains(t, got.stdout, "1. t/b")
			continue
		}
		assert.NotEqual(t, 0, got.code, args)
		assert.NotEmpty(t, got.stderr)
	}
	s.stop()
}

// BRK-002, BRK-009: a plugin with bad answers is swapped during requests; log,
// list and inspect report it, and no request fails because of it. What health
// reports is in TestLeftOutWhileServing.
func TestSwappedWhileServing(t *testing.T) {
	t.Parallel()
	w := portfolio(t, "")
	s := w.serve()
	edition := func() string {
		list := s.admin(`{:action :plugin-list}`).value(t).Key("result").Key("plugins")
		a, _ := list.Nth(0)
		i, _ := a.Key("instances").Nth(0)
		return i.Key("edition").String()
	}
	require.Equal(t, "1", edition())
	// t/b is first once its quality is known to be better: t/a is pinned.
	pinned := func() answer {
		return s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", "{}", `:cap/id :t/a`))
	}
	for range 5 {
		assert.Equal(t, "eval/must-failed", pinned().failure(t))
	}
	require.Eventually(t, func() bool {
		assert.Equal(t, 200, s.ask("demo/answer", "{}").status, "requests go on")
		return edition() == "2"
	}, 20*time.Second, 10*time.Millisecond)
	got := w.run("plugin", "inspect", "a")
	assert.Contains(t, got.stdout, "quality: t/a for demo/answer")
	assert.Contains(t, got.stdout, "(below 0.6M: swap)")
	got = w.run("plugin", "list")
	for line := range strings.Lines(got.stdout) {
		assert.LessOrEqual(t, len([]rune(line)), 101, "a table fits a screen")
	}
	end := s.stop()
	assert.Contains(t, end.stderr, "0 of the last 5 answers passed their gates, 0.6 of them should")
	assert.Contains(t, end.stderr, `"event":"quality/swap"`)
	assert.Contains(t, end.stderr, `"event":"quality/swapped"`)
}

// BRK-009, BRK-010: health and list show an ejected plugin, and an operator
// releases it.
func TestLeftOutWhileServing(t *testing.T) {
	t.Parallel()
	w := portfolio(t, `    action = "quarantine"`)
	s := w.serve()
	health := func() string {
		return s.request(context.Background(), "GET", "/health", "").value(t).Key("quality").String()
	}
	assert.Equal(t, "[]", health())
	transcript := edn.Nil()
	for range 5 {
		a := s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", "{}", `:cap/id :t/a :debug/transcript? true`)).value(t)
		transcript = a.Key("transcript")
	}
	require.Equal(t, 2, transcript.Len(), "the attempt, and what was done because of it")
	deed, _ := transcript.Nth(1)
	assert.Equal(t, `:quality/eject`, deed.Key("input").Key("event").String())
	require.Equal(t, `[{:cap/id :t/a :intent :demo/answer :state :out}]`, health())
	a := s.ask("demo/answer", "{}").value(t)
	assert.Equal(t, `:t/b`, a.Key("invoke/meta").Key("cap/id").String())
	require.EventuallyWithT(t, func(c *assert.CollectT) { // once its process is gone
		assert.Regexp(c, `(?m)^a .*quarantined.*\n.*quality out; problem .*0 of the last 5 answers passed`, w.run("plugin", "list").stdout)
	}, 20*time.Second, 10*time.Millisecond)
	got := w.run("plugin", "inspect", "a")
	assert.Contains(t, got.stdout, "next probe in ")
	require.Equal(t, 0, w.run("plugin", "release", "a").code)
	require.Eventually(t, func() bool {
		return s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", "{}", `:cap/id :t/a`)).failure(t) != "runtime/quarantined"
	}, 20*time.Second, 10*time.Millisecond)
	assert.Equal(t, `[{:cap/id :t/a :intent :demo/answer :state :ramp}]`, health())
	end := s.stop()
	assert.Contains(t, end.stderr, `"event":"quality/released"`)
}
