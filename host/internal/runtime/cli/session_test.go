package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// talking is a world with sessions on disk and a capability that answers with a
// text.
func talking(t *testing.T) *world {
	return newWorld(t, "ferment.hcl", testProfile+scripted("mine")+onDisk,
		"mine.edn", `{:capabilities {:mine/says {:intents #{:text/respond} :in-schema :req/text :out-schema :res/text :steps [{:value {:text "aha"}}]}}}`)
}

// CLI-006: the examples of the session verbs run, in an order in which they can.
func TestSessionExamples(t *testing.T) {
	t.Parallel()
	w := talking(t)
	w.serve()
	n := 0
	run := func(verbs ...string) {
		for _, verb := range verbs {
			for _, line := range examplesOf(t, w, "session "+verb) {
				got := w.shell(line)
				assert.Equal(t, 0, got.code, "%s\n%s", line, got.stderr)
				n++
			}
		}
	}
	run("open", "put", "get", "list", "freeze", "show", "thaw", "worker-freeze", "worker-thaw", "del", "delete")
	assert.Greater(t, n, 11)
}

// SES-002, SES-014, SES-030, SES-031: a session with its variables and turns goes on
// in another daemon of the data directory.
func TestSessionOverARestart(t *testing.T) {
	t.Parallel()
	w := talking(t)
	s := w.serve()
	good := func(args ...string) string {
		got := w.run(args...)
		require.Equal(t, 0, got.code, "%v\n%s", args, got.stderr)
		return got.stdout
	}
	good("session", "open", "talk")
	good("session", "put", "talk", "session/language=:pl", "a/set=#{1 2}", "--version", "1")
	good("act", "text/respond", `{:prompt "hello"}`, "--session", "talk")
	s.stop()
	w.serve()
	assert.Equal(t, "a/set = #{1 2}\nsession/language = :pl\n", good("session", "get", "talk"))
	shown := good("session", "show", "talk")
	assert.Contains(t, shown, "talk  version 3  hot ")
	assert.Contains(t, shown, "user: hello\nassistant: aha\n")
	good("act", "text/respond", `{:prompt "again"}`, "--session", "talk")
	request := good("runs", "records", "last", "--values", "--edn")
	assert.Contains(t, request, `:turns [{:role :user :text "hello"} {:role :assistant :text "aha"}]`)
	assert.Contains(t, request, `:language :pl`)
	assert.Equal(t, "deleted 1\n", good("session", "del", "talk", "a/set"))
	assert.Contains(t, good("session", "list"), "talk")
}

// CLI-002: the exit codes of the session verbs.
func TestSessionExitCodes(t *testing.T) {
	t.Parallel()
	w := talking(t)
	assert.Equal(t, 3, w.run("session", "list").code, "no daemon")
	alone := w.run("act", "text/respond", `{:prompt "x"}`, "--session", "talk")
	assert.Equal(t, 3, alone.code, alone.stderr)
	assert.Contains(t, alone.stderr, "only a daemon keeps sessions")
	keyed := w.run("act", "text/respond", `{:prompt "x"}`, "--key", "k") // RUN-020
	assert.Equal(t, alone.code, keyed.code)
	assert.Contains(t, keyed.stderr, "only a daemon keeps idempotency keys")
	w.serve()
	require.Equal(t, 0, w.run("session", "open", "talk").code)
	require.Equal(t, 0, w.run("session", "put", "talk", "a/kept=1").code)
	for args, code := range map[string]int{
		"show nobody":              5,
		"freeze talk --version 9":  6,
		"put talk x":               2,
		"put talk x=[":             2,
		"del talk":                 2,
		"del talk x --all":         2,
		"delete talk":              2,
		"show":                     2,
		"freeze talk --version 0":  2,
		"freeze talk --version -1": 2,
		"put talk a/x=1 --ttl -5s": 2,
		"put talk a/x=1 --ttl 0s":  2,
		"put talk a/x=1 :a/x=2":    2,
		"put talk a/x=1 --ttl 2d":  0,
		"get talk a/kept":          0,
		"get talk a/kept a/none":   5,
		"get talk a/none --json":   5,
	} {
		got := w.run(append([]string{"session"}, strings.Fields(args)...)...)
		assert.Equal(t, code, got.code, "%s\n%s", args, got.stderr)
	}
	got := w.run("act", "text/respond", `{:prompt "x"}`, "--session", "nobody")
	assert.Equal(t, 5, got.code, got.stderr)
	for _, flags := range [][]string{
		{"--session", ""}, {"--session", "a b"}, {"--key", ""}, {"--class", ""}, {"--deadline", "25h"}, {"--priority", "12"},
		{"--session", "talk", "--local"}, {"--key", "k", "--local"},
	} {
		got := w.run(append([]string{"act", "text/respond", `{:prompt "x"}`}, flags...)...)
		assert.Equal(t, 2, got.code, "%v\n%s", flags, got.stderr)
		assert.Contains(t, got.stderr, flags[0], "the error names the flag")
	}
	for _, flag := range []string{"--status", "--intent", "--since"} {
		assert.Equal(t, 2, w.run("runs", "list", flag, "").code, flag)
	}
	got = w.run("session", "list")
	assert.Equal(t, 0, got.code)
	assert.NotContains(t, got.stdout, "--after", "there are no more")
}

