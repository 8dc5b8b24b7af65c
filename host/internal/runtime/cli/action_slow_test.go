//go:build slow

package cli_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// CLI-007: each admin action has exactly one command, and the command executes
// only that action: the daemon audits it once.
func TestEveryActionHasOneVerb(t *testing.T) {
	t.Parallel()
	w := answering(t, "\njudge \"grader\" {\n  intent  = \"mine/data\"\n  anchors = \"anchors.edn\"\n}\n")
	w.write("anchors.edn", anchors(20))
	w.write("run.edn", "{}")
	s := w.serve()
	require.Equal(t, 200, s.ask("mine/data", "{}").status)
	// Logs are read from the files directly, so that they can be read without
	// a daemon; the content is the same.
	logs := "plugin logs"
	require.NoError(t, syscall.Kill(s.pids()["mine"], syscall.SIGKILL)) // its end is logged
	require.Eventually(t, func() bool {
		return s.admin(`{:action :plugin-logs :plugin "mine"}`).value(t).Key("result").Key("lines").Len() > 0
	}, runLimit, 5*time.Millisecond)
	there := s.admin(`{:action :plugin-logs :plugin "mine" :lines 3}`).value(t).Key("result").Key("lines")
	require.Positive(t, there.Len())
	var lines []string
	for line := range there.Elems() {
		lines = append(lines, line.String())
	}
	here := w.run("plugin", "logs", "mine", "--edn")
	assert.Contains(t, here.stdout, strings.Join(lines, "\n"))

	var want []string
	covered := map[string]string{"plugin-logs": logs}
	for _, row := range cli.VerbsOfActions {
		require.NotContains(t, covered, row.Action, "one verb")
		covered[row.Action] = row.Verb
		want = append(want, "admin/"+row.Action)
		w.feed("four small new words", strings.Fields(row.Verb)...)
	}
	for _, a := range httpapi.Actions() {
		assert.Contains(t, covered, a.Name, "no verb")
	}
	assert.Len(t, covered, len(httpapi.Actions()))
	got := s.wait() // the last command stopped it
	assert.Equal(t, 0, got.code)
	var done []string
	for i := 0; ; i++ {
		l, at, ok := s.logged(i, func(l logLine) bool { return strings.HasSuffix(l.text("@module"), "audit") })
		if !ok {
			break
		}
		i = at
		if l.text("action") != "admin/plugin-list" && l.text("action") != "admin/plugin-logs" || len(done) > 0 {
			done = append(done, l.text("action"))
		}
	}
	assert.Equal(t, want, done)

	// All other commands execute no action: a new command must be added to one
	// of the two lists.
	own := []string{
		"init", "act", "chat", "run", "serve", "check", "validate", "fmt", "explain", "prompt show", "protocol diff", "config docs",
		"plugin new", "plugin runtime", "plugin lock", "plugin install", "graph",
		"conform", "completion", "manual", "doctor", "version", "model probe", "model prices", "judge show", "admin action", "admin systemd-unit", "help",
		"batch", "runs watch", "admin journal-repair", "admin backup verify", "admin restore", "session", "workspace", "context",
	}
	asks := map[string]bool{}
	for _, verb := range covered {
		asks[verb] = true
	}
	for _, leaf := range leaves(t, w, "") {
		known := slices.ContainsFunc(own, func(v string) bool { return leaf == v || strings.HasPrefix(leaf, v+" ") })
		for verb := range asks {
			known = known || verb == leaf || strings.HasPrefix(verb, leaf+" ")
		}
		assert.True(t, known, "the verb %q is neither an action nor known to be none", leaf)
	}
}
