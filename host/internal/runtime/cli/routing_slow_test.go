//go:build slow

package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// RTE-008: every intent of the shipped configuration under every profile, declared or not, once
// without and once with a provider of language models. Use -update after a
// change, and look at the difference.
func TestRoutingMatrix(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	var matrix edn.MapBuilder
	for _, models := range []struct {
		name string
		env  []string
	}{{"without-models", nil}, {"with-models", []string{"OPENAI_API_KEY=none"}}} {
		w := newWorld(t, "ferment.hcl", string(config))
		w.env = append(w.env, models.env...)
		require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
		require.Equal(t, 0, w.run("plugin", "lock").code)
		exported := w.run("protocol", "export", "--local", "--edn")
		require.Equal(t, 0, exported.code, exported.stderr)
		var rows edn.MapBuilder
		for name := range exported.value(t).Key("intents").Entries() {
			intent, _ := name.AsKeyword()
			got := w.run("explain", intent, "--local", "--edn")
			require.Equal(t, 0, got.code, got.stderr)
			rows.Key(intent, matrixRow(t, got.value(t)))
		}
		matrix.Key(models.name, rows.Map())
	}
	text := string(edn.WritePretty(matrix.Map(), edn.PrettyOptions{})) + "\n"
	file := filepath.Join("testdata", "routing-matrix.edn")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "look at the difference, then -update")
}
