package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// rewrite replaces a file of the world atomically, as editors do.
func (w *world) rewrite(name string, old, now string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	text, err := os.ReadFile(path)
	require.NoError(w.t, err)
	require.Contains(w.t, string(text), old)
	require.NoError(w.t, os.WriteFile(path+".new", []byte(strings.Replace(string(text), old, now, 1)), 0o644))
	require.NoError(w.t, os.Rename(path+".new", path))
}

// pids returns the processes of the plugins, by name.
func (s *served) pids() map[string]int {
	s.t.Helper()
	out := map[string]int{}
	for p := range s.admin(`{:action :plugin-list}`).value(s.t).Key("result").Key("plugins").Elems() {
		name, _ := p.Key("plugin").AsString()
		for i := range p.Key("instances").Elems() {
			if pid, ok := i.Key("pid").AsInt(); ok && word(i.Key("state")) == "ready" {
				out[name] = int(pid)
			}
		}
	}
	return out
}

// twoPlugins returns a world with two plugins that answer, each with a script.
func twoPlugins(t testing.TB, more string) *world {
	w := newWorld(t, "ferment.hcl", testProfile+scripted("a")+scripted("b")+more)
	w.write("a.edn", `{:capabilities {:t/a {:intents #{:t/a} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}
 :t/slow {:intents #{:t/slow} :in-schema :req/any :out-schema :res/any :steps [{:delay-ms 1500 :value {:n 1}}]}}}`)
	w.write("b.edn", `{:capabilities {:t/b {:intents #{:t/b} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}}}`)
	return w
}

func (s *served) out(intent string) string {
	a := s.ask(intent, "{}")
	require.Equal(s.t, 200, a.status, "%s", a.body)
	return a.value(s.t).Key("result").Key("out").String()
}

// HCL-007, HCL-039, HTTP-009: a reload applies changes, keeps the processes of
// unchanged plugins, and reports what it did; a second one does nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	s := w.serve()
	before := s.pids()
	assert.Equal(t, "{:n 1}", s.out("t/a"))
	w.rewrite("a.edn", "{:value {:n 1}}", "{:value {:n 2}}")
	w.rewrite("ferment.hcl", "plugin \"b\" {", "plugin \"b\" {\n  drain_timeout = \"3s\"")

	dry := w.run("admin", "reload", "--dry-run", "--edn")
	require.Equal(t, 0, dry.code, dry.stderr)
	assert.Equal(t, `{:remove [] :replace ["a"] :start [] :update ["b"]}`, dry.value(t).Key("plugins").String())
	assert.Equal(t, "{:n 1}", s.out("t/a"), "a dry run does nothing")

	got := w.run("admin", "reload", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "true", got.value(t).Key("changed?").String())
	assert.Contains(t, got.stdout, `:path ["plugin" "b" "drain_timeout"]`)
	assert.Equal(t, "{:n 2}", s.out("t/a"))
	require.Eventually(t, func() bool { return len(s.pids()) == 2 }, 20*time.Second, 5*time.Millisecond)
	after := s.pids()
	assert.Equal(t, before["b"], after["b"], "what did not change keeps its process")
	assert.NotEqual(t, before["a"], after["a"])
	again := w.run("admin", "reload")
	assert.Equal(t, 0, again.code, again.stderr)
	assert.Equal(t, "no change\n", again.stdout)

	// One plugin is added, another removed.
	w.write("c.edn", `{:capabilities {:t/c {:intents #{:t/c} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 3}}]}}}`)
	w.write("ferment.hcl", testProfile+scripted("a")+scripted("c"))
	s.signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return s.ask("t/c", "{}").status == 200 }, 20*time.Second, 5*time.Millisecond)
	assert.Equal(t, 400, s.ask("t/b", "{}").status, "nobody declares it any more")
	end := s.stop()
	var logged []string
	for line := range strings.Lines(end.stderr) {
		if strings.Contains(line, `"@message":"config/reloaded"`) {
			logged = append(logged, line)
		}
	}
	require.Len(t, logged, 2, end.stderr)
	assert.Contains(t, logged[0], `plugin.b.drain_timeout`, "the log has the difference too")
	assert.Contains(t, logged[1], `plugin.c`)
	assert.Empty(t, w.left(endLimit))
}

