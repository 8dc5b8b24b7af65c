package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// accountBlock returns a plugin block of an account with model blocks.
func accountBlock(blocks string) string {
	return "plugin \"account\" {\n  command = [\"" + filepath.Join(built.plugins, "llm") + "\"]\n\n  isolation { network = \"ports\" }\n\n  config {\n    provider = \"openai\"\n" +
		"    api_key  = secret(\"env:MODEL_KEY\")\n" + blocks + "  }\n}\n"
}

const threeModels = "    model \"listed\" { name = \"gpt-5-mini-2025-08-07\" }\n    model \"other\" { name = \"gpt-5-unheard-of\" }\n" +
	"    model \"own\" {\n      name = \"gpt-5-mini\"\n      price {\n        input  = \"1\"\n        output = \"2\"\n        date   = \"2020-01-31\"\n        source = \"a contract\"\n      }\n    }\n"

// LLM-020, CLI-001, CLI-002: the effective prices with source and age.
func TestModelPrices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+accountBlock(threeModels))
	w.env = append(w.env, "MODEL_KEY="+modelKey)
	got := w.run("model", "prices", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	models := map[string]edn.Value{}
	for m := range got.value(t).Key("prices").Elems() {
		block, _ := m.Key("block").AsString()
		models[block] = m
	}
	require.Len(t, models, 3)
	for block, from := range map[string]string{"listed": ":list", "other": ":unknown", "own": ":configuration"} {
		assert.Equal(t, from, models[block].Key("from").String(), block)
		assert.Equal(t, block == "listed", models[block].Key("remark").IsNil(), "%s: neither unknown nor old", block)
	}
	assert.True(t, models["listed"].Key("input").IsDecimal())
	assert.False(t, models["listed"].Key("source").IsNil())
	assert.False(t, models["listed"].Key("age-days").IsNil())
	assert.True(t, models["other"].Key("input").IsNil())

	text := w.run("model", "prices")
	require.Equal(t, 0, text.code, text.stderr)
	assert.Equal(t, 2, strings.Count(text.stderr, "warning: "), text.stderr)
	whole := w.run("model", "prices", "--all")
	require.Equal(t, 0, whole.code, whole.stderr)
	for line := range strings.Lines(text.stdout + whole.stdout) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
	assert.NotZero(t, w.run("model", "prices", "--all", "--edn").value(t).Key("prices").Len())
	v, err := edn.ReadJSON([]byte(w.run("model", "prices", "--all", "--json").stdout), edn.WithLimits(edn.Body))
	require.NoError(t, err)
	assert.NotZero(t, v.Key("prices").Len())

	states := map[string]string{}
	for p := range w.run("doctor", "--edn").value(t).Key("parts").Elems() {
		if p.Key("area").String() == ":prices" {
			name, _ := p.Key("name").AsString()
			states[name] = p.Key("state").String()
		}
	}
	assert.Equal(t, map[string]string{"account": ":ok", "account/other": ":weak", "account/own": ":weak"}, states)
}

// CLI-001, CLI-002: the price list of an operator is checked, compared and
// installed. A damaged one is reported where prices are shown.
func TestModelPricesUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+accountBlock(threeModels))
	w.env = append(w.env, "MODEL_KEY="+modelKey)
	head := `{:prices/version 1 :currency "USD" :vendors {"openai" {:hosts ["api.openai.com"]}} :prices [`
	entry := `{:vendor "openai" :models ["gpt-5-unheard-of"] :input 1M :output 2M :date "2020-01-31" :source "a page"}`
	w.write("mine.edn", head+"\n"+entry+"]}")
	from := func(block string) string {
		for m := range w.run("model", "prices", "--edn").value(t).Key("prices").Elems() {
			if name, _ := m.Key("block").AsString(); name == block {
				return m.Key("from").String()
			}
		}
		return ""
	}
	for _, dry := range []bool{true, false} {
		args := []string{"model", "prices", "update", "mine.edn", "--edn"}
		if dry {
			args = append(args, "--dry-run")
		}
		got := w.run(args...)
		require.Equal(t, 0, got.code, got.stderr)
		v := got.value(t)
		assert.Equal(t, `["openai/gpt-5-unheard-of"]`, v.Key("added").String())
		assert.Zero(t, v.Key("changed").Len())
		assert.Greater(t, v.Key("removed").Len(), 50)
		assert.Equal(t, dry, v.Key("installed").IsNil())
		assert.Equal(t, map[bool]string{true: ":unknown", false: ":list"}[dry], from("other"))
	}
	assert.Equal(t, ":unknown", from("listed"), "the shipped list is replaced")
	assert.Contains(t, w.run("model", "prices").stderr, "account/other", "it is old")

	w.write("mine.edn", head+"\n"+strings.Replace(entry, "2M", "3M", 1)+"]}")
	got := w.run("model", "prices", "update", "mine.edn", "--json")
	require.Equal(t, 0, got.code, got.stderr)
	v, err := edn.ReadJSON([]byte(got.stdout))
	require.NoError(t, err)
	assert.Equal(t, 1, v.Key("changed").Len())

	w.write("mine.edn", head+"\n"+strings.Replace(entry, "1M", `"1"`, 1)+"]}")
	got = w.run("model", "prices", "update", "mine.edn")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "mine.edn: line 2, column ")
	got = w.run("model", "prices", "update", "mine.edn", "--edn")
	assert.Equal(t, 1, got.code)
	findings := edn.MustRead(got.stderr).Key("error").Key("details").Key("findings")
	require.Equal(t, 1, findings.Len(), got.stderr)
	for f := range findings.Elems() {
		assert.Equal(t, `2 [:prices 0 :input] "1"`, f.Key("line").String()+" "+f.Key("path").String()+" "+f.Key("found").String())
		assert.False(t, f.Key("expected").IsNil())
	}
	assert.Equal(t, ":list", from("other"), "the list before holds")
	w.write("var/prices.edn", "{")
	w.write("mine.edn", head+"\n"+entry+"]}")
	assert.Contains(t, w.run("doctor", "--edn").value(t).Key("parts").String(), `:area :prices :name "list" :state :weak`)
	assert.Contains(t, w.run("model", "prices").stderr, "var/prices.edn", "the installed list is not used")
	require.Zero(t, w.run("model", "prices", "update", "mine.edn").code)
	assert.NotContains(t, w.run("model", "prices").stderr, "var/prices.edn", "it is installed again")
	assert.Equal(t, 3, w.run("model", "prices", "update", "nothing.edn").code)
	assert.Equal(t, 2, w.run("model", "prices", "update").code)
}

// LLM-020: a list price reaches the usage of a call through host and plugin.
func TestListPriceOfCall(t *testing.T) {
	t.Parallel()
	port, _ := modelServer(t, true)
	block := strings.Replace(modelBlock("mine", port), "input  = \"1\"\n        output = \"2\"", "listed = \"openai/gpt-5-mini\"", 1)
	w := newWorld(t, "ferment.hcl", testProfile+block)
	w.env = append(w.env, "MODEL_KEY="+modelKey)
	got := w.run("model", "probe", "compatible/voice", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	usage := got.value(t).Key("usage")
	assert.Equal(t, ":estimated", usage.Key("cost-mark").String())
	assert.True(t, usage.Key("cost-usd").IsDecimal())
}
