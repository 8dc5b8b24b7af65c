package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/edn"
)

const promptsText = `
prompts {
  default = ["You are part of a program.", { fragment = "short" }, { file = "tone.txt" }]

  roles = {
    voice = "Speak."
  }

  intents = {
    "chess/best-move" = [{ fragment = "facts" }]
  }

  fragments = {
    facts = ["Give {schema}.", { fragment = "short" }]
    short = "At most {max_chars}."
  }

  allowed = { voice = ["move", "pv"] }
}

plugin "chess" {
  command = ["bin/chess"]
}

capability "chess/engine" {
  plugin = "chess"
  role   = "voice"
}

intent "chess/best-move" {
  in          = "req/chess.position"
  out         = "res/chess.move+pv+eval"
  role        = "voice"
  temperature = 0.2

  prompt { addendum = "Play." }
}
`

func promptFile(t *testing.T, text, tone string) string {
	path := configtest.Write(t, text)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "tone.txt"), []byte(tone), 0o600))
	return path
}

// PRM-001, PRM-002, PRM-005: layers are compiled with files and fragments expanded,
// and each part has its place.
func TestPrompts(t *testing.T) {
	path := promptFile(t, promptsText, "Be calm.\n")
	opts := config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess()}}
	c, ds := config.Load(t.Context(), path, opts)
	require.NotNil(t, c.Generation, c.Report(0).Text(false))
	assert.Empty(t, ds, c.Report(0).Text(false))
	book := c.Generation.Prompts
	layers := book.Layers("chess/best-move", "voice")
	var sources, places []string
	for _, l := range layers {
		sources, places = append(sources, l.Source()), append(places, l.Name+" "+l.Where)
	}
	assert.Equal(t, []string{"You are part of a program. At most {max_chars}. Be calm.", "Speak.", "Give {schema}. At most {max_chars}.", "Play."}, sources)
	assert.Equal(t, []string{"prompts.default ferment.hcl:3:13", "prompts.roles.voice ferment.hcl:6:13", "prompts.intents.chess/best-move ferment.hcl:10:25", "intent.chess/best-move.prompt.addendum ferment.hcl:36:23"}, places)
	assert.Equal(t, map[string][]string{"voice": {"move", "pv"}}, book.Allowed)
	capability, _ := c.Generation.Registry.Capability("chess/engine")
	in, _ := c.Generation.Registry.Intent("chess/best-move")
	assert.Equal(t, [2]string{"voice", "voice"}, [2]string{capability.Role, in.Role})
	layer := c.Generation.Policies.For("chess/best-move")
	assert.Equal(t, "0.2M", layer.Temperature.V.String())

	// A changed file changes the hash, and the flat form loads to the same hash.
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "tone.txt"), []byte("Be wild.\n"), 0o600))
	other, _ := config.Load(t.Context(), path, opts)
	assert.NotEqual(t, c.Hash, other.Hash)
	diff := view.Compare(c, other)
	require.Len(t, diff.Changes, 1)
	assert.Equal(t, []string{"prompts", "default"}, diff.Changes[0].Path)
	flat, err := view.Show(c, view.ShowOptions{Flat: true})
	require.NoError(t, err)
	again, ds := config.Load(t.Context(), promptFile(t, flat, "Be calm.\n"), opts)
	assert.Empty(t, ds, again.Report(0).Text(false))
	assert.Equal(t, c.Hash, again.Hash, flat)
}

// HCL-014: an overlay changes one role and keeps the others; a computed layer is
// equal to a literal one.
func TestPromptsMerge(t *testing.T) {
	c, ds := configtest.Load(t, "locals {\n  both = [\"One.\", { fragment = \"two\" }]\n}\n\nprompts {\n  default = concat(local.both, [\"Three.\"])\n  roles   = { voice = local.both }\n  fragments = { two = \"Two.\" }\n}\n")
	require.NotNil(t, c.Generation, c.Report(0).Text(false))
	assert.Empty(t, ds)
	assert.Equal(t, "One. Two. Three.", c.Generation.Prompts.Default.Source())
	assert.Equal(t, "One. Two.", c.Generation.Prompts.Roles["voice"].Source())
}

