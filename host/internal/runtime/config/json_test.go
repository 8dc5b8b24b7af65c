package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// jsonSample is jsonTwin in JSON.
const jsonTwin = `locals {
  n        = 3
  greeting = "hi X"
}

ferment {
  seed = 4
  mode = "lazy"
}

check "short" {
  condition = length(try(result.text, "")) <= 1200
  message   = "keep \"${request.intent}\" short"
  applies   = true
}

check "named" {
  builtin = "json-valid"
}

dispatch "quality_first" {
  checks = ["short", "named"]

  retry { fallback = 2 }
}

plugin "chess" {
  command = ["bin/chess", "$${literal}"]
  env     = { A = local.greeting, B = "1" }

  config {
    depth   = 8
    api_key = secret("env:KEY")

    model "m" {
      name = "x"
    }

    extra {
      b = { "max-chars" = 3, list = [1, "a", null], with_bar = true }
      a = { x = 1 }
    }
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

// HCL-012, HCL-036: JSON and native syntax decode to equal values, including those
// with the schema of a plugin.
func TestJSONForm(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl": jsonTwin, "a.hcl.json": configtest.JSONSample})
	native, ds := configtest.LoadDir(t, dir+"/ferment.hcl", config.Options{Env: configtest.SecretEnv("s")})
	require.Empty(t, configtest.Types(ds), native.Report(0).Text(false))
	c, ds := configtest.LoadDir(t, dir+"/a.hcl.json", config.Options{Env: configtest.SecretEnv("s")})
	require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	d := view.Compare(native, c)
	require.Len(t, d.Changes, 2, d.Text())
	for _, change := range d.Changes {
		assert.Equal(t, []string{"plugin", "chess", "config", "extra", "b", "max_chars"}, change.Path,
			"a key of JSON that is no identifier stays a text; one that is becomes a keyword")
	}
	assert.Equal(t, d.Changes[0].Before, d.Changes[1].After)
	assert.Equal(t, "s", configtest.SecretText(t, native.Plugins[0]))
	assert.Equal(t, "s", configtest.SecretText(t, c.Plugins[0]))
}

// Native files and JSON merge with each other.
func TestMixedForms(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{
		"bin/chess":        "program",
		"common/a.hcl":     "plugin \"chess\" {\n  command = [\"../bin/chess\"]\n  env     = { A = \"1\", B = \"2\" }\n\n  config {\n    depth = 3\n  }\n}\n",
		"local/a.hcl.json": `{"plugin": {"chess": {"env": {"B": "3", "C": null}, "queue": 7, "config": {"engine": "builtin", "model": {"m": {"name": "x"}}}}}}`,
	})
	c, ds := configtest.LoadDir(t, dir, config.Options{})
	require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	p := c.Plugins[0]
	assert.Equal(t, map[string]string{"A": "1", "B": "3"}, p.Env)
	assert.Equal(t, 7, p.Queue)
	assert.Equal(t, `{:depth 3 :engine "builtin" :model {"m" {:name "x"}}}`, p.Config.String())
	text, err := view.Show(c, view.ShowOptions{Origins: true, Only: "plugin.chess.env"})
	require.NoError(t, err)
	assert.Contains(t, text, "# A common/a.hcl:3, B local/a.hcl.json:1")
}

// HCL-010: each mistake in JSON gives one error with its place.
func TestWrongJSON(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65)
	for _, row := range []struct{ name, text, typ, at, says string }{
		{"no JSON", `{"ferment"`, "config/syntax", "", ""},
		{"no object", `3`, "config/syntax", "1:1", "root"},
		{"two values", `{} {}`, "config/syntax", "", ""},
		{"comma behind the last attribute", "{\"ferment\": {\n  \"seed\": 1,\n}}", "config/syntax", "2:12", "comma"},
		{"comma behind the last member", `{"prompts": {"default": ["a",]}}`, "config/syntax", "1:29", "comma"},
		{"comma missing between lines", "{\"ferment\": {\n  \"seed\": 1\n  \"mode\": \"lazy\"}}", "config/syntax", "2:11", "comma"},
		{"comma missing in a list", `{"prompts": {"default": ["a" "b"]}}`, "config/syntax", "1:28", "comma"},
		{"colon missing", `{"ferment" {}}`, "config/syntax", "1:12", "colon"},
		{"equals sign", `{"ferment" = {}}`, "config/syntax", "1:12", "="},
		{"semicolon", `{"ferment": {"seed": 1; "mode": "lazy"}}`, "config/syntax", "1:23", ";"},
		{"single quotes", `{'ferment': {}}`, "config/syntax", "1:2", "quotes"},
		{"curly quotes", `{“ferment”: {}}`, "config/syntax", "1:2", "quotes"},
		{"name without quotes", "{\n  ferment: {\"seed\": 1}\n}", "config/syntax", "2:3", "quotes"},
		{"comment of two slashes", "{\n  // all\n  \"ferment\": {}}", "config/syntax", "2:3", "comments"},
		{"comment of a number sign", "{\n  # all\n  \"ferment\": {}}", "config/syntax", "2:3", "comments"},
		{"comment behind a value", `{"ferment": {"seed": 1 /* one */}}`, "config/syntax", "1:24", "comments"},
		{"object not closed", "{\n  \"ferment\": {\"seed\": 1}\n", "config/syntax", "1:1", "not closed"},
		{"list not closed", `{"prompts": {"default": ["a"`, "config/syntax", "1:25", "not closed"},
		{"wrong closing bracket", `{"prompts": {"default": ["a"}}`, "config/syntax", "1:29", "close"},
		{"one brace too many", "{\"ferment\": {}}\n}", "config/syntax", "2:1", "after the closing }"},
		{"two objects", "{\"ferment\": {}}\n{}", "config/syntax", "2:1", "after the closing }"},
		{"text not closed", "{\"ferment\": {\"mode\": \"lazy\n}}", "config/syntax", "1:22", "its line"},
		{"tab in a text", "{\"ferment\": {\"mode\": \"la\tzy\"}}", "config/syntax", "1:25", "U+0009"},
		{"escape", `{"ferment": {"mode": "la\xzy"}}`, "config/syntax", "1:25", "escape"},
		{"escape of a character", `{"ferment": {"mode": "\u12g4"}}`, "config/syntax", "1:23", "escape"},
		{"word of another language", `{"ferment": {"auto_reload": True}}`, "config/syntax", "1:29", "True"},
		{"text without quotes", `{"ferment": {"mode": lazy}}`, "config/syntax", "1:22", "lazy"},
		{"zero before a number", `{"ferment": {"seed": 010}}`, "config/syntax", "1:22", "010"},
		{"native syntax", "ferment {\n  seed = 1\n}\n", "config/syntax", "1:1", "root"},
		{"empty file", "", "config/syntax", "1:1", "empty"},
		{"no value", "null", "config/syntax", "1:1", "root"},
		{"list at the root", `[{"ferment": {}}]`, "config/syntax", "1:1", "object"},
		{"text for a block", `{"ferment": "x"}`, "config/syntax", "1:13", "object"},
		{"number for a block with a label", `{"plugin": {"x": 3}}`, "config/syntax", "1:18", "object"},
		{"label missing", `{"plugin": {"command": ["x"], "optional": true}}`, "config/syntax", "1:43", "object"},
		{"label missing before a list", `{"plugin": {"command": ["x"]}}`, "config/syntax", "1:25", "object"},
		{"no label", `{"plugin": {}}`, "config/syntax", "1:12", "label"},
		{"list for locals", `{"locals": ["x"]}`, "config/syntax", "1:13", "object"},
		{"key twice", "{\"ferment\": {\n  \"seed\": 1,\n  \"seed\": 2}}", "config/syntax", "3:3", `key "seed" is written twice`},
		{"key twice, escaped", `{"ferment": {"seed": 1, "s\u0065ed": 2}}`, "config/syntax", "1:25", "twice"},
		{"nesting", deep, "config/limit", "1:321", "64 deep"},
		{"brackets", strings.Repeat("[", 500_000), "config/limit", "1:65", "64 deep"},
		{"long number", `{"ferment": {"seed": ` + strings.Repeat("1", 41) + `}}`, "config/range", "1:22", "41 digits"},
		{"large exponent", `{"ferment": {"seed": 1e309}}`, "config/range", "1:22", "exponent"},
		{"tokens", `{"x": [` + strings.Repeat("1,", 200_001) + `1]}`, "config/limit", "", "200000 tokens"},
		{"template with nesting", `{"ferment": {"mode": "${` + strings.Repeat("(", 65) + `"}}`, "config/limit", "1:22", "64 deep"},
		{"template without end", `{"ferment": {"mode": "${upper("}}`, "config/syntax", "", ""},
		{"unary operators", `{"ferment": {"seed": "${` + strings.Repeat("-", 16) + `1}"}}`, "config/limit", "1:22", "unary"},
		{"invalid UTF-8", "{\"ferment\": \"\xff\"}", "config/syntax", "1:14", "UTF-8"},
		{"unknown attribute", `{"ferment": {"sed": 1}}`, "config/unknown-name", "1:14", `unknown attribute "sed"`},
		{"unknown block", `{"feremnt": {"seed": 1}}`, "config/unknown-name", "1:2", `unknown block "feremnt"`},
		{"unknown function", `{"ferment": {"mode": "${uper(\"x\")}"}}`, "config/unknown-name", "", `unknown function "uper"`},
		{"unknown function in try", `{"ferment": {"mode": "${try(uper(\"x\"), \"lazy\")}"}}`, "config/unknown-name", "", "uper"},
		{"unknown local", `{"ferment": {"mode": "${local.x}"}}`, "config/dangling-reference", "1:25", `no local "x"`},
		{"text for a number", `{"ferment": {"seed": "1"}}`, "config/type", "1:22", "is not an int"},
		{"condition that is a text", `{"check": {"a": {"condition": "result.text == 1"}}}`, "config/type", "1:31", ""},
		{"config of a plugin", `{"plugin": {"chess": {"command": ["bin/chess"], "config": {"depth": 99}}}}`, "config/plugin-schema", "1:69", "above its maximum"},
		{"name in the config of a plugin", `{"plugin": {"chess": {"command": ["bin/chess"], "config": {"dpth": 9}}}}`, "config/unknown-name", "1:60", `"dpth"`},
		{"reserved", `{"cluster": {}}`, "config/reserved", "1:2", "several hosts"},
		{"label", `{"check": {"A b": {"builtin": "json-valid"}}}`, "config/syntax", "1:12", "label"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl.json": row.text})
			c, ds := configtest.LoadDir(t, dir+"/ferment.hcl.json", config.Options{})
			require.NotEmpty(t, configtest.Types(ds), "%v", c.Host)
			text := c.Report(3).Text(false)
			assert.Equal(t, row.typ, configtest.Types(ds)[0], text)
			if row.at != "" {
				assert.Equal(t, row.at, fmt.Sprintf("%d:%d", ds[0].Range.Start.Line, ds[0].Range.Start.Column), text)
				assert.Len(t, configtest.Types(ds), 1, text)
				assert.True(t, !ds[0].Expected.IsNil() || ds[0].Hint != "", text)
			}
			assert.Contains(t, strings.ToLower(ds[0].Message), strings.ToLower(row.says))
			assert.Nil(t, c.Generation)
		})
	}
}
