package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/edn"
)

// samples are the fenced blocks of a document, by language.
func samples(t *testing.T, path, language string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	require.NotEmpty(t, out, "%s has no %s sample", path, language)
	return out
}

// HCL-011: configuration samples are valid and in the layout of fmt.
func TestReadmeConfigurationSamples(t *testing.T) {
	for _, sample := range samples(t, "../README.md", "hcl") {
		dir := t.TempDir()
		path := filepath.Join(dir, "ferment.hcl")
		require.NoError(t, os.WriteFile(path, []byte(sample), 0o644))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin/plugins"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/plugins/scripted"), nil, 0o755))
		_, diagnostics := config.Load(t.Context(), path, config.Options{})
		for _, d := range diagnostics {
			assert.NotEqual(t, config.SeverityError, d.Severity, "%s", d.Text())
		}
		assert.Equal(t, sample, string(config.Format("README.md", []byte(sample)).After))
	}
}

// Plan samples can be read as plans.
func TestReadmePlanSamples(t *testing.T) {
	for _, sample := range samples(t, "../README.md", "edn") {
		v, positions, err := edn.ReadWithPositions([]byte(sample))
		require.NoError(t, err)
		p, findings := plan.Parse(v, positions)
		assert.NotNil(t, p)
		assert.False(t, plan.HasErrors(findings), "%v", findings)
	}
}

// Files that the README names are there.
func TestReadmeNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`\b(?:examples|host|plugins|sdk)/[\w./-]+`).FindAllString(string(text), -1) {
		_, err := os.Stat(filepath.Join("..", strings.TrimRight(name, "./")))
		assert.NoError(t, err)
	}
}

// EMB-009: what a reader of the README types first, on a machine with nothing in
// its environment.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	want := map[string]string{
		"chess/best-move":   `:mate 1 :move "d1d8"`,
		"sat/solve":         `{:model [-1 2] :status :sat}`,
		"context/summarize": "Bees dance in the dark of the hive.\n",
		"text/render":       "Hello, world\n",
		"route/classify":    ":intent :context/summarize\n",
		"eval/grade":        ":score 0.75M\n",
	}
	seen := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^bin/ferment act (\S+) .*$`).FindAllStringSubmatch(string(text), -1) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line[0])
		cmd.Dir, cmd.Env = "..", []string{"HOME=" + t.TempDir(), "PATH="}
		cmd.Path = "/bin/sh"
		out, err := cmd.Output()
		require.NoError(t, err, line[0])
		require.NotEmpty(t, want[line[1]], "%s: %s", line[0], out)
		assert.Contains(t, string(out), want[line[1]], line[0])
		seen[line[1]] = true
	}
	assert.Len(t, seen, len(want))
}
