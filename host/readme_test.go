package main

import (
	"os"
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