// SES-016: turns that no longer fit are summarized by an act of the owner, and later
// acts get the summary in their place.
func TestSessionIsSummarized(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine")+onDisk+`
session {
  window_turns  = 4
  summary_chars = 300
}
intent "context/summarize" {
  in         = "req/context"
  out        = "res/context-summary"
  candidates = ["mine/sums"]
}
`,
		"mine.edn", `{:capabilities {
 :mine/says {:intents #{:text/respond} :in-schema :req/text :out-schema :res/text :steps [{:value {:text "aha"}}]}
 :mine/sums {:intents #{:context/summarize} :in-schema :req/context :out-schema :res/context-summary :steps [{:value {:summary "all was said"}}]}}}`)
	w.serve()
	good := func(args ...string) string {
		t.Helper()
		got := w.run(args...)
		require.Equal(t, 0, got.code, "%v\n%s", args, got.stderr)
		return got.stdout
	}
	good("session", "open", "talk")
	for range 3 {
		good("act", "text/respond", `{:prompt "hello"}`, "--session", "talk")
	}
	require.Eventually(t, func() bool { return strings.Contains(good("session", "show", "talk"), "summary: \"all was said\"") },
		10*time.Second, 20*time.Millisecond)
	good("act", "text/respond", `{:prompt "again"}`, "--session", "talk")
	request := good("runs", "records", "last", "--values", "--edn")
	assert.Contains(t, request, `:summary "all was said"`)
	assert.Contains(t, request, `:turns [{:role :user :text "hello"} {:role :assistant :text "aha"}]`)
	assert.NotContains(t, request, "turns-cut")
	assert.Contains(t, good("runs", "list"), "context/summarize")
}

// JRN-030, CLI-002: a damaged tree of the sessions stops the start with exit code 65 and
// the command that helps, and that says in text and data what became of the sessions. A
// damaged variable of a frozen session does not; verification finds it.
func TestDamagedSessions(t *testing.T) {
	t.Parallel()
	w := talking(t)
	s := w.serve()
	for _, args := range [][]string{{"open", "talk"}, {"put", "talk", `a/x="variable of talk"`}, {"freeze", "talk"}} {
		require.Equal(t, 0, w.run(append([]string{"session"}, args...)...).code)
	}
	assert.Equal(t, "1", w.data("runs", "verify").Key("sessions").String())
	s.stop()
	path := filepath.Join(w.dir, "var", "ferment.db")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(whole, []byte("variable of talk"))
	require.Positive(t, at)

	changed := bytes.Replace(whole, []byte(`"variable of talk"`), []byte(`"variable of talk `), 1)
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	s = w.serve()
	verified := w.run("runs", "verify")
	assert.Equal(t, 3, verified.code)
	assert.Contains(t, verified.stderr, "journal-repair")
	s.stop()

	const pageSize = 4096
	changed, err = os.ReadFile(path)
	require.NoError(t, err)
	at = bytes.Index(changed, []byte("variable of talk"))
	require.Positive(t, at)
	clear(changed[at/pageSize*pageSize : (at/pageSize+1)*pageSize])
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	refused := w.run("serve")
	assert.Equal(t, 65, refused.code, refused.stderr)
	assert.Contains(t, refused.stderr, "journal-repair")
	plan := w.run("admin", "journal-repair", "--dry-run", "--edn").value(t)
	assert.Equal(t, "1 0", plan.Key("sessions/kept").String()+" "+plan.Key("variables/kept").String())
	assert.Equal(t, "1", plan.Key("variables/lost").String())
	repaired := w.run("admin", "journal-repair", "--yes")
	assert.Equal(t, 0, repaired.code, repaired.stderr)
	assert.Contains(t, repaired.stdout, "sessions: 1 session kept, 0 lost; 0 variables kept, 1 lost; 0 turns kept, 0 lost")
	w.serve().stop()
}