// PRM-007: each mistake is reported once, at its place.
func TestProtocolInvalid(t *testing.T) {
	big := strings.Repeat("a", prompt.MaxLayer)
	for _, row := range []struct{ name, text, typ, says string }{
		{"unknown variable", `prompts { default = "In {langage}." }`, "protocol/invalid", `the layer prompts.default names the unknown variable {langage}`},
		{"too long", "prompts {\n  default = [\"" + big + "\", \"b\"]\n}", "protocol/invalid", `the layer prompts.default is longer than 16 KiB`},
		{"unknown fragment", `prompts { default = [{ fragment = "x" }] }`, "protocol/invalid", `there is no fragment "x"`},
		{"misspelt fragment", `prompts {
  fragments = { tones = "a" }
  default   = [{ fragment = "tone" }]
}`, "protocol/invalid", `there is no fragment "tone"`},
		{"unused fragment", `prompts { fragments = { x = "a" } }`, "protocol/invalid", `fragment "x" is not used by any layer`},
		{"ring of fragments", "prompts {\n  default   = { fragment = \"a\" }\n  fragments = { a = { fragment = \"b\" }, b = [\"x\", { fragment = \"a\" }] }\n}", "protocol/invalid", `fragments include each other: a -> b -> a`},
		{"layer of no intent", "prompts {\n  intents = { \"no/such\" = \"a\" }\n}", "protocol/invalid", `there is no such intent`},
		{"allowed without a layer", `prompts { allowed = { judge = ["score"] } }`, "protocol/invalid", `allowed names the role "judge", which has no prompt`},
		{"role without a layer", "intent \"a/b\" {\n  in   = \"req/any\"\n  out  = \"res/any\"\n  role = \"voice\"\n}", "protocol/invalid", `has the role "voice", which has no prompt`},
		{"addendum beside system", "intent \"a/b\" {\n  in  = \"req/any\"\n  out = \"res/any\"\n\n  prompt {\n    system   = \"x\"\n    addendum = \"y\"\n  }\n}", "protocol/invalid", `addendum in intent "a/b" is never used`},
		{"bad role", "prompts {\n  roles = { \"a b\" = \"x\" }\n}", "protocol/invalid", `"a b" is not a role name`},
		{"file outside", `prompts { default = { file = "../x" } }`, "config/include", `outside the root`},
		{"no file", `prompts { default = { file = "x" } }`, "config/include", `no such file`},
		{"number", `prompts { default = 3 }`, "config/type", `default in prompts is not a layer`},
		{"null in it", `prompts { default = ["a", null] }`, "config/type", `default in prompts holds null`},
		{"odd object", `prompts { default = { text = "x" } }`, "config/type", `default in prompts is not a layer`},
		{"list in a list", `prompts { default = ["a", ["b"]] }`, "config/type", `default in prompts holds a list`},
		{"pack that is not there", `prompts { language_packs = ["x"] }`, "config/include", `file "x": no such file`},
		{"pack outside", `prompts { language_packs = ["../x"] }`, "config/include", `outside the root`},
	} {
		c, ds := configtest.Load(t, row.text+"\n")
		require.Len(t, ds, 1, "%s: %s", row.name, c.Report(0).Text(false))
		assert.Equal(t, row.typ, ds[0].Type, row.name)
		assert.Contains(t, ds[0].Message, row.says, row.name)
		require.NotNil(t, ds[0].Range, row.name)
		assert.Nil(t, c.Generation, row.name)
	}
}

// HCL-014: JSON defines the same prompts.
func TestPromptsInJSON(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ferment.hcl.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"prompts": {"default": ["One.", {"fragment": "two"}], "roles": {"voice": "Speak."}, "fragments": {"two": "Two."}}}`), 0o600))
	c, ds := config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv})
	require.NotNil(t, c.Generation, c.Report(0).Text(false))
	assert.Empty(t, ds)
	assert.Equal(t, "One. Two.", c.Generation.Prompts.Default.Source())
	assert.Equal(t, edn.Text("Speak.").String(), edn.Text(c.Generation.Prompts.Roles["voice"].Source()).String())
}
