package cli_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
)

func textPlugin() string { return filepath.Join(built.plugins, "text") }

// textFlags returns the flags that the text plugin needs for all checks.
func textFlags(flags ...string) []string {
	dir := filepath.Join(built.module, "plugins", "text")
	all := []string{"conform", "--samples", filepath.Join(dir, "conformance.edn"), "--config", filepath.Join(dir, "conformance.config.edn")}
	return append(append(all, flags...), "--", textPlugin())
}

// CONF-001: exit codes and output.
func TestConformVerdicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("known", "tool/answer/value # no table\n")
	w.write("stale", "tool/answer/value\ncore/describe/bare\n")
	text := textPlugin()
	for _, tt := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"a failure", []string{"conform", "--run", "tool/answer", "--", text}, 1,
			[]string{"fail  tool/answer/value", "requirement: TOOL-001", "not testable: ", "again: ferment conform --seed"}},
		{"a known failure", []string{"conform", "--run", "tool/answer", "--baseline", "known", "--", text}, 0, []string{"(known)", "pass: text"}},
		{"a stale baseline", []string{"conform", "--run", "tool/answer|bare", "--baseline", "stale", "--", text}, 1, []string{"stale: core/describe/bare"}},
		{"no plugin at all", []string{"conform", "--run", "bare", "--", "true"}, 1, []string{"expected: the plugin starts and completes the handshake", "it ended before the handshake: exit status 0", "0 of 1 checks passed"}},
		{"a plugin that ends at once", []string{"conform", "--", "true"}, 1, []string{"not run because of core/start/certificate: core/describe/bare", " not run"}},
		{"no patience", []string{"conform", "--patience", "0.5", "--", text}, 2, []string{"--patience 0.5: expected a number from 1 to 20"}},
		{"a profile that it does not come under", []string{"conform", "--profile", "judge", "--run", "score", "--", text}, 1, []string{"no capability of kind judge"}},
		{"no command", []string{"conform"}, 2, []string{"ferment conform -- ./my-plugin"}},
		{"no such program", []string{"conform", "--", "./absent"}, 2, []string{"no program ./absent"}},
		{"no such profile", []string{"conform", "--profile", "cor", "--", text}, 2, []string{`no profile "cor": expected one of core,`}},
		{"no regular expression", []string{"conform", "--run", "(", "--", text}, 2, []string{"--run: "}},
		{"nothing to do", []string{"conform", "--run", "^x$", "--", text}, 2, []string{`matches --run "^x$"`}},
		{"samples that are none", []string{"conform", "--samples", "{:x 1}", "--", text}, 2, []string{"--samples: :x is not the name"}},
		{"configuration that is none", []string{"conform", "--config", "{:x", "--", text}, 2, []string{"--config"}},
		{"a machine without room", []string{"conform", "--run", "bare", "--", text}, 3, []string{"fault core/describe/bare", "make a directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			on := *w
			if tt.code == 3 {
				on.env = append(on.env, "TMPDIR="+filepath.Join(w.dir, "absent"))
			}
			e := on.run(tt.args...)
			all := e.stdout + e.stderr
			assert.Equal(t, tt.code, e.code, all)
			for _, says := range tt.says {
				assert.Contains(t, all, says)
			}
		})
	}
}

// The list needs no plugin and contains the requirements.
func TestConformList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.run("conform", "--list", "--profile", "judge")
	require.Equal(t, 0, e.code)
	assert.Contains(t, e.stdout, "judge/verdict/score")
	assert.Contains(t, e.stdout, "JUDGE-001")
	assert.NotContains(t, e.stdout, "core/")
	e = w.run("conform", "--list", "--profile", "juge")
	assert.Equal(t, 2, e.code)
	assert.Contains(t, e.stderr, `no profile "juge": expected one of core,`)
	v := w.run("conform", "--list", "-o", "edn").value(t)
	assert.Equal(t, len(conformance.Checks()), v.Key("checks").Len())
	one, _ := v.Key("checks").Nth(0)
	assert.Equal(t, `"core"`, one.Key("profile").String())
}

// An interrupt ends a run immediately, with its exit code, and leaves no
// process.
func TestConformInterrupted(t *testing.T) {
	w := newWorld(t)
	p := w.start("", textFlags("--json", "r.json")...)
	require.Eventually(t, func() bool { return len(childrenOf(p.cmd.Process.Pid, textPlugin())) > 0 }, 20*time.Second, time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	e := p.wait()
	assert.Equal(t, 130, e.code, "%s\n%s", e.stdout, e.stderr)
	assert.NotContains(t, e.stdout, "fault")
	assert.Empty(t, awaitNone(built.plugins, endLimit))
}
