package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// matrixRow is what decides about one intent: who serves it under which role,
// which gates and limits apply, and whether a router is asked under each
// profile, without places in the file.
func matrixRow(t *testing.T, x edn.Value) edn.Value {
	t.Helper()
	var row edn.MapBuilder
	var candidates, rejected, profiles []edn.Value
	for c := range x.Key("candidates").Elems() {
		candidates = append(candidates, pick(c, "cap/id", "tried?", "role", "role/rule", "model"))
	}
	for r := range x.Key("rejected").Elems() {
		rejected = append(rejected, pick(r, "cap/id", "reason", "why"))
	}
	for p := range x.Key("routing").Elems() {
		profiles = append(profiles, pick(p, "profile", "usual?", "meta?", "rule", "intent", "cap/id", "on-error", "force?", "share"))
	}
	row.Key("ordering", x.Key("ordering"))
	row.Key("candidates", edn.Vector(candidates...))
	row.Key("rejected", edn.Vector(rejected...))
	row.Opt("role", x.Key("prompt").Key("role"))
	row.Opt("role/rule", x.Key("prompt").Key("role/rule"))
	var gates, limits []edn.Value
	for p := range x.Key("policy").Elems() {
		field, _ := p.Key("field").AsString()
		pair := edn.Vector(edn.Text(field), p.Key("value"))
		switch {
		case strings.HasPrefix(field, ":must") || strings.HasPrefix(field, ":should") || strings.HasPrefix(field, ":checks") ||
			strings.HasPrefix(field, ":score-min") || strings.HasPrefix(field, ":judge"):
			gates = append(gates, pair)
		case strings.HasPrefix(field, ":budget") || strings.HasPrefix(field, ":retry") || strings.HasPrefix(field, ":deadline") ||
			strings.HasPrefix(field, ":repair") || strings.HasPrefix(field, ":constraints"):
			limits = append(limits, pair)
		}
	}
	row.Key("gates", edn.Vector(gates...))
	row.Key("limits", edn.Vector(limits...))
	row.Key("profiles", edn.Vector(profiles...))
	return row.Map()
}

func pick(v edn.Value, keys ...string) edn.Value {
	var b edn.MapBuilder
	for _, key := range keys {
		b.Opt(key, v.Key(key))
	}
	return b.Map()
}

// routedConfig has two candidates, and two routers: by a table, and one that
// plans.
const routedConfig = testProfile + onDisk + oneWorker + `
plugin "one" {
  command = ["SCRIPTED"]
  config { script = "one.edn" }
}

plugin "two" {
  command = ["SCRIPTED"]
  config { script = "two.edn" }
}

plugin "router" {
  command = ["SCRIPTED"]
  config { script = "router.edn" }
}

intent "demo/answer" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["t/one", "t/two"]
}

router {
  meta         = true
  meta_intents = ["demo/answer"]
  capability   = "t/router"

  profile "careful" { on_error = "fail-closed" }
}
`

func routedWorld(t *testing.T, answer string) *world {
	t.Helper()
	return newWorld(t,
		"ferment.hcl", strings.ReplaceAll(routedConfig, "SCRIPTED", filepath.Join(built.plugins, "scripted")),
		"one.edn", candidateScript("one", `{:value {:by "one"}}`), "two.edn", candidateScript("two", `{:value {:by "two"}}`),
		"router.edn", routerScript(answer))
}

func candidateScript(id, step string) string {
	return `{:capabilities {:t/` + id + ` {:intents #{:demo/answer} :in-schema :req/any :out-schema :res/any :steps [` + step + `]}}}`
}

func routerScript(step string) string {
	return `{:capabilities {:t/router {:intents #{:route/decide} :in-schema :req/route :out-schema :res/route :steps [` + step + `]}}}`
}

