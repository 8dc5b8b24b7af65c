package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// site writes each file to its own directory, in load order.
func site(t *rapid.T, dir string, files ...string) *config.Config {
	places := []string{"common/f.hcl", "common/prod/f.hcl", "local/f.hcl", "local/prod/f.hcl"}
	order := rapid.Permutation(places).Draw(t, "order of creation")
	for _, place := range places {
		_ = os.Remove(filepath.Join(dir, place))
	}
	for _, place := range order {
		i := slices.Index(places, place)
		if i >= len(files) {
			continue
		}
		full := filepath.Join(dir, place)
		text := strings.ReplaceAll(files[i], "../bin/", strings.Repeat("../", strings.Count(place, "/"))+"bin/")
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil || os.WriteFile(full, []byte(text), 0o600) != nil {
			t.Fatalf("cannot write %s", full)
		}
	}
	c, _ := config.Load(context.Background(), dir, config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess(), "stockfish": configtest.Chess()}})
	return c
}

const localsFirst = "locals {\n  n = 1\n  e = { C = \"4\" }\n}\n"

// HCL-014: null restores the default regardless of earlier values; later values
// override it; the order in which the files are created has no effect.
func TestNullLaws(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/chess"), []byte("x"), 0o700))
	host := func(seed string) string { return "ferment {\n  seed = " + seed + "\n}\n" }
	rapid.Check(t, func(t *rapid.T) {
		below := localsFirst + configtest.AFile(t, "below ")
		over := rapid.SampledFrom([]string{"3", "4", "null", "local.n"}).Draw(t, "over")
		nulled := site(t, dir, below, host(over), host("null"))
		if nulled.Host.Seed != 0 {
			t.Fatalf("null leaves %d", nulled.Host.Seed)
		}
		set := site(t, dir, below, host("null"), host("7"))
		if set.Host.Seed != 7 {
			t.Fatalf("a value after null gives %d", set.Host.Seed)
		}
		env := func(text string) string {
			return "plugin \"chess\" {\n  command = [\"../bin/chess\"]\n  env     = " + text + "\n}\n"
		}
		clean := site(t, dir, below, env("null"), env(`{ Z = "z" }`))
		if p := clean.Plugin("chess"); p == nil || len(p.Env) != 1 || p.Env["Z"] != "z" {
			t.Fatalf("null does not end a map: %v", p)
		}
	})
}

// HCL-014: the result does not depend on the order in which the files are created,
// nor on their distribution over adjacent directories in load order.
func TestMergeOfDirectories(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/chess"), []byte("x"), 0o700))
	rapid.Check(t, func(t *rapid.T) {
		a, b := localsFirst+configtest.AFile(t, "a "), configtest.AFile(t, "b ")
		first, second := site(t, dir, a, b), site(t, dir, a, b)
		third, fourth := site(t, dir, "", a, b), site(t, dir, a, "", "", b)
		for _, c := range []*config.Config{second, third, fourth} {
			if c.Hash != first.Hash || c.Generation == nil != (first.Generation == nil) {
				t.Fatalf("%s and %s", first.Hash, c.Hash)
			}
		}
	})
}

