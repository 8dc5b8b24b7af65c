package config_test

import (
	"context"
	"os"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// HCL-043: load of a 64 KiB file against the parser of the library.
func BenchmarkLoad64KiB(b *testing.B) {
	text := configtest.Large()
	dir := b.TempDir()
	path := dir + "/ferment.hcl"
	if err := os.MkdirAll(dir+"/bin", 0o755); err != nil {
		b.Fatal(err)
	}
	for name, content := range map[string]string{path: text, dir + "/bin/chess": "x"} {
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("load", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			c, ds := config.Load(context.Background(), path, config.Options{Describer: configtest.Describer{"chess": configtest.Chess(), "stockfish": configtest.Chess()}, Env: configtest.NoEnv})
			if ds.HasErrors() {
				b.Fatal(c.Report(5).Text(false))
			}
		}
	})
	b.Run("hclsyntax", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, diags := hclsyntax.ParseConfig([]byte(text), "x", hcl.InitialPos); diags.HasErrors() {
				b.Fatal(diags)
			}
		}
	})
}
