package build_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// unnamed describes a plugin with schemas that the SDK derived from Go types.
func unnamed(t *testing.T, id, in, out string) contract.Description {
	t.Helper()
	d, err := contract.ParseDescription(edn.MustRead(`{:plugin/name "p" :plugin/version "1.0.0"
 :capabilities [{:cap/id :` + id + ` :cap/kind :tool :cap/intents #{:text/respond} :io/in-schema :req/text.respond :io/out-schema :res/text.respond}]
 :schemas {:req/text.respond ` + in + ` :res/text.respond ` + out + `}}`))
	require.NoError(t, err)
	return d
}

const (
	twoPlugins = "plugin \"a\" {\n  command = [\"bin/chess\"]\n}\n\nplugin \"b\" {\n  command = [\"bin/chess\"]\n}\n"
	respond    = "\nintent \"text/respond\" {\n  in         = \"req/text\"\n  out        = \"res/text\"\n  candidates = [\"a/one\", \"b/two\"]\n}\n"
)

// SCH-005: a derived schema adopts the name in the intent block, so plugins with
// their own types may serve one intent.
func TestUnnamedSchemasAdoptTheIntent(t *testing.T) {
	d := configtest.Describer{
		"a": unnamed(t, "a/one", `[:map [:text :string]]`, `[:map [:text :string]]`),
		"b": unnamed(t, "b/two", `[:map [:prompt :string] [:tone {:optional true} :keyword]]`, `[:map [:text :string] [:words :int]]`),
	}
	c, ds := configtest.LoadWith(t, twoPlugins+respond, d, nil)
	require.Empty(t, configtest.Types(ds))
	for _, id := range []string{"a/one", "b/two"} {
		entry, ok := c.Generation.Registry.Capability(id)
		require.True(t, ok)
		assert.Equal(t, "req/text", entry.InSchema.For("text/respond"))
		assert.Equal(t, "res/text", entry.OutSchema.For("text/respond"))
	}
	_, published := c.Generation.Registry.Schema("req/text.respond")
	assert.False(t, published)
}

