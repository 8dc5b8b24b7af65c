package plan_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// serve makes a capability that serves one intent.
func serve(id, kind, intent, in, out string, change ...func(*contract.Capability)) registry.Capability {
	c := contract.Capability{
		ID: id, Kind: kind, Version: "1.0.0", Intents: []string{intent}, CanProduce: []string{"value"},
		Effects: []string{"none"}, InSchema: contract.SchemaRef{Name: in}, OutSchema: contract.SchemaRef{Name: out},
	}
	for _, f := range change {
		f(&c)
	}
	return registry.Capability{Capability: c, Plugin: "test"}
}

func canPlan(c *contract.Capability) { c.CanProduce = []string{"plan", "value"} }

func withEffects(list ...string) func(*contract.Capability) {
	return func(c *contract.Capability) { c.Effects = list }
}

// testSpec is a registry in which the plans of the tests are valid.
func testSpec(t testing.TB) registry.Spec {
	t.Helper()
	specs := schema.Builtin()
	specs["req/fs.write"] = edn.MustRead(`[:map [:path :string] [:content :string]]`)
	specs["res/fs.write"] = edn.MustRead(`[:map [:bytes :int]]`)
	specs["req/number"] = edn.MustRead(`[:map {:closed true} [:n :int] [:list {:optional true} [:vector :int]]]`)
	specs["res/number"] = edn.MustRead(`[:map {:closed true} [:n :int] [:s :string] [:many [:vector :int]]]`)
	schemas, err := schema.NewRegistry(specs)
	require.NoError(t, err)
	checks, err := quality.NewSet(
		quality.Check{Check: registry.Check{Name: "legal-move", Kind: registry.CheckCapability, Intent: "chess/verify-move"}},
		quality.Check{Check: registry.Check{Name: "tests-pass", Kind: registry.CheckCapability, Intent: "code/test"}},
	)
	require.NoError(t, err)
	return registry.Spec{
		Schemas: schemas,
		Checks:  checks.Declarations(),
		Intents: []registry.Intent{
			{ID: "text/respond", In: "req/text", Out: "res/text"},
			{ID: "context/summarize", In: "req/text", Out: "res/context-summary"},
			{ID: "problem/solve", In: "req/problem", Out: "res/problem"},
			{ID: "plan/compile", In: "req/any", Out: "res/any", ResultTypes: []string{"value", "plan"}},
			{ID: "idle/nobody", In: "req/any", Out: "res/any"},
		},
		Capabilities: []registry.Capability{
			serve("llm/voice", "llm", "text/respond", "req/text", "res/text"),
			serve("llm/meta", "llm", "context/summarize", "req/text", "res/context-summary"),
			serve("llm/solver", "llm", "problem/solve", "req/problem", "res/problem"),
			serve("chess/engine-v7", "solver", "chess/best-move", "req/any", "res/chess.move+pv+eval"),
			serve("chess/rules", "checker", "chess/verify-move", "req/any", "res/any"),
			serve("num/add", "solver", "num/add", "req/number", "res/number"),
			serve("plan/compiler", "llm", "plan/compile", "req/any", "res/any", canPlan),
			serve("fs/write", "tool", "fs/write", "req/fs.write", "res/fs.write", withEffects("fs/write")),
			serve("fs/read", "tool", "fs/read", "req/any", "res/text", withEffects("fs/read")),
			serve("fs/scribe", "tool", "fs/scribe", "req/any", "res/text", withEffects("fs/write")),
		},
		Absent: []registry.Absent{{ID: "llm/absent", Plugin: "off", Why: contract.Errorf("provider/not-configured", "the plugin is disabled")}},
	}
}

func testEnv(t testing.TB) plan.Env {
	t.Helper()
	r, err := registry.New(testSpec(t))
	require.NoError(t, err)
	return plan.Env{Registry: r}
}

// readPlan reads and parses a plan text with positions.
func readPlan(t testing.TB, text string, opts ...plan.Option) (*plan.Plan, []plan.Finding) {
	t.Helper()
	v, pos, err := edn.ReadWithPositions([]byte(text))
	require.NoError(t, err)
	return plan.Parse(v, pos, opts...)
}

// lines renders all findings of a plan text.
func lines(t testing.TB, text string, env plan.Env) []string {
	t.Helper()
	p, fs := readPlan(t, text)
	if p != nil {
		fs = plan.Check(p, env)
	}
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.Render("plan.edn")
	}
	return out
}

// load links a plan text that must have no errors.
func load(t testing.TB, text string, env plan.Env) *plan.Program {
	t.Helper()
	p, _ := readPlan(t, text)
	require.NotNil(t, p)
	for _, f := range plan.Check(p, env) {
		require.NotEqual(t, plan.Error, f.Severity, f.Render("plan.edn"))
	}
	prog, err := plan.Link(p, env)
	require.Nil(t, err)
	return prog
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(b)
}
