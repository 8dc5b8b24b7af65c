package cli_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// A misspelled command or flag gets the nearest one as hint.
func TestNearestWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct {
		args []string
		hint string
	}{
		{[]string{"atc"}, "ferment act"},
		{[]string{"budget"}, "ferment admin budget"},
		{[]string{"lock"}, "ferment plugin lock"},
		{[]string{"plugin", "lst"}, "ferment plugin list"},
		{[]string{"admin", "budget", "sho"}, "ferment admin budget show"},
		{[]string{"act", "--deadlin", "1s"}, "--deadline"},
	} {
		got := w.run(append(tt.args, "--edn")...)
		assert.Equal(t, 2, got.code, tt.args)
		v, err := edn.ReadString(got.stderr)
		if assert.NoError(t, err, got.stderr) {
			assert.Contains(t, plain(v.Key("error").Key("hint")), tt.hint)
		}
	}
	got, version := w.run("--version"), w.run("version")
	assert.Equal(t, version, got)
}

func plain(v edn.Value) string { s, _ := v.AsString(); return s }

// Input on the command line may be JSON. Errors show class, source and policy
// only with --verbose.
func TestTypedInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine")+"\nintent \"t/a\" {\n  in  = \"req/any\"\n  out = \"res/any\"\n}\n",
		"mine.edn", script(":mine/a", ":t/a", ":in-schema :req/any :out-schema :res/any",
			`{:template {:n "{{input.n}}" :list "{{input.list}}"}}`))
	asEDN := w.run("act", "t/a", "{:n 1 :list [1 2]}", "--edn")
	assert.Zero(t, asEDN.code, asEDN.stderr)
	out := func(e ended) edn.Value { return e.value(t).Key("result").Key("out") }
	for _, args := range [][]string{{`{"n": 1, "list": [1, 2]}`}, {"{}", "--bind", "n=1", "--bind", "list=[1, 2]"}} {
		got := w.run(append([]string{"act", "t/a", "--edn"}, args...)...)
		assert.Zero(t, got.code, got.stderr)
		assert.Equal(t, out(asEDN).String(), out(got).String())
	}
	got := w.run("act", "t/a", `{"n": 1,}`, "--edn")
	assert.Equal(t, 2, got.code)
	assert.Contains(t, got.stderr, ":column 9")

	write := []string{"act", "t/a", "{:n 1}", "--effects", "fs/oops"}
	brief, verbose := w.run(write...), w.run(append(write, "--verbose")...)
	assert.Equal(t, 2, brief.code, brief.stderr)
	assert.Less(t, len(brief.stderr), len(verbose.stderr))
}

// OPS-001, CLI-001: the reasons why a daemon is not ready are in its log, in
// its status and in the exit code, and the log has no "ready".
func TestServingButNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+shipped("sat", "sat",
		"isolation {\n  exec = [\"/usr/bin\"]\n}", "config {\n  solver = \"cadical\"\n  path   = \"/no/such/cadical\"\n}"))
	s := w.start("", "serve")
	line, _, ok := s.logged(0, said("serving, not ready"))
	require.True(t, ok)
	assert.Contains(t, fmt.Sprint(line["because"]), "/no/such/cadical")
	status := w.run("status")
	assert.Equal(t, 1, status.code)
	assert.Regexp(t, `^not ready, profile test(?s:.*)\n  because: sat is degraded(?s:.*)/no/such/cadical`, status.stdout)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	got := s.wait()
	assert.Zero(t, got.code, got.stderr)
	assert.NotContains(t, got.stderr, `"@message":"ready"`)
}

// HTTP-008, CLI-001: status shows a refused reload, with the reason, until one
// succeeds.
func TestStatusShowsRefusedReload(t *testing.T) {
	t.Parallel()
	w := twoPlugins(t, "")
	s := w.serve()
	assert.NotContains(t, w.run("status").stdout, "reload:")
	w.rewrite("ferment.hcl", "command", "comand")
	refused := w.run("admin", "reload")
	assert.Equal(t, 1, refused.code, refused.stdout)
	status := w.run("status")
	assert.Zero(t, status.code, "the configuration in force serves on")
	assert.Regexp(t, `(?m)^reload:   refused \d+s ago: .+`, status.stdout)
	w.rewrite("ferment.hcl", "comand", "command")
	require.Zero(t, w.run("admin", "reload").code)
	assert.NotContains(t, w.run("status").stdout, "reload:")
	s.stop()
}

// HCL-008: an unknown capability is an error with the nearest name.
func TestExplainUnknownCapability(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine"),
		"mine.edn", script(":mine/first", ":t/a", ":in-schema :req/any :out-schema :res/any", "{:value {}}"))
	got := w.run("explain", "t/a", "--capability", "mine/frist", "--edn")
	assert.Equal(t, 5, got.code, got.stderr)
	v, err := edn.ReadString(got.stderr)
	require.NoError(t, err, got.stderr)
	assert.Equal(t, ":cap/not-found", v.Key("error").Key("type").String())
	assert.Contains(t, plain(v.Key("error").Key("hint")), "mine/first")
	assert.Zero(t, w.run("explain", "t/a", "--capability", "mine/first").code)
}

// RUN-006: the policy of an intent without a deadline names the deadline of a run.
func TestExplainDefaultDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine"),
		"mine.edn", script(":mine/first", ":t/a", ":in-schema :req/any :out-schema :res/any", "{:value {}}"))
	var deadlines []string
	for row := range w.run("explain", "t/a", "--edn").value(t).Key("policy").Elems() {
		if plain(row.Key("field")) == ":deadline-ms" {
			deadlines = append(deadlines, row.Key("value").String())
		}
	}
	assert.Equal(t, []string{"120000"}, deadlines)
}
