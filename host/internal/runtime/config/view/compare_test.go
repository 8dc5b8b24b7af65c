package view_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pairOf loads two versions of ferment.hcl in one directory.
func pairOf(t *testing.T, before, after string) (*config.Config, *config.Config) {
	t.Helper()
	dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "bin/second": "another", "a/f": "", "b/f": "", "ferment.hcl": before})
	load := func(text string) *config.Config {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.hcl"), []byte(text), 0o600))
		c, ds := configtest.LoadDir(t, filepath.Join(dir, "ferment.hcl"), config.Options{Key: []byte("k"), Env: configtest.SecretEnv("one")})
		require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
		return c
	}
	return load(before), load(after)
}

func rows(d view.Diff) []string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, strings.Join(c.Path, "/")+" "+string(c.Change)+" "+string(c.Action)+" "+string(c.Reload)+" "+c.Before.String()+" "+c.After.String())
	}
	return out
}

// HTTP-009, HCL-007: changes with their class, and the actions for plugins.
func TestCompare(t *testing.T) {
	for _, row := range []struct {
		name, before, after string
		rows                []string
		plugins             view.PluginActions
	}{
		{name: "nothing", before: configtest.ChessWith(""), after: configtest.ChessWith(""), plugins: view.PluginActions{Keep: []string{"chess"}}},
		{
			name: "only the writing", before: configtest.ChessWith("  queue = 40\n  env = { A = \"x\", B = \"y\" }"), after: "# a comment\nlocals {\n  n = 40\n}\n" + configtest.ChessWith("  env = { B = \"y\", A = \"x\" }\n  queue = local.n + 0"),
			plugins: view.PluginActions{Keep: []string{"chess"}},
		},
		{name: "a default that is written out", before: configtest.ChessWith(""), after: configtest.ChessWith("  queue = 32"), plugins: view.PluginActions{Keep: []string{"chess"}}},
		{
			name: "what the host uses", before: configtest.ChessWith("  queue = 32"), after: configtest.ChessWith("  queue = 40\n  health {\n    misses = 4\n  }"),
			rows:    []string{"plugin/chess/queue changed update U 32 40", "plugin/chess/health/misses changed update U 3 4"},
			plugins: view.PluginActions{Update: []string{"chess"}},
		},
		{
			name: "environment", before: configtest.ChessWith(""), after: configtest.ChessWith("  env = { A = \"x\" }"),
			rows: []string{`plugin/chess/env changed swap P {} {"A" "x"}`}, plugins: view.PluginActions{Replace: []string{"chess"}},
		},
		{
			name: "program", before: configtest.ChessWith(""), after: strings.Replace(configtest.ChessWith(""), "bin/chess", "bin/second", 1),
			rows:    []string{`plugin/chess/command changed swap P ["bin/chess"] ["bin/second"]`, `plugin/chess/binary changed swap P`},
			plugins: view.PluginActions{Replace: []string{"chess"}},
		},
		{
			name: "config", before: configtest.ChessWith("  config {\n    depth = 3\n    model \"a\" {\n      name = \"x\"\n    }\n  }"), after: configtest.ChessWith("  config {\n    depth = 4\n    model \"a\" {\n      name = \"y\"\n    }\n    model \"b\" {\n      name = \"z\"\n    }\n  }"),
			rows: []string{
				"plugin/chess/config/depth changed swap P 3 4", `plugin/chess/config/model/a/name changed swap P "x" "y"`, `plugin/chess/config/model/b added swap P nil {:name "z"}`,
			},
			plugins: view.PluginActions{Replace: []string{"chess"}},
		},
		{
			name: "another secret", before: configtest.ChessWith("  config {\n    api_key = secret(\"env:KEY\")\n  }"), after: configtest.ChessWith("  config {\n    api_key = secret(\"env:KEY2\")\n  }"),
			rows:    []string{`plugin/chess/config/api_key changed swap P "(secret env:KEY)" "(secret env:KEY2)"`},
			plugins: view.PluginActions{Replace: []string{"chess"}},
		},
		{name: "disabled", before: configtest.ChessWith(""), after: configtest.ChessWith("  enabled = false"), rows: []string{"plugin/chess/enabled changed swap P true false", "plugin/chess/binary removed swap P"}, plugins: view.PluginActions{Remove: []string{"chess"}}},
		{name: "enabled", before: configtest.ChessWith("  enabled = false"), after: configtest.ChessWith(""), rows: []string{"plugin/chess/enabled changed swap P false true", "plugin/chess/binary added swap P"}, plugins: view.PluginActions{Start: []string{"chess"}}},
		{
			name: "blocks", before: configtest.ChessWith("") + "check \"a\" {\n  builtin = \"json-valid\"\n}\n", after: configtest.ChessWith("") + "check \"b\" {\n  condition = true\n}\n\nplugin \"stockfish\" {\n  command = [\"bin/chess\"]\n  enabled = false\n}\n",
			rows: []string{"plugin/stockfish added add P", "check/a removed remove U", "check/b added add U"}, plugins: view.PluginActions{Keep: []string{"chess"}},
		},
		{
			name: "host", before: "ferment {\n  max_nodes = 5\n}\n", after: "ferment {\n  data_dir  = \"data\"\n  profile   = \"dev\"\n  max_nodes = 6\n  requires  = \">= 0.1\"\n}\n",
			rows: []string{`ferment/data_dir changed restart H "var" "data"`, `ferment/profile changed restart H "prod" "dev"`, `ferment/requires added update N nil ">= 0.1"`, "ferment/auto_reload changed update U false true", "ferment/max_nodes changed update U 5 6", `effects/enforcement changed update U "strict" "best-effort"`,
				"auth/required changed update U true false", `auth/anonymous_role changed update U "anonymous" "user"`,
				`telemetry/content changed update U "hash" "full"`,
				"session/vars/require_qualified changed update U true false", "session/vars/allowed_namespaces removed update U", "session/vars/frozen_write changed update U false true", "session/vars/frozen_delete changed update U false true",
			},
		},
		{
			name: "conditions and lists", before: "check \"a\" {\n  condition = result.n < 3\n}\n\ndispatch \"default\" {\n  checks = [\"a\"]\n}\n", after: "check \"a\" {\n  condition = result.n < 4\n  params    = { limit = 2 }\n}\n\ndispatch \"default\" {\n  checks = [\"a\", \"json-valid\"]\n}\n",
			rows: []string{
				`check/a/condition changed update U "result.n < 3" "result.n < 4"`, "check/a/params changed update U {} {:limit 2}", `dispatch/default/checks changed update U ["a"] ["a" "json-valid"]`,
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			before, after := pairOf(t, row.before, row.after)
			d := view.Compare(before, after)
			got := rows(d)
			if len(row.rows) == 0 {
				assert.Empty(t, got)
			}
			require.Len(t, got, len(row.rows), d.Text())
			for _, want := range row.rows {
				assert.True(t, containsPrefix(got, want), "%s\nin\n%s", want, strings.Join(got, "\n"))
			}
			assert.Equal(t, row.plugins, d.Plugins)
			assert.Equal(t, len(row.rows) == 0, d.Empty())
		})
	}
}

