//go:build slow

package view_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// HCL-044: the flat form loads to the same hash for every attribute at the bounds of
// its range.
func TestFlatReloads(t *testing.T) {
	opts := config.Options{Describer: configtest.Describer{"chess": configtest.Chess(), "stockfish": configtest.Chess()}, Env: configtest.NoEnv}
	for _, text := range []string{
		configtest.Sample,
		"locals {\n  s = { a = [1, 2.5], b = null, c = \"$${x} %%{y} \\\" \\\\ \\n \\u00e9\" }\n}\n\n" +
			configtest.ChessWith("  config {\n    extra {\n      a = local.s\n    }\n  }"),
		"schema \"a/b\" {\n  spec = edn(\"[:map [:k {:optional true} [:enum :x \\\"y\\\"]]]\")\n}\n\ncheck \"m\" {\n  condition = <<-EOT\n    $${result.a}\n  EOT\n  message   = <<-EOT\n    at most ${1 + 1} \"words\"\n  EOT\n}\n",
		configtest.ChessWith("  config {\n    engine = \"uci\"\n    path   = \"engine\"\n    extra {\n      a = { x = 1 }\n      b = [true, \"s\"]\n      c = edn(\"#{:k}\")\n    }\n    model \"A b\" {\n      name = \"n\"\n    }\n  }"),
	} {
		c, ds := configtest.Load(t, text)
		if ds.HasErrors() { // the invalid condition
			text = strings.Replace(text, "<<-EOT\n    $${result.a}\n  EOT", "result.a", 1)
			c, ds = configtest.Load(t, text)
		}
		require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
		reloaded(t, c, opts)
	}
	tried := 0
	for _, w := range configtest.EveryAttribute() {
		good, _, _ := configtest.ValuesOf(w.Attr.Type)
		for _, v := range good {
			c, ds := configtest.Load(t, w.File(v))
			if ds.HasErrors() || w.Chain[0].Name == "include" {
				continue
			}
			reloaded(t, c, opts)
			tried++
		}
	}
	assert.Greater(t, tried, 80)
	dir := overlays(t)
	for _, profile := range language.Profiles() {
		c, ds := configtest.LoadDir(t, filepath.Join(dir, "site"), config.Options{Profile: profile})
		require.Empty(t, ds)
		back := reloaded(t, c, opts)
		assert.Equal(t, profile, back.Profile)
		assert.True(t, view.Compare(c, back).Empty())
	}
}
