package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// checkLimit stops a hanging check of a generated project.
const checkLimit = 10 * time.Minute

// project creates a plugin project with the program and returns its folder.
func project(t *testing.T, kind, lang string) string {
	t.Helper()
	w := newWorld(t)
	name := "my-" + kind
	out := w.run("plugin", "new", name, "--kind", kind, "--lang", lang, "--sdk", built.module)
	require.Zero(t, out.code, "%s%s", out.stdout, out.stderr)
	assert.Contains(t, out.stdout, "./check")
	return filepath.Join(w.dir, name)
}

// check runs the unedited continuous integration of the project.
func check(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), checkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "check"))
	compiled, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output() // below XDG_CACHE_HOME by default
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "GOCACHE="+strings.TrimSpace(string(compiled)), "FERMENT="+built.ferment, "GOFLAGS=-trimpath", "GOWORK=",
		"XDG_RUNTIME_DIR="+filepath.Join(built.root, "rt"), "XDG_CACHE_HOME="+filepath.Join(built.home, "cache"))
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// triedIn are the kinds that are always tried, by language: each kind in one
// language, and Go only once, because its projects take two builds each. All
// combinations are the full proof.
var triedIn = map[string][]string{
	scaffold.Go:     {"solver"},
	scaffold.Python: {"llm", "judge"},
	scaffold.Node:   {"checker", "tool"},
}

func kindsToTry(lang string) []string { return proof.Of(triedIn[lang], scaffold.Kinds()) }

// SDK-005: triedIn covers every kind and every language.
func TestEveryKindIsTried(t *testing.T) {
	t.Parallel()
	var kinds, langs []string
	for lang, tried := range triedIn {
		langs, kinds = append(langs, lang), append(kinds, tried...)
	}
	assert.ElementsMatch(t, scaffold.Kinds(), kinds)
	assert.ElementsMatch(t, scaffold.Langs(), langs)
}

// SDK-005: an impossible project is rejected in one sentence, and no file is
// left behind.
func TestNewPluginRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "taken/file", "kept", "file", "kept")
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no kind", []string{"fine"}, 2, "plugin new needs --kind: solver, llm, judge, checker or tool"},
		{"no name", []string{"--kind", "tool"}, 2, "expected ferment plugin new NAME"},
		{"unknown kind", []string{"fine", "--kind", "solvr"}, 2, `error: new plugin: unknown kind "solvr": expected one of solver, llm, judge, checker, tool; did you mean solver?`},
		{"unknown language", []string{"fine", "--kind", "tool", "--lang", "rust"}, 2, `error: new plugin: unknown language "rust": expected one of go, python, node`},
		{"bad name", []string{"Not_A_Name", "--kind", "tool"}, 2, `the name "Not_A_Name" is not 1 to 40 of a-z`},
		{"a path", []string{"../up", "--kind", "tool"}, 2, `error: new plugin: the name "../up"`},
		{"a folder that is there", []string{"taken", "--kind", "tool", "--sdk", built.module}, 6, "taken already exists"},
		{"a file that is there", []string{"file", "--kind", "tool", "--sdk", built.module}, 6, "file already exists"},
		{"no parent", []string{"fine", "--kind", "tool", "--sdk", built.module, "--dir", "no/such/folder"}, 3, "no such file or directory"},
		{"no checkout", []string{"fine", "--kind", "tool", "--sdk", "taken"}, 2, "taken is not a checkout of ferment"},
		{"no checkout, what to do", []string{"fine", "--kind", "tool", "--sdk", "taken"}, 2, "name the folder of a checkout of ferment with --sdk"},
		{"no release", []string{"fine", "--kind", "tool"}, 2, "name a checkout of ferment with --sdk"},
		{"no interpreter", []string{"fine", "--kind", "tool", "--lang", "node", "--interpreter", "no-such-node"}, 3, "no program no-such-node"},
		{"interpreter of Go", []string{"fine", "--kind", "tool", "--interpreter", "python3"}, 2, "a plugin in Go has no interpreter"},
		{"no file for an interpreter", []string{"fine", "--kind", "tool", "--lang", "node", "--interpreter", "/nowhere/node"}, 3, "no program /nowhere/node"},
		{"no program for an interpreter", []string{"fine", "--kind", "tool", "--lang", "python", "--interpreter", "./file"}, 3, "/file: permission denied"},
		{"a folder for an interpreter", []string{"fine", "--kind", "tool", "--lang", "python", "--interpreter", "./taken"}, 3, "/taken: is a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := w.run(append([]string{"plugin", "new"}, tt.args...)...)
			assert.Equal(t, tt.code, out.code, "%s%s", out.stdout, out.stderr)
			assert.Empty(t, out.stdout)
			assert.Contains(t, out.stderr, tt.says)
			left, err := os.ReadDir(w.dir)
			require.NoError(t, err)
			assert.Len(t, left, 2, "%v", left)
		})
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "taken", "file"))
	require.NoError(t, err)
	assert.Equal(t, "kept", string(text))

	out := w.run("plugin", "new", "fine", "--kind", "judge", "--lang", "python", "--interpreter", built.ferment, "--dir", "other", "--edn")
	require.Zero(t, out.code, "%s", out.stderr)
	assert.Equal(t, `:judge`, out.value(t).Key("kind").String())
	assert.FileExists(t, filepath.Join(w.dir, "other", "plugin.py"))
}

// lastIndented returns the last command of a README: how to try the plugin.
func lastIndented(readme string) string {
	last := ""
	for line := range strings.Lines(readme) {
		if command, ok := strings.CutPrefix(line, "    ferment "); ok {
			last = "ferment " + strings.TrimSpace(command)
		}
	}
	return last
}