func containsPrefix(all []string, prefix string) bool {
	for _, s := range all {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// OPS-003: changes that require a restart are listed with both places.
func TestCompareRestart(t *testing.T) {
	before, after := pairOf(t, "ferment {\n  root = \"a\"\n}\n", "# moved\nferment {\n  root = \"b\"\n}\n")
	d := view.Compare(before, after)
	require.Len(t, d.Restart(), 1)
	c := d.Restart()[0]
	assert.Equal(t, "ferment.hcl:2:10", c.BeforeAt.String())
	assert.Equal(t, "ferment.hcl:3:10", c.AfterAt.String())
	assert.Equal(t, "! ferment, root: \"a\" -> \"b\"  (needs a restart of the host)  ferment.hcl:3:10\n\nplugins: none\n", d.Text())
	back, err := edn.ReadString(d.Value().String())
	require.NoError(t, err)
	assert.True(t, edn.Equal(d.Value(), back))
	assert.Contains(t, d.Value().String(), `:action :restart`)
}

// HCL-026, HCL-007: a rotated secret and a changed file are detected without showing
// their content; without a key a rotation is not detected.
func TestCompareSecrets(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "engine": "one", "ferment.hcl": configtest.ChessWith("  config {\n    engine  = \"uci\"\n    path    = \"engine\"\n    api_key = secret(\"env:KEY\")\n  }")})
	load := func(value, key string) *config.Config {
		c, ds := config.Load(context.Background(), filepath.Join(dir, "ferment.hcl"), config.Options{Describer: configtest.Describer{"chess": configtest.Chess()}, Env: configtest.SecretEnv(value), Key: []byte(key)})
		require.Empty(t, configtest.Types(ds))
		return c
	}
	d := view.Compare(load("canary-1", "k"), load("canary-2", "k"))
	assert.Equal(t, []string{`plugin/chess/config/api_key changed swap P "(secret env:KEY)" "(secret env:KEY), another value"`}, rows(d))
	assert.Equal(t, []string{"chess"}, d.Plugins.Replace)
	assert.NotContains(t, d.Text()+d.Value().String(), "canary")
	assert.True(t, view.Compare(load("canary-1", "k"), load("canary-1", "k")).Empty())
	assert.True(t, view.Compare(load("canary-1", ""), load("canary-2", "")).Empty())

	old := load("x", "k")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "engine"), []byte("two"), 0o600))
	d = view.Compare(old, load("x", "k"))
	assert.Equal(t, []string{`plugin/chess/config/path changed swap P "engine" "engine, another value"`}, rows(d))
	assert.Equal(t, []string{"chess"}, d.Plugins.Replace)

	old = load("x", "k")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/chess"), []byte("new program"), 0o700))
	d = view.Compare(old, load("x", "k"))
	require.Len(t, d.Changes, 1)
	assert.Equal(t, []string{"plugin", "chess", "binary"}, d.Changes[0].Path)
	assert.Equal(t, []string{"chess"}, d.Plugins.Replace)
}

// HCL-007: if one of 20 plugins changes, 19 are kept.
func TestCompareKeeps(t *testing.T) {
	var files strings.Builder
	names := make([]string, 0, 19)
	for _, c := range "abcdefghijklmnopqrst" {
		files.WriteString(strings.Replace(configtest.ChessWith(""), `"chess"`, `"`+string(c)+`"`, 1) + "\n")
		if c != 'k' {
			names = append(names, string(c))
		}
	}
	dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl": files.String()})
	load := func() *config.Config {
		c, ds := config.Load(context.Background(), filepath.Join(dir, "ferment.hcl"), config.Options{Describer: configtest.Describer{}, Env: configtest.NoEnv})
		require.Empty(t, configtest.Types(ds))
		return c
	}
	before := load()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "w"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.hcl"), []byte(strings.Replace(files.String(), "plugin \"k\" {", "plugin \"k\" {\n  workdir = \"w\"", 1)), 0o600))
	d := view.Compare(before, load())
	assert.Equal(t, view.PluginActions{Replace: []string{"k"}, Keep: names}, d.Plugins)
}