// A definite mismatch is an error that shows both schemas.
func TestUnnamedSchemasThatNeverFit(t *testing.T) {
	d := configtest.Describer{
		"a": unnamed(t, "a/one", `[:map [:text :string]]`, `[:map [:text :int]]`),
		"b": unnamed(t, "b/two", `[:map [:text :string]]`, `[:map [:text :string]]`),
	}
	_, ds := configtest.LoadWith(t, twoPlugins+"\nschema \"res/line\" {\n  spec = edn(\"[:map [:text :string]]\")\n}\n\nintent \"text/respond\" {\n  in         = \"req/text\"\n  out        = \"res/line\"\n  candidates = [\"a/one\", \"b/two\"]\n}\n", d, nil)
	require.Equal(t, []string{"capability/invalid-metadata"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, `capability "a/one" of plugin "a" gives can never fit the schema res/line`)
	assert.Equal(t, `[:map [:text :int]]`, ds[0].Found.String())
	assert.Equal(t, `[:map [:text :string]]`, ds[0].Expected.String())
}

// HCL-029: the schemas of an intent without explicit candidates must fit one capability that serves it.
func TestSchemasOfOpenCandidates(t *testing.T) {
	for spec, want := range map[string]diag.Diagnostics{
		"[:map [:fen :string]]":  nil,
		":map":                   nil,
		"[:map [:text :string]]": {{Severity: diag.SeverityWarning}},
		"[:map [:fen :int]]":     {{Severity: diag.SeverityError}},
	} {
		text := configtest.OnePlugin + "\nschema \"req/mine\" {\n  spec = edn(\"" + spec + "\")\n}\n" +
			"\nintent \"chess/best-move\" {\n  in  = \"req/mine\"\n  out = \"res/chess.move+pv+eval\"\n}\n"
		_, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": configtest.Chess()}, nil)
		require.Len(t, ds, len(want), spec)
		for i := range want {
			assert.Equal(t, "config/type", ds[i].Type, spec)
			assert.Equal(t, want[i].Severity, ds[i].Severity, spec)
		}
	}
}

// SCH-006, VAL-006: a schema as nested lists of strings equals the one in edn().
func TestSchemaAsLists(t *testing.T) {
	text := func(spec string) string {
		return configtest.OnePlugin + "\nschema \"req/mine\" {\n  spec = " + spec + "\n}\n" +
			"\nintent \"chess/best-move\" {\n  in  = \"req/mine\"\n  out = \"res/chess.move+pv+eval\"\n}\n"
	}
	lists, ds := configtest.LoadWith(t, text(`["map", { closed = true }, ["fen", "string"], ["depth", { optional = true }, ["int", { min = 1 }]]]`),
		configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, ds)
	forms, ds := configtest.LoadWith(t, text(`edn("[:map {:closed true} [:fen :string] [:depth {:optional true} [:int {:min 1}]]]")`),
		configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, ds)
	want, ok := forms.Generation.Registry.Schema("req/mine")
	require.True(t, ok)
	got, ok := lists.Generation.Registry.Schema("req/mine")
	require.True(t, ok)
	assert.Equal(t, want.String(), got.String())

	_, ds = configtest.LoadWith(t, text(`["map", ["fen", "strng"]]`), configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Len(t, ds, 1)
	assert.Equal(t, "config/type", ds[0].Type)
	assert.Contains(t, ds[0].Hint, ":string")
}

// HCL-029: an intent that no capability serves is a warning with the nearest intent of a plugin.
func TestOpenIntentThatNothingServes(t *testing.T) {
	text := configtest.OnePlugin + "\nintent \"chess/best-mov\" {\n  in  = \"req/text\"\n  out = \"res/text\"\n}\n"
	_, ds := configtest.LoadWith(t, text, configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Len(t, ds, 1)
	assert.Equal(t, diag.SeverityWarning, ds[0].Severity)
	assert.Equal(t, "chess/best-move", ds[0].Nearest)
}

// SCH-014, SCH-015: without an intent block the names are kept, and different
// schemas under one name are an error that names both plugins.
func TestUnnamedSchemasOfImpliedIntents(t *testing.T) {
	d := configtest.Describer{
		"a": unnamed(t, "a/one", `[:map [:text :string]]`, `[:map [:text :string]]`),
		"b": unnamed(t, "b/two", `[:map [:prompt :string]]`, `[:map [:text :string]]`),
	}
	_, ds := configtest.LoadWith(t, twoPlugins, d, nil)
	require.Equal(t, []string{"config/duplicate"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, "req/text.respond")
}

// OPS-001, SCH-014: an invalid or mismatched schema of an optional plugin is
// reported, and the configuration remains usable. Its capabilities are registered
// with the reason why the plugin is not started.
func TestDefectOfAnOptionalPlugin(t *testing.T) {
	optional := strings.Replace(configtest.OnePlugin, "\n}", "\n  optional = true\n}", 1)
	intent := "\nintent \"text/respond\" {\n  in         = \"req/text\"\n  out        = \"res/line\"\n  candidates = [\"chess/engine\"]\n}\n" +
		"\nschema \"res/line\" {\n  spec = edn(\"[:map [:text :string]]\")\n}\n"
	for name, row := range map[string]struct {
		more   string
		change func(*contract.Description)
	}{
		"schema": {"", func(d *contract.Description) {
			d.Schemas = map[string]edn.Value{"req/chess.position": edn.MustRead(`[:map [:a [:ref :req/nowhere]]]`)}
		}},
		"schema that refers to a wrong one": {"", func(d *contract.Description) {
			d.Schemas = map[string]edn.Value{
				"req/chess.position": edn.MustRead(`[:map [:a [:ref :req/other]]]`), "req/other": edn.MustRead(`[:nonsense]`),
			}
		}},
		"config schema": {"", func(d *contract.Description) {
			d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:nonsense]}`)
		}},
		"unnamed schema that never fits the intent": {intent, func(d *contract.Description) {
			*d = unnamed(t, "chess/engine", `[:map [:text :string]]`, `[:map [:text :int]]`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := configtest.Chess()
			row.change(&bad)
			d := configtest.Describer{"chess": bad}
			_, ds := configtest.LoadWith(t, configtest.OnePlugin+row.more, d, nil)
			require.Contains(t, configtest.Types(ds), "capability/invalid-metadata")
			require.Equal(t, diag.SeverityError, ds[0].Severity)

			c, ds := configtest.LoadWith(t, optional+row.more, d, nil)
			require.NotNil(t, c.Generation)
			for _, d := range ds {
				assert.Equal(t, diag.SeverityWarning, d.Severity, d.Message)
				assert.Equal(t, "capability/invalid-metadata", d.Type)
			}
			p := c.Plugins[0]
			require.NotNil(t, p.Unusable)
			assert.Equal(t, "capability/invalid-metadata", p.Unusable.Type)
			assert.False(t, p.Starts())
			_, known := c.Generation.Registry.Capability("chess/engine")
			assert.True(t, known)
		})
	}
}