// RTE-004, JRN-040: a job whose daemon is killed while its router works asks it
// again; one that is killed after the decision keeps the decision.
func TestRoutedJobsSurviveAKill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		router, two string
		calls       int // of the router
	}{
		"while the router works": {`{:hang true}`, `{:value {:by "two"}}`, 2},
		"after it has decided":   {`{:value {:cap/id :t/two}}`, `{:hang true}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := routedWorld(t, c.router)
			w.write("two.edn", candidateScript("two", c.two))
			s := w.serve()
			id := s.submitted("demo/answer", "")
			under := map[int]string{1: "{:attempt 1 :cap/id :t/two}", 2: "{:attempt 1 :cap/id :t/router}"}[c.calls] // has no outcome
			require.Eventually(t, func() bool { return strings.Contains(w.run("runs", "show", id, "--edn").stdout, under) },
				20*time.Second, 10*time.Millisecond)
			s.signal(syscall.SIGKILL)
			s.wait()
			w.write("two.edn", candidateScript("two", `{:value {:by "two"}}`))
			later := `{:value {:cap/id :t/two}}`
			if c.calls == 1 {
				later = `{:value {:cap/id :t/one}}` // it must not be asked
			}
			w.write("router.edn", routerScript(later))
			s = w.serve()
			defer s.stop()
			job := s.becomes(id, "completed")
			assert.Equal(t, `"two"`, job.Key("result").Key("out").Key("by").String())
			got := w.run("runs", "replay", id)
			assert.Equal(t, 0, got.code, got.stdout+got.stderr)
		})
	}
}

// RTE-004, RTE-007: an act, a job and a replay over the command line; explain
// names the rule, and the statistics count what became of the router.
func TestRoutedActs(t *testing.T) {
	t.Parallel()
	w := routedWorld(t, `{:value {:cap/id :t/two}}`)
	got := w.run("explain", "demo/answer", "--local")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Regexp(t, `(?m)^  default +asks :route/decide, first :t/router, fail-open  \(router\)  used unless`, got.stdout)
	assert.Regexp(t, `(?m)^  low-latency +no router is asked  \(shipped profile\)$`, got.stdout)
	assert.Regexp(t, `(?m)^  careful +asks :route/decide, first :t/router, fail-closed  \(router\)$`, got.stdout)

	s := w.serve()
	defer s.stop()
	got = w.run("act", "demo/answer", "{}", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, `"two"`, got.value(t).Key("result").Key("out").Key("by").String())
	a := s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", `{}`, `:response/type :accepted`))
	require.Equal(t, 202, a.status, "%s", a.body)
	run, _ := a.value(t).Key("job/id").AsString()
	got = w.run("runs", "watch", run)
	require.Equal(t, 0, got.code, got.stderr)
	got = w.run("runs", "replay", run)
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	a = s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", `{}`, `:routing {:profile :low-latency}`))
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, `"one"`, a.value(t).Key("result").Key("out").Key("by").String())
	got = w.run("runs", "stats", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "{:decided 2}", got.value(t).Key("routing").String())
}

// RTE-007: a router without a usable decision.
func TestRoutedFailures(t *testing.T) {
	t.Parallel()
	w := routedWorld(t, `{:value {:text "I like t/two."}}`)
	s := w.serve()
	defer s.stop()
	a := s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", `{}`, ``))
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Contains(t, a.value(t).Key("warnings").String(), ":route/decide-failed")
	a = s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", `{}`, `:routing {:profile :careful}`))
	require.Equal(t, 502, a.status, "%s", a.body)
	assert.Equal(t, ":route/decide-failed", a.value(t).Key("error").Key("type").String())
	a = s.request(context.Background(), "POST", "/v1/act", envelopeOf("demo/answer", `{}`, `:routing {:profile :careless}`))
	require.Equal(t, 400, a.status, "%s", a.body)
	got := w.run("runs", "stats", "--edn")
	assert.Equal(t, "{:closed 1 :static 1}", got.value(t).Key("routing").String())
}
