package cli_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// partial is a world with three plugins: used answers at once, left waits for people to
// allow its answer, and once has an effect and never answers.
func partial(t *testing.T) (w *world, with func(plugins ...string)) {
	blocks := map[string]string{"used": scripted("used"), "left": scripted("left"), "once": scripted("once"), "people": people}
	shared := testProfile + onDisk + oneWorker + `effects {
  scope "fs/write" {
    enabled = true
    roots   = ["."]
    allow   = ["out"]
  }
  rule "fs/write" {
    any = ["any"]
  }
}
`
	w = newWorld(t,
		"ferment.hcl", testProfile,
		"used.edn", script(":used/one", ":used/one", ":in-schema :req/any :out-schema :res/any", `{:value {:n 1}}`),
		"left.edn", script(":left/one", ":left/one", ":in-schema :req/any :out-schema :res/any", `{:value {:n 2}}`),
		"once.edn", script(":once/hang", ":once/hang", ":effects #{:fs/write} :in-schema :req/any :out-schema :res/any", `{:hang true}`))
	with = func(plugins ...string) {
		text := shared
		for _, name := range plugins {
			text += blocks[name]
		}
		w.write("ferment.hcl", text)
	}
	with("used", "left", "once", "people")
	return w, with
}

// halts ends a daemon: by a kill, or as an operator does.
var halts = map[string]func(*served){
	"kill": func(s *served) {
		s.signal(syscall.SIGKILL)
		s.wait()
	},
	"drain": func(s *served) { s.stop() },
}

// JRN-040: after a kill and after a shutdown, a run needs of the new configuration only what
// is left of it. Without that it is suspended, which the log and `runs show` say, and goes on
// when the configuration has it again.
func TestResumeAfterAPluginIsGone(t *testing.T) {
	const asks = `{:plan {:nodes [
	  {:op :call :intent :used/one :input {} :as :u}
	  {:op :call :intent :refund/approve :input {:n {:slot/path [:u :n]}} :as :a}
	  {:op :call :intent :left/one :input {:n {:slot/path [:a :approved]}} :as :l}
	  {:op :emit :input [{:slot/path [:u :n]} {:slot/path [:l :n]}]}]}}`
	for name, halt := range halts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, with := partial(t)
			s := w.serve()
			body := envelopeOf("plan/run", asks, ":deadline-ms 3600000 :response/type :accepted")
			a := s.request(t.Context(), "POST", "/v1/act", body, "Idempotency-Key", "k-1")
			require.Equal(t, 202, a.status, "%s", a.body)
			run := a.header.Get("Ferment-Run-Id")
			s.becomes(run, "waiting")
			halt(s)

			with("left", "once", "people") // used is committed
			s = w.serve()
			s.becomes(run, "waiting")
			halt(s)

			with("left", "once") // no one is left to ask
			s = w.serve()
			s.becomes(run, "suspended")
			line, _, ok := s.logged(0, said("a run is suspended: what is left of it does not fit the configuration"))
			require.True(t, ok)
			assert.Equal(t, run, line.text("run"))
			shown := w.run("runs", "show", run)
			for _, part := range []string{":refund/approve", "ferment runs resume " + run, "runtime/not-ready"} {
				assert.Contains(t, shown.stdout, part)
			}
			fits(t, shown.stdout)
			again := s.request(t.Context(), "POST", "/v1/act", body, "Idempotency-Key", "k-1")
			assert.Equal(t, "run/suspended", again.failure(t))
			assert.Empty(t, again.header.Get("Idempotency-Replayed"))
			halt(s)

			with("left", "once", "people")
			s = w.serve()
			assert.Equal(t, "suspended", word(s.job(run).Key("job/status")))
			early := w.run("runs", "answer", run, "{:approved true}")
			assert.NotZero(t, early.code)
			assert.Contains(t, early.stderr, "ferment runs resume "+run)
			assert.Contains(t, w.run("runs", "interrupts", run).stdout, "ferment runs resume "+run)
			require.Equal(t, 0, w.run("runs", "resume", run).code)
			s.becomes(run, "waiting")
			answered := w.run("runs", "answer", run, "{:approved true}")
			require.Equal(t, 0, answered.code, answered.stderr)
			assert.Equal(t, "{:value [1 2]}", s.becomes(run, "completed").Key("result").Key("out").String())
			again = s.request(t.Context(), "POST", "/v1/act", body, "Idempotency-Key", "k-1")
			assert.Equal(t, run, again.header.Get("Ferment-Run-Id"))
			replayed := w.run("runs", "replay", run)
			assert.Equal(t, 0, replayed.code, "%s%s", replayed.stdout, replayed.stderr)
			s.stop()
			assert.Equal(t, 0, w.run("runs", "verify").code)
		})
	}
}

// JRN-041, JRN-044: a kill in the middle of a call of class once leaves a decision, also if
// the next daemon has neither the plugin of the call nor one that was used before. So it does
// for a single act.
func TestDecisionAfterAPluginIsGone(t *testing.T) {
	t.Parallel()
	w, with := partial(t)
	s := w.serve()
	const more = ":response/type :accepted :deadline-ms 3600000 :effects {:allowed #{:fs/write}}"
	texts := map[string]string{
		"d": envelopeOf("plan/run", `{:plan {:nodes [
		  {:op :call :intent :used/one :input {} :as :u}
		  {:op :call :id "d" :intent :once/hang :input {:n {:slot/path [:u :n]}} :effects {:allowed #{:fs/write}} :as :d}
		  {:op :emit :input {:slot/id :d}}]}}`, more),
		"act": envelopeOf("once/hang", "{}", more),
	}
	runs := map[string]string{}
	for node, text := range texts {
		a := s.request(t.Context(), "POST", "/v1/act", text)
		require.Equal(t, 202, a.status, "%s", a.body)
		runs[node] = a.header.Get("Ferment-Run-Id")
		require.Eventually(t, func() bool {
			return strings.Contains(w.run("runs", "records", runs[node], "--edn").stdout, ":cap/id :once/hang")
		}, runLimit, 10*time.Millisecond)
	}
	halts["kill"](s)
	for _, plugins := range [][]string{{"once", "left"}, {"left"}} {
		with(plugins...)
		s = w.serve()
		for node, run := range runs {
			s.becomes(run, "suspended")
			shown := w.data("runs", "show", run).Key("suspended")
			assert.Equal(t, ":effects/outcome-unknown", shown.Key("why").String())
			assert.Equal(t, 1, shown.Key("open").Len(), "%s", shown)
			assert.Contains(t, w.run("runs", "show", run).stdout, "--decide "+node+"=retry")
		}
		halts["kill"](s)
	}
	s = w.serve()
	for node, run := range runs {
		done := w.run("runs", "resume", run, "--decide", node+"=skip-as-done", "--value", node+"={:n 7}")
		require.Equal(t, 0, done.code, done.stderr)
		assert.Contains(t, s.becomes(run, "completed").Key("result").Key("out").String(), ":n 7")
	}
	s.stop()
	for _, run := range runs {
		replayed := w.run("runs", "replay", run)
		assert.Equal(t, 0, replayed.code, "%s%s", replayed.stdout, replayed.stderr)
	}
}
