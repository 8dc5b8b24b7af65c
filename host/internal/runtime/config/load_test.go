package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// describer answers from a table of plugin names.
type describer map[string]contract.Description

func (d describer) Describe(_ context.Context, p Plugin, _ edn.Value) (contract.Description, error) {
	return d[p.Name], nil
}

func chess() contract.Description {
	return contract.Description{
		Name: "chess", Version: "1.0.0",
		Capabilities: []contract.Capability{{
			ID: "chess/engine", Kind: "solver", Version: "1.0.0", Intents: []string{"chess/best-move"}, CanProduce: []string{"value"}, Effects: []string{"none"},
			InSchema: contract.SchemaRef{Name: "req/chess.position"}, OutSchema: contract.SchemaRef{Name: "res/chess.move+pv+eval"}, Stability: "stable",
		}},
		Schemas: map[string]edn.Value{"req/chess.position": edn.MustRead(`[:map [:fen :string]]`)},
		ConfigSchema: edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true}
			[:engine {:default "builtin" :doc "search engine"} [:enum "builtin" "uci"]]
			[:depth {:default 6 :doc "search depth in plies"} [:int {:min 1 :max 64}]]
			[:path {:optional true :unit :path :when {:engine "uci"}} :string]
			[:api-key {:optional true :secret true} :string]
			[:model {:block true :labels 1 :optional true} [:map-of {:max 32} :string [:map {:closed true} [:name :string]]]]
			[:extra {:block true :free true :optional true} [:map-of :string :any]]]}`),
	}
}

// write creates a directory with the file and a program for the plugins.
func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "chess"), []byte("program"), 0o755))
	path := filepath.Join(dir, "ferment.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func load(t *testing.T, text string) (*Config, Diagnostics) {
	t.Helper()
	return Load(context.Background(), write(t, text), Options{Describer: describer{"chess": chess(), "stockfish": chess()}, Env: noEnv})
}

func noEnv(string) (string, bool) { return "", false }

const sample = `check "short" {
  condition = length(try(result.text, "")) <= 1200
  message   = "keep it below 1200 characters"
}

dispatch "quality_first" {
  switch_on = ["eval/must-failed", "eval/low-score", "timeout/hard", "runtime/crashed", "runtime/not-ready"]
  checks    = [check.short]

  retry { fallback = 2 }
}

plugin "chess" {
  command = ["bin/chess"]

  config {
    depth = 8
  }
}

plugin "stockfish" {
  command = ["bin/chess"]
}

capability "chess/embedded" {
  plugin   = "chess"
  provides = "chess/engine"
}

capability "chess/stockfish" {
  plugin   = plugin.stockfish
  provides = "chess/engine"
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/stockfish", capability["chess/embedded"]]
  dispatch   = dispatch.quality_first

  done { must = ["schema-valid"] }
}
`

// HCL-006, HCL-029: one file is a complete configuration.
func TestLoadSample(t *testing.T) {
	c, ds := load(t, sample)
	require.Empty(t, ds, newReport(ds, 0, 1, 0).Text(false))
	require.NotNil(t, c.Generation)
	assert.Equal(t, []string{"chess/stockfish", "chess/embedded"}, c.Generation.Registry.Candidates("chess/best-move"))
	assert.Equal(t, `{:depth 8 :engine "builtin"}`, c.Plugins[0].Config.String())
	p, err := c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, 2, p.FallbackMax)
	assert.Equal(t, []string{"schema-valid", "short"}, p.Must)
}