// OPS-003, HCL-039: with another data_dir the daemon is not found there; the hint says where
// one runs.
func TestOtherDataDirectory(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	s := w.serve()
	w.write("ferment.hcl", strings.Replace(testProfile, "{", "{\n  data_dir = \"elsewhere\"", 1)+scripted("a")+scripted("b"))
	for _, verb := range [][]string{{"diff"}, {"admin", "reload"}, {"status"}} {
		got := w.run(append(verb, "--edn")...)
		assert.Equal(t, 3, got.code, "%v: %s", verb, got.stderr)
		assert.Contains(t, got.stderr, "a daemon serves "+filepath.Join(w.dir, "var")+": set data_dir to it again", "%v", verb)
	}
	s.stop()
	assert.Contains(t, w.run("diff").stderr, "start one with")
}

// HCL-007, HCL-008, HCL-039: diff compares the files with the running
// configuration, reports what a reload would do about each change, and changes
// nothing.
func TestDiffWithTheDaemon(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	none := w.run("diff")
	assert.Equal(t, 3, none.code)
	assert.Contains(t, none.stderr, "no daemon serves the data directory "+filepath.Join(w.dir, "var"))
	s := w.serve()
	before := s.pids()
	same := w.run("diff")
	assert.Equal(t, 0, same.code, same.stderr)
	assert.Equal(t, "nothing differs\n", same.stdout)

	// One change of each class, and an added plugin.
	w.rewrite("a.edn", "{:value {:n 1}}", "{:value {:n 2}}")
	w.rewrite("ferment.hcl", "plugin \"b\" {", "plugin \"b\" {\n  drain_timeout = \"3s\"")
	w.rewrite("ferment.hcl", "plugin \"a\" {", "plugin \"c\" {\n  command = [\"/bin/true\"]\n  enabled = false\n}\n\nplugin \"a\" {")
	got := w.run("diff")
	assert.Equal(t, 1, got.code, got.stderr)
	pid := regexp.MustCompile(`b [0-9]+`)
	assert.Equal(t, `~ plugin "a", config, script: "a.edn" -> "a.edn", another value  (new process)  ferment.hcl:13:14
~ plugin "b", drain_timeout: "10s" -> "3s"  ferment.hcl:18:19
+ plugin "c"  ferment.hcl:5:1

plugins: replace a; update b
processes that stay: b PID
`, pid.ReplaceAllString(got.stdout, "b PID"))
	v := w.run("diff", "--edn").value(t)
	assert.Equal(t, fmt.Sprintf("{%q [%d]}", "b", before["b"]), v.Key("pids").String())
	assert.Equal(t, `{:keep [] :remove [] :replace ["a"] :start [] :update ["b"]}`, v.Key("plugins").String())
	var actions []string
	for row := range v.Key("changes").Elems() {
		actions = append(actions, word(row.Key("action")))
	}
	assert.Equal(t, []string{"swap", "update", "add"}, actions)
	assert.Equal(t, "true false", v.Key("valid?").String()+" "+v.Key("restart?").String())
	js := w.run("diff", "--json")
	fromJSON, err := edn.ReadJSON([]byte(js.stdout), edn.WithLimits(edn.Body))
	require.NoError(t, err)
	asJSON, err := edn.WriteJSON(v)
	require.NoError(t, err)
	again, err := edn.ReadJSON(asJSON, edn.WithLimits(edn.Body))
	require.NoError(t, err)
	assert.True(t, edn.Equal(again, fromJSON), "both forms say the same")
	assert.NotContains(t, got.stdout+js.stdout+v.String(), w.dir, "no absolute path")
	assert.Equal(t, before, s.pids())
	assert.Equal(t, "{:n 1}", s.out("t/a"), "nothing was done")

	// Changes that a reload would refuse are listed too.
	w.rewrite("ferment.hcl", "profile = \"test\"", "profile = \"test\"\n  gogc = 200")
	got = w.run("diff")
	assert.Equal(t, 6, got.code, got.stderr)
	assert.Contains(t, got.stdout, "! ferment, gogc: 0 -> 200  (needs a restart of the host)  ferment.hcl:3:10\n")
	assert.Contains(t, got.stdout, `~ plugin "b", drain_timeout`)
	assert.Equal(t, "true", w.run("diff", "--edn").value(t).Key("restart?").String())
	w.rewrite("ferment.hcl", "gogc = 200", "gocg = 200")
	got = w.run("diff")
	assert.Equal(t, 1, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, `error: unknown attribute "gocg"`)
	wrong := w.run("diff", "--edn").value(t)
	assert.Equal(t, "false", wrong.Key("valid?").String())
	assert.Contains(t, wrong.Key("report").String(), "config/unknown-name")

	// The daemon compares its own configuration.
	w.rewrite("ferment.hcl", "\n  gocg = 200", "")
	w.write("other.hcl", testProfile+scripted("a"))
	got = w.run("diff", "--config", "other.hcl")
	assert.Equal(t, 1, got.code)
	assert.Equal(t, "note: the daemon uses the configuration ferment.hcl, not other.hcl\n", got.stderr)
	assert.Contains(t, got.stdout, "plugins: replace a; update b")

	require.Equal(t, 0, w.run("admin", "reload").code)
	assert.Equal(t, 0, w.run("diff").code)
	s.stop()
	assert.Empty(t, w.left(endLimit))
}

