package view_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// FuzzJSON: any text is parsed or rejected, and a parsed body is decoded without a
// panic (HCL-012).
func FuzzJSON(f *testing.F) {
	for _, s := range []string{configtest.JSONSample, `{}`, `[]`, `[{"plugin": {}}]`, `{"a": {"b": [1, "${x}", null]}}`, `{"ferment": {"seed": "${1 + }"}}`, `{"locals": {"a": "%{ if true }x%{ endif }", "b": "$${x} \\ \" \n"}}`, `{"plugin": {"chess": [{"command": "${[\"bin/chess\"]}", "config": [{"depth": 1}, {"depth": 2}]}]}}`, `{"check": {"a": {"condition": "${<<EOT\nx\nEOT\n}"}}}`, "{\"//\": 1, \"a\": \"\\u0000\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 8192 {
			return
		}
		loadFiles(t, filepath.Join(t.TempDir(), "x.hcl.json"), raw)
		f := view.Format("x.hcl.json", raw)
		if f.Diagnostics.HasErrors() {
			return
		}
		if again := view.Format("x.hcl.json", f.After); again.Diagnostics.HasErrors() || again.Changed() {
			t.Fatalf("%q became %q, then %q", raw, f.After, again.After)
		}
	})
}

// FuzzOverlays: files of three directories merge and decode without a panic (HCL-014).
func FuzzOverlays(f *testing.F) {
	f.Add([]byte(configtest.Sample), []byte("locals {\n  n = 1\n  e = { C = \"4\" }\n}\n"), []byte("ferment {\n  seed = null\n}\n"))
	f.Add([]byte("plugin \"a\" {\n  env = { A = 1 }\n  config {\n    x = 1\n    y \"l\" {}\n  }\n}\n"), []byte("plugin \"a\" {\n  env = { (local.a) = 2 }\n}\n"), []byte("plugin \"a\" {\n  config = 3\n}\n"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		if len(a)+len(b)+len(c) > 8192 {
			return
		}
		dir := t.TempDir()
		loadFiles(t, dir, a, b, c)
	})
}

// loadFiles writes the texts to a file, or to the layers of a directory, and loads it.
func loadFiles(t *testing.T, path string, texts ...[]byte) {
	t.Helper()
	names := []string{path}
	if len(texts) > 1 {
		names = []string{filepath.Join(path, "ferment.hcl"), filepath.Join(path, "common", "b.hcl"), filepath.Join(path, "local", "c.hcl")}
	}
	for i, text := range texts {
		require.NoError(t, os.MkdirAll(filepath.Dir(names[i]), 0o755))
		require.NoError(t, os.WriteFile(names[i], text, 0o600))
	}
	c, _ := config.Load(context.Background(), path, config.Options{Env: configtest.NoEnv})
	_, err := view.Show(c, view.ShowOptions{Defaults: true, Origins: true})
	require.NoError(t, err)
	require.True(t, view.Compare(c, c).Empty())
}
