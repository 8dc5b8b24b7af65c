package view_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// overlays writes a configuration in three directories, with a variable.
func overlays(t testing.TB) string {
	t.Helper()
	return configtest.Lay(t, map[string]string{
		"bin/chess": "program",
		"site/common/plugins.hcl": `plugin "chess" {
  command = ["../../bin/chess"]
  env     = { LANG = "C", TZ = "UTC" }

  config {
    engine = "builtin"
    depth  = tonumber(env("DEPTH", "6"))
  }

  restart { max = 4 }
}
`,
		"site/local/here.env": "DEPTH=8\n",
		"site/local/here.hcl": `plugin "chess" {
  env = { TZ = "Europe/Warsaw" }

  restart {
    max    = 2
    jitter = 0.5
  }
}
`,
		"site/common/dev/more.hcl": `plugin "chess" {
  optional = true

  restart { max = null }
}
`,
	})
}

// HCL-044: the merged output of three directories with every kind of origin.
func TestShowOrigins(t *testing.T) {
	dir := overlays(t)
	c, ds := configtest.LoadDir(t, filepath.Join(dir, "site"), config.Options{Profile: "dev"})
	require.Empty(t, ds)
	text, err := view.Show(c, view.ShowOptions{Origins: true, Only: "plugin.chess"})
	require.NoError(t, err)
	assert.Equal(t, `plugin "chess" {
  command  = ["../bin/chess"]                     # common/plugins.hcl:2
  optional = true                                 # common/dev/more.hcl:2
  env      = { LANG = "C", TZ = "Europe/Warsaw" } # LANG common/plugins.hcl:3, TZ local/here.hcl:2

  config {
    engine = "builtin" # common/plugins.hcl:6
    depth  = 8         # common/plugins.hcl:7, DEPTH from local/here.env:1
  }

  restart {
    max    = 5   # default, reset by common/dev/more.hcl:4 (was 2 from local/here.hcl:5, 4 from common/plugins.hcl:10)
    jitter = 0.5 # local/here.hcl:6
  }
}
`, text)
	assert.Equal(t, 5, c.Plugins[0].Restart.Max)
	assert.Equal(t, map[string]string{"LANG": "C", "TZ": "Europe/Warsaw"}, c.Plugins[0].Env)
	assert.Equal(t, `{:depth 8 :engine "builtin"}`, c.Plugins[0].Config.String())

	c, ds = configtest.LoadDir(t, filepath.Join(dir, "site"), config.Options{Env: configtest.SecretEnv("x"), Profile: "prod"})
	require.Empty(t, ds)
	text, err = view.Show(c, view.ShowOptions{Origins: true, Only: "plugin.chess.restart.max"})
	require.NoError(t, err)
	assert.Equal(t, "plugin \"chess\" {\n\n  restart {\n    max = 2 # local/here.hcl:5 (was 4 from common/plugins.hcl:10)\n  }\n}\n", strings.Replace(text, "{\n  restart", "{\n\n  restart", 1))
}

// HCL-005: parts of the configuration, and an unknown name.
func TestShowOnly(t *testing.T) {
	c, ds := configtest.Load(t, configtest.Sample)
	require.Empty(t, ds)
	show := func(only string) string {
		text, err := view.Show(c, view.ShowOptions{Only: only})
		require.NoError(t, err)
		return text
	}
	assert.Equal(t, "dispatch \"quality_first\" {\n  retry {\n    fallback = 2\n  }\n}\n", show("dispatch.quality_first.retry"))
	assert.Contains(t, show("intent.chess/best-move"), `candidates = ["chess/stockfish", "chess/embedded"]`)
	assert.Equal(t, 2, strings.Count(show("plugin"), "plugin \""))
	_, err := view.Show(c, view.ShowOptions{Only: "plugin.chss"})
	var unknown *view.UnknownPathError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, "plugin.chess", unknown.Nearest)
	v, err := view.ShowValue(c, view.ShowOptions{Only: "plugin.chess", Origins: true})
	require.NoError(t, err)
	assert.Contains(t, v.String(), `"depth" {:origin "ferment.hcl:17" :value 8}`)
}

