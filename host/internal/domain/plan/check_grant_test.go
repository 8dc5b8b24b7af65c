package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// TestGrantCoversCallsAndTools: CHECK-001, CHECK-021, FX-002, a node whose
// candidates are all denied by roles, configuration or scope is rejected before
// the run, whether it is a call or a tool. One permitted candidate is enough.
func TestGrantCoversCallsAndTools(t *testing.T) {
	spec := testSpec(t)
	for i := range spec.Capabilities {
		if c := &spec.Capabilities[i]; c.ID == "fs/write" {
			c.Advertised, c.Confines = "fs/write-file", true
			c.Intents = []string{"fs/write", "fs/save"}
		}
	}
	put := serve("fs/put", "tool", "fs/put", "req/any", "res/any", withEffects("fs/write"))
	put.Advertised, put.Confines = "fs/write-file", true
	spec.Capabilities = append(spec.Capabilities,
		put,
		serve("calc/save", "solver", "fs/save", "req/any", "res/any"),
		serve("web/save", "tool", "fs/save", "req/any", "res/any", withEffects("net/http")))
	spec.Intents = append(spec.Intents, registry.Intent{ID: "fs/save", In: "req/any", Out: "res/any", Candidates: []string{"fs/write", "web/save"}})
	reg, err := registry.New(spec)
	require.NoError(t, err)
	scope := func(effect, text string) policy.Scoped {
		s, err := effects.ParseScope(effect, edn.MustRead(text))
		require.Nil(t, err)
		return policy.Scoped{Effect: effect, Scope: s}
	}
	effects := &policy.Effects{Rules: policy.ShippedEffectRules(), Host: policy.ScopesOf(
		scope("fs/write", `{:enabled true :roots ["/srv"] :allow ["reports"]}`), scope("net/http", `{:enabled false}`))}
	admin := []string{policy.RoleAdmin}
	const (
		allowed  = ` :effects {:allowed #{:fs/write :net/http}}`
		inside   = ` :input {:path "reports/a" :content "x"}`
		outside  = ` :input {:path "other/a" :content "x"}`
		narrowed = ` :effects {:allowed #{:fs/write} :scope {:fs/write {:allow ["reports/2026"]}}}`
		disabled = ` :effects {:allowed #{:fs/write} :scope {:fs/write {:enabled false}}}`
		bound    = `{:op :let :value "a" :as :a}`
		filled   = ` :input {:path {:slot/id :a} :content "x"}`
	)
	tool := func(rest string) string { return `{:op :tool :tool/id :fs/write` + rest + `}` }
	call := func(intent, rest string) string { return `{:op :call :intent :` + intent + rest + `}` }
	at := func(node int, key string) []edn.Value {
		return []edn.Value{edn.K("nodes"), edn.Int(int64(node)), edn.K(key)}
	}
	for _, row := range []struct {
		name, nodes string
		roles       []string
		path        []edn.Value // path of the only finding; nil: the plan is accepted
		ask         string      // effect that the hint tells the request to allow
	}{
		{"tool permitted", tool(inside + allowed), admin, nil, ""},
		{"call permitted", call("fs/write", inside+allowed), admin, nil, ""},
		{"tool, role without the effect", tool(inside + allowed), nil, at(0, "tool/id"), ""},
		{"call, role without the effect", call("fs/write", inside+allowed), nil, at(0, "intent"), ""},
		{"tool, path outside the scope", tool(outside + allowed), admin, at(0, "input"), ""},
		{"call, path outside the scope", call("fs/write", outside+allowed), admin, at(0, "input"), ""},
		{"call, input known to the run only", bound + call("fs/write", filled+allowed), admin, nil, ""},
		{"call, any input known to the run only", bound + call("fs/put", filled+allowed), admin, nil, ""},
		{"call, any input outside the scope", call("fs/put", outside+allowed), admin, at(0, "input"), ""},
		{"tool, root relative to the run", tool(` :input {:root "x" :path "reports/a" :content "x"}` + allowed), admin, nil, ""},
		{"tool, root outside the scope", tool(` :input {:root "/x" :path "reports/a" :content "x"}` + allowed), admin,
			at(0, "input"), ""},
		{"nothing allowed, call disabled by the host", call("fs/save", ` :cap/id :web/save`), admin, at(0, "intent"), ""},
		{"nothing allowed, call permitted else", call("fs/save", inside), admin, at(0, "intent"), "fs/write"},
		{"nothing allowed, the second permitted", call("fs/save", inside+` :dispatch {:candidates [:web/save :fs/write]}`), admin,
			at(0, "intent"), "fs/write"},
		{"tool, effect missing in the node", tool(inside + ` :effects {:allowed #{:net/http}}`), nil, at(0, "effects"), ""},
		{"tool, scope disabled by the node", bound + tool(filled+disabled), admin, at(1, "tool/id"), ""},
		{"call, scope disabled by the node", bound + call("fs/write", filled+disabled), admin, at(1, "intent"), ""},
		{"call, scope that nothing enforces", call("fs/scribe", narrowed), admin, at(0, "intent"), ""},
		{"call, effect disabled by the host", call("fs/save", allowed+` :cap/id :web/save`), admin, at(0, "intent"), ""},
		{"call, one of two permitted", call("fs/save", inside+allowed), admin, nil, ""},
		{"call, both denied", call("fs/save", outside+allowed), admin, at(0, "input"), ""},
		{"call, another without effects", call("fs/save", outside+allowed+` :dispatch {:candidates [:fs/write :calc/save]}`), admin, nil, ""},
		{"call inside a map", `{:op :map :over [1] :body [` + call("fs/write", inside+allowed) + `]}`, nil,
			append(at(0, "body"), edn.Int(0), edn.K("intent")), ""},
		{"handle of a map", `{:op :map :over [1] :fn {:cap/ref :fs/scribe}}`, nil,
			at(0, "fn"), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			env := plan.Env{Registry: reg, Grant: effects.Grant(policy.Caller{Roles: row.roles})}
			if strings.HasPrefix(row.name, "nothing allowed") {
				env.Request.Effects = policy.Of([]string{}, policy.Origin{Source: policy.SourceRequest})
			}
			p, _ := readPlan(t, `{:nodes [`+row.nodes+`]}`)
			var errs []plan.Finding
			for _, f := range plan.Check(p, env) {
				if f.Severity == plan.Error {
					errs = append(errs, f)
				}
			}
			if row.path == nil {
				assert.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			assert.Equal(t, "CHECK-021", errs[0].Check)
			assert.True(t, edn.Equal(edn.Vector(row.path...), edn.Vector(errs[0].Path...)), "%v", errs[0].Path)
			assert.Equal(t, row.ask, errs[0].Effect, "a request is asked to allow only what the configuration permits")
			if strings.HasSuffix(row.name, "by the host") {
				assert.NotEmpty(t, errs[0].Hint)
			}
		})
	}
}
