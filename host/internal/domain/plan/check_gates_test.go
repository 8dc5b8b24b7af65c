package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// gated is an environment with the intents flow/make and flow/take, whose
// answers have schema out, and a check good that calls flow/judge, whose input
// has schema in. change modifies the check and its capability.
func gated(t testing.TB, out, in string, change func(*quality.Check, *contract.Capability)) plan.Env {
	t.Helper()
	specs := schema.Builtin()
	specs["res/made"] = edn.MustRead(out)
	specs["req/judged"] = edn.MustRead(in)
	schemas, err := schema.NewRegistry(specs)
	require.NoError(t, err)
	check := quality.Check{Check: registry.Check{Name: "good", Kind: registry.CheckCapability, Intent: "flow/judge"}}
	judge := serve("flow/judge", "checker", "flow/judge", "req/judged", "res/any")
	if change != nil {
		change(&check, &judge.Capability)
	}
	set, err := quality.NewSet(check)
	require.NoError(t, err)
	r, err := registry.New(registry.Spec{
		Schemas: schemas,
		Checks:  set.Declarations(),
		Capabilities: []registry.Capability{
			serve("flow/maker", "tool", "flow/make", "req/any", "res/made"),
			judge,
		},
	})
	require.NoError(t, err)
	return plan.Env{Registry: r}
}

// verdicts lists severity and path of the findings CHECK-022 of a plan. Other errors fail the test.
func verdicts(t testing.TB, env plan.Env, nodes string) []string {
	t.Helper()
	p, fs := readPlan(t, "{:nodes ["+nodes+"]}")
	require.NotNil(t, p, "%v", fs)
	var out []string
	for _, f := range plan.Check(p, env) {
		if f.Check == "CHECK-022" {
			out = append(out, f.Severity.String()+" "+edn.Vector(f.Path...).String())
		} else {
			assert.NotEqual(t, plan.Error, f.Severity, f.Message)
		}
	}
	return out
}

// CHECK-022, GATE-009: a must check that requires a key which neither request
// nor answer names is a warning.
func TestMustChecksWithoutInput(t *testing.T) {
	const none, at = "", "warning [:nodes 0 :done :must]"
	params := func(text string) func(*quality.Check, *contract.Capability) {
		return func(c *quality.Check, _ *contract.Capability) { c.Params = edn.MustRead(text) }
	}
	for _, tt := range []struct {
		out, in, input string
		change         func(*quality.Check, *contract.Capability)
		want           string
	}{
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:c 1}", nil, at},
		{"[:map [:a :int]]", "[:map [:a :int]]", "{:c 1}", nil, none},
		{"[:map [:a {:optional true} :int]]", "[:map [:a :int]]", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:map [:a :int] [:b :int]]", "{:c 1}", nil, at},
		{"[:map [:a :int]]", "[:map [:b {:optional true} :int]]", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:b 1}", nil, none},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:b {:slot/id :v}}", nil, none},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:c {:slot/id :v}}", nil, at},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:slot/id :v}", nil, none},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:c 1}", params("{:b 1}"), none},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:c 1}", params("{:d 1}"), at},
		{"[:map [:a :int]]", "[:map [:check/request :map] [:check/result :any]]", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:map [:check/results :map]]", "{:c 1}", nil, at},
		{"[:map [:a :int]]", ":any", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:or [:map [:b :int]] :any]", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:or [:map [:b :int]] [:map [:a :int]]]", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:or [:map [:b :int]] [:map [:d :int]]]", "{:c 1}", nil, at},
		{"[:or [:map [:a :int]] [:map [:b :int]]]", "[:map [:b :int]]", "{:c 1}", nil, none},
		{":any", "[:map [:b :int]]", "{:c 1}", nil, none},
		{":map", "[:map [:b :int]]", "{:c 1}", nil, none},
		{"[:or [:map [:a :int]] :map]", "[:map [:b :int]]", "{:c 1}", nil, none},
		{"[:or [:map [:a :int]] :int]", "[:map [:b :int]]", "{:c 1}", nil, none},
		{"[:map [:a :int]]", "[:map [:b :int]]", "{:c 1}", func(c *quality.Check, _ *contract.Capability) {
			c.Applies = func(quality.Subject) (bool, *quality.Finding) { return true, nil }
		}, none},
	} {
		node := fmt.Sprintf(`{:op :call :intent :flow/make :input %s :done {:must [:good]}}`, tt.input)
		env := gated(t, tt.out, tt.in, tt.change)
		env.Outer = func(name string) bool { return name == "v" }
		got := append(verdicts(t, env, node), none)[0]
		assert.Equal(t, tt.want, got, "%s of %s for %s", tt.input, tt.out, tt.in)
	}
	// A should check without input is no warning, nor is a check of another
	// node.
	env := gated(t, "[:map [:a :int]]", "[:map [:b :int]]", nil)
	assert.Empty(t, verdicts(t, env, `{:op :call :intent :flow/make :done {:should [:good]}}`))
	assert.Empty(t, verdicts(t, env, `{:op :call :intent :flow/make}`))
	assert.Equal(t, []string{"warning [:nodes 0 :dispatch :checks]"}, verdicts(t, env,
		`{:op :call :intent :flow/make :dispatch {:checks [:good]}}`))
	assert.Equal(t, []string{"warning [:nodes 0 :dispatch :checks/hard]"}, verdicts(t, env,
		`{:op :call :intent :flow/make :dispatch {:checks/hard [:good]}}`))
}

