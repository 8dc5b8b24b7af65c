package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/edn"
)

// italian is a minimal pack that tests extend.
const italian = "{:language \"it\"\n :name \"Italian\"\n :common \"il lo la i gli le un uno una di del della che non e ma per con si è sono anche\"\n :dangling \"e ma\"\n"

// packed loads a configuration with pack files beside it.
func packed(t *testing.T, text string, files map[string]string) (*config.Config, diag.Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	path := filepath.Join(dir, "ferment.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return config.Load(t.Context(), path, config.Options{Env: configtest.NoEnv})
}

// ends reports whether a text has a valid ending in the language.
func ends(t *testing.T, c *config.Config, text, language string) bool {
	t.Helper()
	require.NotNil(t, c.Generation, c.Report(0).Text(false))
	check, ok := c.Generation.Checks.Check(quality.NoTruncatedEnding)
	require.True(t, ok)
	return check.Run(quality.Subject{
		Result:  edn.MustMap(edn.K("text"), edn.Text(text)),
		Request: edn.MustMap(edn.K("intent"), edn.K("text/respond"), edn.K("constraints"), edn.MustMap(edn.K("language"), edn.K(language))),
	}).Pass
}

const onePack = "prompts {\n  language_packs = [\"packs/it.edn\"]\n}\n"

// TXT-006: the language packs of a configuration apply only to its generation; the
// file is part of the configuration hash, and its change is a change of the
// attribute.
func TestLanguagePacks(t *testing.T) {
	c, ds := packed(t, onePack, map[string]string{"packs/it.edn": italian + "}"})
	require.Empty(t, ds, c.Report(0).Text(false))
	assert.False(t, ends(t, c, "La luna gira intorno alla Terra, ma.", "it"))
	assert.True(t, ends(t, c, "La luna gira intorno alla Terra.", "it"))
	assert.Equal(t, "Italian", c.Generation.Prompts.Languages.Name("it"))
	require.Len(t, c.Generation.Packs, 1)
	p := c.Generation.Packs[0]
	assert.Equal(t, [3]string{"it", "Italian", "packs/it.edn"}, [3]string{p.Language, p.Name, p.File})
	assert.False(t, p.Instead)
	require.Len(t, c.Inputs, 1)
	assert.Equal(t, "packs/it.edn", c.Inputs[0].Name)

	without, _ := packed(t, "", nil)
	assert.True(t, ends(t, without, "La luna gira intorno alla Terra, ma.", "it"))

	changed, _ := packed(t, onePack, map[string]string{"packs/it.edn": italian + " :stop \"io\"}"})
	assert.NotEqual(t, c.Hash, changed.Hash)
	diff := view.Compare(c, changed)
	require.Len(t, diff.Changes, 1)
	assert.Equal(t, []string{"prompts", "language_packs"}, diff.Changes[0].Path)
	assert.Equal(t, view.ActionUpdate, diff.Changes[0].Action)
	assert.Equal(t, language.ReloadUse, diff.Changes[0].Reload)
	assert.Contains(t, diff.Text(), `prompts, language_packs: ["packs/it.edn"] -> ["packs/it.edn"], with another content`)
	assert.True(t, view.Compare(c, c).Empty())

	shown, err := view.Show(c, view.ShowOptions{Flat: true})
	require.NoError(t, err)
	assert.Contains(t, shown, `language_packs = ["packs/it.edn"]`)
	again, ds := packed(t, shown, map[string]string{"packs/it.edn": italian + "}"})
	assert.Empty(t, ds)
	assert.Equal(t, c.Hash, again.Hash)
}

// TXT-006, HCL-012: a path is relative to its file.
func TestLanguagePacksBeside(t *testing.T) {
	c, ds := packed(t, "include \"sub/more.hcl\" {}\n", map[string]string{"sub/more.hcl": "prompts {\n  language_packs = [\"it.edn\"]\n}\n", "sub/it.edn": italian + "}"})
	require.Empty(t, ds, c.Report(0).Text(false))
	assert.Equal(t, "sub/it.edn", c.Generation.Packs[0].File)
}

// TXT-006: a pack replaces a shipped language completely, which is reported.
func TestLanguagePackInstead(t *testing.T) {
	c, ds := packed(t, onePack, map[string]string{"packs/it.edn": strings.Replace(italian, `"it"`, `"en"`, 1) + "}"})
	require.Len(t, ds, 1)
	assert.Equal(t, diag.SeverityWarning, ds[0].Severity)
	assert.Equal(t, "config/overridden", ds[0].Type)
	assert.Equal(t, "packs/it.edn:1:12", ds[0].Range.String())
	assert.True(t, c.Generation.Packs[0].Instead)
	assert.False(t, ends(t, c, "It is ma.", "en"))
	assert.True(t, ends(t, c, "It is because.", "en"))
}

// TXT-006: each mistake in a pack is an error with its place, the expected and found
// values and a hint.
func TestLanguagePackMistakes(t *testing.T) {
	for name, row := range map[string]struct{ text, pack, typ, at, says, expected, found, hint string }{
		"unknown key":    {onePack, italian + " :stopp \"io\"}", "config/unknown-name", "packs/it.edn:5:2", "no key :stopp", "", "stopp", `did you mean "stop"?`},
		"wrong type":     {onePack, italian + " :stop [\"io\"]}", "config/type", "packs/it.edn:5:8", ":stop is a vector", "one text, of words with blanks between them", `["io"]`, ""},
		"bad pattern":    {onePack, italian + " :list [\"elenc*\" \"*list*\"]}", "config/type", "packs/it.edn:5:19", `"*list*" is open at both ends`, "a word with * at one end at most", "*list*", "name the words"},
		"no EDN":         {onePack, italian, "config/type", "packs/it.edn:5:1", "is not EDN", "", "", ""},
		"with CRLF":      {onePack, strings.ReplaceAll(italian, "\n", "\r\n") + " :letters 3}", "config/type", "packs/it.edn:5:11", ":letters is a number", "a text", "3", ""},
		"not there":      {"prompts {\n  language_packs = [\"it.edn\"]\n}\n", italian + "}", "config/include", "ferment.hcl:2:21", "no such file", "a file with a language pack", "", ""},
		"a directory":    {"prompts {\n  language_packs = [\"packs\"]\n}\n", italian + "}", "config/include", "ferment.hcl:2:21", "not a regular file", "", "", ""},
		"one file twice": {"prompts {\n  language_packs = [\"packs/it.edn\", \"./packs/it.edn\"]\n}\n", italian + "}", "config/duplicate", "packs/it.edn:1:12", `two language packs are of the language "it"`, "", "it", "keep one of the two"},
	} {
		c, ds := packed(t, row.text, map[string]string{"packs/it.edn": row.pack})
		require.Len(t, ds, 1, "%s: %s", name, c.Report(0).Text(false))
		d := ds[0]
		assert.Nil(t, c.Generation, name)
		assert.Equal(t, row.typ, d.Type, name)
		assert.Equal(t, row.at, d.Range.String(), name)
		assert.Contains(t, d.Message, row.says, name)
		assert.Contains(t, d.Hint, row.hint, name)
		found, _ := d.Found.AsString()
		assert.Equal(t, row.found, found, name)
		if row.expected != "" {
			assert.Equal(t, row.expected, diag.Plain(d.Expected), name)
		}
		if row.typ != "config/include" {
			assert.NotEmpty(t, d.Related, "%s: who names the file", name)
		}
	}
}

// HCL-012: paths in a list of a plugin's configuration are relative to their file;
// the process may read the files and is replaced when they change.
func TestPathsInAListOfAPlugin(t *testing.T) {
	mock := configtest.Chess()
	mock.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true} [:packs {:optional true :unit :path} [:maybe [:vector :string]]]]}`)
	dir := t.TempDir()
	text := "plugin \"mock\" {\n  command = [\"bin/chess\"]\n\n  config {\n    packs = [\"a.edn\", \"b.edn\"]\n  }\n}\n"
	for name, content := range map[string]string{"ferment.hcl": text, "a.edn": "1", "b.edn": "2"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/chess"), []byte("#!/bin/true\n"), 0o755))
	describe := func() *config.Config {
		c, _ := config.Load(t.Context(), filepath.Join(dir, "ferment.hcl"), config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"mock": mock}, Profile: language.ProfileDev})
		require.Len(t, c.Plugins, 1, c.Report(0).Text(false))
		return c
	}
	before := describe()
	assert.Equal(t, []string{filepath.Join(dir, "a.edn"), filepath.Join(dir, "b.edn")}, before.Plugins[0].Reads, before.Report(0).Text(false))
	shown, err := view.Show(before, view.ShowOptions{})
	require.NoError(t, err)
	assert.Contains(t, shown, `packs = ["a.edn", "b.edn"]`)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.edn"), []byte("3"), 0o600))
	after := describe()
	assert.NotEqual(t, before.Plugins[0].Key(), after.Plugins[0].Key())
	diff := view.Compare(before, after)
	require.Len(t, diff.Changes, 1)
	assert.Equal(t, []string{"plugin", "mock", "config", "packs"}, diff.Changes[0].Path)
	assert.Equal(t, []string{"mock"}, diff.Plugins.Replace)
}