// HCL-007, HCL-039: a refused reload changes nothing and reports the reason.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *world)
		code   int
		say    string
	}{
		"errors":                             {func(w *world) { w.rewrite("ferment.hcl", "command", "comand") }, 1, "comand"},
		"needs a restart, named by the verb": {func(w *world) { w.rewrite("ferment.hcl", "profile = \"test\"", "profile = \"test\"\n  gogc = 200") }, 6, "ferment.gogc"},
		"needs a restart": {func(w *world) {
			w.rewrite("ferment.hcl", "profile = \"test\"", "profile = \"test\"\n  data_dir = \"other\"\n  gogc = 200")
		}, 0, "ferment.data_dir, ferment.gogc"},
		"plugin does not come up": {func(w *world) {
			w.rewrite("ferment.hcl", "plugin \"b\" {", fmt.Sprintf("plugin \"refuser\" {\n  command = [%q, %q]\n}\n\nplugin \"b\" {", built.helper, roleRefuser))
			w.rewrite("a.edn", "{:value {:n 1}}", "{:value {:n 2}}")
		}, 1, "not today"},
		"file is gone": {func(w *world) { require.NoError(w.t, os.Remove(filepath.Join(w.dir, "ferment.hcl"))) }, 0, "ferment.hcl"},
	} {
		t.Run(name, func(t *testing.T) {
			w := twoPlugins(t, "")
			s := w.serve()
			before := s.pids()
			tc.change(w)
			a := s.admin(`{:action :config-reload}`)
			assert.GreaterOrEqual(t, a.status, 400, "%s", a.body)
			assert.Contains(t, string(a.body), tc.say)
			if strings.HasPrefix(name, "needs a restart") {
				assert.Equal(t, "409 config/restart", fmt.Sprint(a.status, " ", a.failure(t)))
			}
			if tc.code > 0 {
				got := w.run("admin", "reload")
				assert.Equal(t, tc.code, got.code, got.stderr)
				assert.Contains(t, got.stderr, tc.say)
			}
			assert.Equal(t, before, s.pids())
			assert.Equal(t, "{:n 1}", s.out("t/a"))
			s.stop()
			assert.Empty(t, w.left(endLimit))
		})
	}
}

// HCL-040: a run ends under the configuration that it started under, and new
// runs use the new one meanwhile.
func TestRunsKeepTheirConfiguration(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	s := w.serve()
	slow := make(chan answer, 1)
	go func() { slow <- s.ask("t/slow", "{}") }()
	require.Eventually(t, func() bool { return s.inFlight("a") == 1 }, 20*time.Second, 5*time.Millisecond)
	w.write("ferment.hcl", testProfile+scripted("b"))
	got := w.run("admin", "reload", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, 400, s.ask("t/a", "{}").status, "new acts do not know the plugin any more")
	status := s.admin(`{:action :status}`).value(t).Key("result")
	assert.Equal(t, "2", status.Key("generations").String())
	a := <-slow
	assert.Equal(t, 200, a.status, "%s", a.body)
	require.Eventually(t, func() bool {
		return s.admin(`{:action :status}`).value(t).Key("result").Key("generations").String() == "1"
	}, 20*time.Second, 5*time.Millisecond)
	s.stop()
	assert.Empty(t, w.left(endLimit))
}

