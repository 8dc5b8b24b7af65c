package conformance

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// example is a report with one check of each status; the second failure is in
// the baseline.
func example() Report {
	check := func(id string) Check {
		for _, c := range Checks() {
			if c.ID == id {
				return c
			}
		}
		panic(id)
	}
	return Report{
		Suite: "1.1", Protocol: 1, Platform: "linux/amd64", Seed: 18446744073709551615,
		Began: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), Took: 1500 * time.Millisecond,
		Plugin: "sound", Version: "1.0.0", Hash: "b3:00",
		Command:  CommandLine{Flags: []string{"--config", "{:a 1}"}, Program: []string{"/bin/it's", "x"}},
		Profiles: []string{profileCore, profileJudge, profileTool},
		Baseline: &Baseline{IDs: []string{"judge/verdict/form", "core/describe/bare", "core/no/such"}},
		Results: []Result{
			{Check: check("core/describe/bare"), Status: Pass, Took: 12 * time.Millisecond},
			{Check: check("core/cancel/stops"), Status: Fail, Took: time.Second, Expected: "an end", Observed: "none \x00 <at all> ```", Evidence: []string{"line one"}},
			{Check: check("judge/verdict/score"), Status: Fault, Took: time.Millisecond, Expected: "x", Observed: "no room on the disk"},
			{Check: check("judge/verdict/form"), Status: Fail, Took: time.Millisecond, Expected: "a set", Observed: "a text"},
		},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644)) // part of the source
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run this test with -update")
}

// CONF-006: the formats of a report are stable, and each is valid.
func TestReportForms(t *testing.T) {
	r := example()
	text, err := r.JSON()
	require.NoError(t, err)
	golden(t, "report.json", text)
	assert.True(t, json.Valid(text))

	junit, err := r.JUnit()
	require.NoError(t, err)
	golden(t, "report.xml", junit)
	var suites junitSuites
	require.NoError(t, xml.Unmarshal(junit, &suites))
	assert.Equal(t, 5, suites.Tests, "four checks and the baseline")
	assert.Equal(t, 2, suites.Failures, "a known failure is none, a stale baseline is one")
	assert.Equal(t, 1, suites.Errors)

	golden(t, "report.md", r.Markdown())
}

// CONF-006: the report as data has a schema, which is part of its version.
func TestReportFitsItsSchema(t *testing.T) {
	s, err := schema.Compile(ReportSchema())
	require.NoError(t, err)
	text, err := edn.WriteJSON(s.JSONSchema())
	require.NoError(t, err)
	golden(t, "report.schema.json", append(text, '\n'))
	for name, r := range map[string]Report{
		"everything": example(),
		"nothing":    {},
		"a host":     {Command: CommandLine{Verb: "host"}, Results: []Result{{Check: Check{ID: "host/x/y"}, Status: Pass}}, Profiles: []string{"host"}},
	} {
		assert.Empty(t, s.Validate(r.Value()), name)
	}
}

// CONF-001: the outcome of a run.
func TestOutcome(t *testing.T) {
	pass := Result{Check: Check{ID: "core/a/b"}, Status: Pass}
	fail := Result{Check: Check{ID: "core/cancel/stops"}, Status: Fail}
	broken := Result{Check: Check{ID: "core/c/d"}, Status: Fault}
	known := &Baseline{IDs: []string{"core/cancel/stops"}}
	for name, tt := range map[string]struct {
		report Report
		want   Status
	}{
		"nothing checked":    {Report{}, Fail},
		"all passed":         {Report{Results: []Result{pass}}, Pass},
		"one failed":         {Report{Results: []Result{pass, fail}}, Fail},
		"known to fail":      {Report{Results: []Result{pass, fail}, Baseline: known}, Pass},
		"fails no more":      {Report{Results: []Result{{Check: fail.Check, Status: Pass}}, Baseline: known}, Fail},
		"known, not taken":   {Report{Results: []Result{pass}, Baseline: known}, Pass},
		"no such check":      {Report{Results: []Result{pass}, Baseline: &Baseline{IDs: []string{"core/no/such"}}}, Fail},
		"the harness failed": {Report{Results: []Result{fail, broken}}, Fault},
	} {
		assert.Equal(t, tt.want, tt.report.Outcome(), name)
	}
}