// HCL-014: the rules one by one.
func TestMergeRules(t *testing.T) {
	program := map[string]string{"bin/chess": "program"}
	for _, row := range []struct {
		name, low, high string
		only, want      string
		warns           bool
	}{
		{"later wins", "queue = 1", "queue = 2", "queue", "queue = 2", false},
		{"lists are replaced", `env_pass = ["A", "B"]`, `env_pass = ["C"]`, "env_pass", `env_pass = ["C"]`, false},
		{"maps merge by key", `env = { A = "1", B = "2" }`, `env = { "B" = "3", C = "4" }`, "env", `env = { A = "1", B = "3", C = "4" }`, false},
		{"null takes a key away", `env = { A = "1", B = "2" }`, `env = { A = null }`, "env", `env = { B = "2" }`, false},
		{"a computed map replaces", `env = { A = "1" }`, `env = local.e`, "env", `env = { E = "e" }`, false},
		{"an object over a computed map replaces", `env = local.e`, `env = { A = "1" }`, "env", `env = { A = "1" }`, false},
		{"null ends a map", `env = { A = "1" }`, `env = null`, "env", `env = {}`, false},
		{"what is overwritten is not evaluated", `queue = tonumber(env("NOT_SET"))`, `queue = 2`, "queue", "queue = 2", false},
		{"nor is an entry of a map", `env = { A = env("NOT_SET") }`, `env = { A = "1" }`, "env", `env = { A = "1" }`, false},
		{"blocks merge", "restart {\nmax = 3\njitter = 0.1\n}", "restart {\nmax = 4\n}", "restart", "restart {\n    max    = 4\n    jitter = 0.1\n  }", false},
		{"config merges by the schema", "config {\ndepth = 3\nextra {\na = 1\nb = 2\n}\nmodel \"m\" {\nname = \"x\"\n}\n}", "config {\nengine = \"builtin\"\nextra {\nb = null\nc = 3\n}\nmodel \"m\" {\nname = \"y\"\n}\n}", "config", "config {\n    engine = \"builtin\"\n    depth  = 3\n\n    model \"m\" {\n      name = \"y\"\n    }\n\n    extra {\n      a = 1\n      c = 3\n    }\n  }", false},
		{"null in config is its default", "config {\ndepth = 3\n}", "config {\ndepth = null\n}", "config", "config {\n    depth = 6\n  }", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			files := map[string]string{}
			for k, v := range program {
				files[k] = v
			}
			files["common/a.hcl"] = "locals {\n  e = { E = \"e\" }\n}\n\nplugin \"chess\" {\n  command = [\"../bin/chess\"]\n  " + row.low + "\n}\n"
			files["local/a.hcl"] = "plugin \"chess\" {\n  " + row.high + "\n}\n"
			c, ds := configtest.LoadDir(t, configtest.Lay(t, files), config.Options{})
			require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
			text, err := view.Show(c, view.ShowOptions{Only: "plugin.chess." + row.only})
			require.NoError(t, err)
			assert.Contains(t, text, "  "+row.want+"\n")
			for _, d := range ds {
				assert.NotEqual(t, "config/overridden", d.Type, "files of several directories do not compete")
			}
		})
	}
}

// HCL-014: null also removes a condition and a template, so an overlay may use
// another kind of check.
func TestNullOfACondition(t *testing.T) {
	for _, form := range []string{"local/a.hcl", "local/a.hcl.json"} {
		over := "check \"c\" {\n  builtin   = \"json-valid\"\n  condition = null\n  message   = null\n  applies   = null\n}\n"
		if strings.HasSuffix(form, ".json") {
			over = `{"check": {"c": {"builtin": "json-valid", "condition": null, "message": null, "applies": null}}}`
		}
		c, ds := configtest.LoadDir(t, configtest.Lay(t, map[string]string{
			"common/a.hcl": "check \"c\" {\n  condition = result.ok\n  message   = \"no\"\n  applies   = result.on\n}\n\ndispatch \"default\" {\n  checks = [\"c\"]\n}\n",
			form:           over,
		}), config.Options{})
		require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
		text, err := view.Show(c, view.ShowOptions{Only: "check"})
		require.NoError(t, err)
		assert.Equal(t, "check \"c\" {\n  builtin = \"json-valid\"\n}\n", text)
	}
	c, ds := configtest.LoadDir(t, configtest.Lay(t, map[string]string{"common/a.hcl": "check \"c\" {\n  condition = null\n}\n"}), config.Options{})
	assert.Equal(t, []string{"config/missing"}, configtest.Types(ds), c.Report(0).Text(false))
}