// HCL-040: a scope that a reload narrows binds the runs that are under way.
func TestReloadNarrowsRuns(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker+people+shipped("tools", "tools")+`
effects {
  scope "fs/write" {
    enabled = true
    roots   = ["."]
    allow   = ["out"]
  }

  rule "fs/write" {
    any = ["user", "admin"]
  }
}
`)
	s := w.serve()
	const plan = `{:plan {:nodes [{:op :call :intent :refund/approve :input {} :as :people}
  {:op :tool :tool/id :fs/write :input {:path "out" :content "x" :mkdirs? {:slot/path [:people :approved]}}
   :effects {:allowed #{:fs/write}} :as :w}
  {:op :emit :input {:slot/path [:w :bytes]}}]}}`
	start := func() string {
		a := s.request(t.Context(), "POST", "/v1/act", envelopeOf("plan/run", plan,
			`:response/type :accepted :queue {:class :one} :effects {:allowed #{:fs/write}}`))
		require.Equal(t, 202, a.status, "%s", a.body)
		id, _ := a.value(t).Key("job/id").AsString()
		s.becomes(id, "waiting")
		return id
	}
	end := func(id, state string) edn.Value {
		question, _ := w.data("runs", "interrupts", id).Key("interrupts").Nth(0)
		name, _ := question.Key("interrupt").AsString()
		require.Equal(t, 200, s.answer(id, name, `{:answer {:approved false}}`).status)
		return s.becomes(id, state)
	}
	assert.Equal(t, "{:value 1}", end(start(), "completed").Key("result").Key("out").String())

	id := start()
	w.rewrite("ferment.hcl", "enabled = true\n    roots", "enabled = false\n    roots")
	require.Equal(t, 200, s.admin(`{:action :config-reload}`).status)
	assert.Equal(t, "effects/scope-denied", word(end(id, "failed").Key("error").Key("type")))
	s.stop()
}

// HCL-040: a capability that a reload takes from a plugin is not ready for the runs that
// are under way: their next candidate answers.
func TestReloadTakesACapability(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker+people+scripted("pair"))
	const one = `:t/one {:intents #{:t/do} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}`
	w.write("pair.edn", `{:capabilities {`+one+` :t/two {:intents #{:t/do} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 2}}]}}}`)
	s := w.serve()
	var ids []string
	for _, dispatch := range []string{":dispatch {:candidates [:t/two :t/one]}", ":dispatch {:candidates [:t/two]}"} {
		a := s.request(t.Context(), "POST", "/v1/act", envelopeOf("plan/run", `{:plan {:nodes [
  {:op :call :intent :refund/approve :input {} :as :people} {:op :call :intent :t/do :needs ["n0"] :input {} `+dispatch+` :as :x}
  {:op :emit :input :x}]}}`, `:response/type :accepted`))
		require.Equal(t, 202, a.status, "%s", a.body)
		id, _ := a.value(t).Key("job/id").AsString()
		s.becomes(id, "waiting")
		ids = append(ids, id)
	}
	w.write("pair.edn", `{:capabilities {`+one+`}}`)
	require.Equal(t, 200, s.admin(`{:action :config-reload}`).status)
	end := func(id, state string) edn.Value {
		question, _ := w.data("runs", "interrupts", id).Key("interrupts").Nth(0)
		name, _ := question.Key("interrupt").AsString()
		require.Equal(t, 200, s.answer(id, name, `{:answer {:approved true}}`).status)
		return s.becomes(id, state)
	}
	assert.Equal(t, "{:n 1}", end(ids[0], "completed").Key("result").Key("out").String())
	e := end(ids[1], "failed").Key("error")
	assert.Equal(t, "unsupported/intent", word(e.Key("type")))
	assert.Contains(t, e.Key("message").String(), "runtime/not-ready")
	assert.Contains(t, e.Key("hint").String(), "start a new run")
	s.stop()
}

// OPS-001: the log reports a missing optional plugin, at the start and after a
// reload.
func TestLogOfMissingPlugin(t *testing.T) {
	t.Parallel()
	missing := func(name string) string {
		return "plugin \"" + name + "\" {\n  command  = [\"bin/none\"]\n  optional = true\n}\n"
	}
	about := func(name string) func(logLine) bool {
		return func(l logLine) bool {
			return l.text("@level") == "warn" && l.text("type") == "config/plugin-unknown" && strings.Contains(l.text("message"), name)
		}
	}
	w := twoPlugins(t, missing("gone"))
	s := w.serve()
	_, _, ok := s.logged(0, about("gone"))
	require.True(t, ok)
	w.rewrite("ferment.hcl", "\"gone\"", "\"vanished\"")
	got := w.run("admin", "reload")
	require.Equal(t, 0, got.code, got.stderr)
	_, _, ok = s.logged(0, about("vanished"))
	require.True(t, ok)
	s.stop()
}

