package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/schema"
)

func capability(id, plugin string, intents ...string) registry.Capability {
	return registry.Capability{
		Capability: contract.Capability{
			ID: id, Kind: "llm", Version: "1.0.0", Intents: intents, CanProduce: []string{"value"}, Effects: []string{"none"},
			InSchema:  contract.SchemaRef{Name: "req/text"},
			OutSchema: contract.SchemaRef{Name: "res/text", ByIntent: map[string]string{"x/code": "res/code"}},
		},
		Plugin: plugin,
	}
}

func build(t *testing.T) *registry.Registry {
	t.Helper()
	schemas, err := schema.NewRegistry(schema.Builtin())
	require.NoError(t, err)
	open := capability("x/open", "q")
	open.Intents, open.CanProduce, open.Effects = nil, nil, []string{"fs/read", "none"}
	open.Advertised = "native/open"
	open.Tags = []string{"fast", "local"}
	r, err := registry.New(registry.Spec{
		Capabilities: []registry.Capability{open, capability("x/b", "p", "x/do", "x/code"), capability("x/a", "p", "x/do")},
		Intents:      []registry.Intent{{ID: "x/do", In: "req/problem", Out: "res/problem"}, {ID: "x/fixed", Candidates: []string{"x/a"}, ResultTypes: []string{"plan"}}},
		Checks:       []registry.Check{{Name: "legal-move", Kind: registry.CheckCapability}},
		Schemas:      schemas,
	})
	require.NoError(t, err)
	return r
}

func TestLookups(t *testing.T) {
	r := build(t)
	c, ok := r.Capability("x/open")
	require.True(t, ok)
	assert.Equal(t, "native/open", c.Advertised, "the plugin's own id after a rename (ENV-010)")
	b, _ := r.Capability("x/b")
	assert.Equal(t, "x/b", b.Advertised)
	assert.True(t, c.Serves("anything"), "BIND-008")
	assert.True(t, c.Produces("plan"), "BIND-008")
	assert.False(t, b.Serves("x/other"))
	assert.False(t, b.Produces("plan"))
	assert.True(t, c.Effectful())
	assert.False(t, b.Effectful())
	assert.True(t, c.HasTags([]string{"local"}))
	assert.False(t, c.HasTags([]string{"local", "slow"}))
	assert.Equal(t, "x/open", c.ToolIntent())
	assert.Equal(t, "x/do", b.ToolIntent())
	_, ok = r.Capability("x/none")
	assert.False(t, ok)
	_, ok = r.Check("legal-move")
	assert.True(t, ok)
	_, ok = r.Schema("res/text")
	assert.True(t, ok)
	_, ok = r.Schema("")
	assert.False(t, ok)
	assert.Equal(t, []string{"x/a", "x/b", "x/open"}, r.Capabilities())
	assert.Equal(t, []string{"x/code", "x/do", "x/fixed"}, r.Intents())
	assert.Equal(t, []string{"legal-move"}, r.Checks())
	assert.NotNil(t, r.Schemas())
}

// TestImpliedIntent: SCH-015, an undeclared, advertised intent has the schemas
// of the first capability that serves it.
func TestImpliedIntent(t *testing.T) {
	r := build(t)
	in, ok := r.Intent("x/code")
	require.True(t, ok)
	assert.True(t, in.Implied)
	assert.Equal(t, "req/text", in.In)
	assert.Equal(t, "res/code", in.Out, "by intent")
	assert.Equal(t, []string{"value"}, in.Types())
	declared, _ := r.Intent("x/do")
	assert.False(t, declared.Implied)
	fixed, _ := r.Intent("x/fixed")
	assert.Equal(t, []string{"plan"}, fixed.Types())
}

// TestCandidates: BIND-001, configured candidates, else the capabilities that
// serve the intent in the order of declaration, unrestricted ones last.
func TestCandidates(t *testing.T) {
	r := build(t)
	assert.Equal(t, []string{"x/b", "x/a", "x/open"}, r.Candidates("x/do"))
	assert.Equal(t, []string{"x/a"}, r.Candidates("x/fixed"))
	assert.Equal(t, []string{"x/open"}, r.Serving("x/fixed"))
	assert.Empty(t, r.Candidates("x/nobody"))
}

func TestSchemasOfACall(t *testing.T) {
	r := build(t)
	assert.Equal(t, "req/problem", r.InSchema("x/do", ""))
	assert.Equal(t, "req/code", r.InSchema("x/do", "req/code"))
	assert.Equal(t, "res/problem", r.OutSchema("x/do", ""))
	assert.Equal(t, "res/any", r.OutSchema("x/do", "res/any"))
	assert.Empty(t, r.OutSchema("x/none", ""))
	assert.Empty(t, r.InSchema("x/none", ""))
}

func TestNearest(t *testing.T) {
	r := build(t)
	assert.Equal(t, "x/open", r.NearestCapability("x/opne"))
	assert.Equal(t, "x/fixed", r.NearestIntent("x/fixde"))
	assert.Equal(t, "legal-move", r.NearestCheck("legal-mov"))
	assert.Equal(t, "res/text", r.NearestSchema("res/txt"))
	empty, err := registry.New(registry.Spec{})
	require.NoError(t, err)
	assert.Empty(t, empty.NearestSchema("res/text"))
	assert.Empty(t, empty.NearestIntent("x/do"))
}

// TestContradictions: ENV-017, both parties of a duplicate are named.
func TestContradictions(t *testing.T) {
	for want, spec := range map[string]registry.Spec{
		`capability :x/a is given by plugin "p" and by plugin "q"`: {Capabilities: []registry.Capability{capability("x/a", "p"), capability("x/a", "q")}},
		`intent :x/do is declared twice (a.hcl:1:1 and b.hcl:2:1)`: {Intents: []registry.Intent{{ID: "x/do", Where: "a.hcl:1:1"}, {ID: "x/do", Where: "b.hcl:2:1"}}},
		`check :c is declared twice (a.hcl:1:1 and b.hcl:2:1)`:     {Checks: []registry.Check{{Name: "c", Where: "a.hcl:1:1"}, {Name: "c", Where: "b.hcl:2:1"}}},
		`capability 0 of plugin "p" has no id`:                     {Capabilities: []registry.Capability{capability("", "p")}},
		`intent 0 has no id`:                                       {Intents: []registry.Intent{{}}},
		`check 0 has no name`:                                      {Checks: []registry.Check{{}}},
	} {
		_, err := registry.New(spec)
		assert.ErrorContains(t, err, want)
	}
}