// HCL-014: conflicting values in one directory are reported with both places.
func TestOverridden(t *testing.T) {
	files := map[string]string{
		"bin/chess":    "program",
		"common/a.hcl": "locals {\n  x = 1\n}\n\nplugin \"chess\" {\n  command = [\"../bin/chess\"]\n  queue   = local.x\n  env     = { A = \"1\", B = \"2\" }\n\n  config {\n    depth = 3\n  }\n}\n",
		"common/b.hcl": "locals {\n  x = 2\n}\n\nplugin \"chess\" {\n  queue = 5\n  env   = { B = \"3\", C = \"4\" }\n\n  config {\n    depth = 4\n  }\n}\n",
		"local/c.hcl":  "plugin \"chess\" {\n  queue = 6\n}\n",
	}
	c, ds := configtest.LoadDir(t, configtest.Lay(t, files), config.Options{})
	require.Empty(t, configtest.Types(ds))
	var got []string
	for _, d := range ds {
		if d.Type == "config/overridden" {
			got = append(got, d.Message+" "+d.Range.String()+" "+d.Related[0].Range.String())
		}
	}
	assert.Equal(t, []string{
		`x in locals is set twice in one directory; this file takes effect common/b.hcl:2:3 common/a.hcl:2:3`,
		`queue in plugin "chess" is set twice in one directory; this file takes effect common/b.hcl:6:3 common/a.hcl:7:3`,
		`env in plugin "chess" (B) is set twice in one directory; this file takes effect common/b.hcl:7:3 common/a.hcl:8:3`,
		`depth in plugin "chess", config is set twice in one directory; this file takes effect common/b.hcl:10:5 common/a.hcl:11:5`,
	}, got)
	assert.Equal(t, 6, c.Plugins[0].Queue)
	assert.Equal(t, map[string]string{"A": "1", "B": "3", "C": "4"}, c.Plugins[0].Env)
}

// HCL-002, HCL-028 to HCL-030, HCL-032: checks cover all files, and diagnostics are
// in the order of the files.
func TestChecksAcrossFiles(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{
		"bin/chess":           "program",
		"common/10-loc.hcl":   "locals {\n  a = local.b\n}\n",
		"common/20-plug.hcl":  "plugin \"chess\" {\n  command = [\"../bin/chess\"]\n}\n\ncapability \"chess/deep\" {\n  plugin   = \"chess\"\n  provides = \"chess/engine\"\n}\n",
		"local/10-intent.hcl": "intent \"chess/best-move\" {\n  in         = \"req/chess.position\"\n  out        = \"res/chess.move+pv+eval\"\n  candidates = [\"chess/dep\"]\n  dispatch   = dispatch.defautl\n}\n",
		"local/20-loc.hcl":    "locals {\n  b = local.a\n}\n\ndispatch \"idle\" {}\n\nferment {\n  seed =\n}\n",
	})
	c, ds := configtest.LoadDir(t, dir, config.Options{})
	text := c.Report(0).Text(false)
	assert.Equal(t, []string{"config/cycle", "config/dangling-reference", "config/dangling-reference", "config/syntax"}, configtest.Types(ds), text)
	assert.Contains(t, text, "error: locals refer to each other: a -> b -> a (config/cycle)\n  --> common/10-loc.hcl:2:3\n")
	assert.Contains(t, text, "see: local/20-loc.hcl:2:3 is local \"b\"")
	assert.Contains(t, text, "see: common/20-plug.hcl:5:1 declares capability \"chess/deep\"\n  next: did you mean \"chess/deep\"?")
	assert.NotContains(t, text, "is not used", "dispatch \"idle\" may be what the wrong name means")
	assert.Contains(t, text, "in 4 files\n")
	places := []string{}
	for _, d := range ds {
		places = append(places, d.Range.File)
	}
	assert.True(t, slices.IsSorted(places), "load order is the order of the report: %v", places)
}

// HCL-033: at most 20 diagnostics of one file and 100 in total.
func TestReportLimitsOfFiles(t *testing.T) {
	files := map[string]string{}
	for i := range 7 {
		files[fmt.Sprintf("common/%d.hcl", i)] = strings.Repeat("nope {}\n", 25)
	}
	c, _ := configtest.LoadDir(t, configtest.Lay(t, files), config.Options{})
	r := c.Report(diag.DefaultMaxShown)
	assert.Equal(t, 175, r.Errors)
	assert.Len(t, r.Shown, 100)
	assert.Equal(t, 75, r.Omitted)
	perFile := map[string]int{}
	for _, d := range r.Shown {
		perFile[d.Range.File]++
	}
	assert.Equal(t, map[string]int{"common/0.hcl": 20, "common/1.hcl": 20, "common/2.hcl": 20, "common/3.hcl": 20, "common/4.hcl": 20}, perFile)
}
