//go:build slow

package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// CONF-001, CONF-006: a conforming plugin passes within the time limit for a
// first run, with the report in every format. The details of a failed check
// (expected, observed, evidence) are covered by TestReportForms.
func TestConformPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	const limit = 15 * time.Minute // a minute, with room for a busy machine
	flags := textFlags("--json", "r.json", "--junit", "r.xml", "--md", "r.md", "--seed", "7", "--patience", "10")
	e := w.launchLimit(limit, "", built.ferment, flags...).wait()
	t.Logf("the suite took %s", time.Since(began).Round(time.Millisecond))
	require.Equal(t, 0, e.code, "%s\n%s", e.stdout, e.stderr)
	assert.Less(t, time.Since(began), limit)
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

// CONF-005: this host survives plugins that do not work at all, and some of
// those with one fault; the conformance step of the checks before a merge
// covers all of them.
func TestConformHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.launchLimit(time.Hour, "", built.ferment, "conform", "host",
		"--run", "hostile|answer-without-output|chatty|loses-calls|leaves-a-lock", "-o", "edn").wait()
	require.Equal(t, 0, e.code, "%s\n%s", e.stdout, e.stderr)
	assert.Greater(t, e.value(t).Key("checks").Len(), 15)
	assert.Equal(t, 2, w.run("conform", "host", "--run", "^x$").code)
}