// CHECK-022: must checks of weaker layers count too and are reported at the key
// that names the callee. A hard list of the node replaces their checks, but not
// their must lists.
func TestInheritedMusts(t *testing.T) {
	by := policy.Origin{Source: policy.SourceIntent}
	for _, tt := range []struct {
		layer policy.Layer
		node  string
		want  string
	}{
		{policy.Layer{Must: policy.NamesOf(by, "good")}, ``, "warning [:nodes 0 :intent]"},
		{policy.Layer{Must: policy.NamesOf(by, "good")}, `:dispatch {:checks/hard []}`, "warning [:nodes 0 :intent]"},
		{policy.Layer{Must: policy.NamesOf(by, "absent")}, ``, "error [:nodes 0 :intent]"},
		{policy.Layer{Must: policy.NamesOf(by, "schema-valid")}, ``, ""},
		{policy.Layer{Checks: policy.Additive{Add: policy.Of(policy.NamesOf(by, "good"), by)}}, ``,
			"warning [:nodes 0 :intent]"},
		{policy.Layer{Checks: policy.Additive{Add: policy.Of(policy.NamesOf(by, "good"), by)}},
			`:dispatch {:checks/hard []}`, ""},
	} {
		env := gated(t, "[:map [:a :int]]", "[:map [:b :int]]", nil)
		env.Policies = &policy.Book{Intents: map[string]policy.Layer{"flow/make": tt.layer}}
		node := `{:op :call :intent :flow/make ` + tt.node + `}`
		assert.Equal(t, tt.want, append(verdicts(t, env, node), "")[0], "%v %s", tt.layer, tt.node)
	}
	env := gated(t, "[:map [:a :int]]", "[:map [:b :int]]", nil)
	const tool = `{:op :tool :tool/id :flow/maker :effects {:allowed #{:none}} :done {:must [:good]}}`
	assert.Equal(t, []string{"warning [:nodes 0 :done :must]"}, verdicts(t, env, tool))
	env.Policies = &policy.Book{Default: policy.Layer{Must: policy.NamesOf(by, "good")}}
	assert.Equal(t, []string{"warning [:nodes 0 :tool/id]"}, verdicts(t, env,
		`{:op :tool :tool/id :flow/maker :effects {:allowed #{:none}}}`))
	const call = `{:op :call :intent :flow/make}`
	assert.Equal(t, []string{"warning [:nodes 0 :intent]", "warning [:nodes 1 :intent]"}, verdicts(t, env, call+call))
	assert.Equal(t, []string{"CHECK-013 [:nodes 0 :output :schema]"},
		places(t, env, `{:nodes [{:op :call :intent :flow/make :output {:schema :res/unknown}}]}`),
		"an answer that nothing describes")
}

// CHECK-022, GATE-009: a check is not served by the capability that it judges,
// and it only reads.
func TestMustChecksByTheAuthor(t *testing.T) {
	const never = "error [:nodes 0 :done :must]"
	both := func(_ *quality.Check, c *contract.Capability) { c.Intents = append(c.Intents, "flow/make") }
	writes := func(_ *quality.Check, c *contract.Capability) { c.Effects = []string{"fs/write"} }
	reads := func(_ *quality.Check, c *contract.Capability) { c.Effects = []string{"fs/read"} }
	tests := func(kind string) func(*quality.Check, *contract.Capability) {
		return func(check *quality.Check, c *contract.Capability) { check.Name, c.Kind = registry.TestsPass, kind }
	}
	for _, tt := range []struct {
		name, keys string
		change     func(*quality.Check, *contract.Capability)
		want       string
	}{
		{"good", ``, nil, ""},
		{"good", ``, both, ""}, // flow/maker may serve
		{"good", `:dispatch {:candidates [:flow/judge]}`, both, never},
		{"good", `:dispatch {:candidates [:flow/judge :flow/maker]}`, both, ""},
		{"good", `:dispatch {:candidates [{:slot/id :v}]}`, both, ""},
		{"good", `:cap/id :flow/judge`, both, never},
		{"good", ``, writes, never},
		{"good", ``, reads, ""},
		{registry.TestsPass, ``, tests("llm"), never},
		{registry.TestsPass, ``, tests("tool"), ""},
	} {
		env := gated(t, ":map", ":map", tt.change)
		env.Outer = func(name string) bool { return name == "v" }
		node := fmt.Sprintf(`{:op :call :intent :flow/make :done {:must [:%s]} %s}`, tt.name, tt.keys)
		assert.Equal(t, tt.want, append(verdicts(t, env, node), "")[0], node)
	}
}
