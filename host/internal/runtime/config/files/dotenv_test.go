package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// HCL-017: later files override earlier ones, the process environment overrides
// all; the variables are visible to expressions and the profile, never to plugins.
func TestEnvOrder(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{
		"ferment.hcl": "ferment {\n  seed      = tonumber(env(\"SEED\"))\n  max_nodes = tonumber(env(\"NODES\"))\n  max_depth = tonumber(env(\"DEPTH\"))\n}\n",
		".env":        "SEED=1\nNODES=11\nDEPTH=5\nFERMENT_PROFILE=dev\n", "common/a.env": "SEED=2\n", "common/b.env": "SEED=3\nNODES=12\n", "local/z.env": "NODES=13\n", "local/dev/z.env": "NODES=14\n", "common/.hidden.env": "SEED=9\n",
	})
	c, ds := configtest.LoadDir(t, dir, config.Options{Env: func(name string) (string, bool) { return "6", name == "DEPTH" }})
	require.Empty(t, ds)
	assert.Equal(t, []any{int64(3), 13, 6, "prod"}, []any{c.Host.Seed, c.Host.MaxNodes, c.Host.MaxDepth, c.Profile})
	c, ds = configtest.LoadDir(t, dir, config.Options{Profile: "dev"})
	require.Empty(t, ds)
	assert.Equal(t, 14, c.Host.MaxNodes)
	require.Len(t, c.Inputs, 3)
	for _, in := range c.Inputs {
		assert.Equal(t, "env", in.Kind)
		assert.Len(t, in.Hash, 64)
	}
}

// HCL-017, HCL-026: a secret from a file that other users may read is a warning.
func TestEnvSecret(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl": configtest.ChessWith("  config {\n    api_key = secret(\"env:TOKEN\")\n  }"), "a.env": "TOKEN=canary-5\n"})
	path := filepath.Join(dir, "a.env")
	c, ds := configtest.LoadDir(t, dir, config.Options{})
	require.Empty(t, ds, c.Report(0).Text(false))
	assert.Equal(t, "canary-5", configtest.SecretText(t, c.Plugins[0]))
	require.NoError(t, os.Chmod(path, 0o644))
	c, ds = configtest.LoadDir(t, dir, config.Options{})
	require.Empty(t, configtest.Types(ds))
	require.Len(t, ds, 1)
	assert.Equal(t, "config/secret-missing", ds[0].Type)
	text := c.Report(0).Text(false)
	assert.Contains(t, text, "see: a.env:1:1 sets it\n  next: chmod 600 a.env\n")
	assert.NotContains(t, text, "canary")
	_, ds = configtest.LoadDir(t, dir, config.Options{Env: secretOf("TOKEN")})
	assert.Empty(t, ds, "what the process has is not from the file")
}

func secretOf(want string) func(string) (string, bool) {
	return func(name string) (string, bool) { return "x", name == want }
}

// HCL-017: every invalid line is reported with its number, never with its value.
func TestWrongEnv(t *testing.T) {
	for _, row := range []struct{ name, text, typ, at string }{
		{"no =", "A=1\ncanary", "config/syntax", "2:1"},
		{"export alone", "export", "config/syntax", "1:1"},
		{"no key", "=canary", "config/syntax", "1:1"},
		{"digit first", "1A=canary", "config/syntax", "1:1"},
		{"dash in key", "A=1\nexport A-B=canary", "config/syntax", "2:8"},
		{"blank in key", "A B=canary", "config/syntax", "1:1"},
		{"open '", "A='canary", "config/syntax", "1:3"},
		{`open "`, `A="canary`, "config/syntax", "1:3"},
		{"escaped end", `A="canary\"`, "config/syntax", "1:3"},
		{"unknown escape", `A="canary\x"`, "config/syntax", "1:3"},
		{"text behind", "A='canary'x", "config/syntax", "1:3"},
		{"NUL", "A=canary\x00", "config/syntax", "1:9"},
		{"invalid UTF-8", "A=canary\xff", "config/syntax", "1:9"},
		{"twice", "A=canary\nB=2\nA=canary", "config/duplicate", "3:1"},
		{"1001 keys", strings.Join(keysOf(1001), "\n"), "config/limit", "1001:1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := configtest.Lay(t, map[string]string{"ferment.hcl": "", "a.env": row.text})
			c, ds := configtest.LoadDir(t, dir, config.Options{})
			require.Equal(t, []string{row.typ}, configtest.Types(ds))
			assert.Equal(t, "a.env:"+row.at, ds[0].Range.String())
			assert.Nil(t, c.Generation)
			r := c.Report(0)
			asJSON, err := r.JSON()
			require.NoError(t, err)
			assert.NotContains(t, r.Text(false)+string(asJSON)+r.Value().String(), "canary", "a line of variables may hold a secret")
		})
	}
	_, ds := configtest.LoadDir(t, configtest.Lay(t, map[string]string{"ferment.hcl": "", ".env": strings.Repeat("# comment\n", 27_000)}), config.Options{})
	require.Equal(t, []string{"config/limit"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, "256KiB")
	_, ds = configtest.LoadDir(t, configtest.Lay(t, map[string]string{"ferment.hcl": "", ".env": strings.Join(keysOf(1000), "\n")}), config.Options{})
	assert.Empty(t, ds)
}

func keysOf(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("K%d=v", i)
	}
	return out
}
