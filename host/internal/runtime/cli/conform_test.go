package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

func textPlugin() string { return filepath.Join(built.plugins, "text") }

// textFlags are what the text plugin needs to show everything.
func textFlags(flags ...string) []string {
	dir := filepath.Join(built.module, "plugins", "text")
	all := []string{"conform", "--samples", filepath.Join(dir, "conformance.edn"), "--config", filepath.Join(dir, "conformance.config.edn")}
	return append(append(all, flags...), "--", textPlugin())
}

// CONF-001, CONF-006: a plugin that keeps the contract, within the time that
// somebody new to it has, and the report in every form. What a failed check says
// besides (expected, observed, evidence) is in TestReportForms.
func TestConformPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	e := w.run(textFlags("--json", "r.json", "--junit", "r.xml", "--md", "r.md", "--seed", "7")...)
	require.Equal(t, 0, e.code, "%s\n%s", e.stdout, e.stderr)
	assert.Less(t, time.Since(began), time.Minute)
	assert.Empty(t, e.stderr)
	assert.Contains(t, e.stdout, "pass  core/describe/bare")
	assert.Regexp(t, `pass: text 1\.0\.0: (\d+) of (\d+) checks passed .*profiles core tool mux hot-swap; suite .*, seed 7`, e.stdout)

	text, err := os.ReadFile(filepath.Join(w.dir, "r.json"))
	require.NoError(t, err)
	var report struct {
		Seed, Outcome, Suite, Platform string
		Protocol                       int
		Plugin                         struct{ Name, Version, Hash string }
		Profiles                       []struct {
			Profile        string
			Checks, Passed int
		}
		Checks []struct {
			Check, Profile, Status, Reproduce string
			Requirements                      []struct{ ID string }
			Took                              *int64 `json:"took-ms"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &report))
	assert.Equal(t, "7", report.Seed)
	assert.Equal(t, "pass", report.Outcome)
	assert.Equal(t, "text", report.Plugin.Name)
	assert.Equal(t, "1.0.0", report.Plugin.Version)
	assert.Regexp(t, "^b3:[0-9a-f]{64}$", report.Plugin.Hash)
	assert.NotEmpty(t, report.Suite)
	assert.Equal(t, wire.Protocol, report.Protocol)
	assert.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, report.Platform)
	checks := 0
	for _, p := range report.Profiles {
		assert.Equal(t, p.Checks, p.Passed, p.Profile)
		checks += p.Checks
	}
	assert.Len(t, report.Checks, checks)
	for _, c := range report.Checks {
		assert.NotEmpty(t, c.Requirements, c.Check)
		assert.NotNil(t, c.Took, c.Check)
		assert.Contains(t, c.Reproduce, "--run '^"+c.Check+"$'")
	}
	assert.Len(t, report.Checks, len(conformance.ChecksOf("core", "tool", "mux", "hot-swap")))

	again := w.shell(strings.Replace(report.Checks[0].Reproduce, "ferment conform", "ferment conform -o edn", 1))
	require.Equal(t, 0, again.code, again.stderr)
	s, err := schema.Compile(conformance.ReportSchema())
	require.NoError(t, err)
	assert.Empty(t, s.Validate(again.value(t)))
	assert.Equal(t, 1, again.value(t).Key("checks").Len())

	text, err = os.ReadFile(filepath.Join(w.dir, "r.xml"))
	require.NoError(t, err)
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	require.NoError(t, xml.Unmarshal(text, &suites))
	assert.Equal(t, len(report.Checks), suites.Tests)
	assert.Zero(t, suites.Failures)
	text, err = os.ReadFile(filepath.Join(w.dir, "r.md"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "# Conformance of text 1.0.0: pass")
}

// CONF-001: exit codes, and what is said besides.
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
		{"a plugin that ends at once", []string{"conform", "--", "true"}, 1, []string{"not made because of core/start/certificate: core/start/stdout core/describe/bare", " not made"}},
		{"no patience", []string{"conform", "--patience", "0.5", "--", text}, 2, []string{"--patience 0.5: expected a number from 1 to 20"}},
		{"a profile that it does not come under", []string{"conform", "--profile", "judge", "--run", "score", "--", text}, 1, []string{"no capability of kind judge"}},
		{"no command", []string{"conform"}, 2, []string{"ferment conform -- ./my-plugin"}},
		{"no such program", []string{"conform", "--", "./absent"}, 2, []string{"no program ./absent"}},
		{"no such profile", []string{"conform", "--profile", "cor", "--", text}, 2, []string{`no profile "cor": expected one of core,`}},
		{"no regular expression", []string{"conform", "--run", "(", "--", text}, 2, []string{"--run: "}},
		{"nothing to do", []string{"conform", "--run", "^x$", "--", text}, 2, []string{`matches --run "^x$"`}},
		{"samples that are none", []string{"conform", "--samples", "{:x 1}", "--", text}, 2, []string{"--samples: :x is no name"}},
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

// The list needs no plugin and names the requirements.
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

// An interrupt ends a run at once, as an interrupt, and leaves no process.
func TestConformInterrupted(t *testing.T) {
	w := newWorld(t)
	p := w.start("", textFlags("--json", "r.json")...)
	require.Eventually(t, func() bool { return len(childrenOf(p.cmd.Process.Pid, textPlugin())) > 0 }, 20*time.Second, time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	e := p.wait()
	assert.Equal(t, 130, e.code, "%s\n%s", e.stdout, e.stderr)
	assert.NotContains(t, e.stdout, "fault")
	assert.Empty(t, awaitNone(built.plugins, 5*time.Second))
}

// CONF-005: this host lives through plugins on which nothing works, and through
// some of those with one fault; all of them are in the conformance step of the
// checks before a change lands.
func TestConformHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.run("conform", "host", "--run", "hostile|answer-without-output|chatty|loses-calls|leaves-a-lock", "-o", "edn")
	require.Equal(t, 0, e.code, "%s\n%s", e.stdout, e.stderr)
	assert.Greater(t, e.value(t).Key("checks").Len(), 15)
	assert.Equal(t, 2, w.run("conform", "host", "--run", "^x$").code)
}