// The command of Reproduce can be passed to a shell.
func TestReproduce(t *testing.T) {
	assert.Equal(t, `ferment conform --seed 18446744073709551615 --profile judge --run '^judge/verdict/form$' --config '{:a 1}' -- '/bin/it'\''s' x`, example().reproduce("judge/verdict/form"))
	assert.Equal(t, `ferment conform host --run '^host/x/y$'`, Report{Command: CommandLine{Verb: "host"}}.reproduce("host/x/y"))
	assert.Empty(t, Report{}.reproduce("core/a/b"))
}

// A baseline has one id per line; an error names the line.
func TestParseBaseline(t *testing.T) {
	b, err := ParseBaseline("# known\ncore/a/b # why\n\n  core/c/d\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"core/a/b", "core/c/d"}, b.IDs)
	assert.True(t, b.Knows("core/a/b"))
	assert.False(t, (*Baseline)(nil).Knows("core/a/b"))
	for text, says := range map[string]string{
		"core/a/b core/c/d":  "line 1",
		"core/a/b\ncore/a/b": "line 2: core/a/b is listed twice",
	} {
		_, err := ParseBaseline(text)
		require.Error(t, err)
		assert.Contains(t, err.Error(), says)
	}
}

// A samples file is read completely, or rejected with the entry at fault.
func TestReadSamples(t *testing.T) {
	var o Options
	require.NoError(t, o.ReadSamples(edn.MustRead(`{:a/b {:x 1} :slow {:capability :c/d :input {:y 2}} :answers {:model/chat {:text "z"}}}`)))
	assert.Equal(t, `{:x 1}`, o.Samples["a/b"].String())
	assert.Equal(t, "c/d", o.Slow.Capability)
	assert.Equal(t, `{:y 2}`, o.Slow.Input.String())
	assert.Equal(t, `{:text "z"}`, o.Answers["model/chat"].String())
	for text, says := range map[string]string{
		`{"a/b" {}}`:       `"a/b" is not a keyword`,
		`{:ab {}}`:         ":ab is not the name of a capability or an intent",
		`{:a/b 7}`:         ":a/b is 7: expected the input, a map",
		`{:slow {}}`:       ":slow is {}",
		`{:answers 7}`:     ":answers is 7",
		`{:answers {7 8}}`: "7 is not a keyword",
	} {
		err := new(Options).ReadSamples(edn.MustRead(text))
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), says)
	}
}

// A cancelled run has no verdict, and neither has a fault of the harness.
func TestCancelledRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	report := Run(ctx, InProcess(sound()), Options{Only: regexp.MustCompile("^core/describe"), OnResult: func(Result) {
		if seen++; seen == 1 {
			cancel()
		}
	}})
	assert.Equal(t, Fault, report.Outcome())
	assert.Equal(t, Pass, report.Results[0].Status)
	assert.Equal(t, Fault, report.Results[1].Status)

	res := RunCheck(t.Context(), InProcess(sound()), Check{ID: "x/y/z", run: func(context.Context, *bench) error { return &fault{errors.New("no room")} }}, Options{})
	assert.Equal(t, Fault, res.Status)
	assert.Equal(t, "no room", res.Observed)
}

// The profiles follow from the description; a requested profile that does not
// apply to the plugin fails and is not skipped.
func TestProfileThatDoesNotApply(t *testing.T) {
	report := Run(t.Context(), InProcess(sound()), Options{Profiles: []string{profileJudge, profileHostCalls, profileStreaming}})
	assert.Equal(t, []string{profileJudge, profileStreaming, profileHostCalls}, report.Profiles)
	assert.Equal(t, Fail, report.Outcome())
	for _, p := range report.Profiles {
		assert.Positive(t, report.count(Fail, p), p)
	}
}