// HCL-039: with auto_reload a changed file triggers a reload.
func TestAutoReload(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	w.rewrite("ferment.hcl", "profile = \"test\"", "profile = \"test\"\n  auto_reload = true")
	s := w.serve()
	assert.Equal(t, "{:n 1}", s.out("t/a"))
	w.rewrite("a.edn", "{:value {:n 1}}", "{:value {:n 2}}")
	require.Eventually(t, func() bool { return s.out("t/a") == "{:n 2}" }, 30*time.Second, 20*time.Millisecond)
	w.rewrite("ferment.hcl", "command", "comand")
	refused, _, ok := s.logged(0, said("reload refused"))
	require.True(t, ok)
	found, _ := refused["findings"].([]any)
	require.NotEmpty(t, found)
	assert.Contains(t, found[0], "ferment.hcl:")
	assert.NotContains(t, refused, "details")
	assert.Equal(t, "{:n 2}", s.out("t/a"))
	s.stop()
}

// SUP-006: a swap replaces the process, and calls continue.
func TestSwap(t *testing.T) {
	t.Parallel()
	s := twoPlugins(t, "").serve()
	before := s.pids()
	assert.Regexp(t, `(?m)^a +- +- +1\.0\.0 +1\.0\.0 +required`, s.w.run("plugin", "list").stdout, "the version that is locked by nobody, installed and running (LOCK-002)")
	got := s.w.run("plugin", "swap", "a")
	require.Equal(t, 0, got.code, got.stderr)
	require.Eventually(t, func() bool {
		assert.Equal(t, 200, s.ask("t/a", "{}").status)
		now := s.pids()
		return now["a"] != 0 && now["a"] != before["a"]
	}, 20*time.Second, time.Millisecond)
	assert.Equal(t, before["b"], s.pids()["b"])
	require.Eventually(t, func() bool { // the old process has ended too
		return strings.Contains(s.w.run("admin", "events").stdout, "plugin/swapped")
	}, runLimit, time.Millisecond)
	cursor := s.admin(`{:action :plugin-swap :plugin "a"}`)
	assert.Equal(t, 202, cursor.status)
	at, _ := cursor.value(t).Key("result").Key("cursor").AsString()
	var states []string // of the processes of the plugin, until the outcome
	require.Eventually(t, func() bool {
		come := s.w.run("admin", "events", "--after", at, "--wait", "20s", "--edn")
		require.Equal(t, 0, come.code, come.stderr)
		at = plain(come.value(t).Key("cursor"))
		for event := range come.value(t).Key("events").Elems() {
			if event.HasKey("details") {
				assert.Equal(t, `:plugin/swapped {:plugin "a"}`, event.Key("event").String()+" "+event.Key("details").String())
				return true
			}
			assert.Equal(t, `:plugin/transition "a"`, event.Key("kind").String()+" "+event.Key("plugin").String(), "%s", event)
			states = append(states, word(event.Key("to")))
		}
		return false
	}, runLimit, time.Millisecond, "the outcome is after the cursor (HTTP-009)")
	assert.Contains(t, states, "starting", "TEL-002: the new process; that it is ready may be recorded after the outcome")
	assert.Contains(t, s.w.run("admin", "events").stdout, "plugin/swapped")
	for cursor, typ := range map[string]string{"host.x": "stream/bad-cursor", "run.1": "stream/bad-cursor", "host.999999999": "stream/cursor-ahead"} {
		assert.Contains(t, s.w.run("admin", "events", "--after", cursor).stderr, typ)
	}
	s.stop()
	assert.Empty(t, s.w.left(endLimit))
}

// HCL-039: reload requests that arrive during a reload share the next one, and
// each gets a response.
func TestReloadsJoin(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	s := w.serve()
	const n = 20
	answers := make(chan answer, n)
	for range n {
		go func() { answers <- s.admin(`{:action :config-reload}`) }()
	}
	for range n {
		a := <-answers
		assert.Equal(t, 200, a.status, "%s", a.body)
	}
	got := s.stop()
	assert.Less(t, strings.Count(got.stderr, `"@message":"reload: no change"`), n)
}

// OPS-003: the service manager is notified of the start and the end of a
// reload.
func TestReloadNotifies(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	heard := w.notified()
	s := w.serve()
	for <-heard != "READY=1\nSTATUS=serving" { // messages of the start
	}
	s.signal(syscall.SIGHUP)
	assert.Regexp(t, "^RELOADING=1\nMONOTONIC_USEC=[0-9]+$", <-heard)
	assert.Equal(t, "READY=1", <-heard)
	s.stop()
	assert.Equal(t, "STOPPING=1\nSTATUS=draining", <-heard)
}