// A secret is shown as its reference, never as its value.
func TestShowSecret(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "local/key": "canary-9", "local/a.hcl": strings.Replace(configtest.ChessWith("  config {\n    api_key = secret(\"file:key\")\n  }"), "bin/", "../bin/", 1)})
	c, ds := configtest.LoadDir(t, dir, config.Options{})
	require.Empty(t, configtest.Types(ds))
	for o, want := range map[view.ShowOptions]string{
		{}: `"(secret file:local/key)"`, {Origins: true, Defaults: true}: `"(secret file:local/key)"`, {Flat: true}: `secret("file:local/key")`,
	} {
		text, err := view.Show(c, o)
		require.NoError(t, err)
		assert.Contains(t, text, "api_key = "+want)
		v, err := view.ShowValue(c, o)
		require.NoError(t, err)
		assert.NotContains(t, text+v.String(), "canary")
	}
}

// reloaded loads the flat form of a configuration.
func reloaded(t testing.TB, c *config.Config, opts config.Options) *config.Config {
	t.Helper()
	flat, err := view.Show(c, view.ShowOptions{Flat: true})
	require.NoError(t, err)
	path := filepath.Join(c.Root, "flat.hcl")
	require.NoError(t, os.WriteFile(path, []byte(flat), 0o600))
	back, ds := config.Load(context.Background(), path, opts)
	require.Empty(t, configtest.Types(ds), "%s\n%s", back.Report(0).Text(false), flat)
	assert.Equal(t, c.Hash, back.Hash, flat)
	if c.Hash != back.Hash {
		assert.Empty(t, view.Compare(c, back).Text())
	}
	return back
}

// OPS-009: values weaker than in prod, by profile or by attribute.
func TestWeaker(t *testing.T) {
	weaker := func(text, profile string) []string {
		c, ds := config.Load(context.Background(), configtest.Write(t, text), config.Options{Env: configtest.NoEnv, Profile: profile})
		require.Empty(t, configtest.Types(ds))
		var out []string
		for _, w := range view.Weaker(c) {
			at := "profile"
			if w.At != nil {
				at = w.At.String()
			}
			out = append(out, fmt.Sprintf("%s %s %s %s", strings.Join(w.Path, "."), w.Value, w.Prod, at))
		}
		return out
	}
	assert.Empty(t, weaker("", "prod"))
	c, ds := config.Load(context.Background(), configtest.Write(t, ""), config.Options{Env: configtest.NoEnv, Profile: "test"})
	require.Empty(t, configtest.Types(ds))
	for _, w := range view.Weaker(c) {
		if strings.Join(w.Path, ".") == "http.limits.act_rate" {
			assert.Equal(t, `"100000/s" "20/s"`, w.Written+" "+w.ProdWritten, "as somebody would write it")
		}
	}
	assert.Contains(t, weaker("", "dev"), "ferment.auto_reload true false profile")
	assert.Equal(t, []string{"ferment.auto_reload true false ferment.hcl:2:17"}, weaker("ferment {\n  auto_reload = true\n}\n", "prod"))
	assert.NotContains(t, strings.Join(weaker("ferment {\n  auto_reload = false\n}\n", "dev"), ""), "auto_reload")
	assert.Empty(t, weaker("http {\n  listen = [\"127.0.0.1:9\"]\n}\n", "prod"), "another address of this machine")
}

// HCL-044: the hash of the config of a disabled plugin, which is not decoded, changes
// with its values but not with its layout.
func TestLayoutOfForeignBlocks(t *testing.T) {
	off := func(config string) *config.Config {
		c, ds := configtest.Load(t, "plugin \"off\" {\n  command = [\"bin/off\"]\n  enabled = false\n  config {\n"+config+"\n  }\n}\n")
		require.Empty(t, configtest.Types(ds))
		return c
	}
	one := off(`model "voice" { intents = ["a/b", "c/d"] }`)
	same := off("    # the voice\n    model \"voice\" {\n      intents = [\n        \"a/b\",   \"c/d\"\n      ]\n    }")
	assert.Equal(t, one.Hash, same.Hash)
	assert.True(t, view.Compare(one, same).Empty())
	for _, other := range []string{
		`model "voice" { intents = ["a/b", "c/e"] }`,
		`model "other" { intents = ["a/b", "c/d"] }`,
		`model "voice" { intents = ["a/bc/d"] }`,
		`model "voice" { intents = ["a/b"," c/d"] }`,
	} {
		assert.NotEqual(t, one.Hash, off(other).Hash, other)
	}
	back := reloaded(t, one, config.Options{Env: configtest.NoEnv})
	assert.Equal(t, one.Hash, back.Hash)
}
