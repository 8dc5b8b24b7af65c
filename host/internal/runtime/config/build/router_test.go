package build_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// routable is a plugin that answers, and can choose who does.
func routable(t *testing.T) configtest.Describer {
	t.Helper()
	d := configtest.Chess()
	for _, text := range []string{
		`{:cap/id :t/voice :cap/kind :llm :cap/intents #{:text/respond} :io/in-schema :req/text :io/out-schema :res/text}`,
		`{:cap/id :t/router :cap/kind :llm :cap/intents #{:route/decide} :io/in-schema :req/route :io/out-schema :res/route}`,
	} {
		c, err := contract.ParseCapability(edn.MustRead(text))
		if err != nil {
			require.NoError(t, err)
		}
		d.Capabilities = append(d.Capabilities, c)
	}
	return configtest.Describer{"chess": d}
}

// RTE-007: the router block, profiles over it, and what a request says.
func TestRouter(t *testing.T) {
	c, ds := configtest.LoadWith(t, configtest.OnePlugin+`
router {
  meta         = true
  strict       = true
  capability   = "t/router"
  meta_intents = ["text/respond", "chess/best-move"]
  meta_share   = 0.1
  profile      = "careful"

  profile "careful" {
    on_error = "fail-open"
    force    = true
  }

  profile "low-latency" {
    on_error = "fail-closed"
  }
}
`, routable(t), nil)
	require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	s := c.Generation.Routing
	for _, row := range []struct{ intent, asked, want string }{
		{"text/respond", "{}", "careful asks fail-open force t/router"},
		{"chess/best-move", "{}", "careful asks fail-open force t/router"},
		{"route/decide", "{}", "careful silent fail-open force t/router"},
		{"text/other", "{}", "careful silent fail-open force t/router"},
		{"text/respond", "{:profile :default}", "default asks fail-closed t/router"},
		{"text/respond", "{:profile :strict-meta}", "strict-meta asks fail-closed t/router"},
		{"text/respond", "{:profile :low-latency}", "low-latency silent fail-closed t/router"},
		{"text/respond", "{:profile :low-latency :meta? true :strict? false}", "low-latency asks fail-open t/router"},
		{"text/respond", "{:strict? true :on-error :fail-open}", "careful asks fail-open force t/router"},
		{"text/respond", "{:force? false :cap/id :a/b}", "careful asks fail-open a/b"},
	} {
		choice, err := s.Choose(row.intent, edn.MustRead(row.asked))
		require.Nil(t, err)
		got := choice.Profile + map[bool]string{true: " asks ", false: " silent "}[choice.Ask] + choice.OnError()
		if choice.Force {
			got += " force"
		}
		assert.Equal(t, row.want, got+" "+choice.Capability, "%s %s", row.intent, row.asked)
		assert.InDelta(t, 0.1, choice.Share, 1e-9)
	}
}

// RTE-004: without a router block no router is asked unless a request demands it.
func TestNoRouter(t *testing.T) {
	c, ds := configtest.LoadWith(t, configtest.OnePlugin, routable(t), nil)
	require.Empty(t, configtest.Types(ds))
	for asked, want := range map[string]bool{"{}": false, "{:meta? true}": true, "{:profile :strict-meta}": true, "{:profile :default}": false} {
		choice, err := c.Generation.Routing.Choose("text/respond", edn.MustRead(asked))
		require.Nil(t, err)
		assert.Equal(t, want, choice.Ask, asked)
		assert.InDelta(t, 0.2, choice.Share, 1e-9)
	}
}

// RTE-009: each mistake is one diagnostic with a range, of its type.
func TestRouterMistakes(t *testing.T) {
	for _, row := range []struct{ name, text, typ, says, near string }{
		{"capability", `router { capability = "t/ruter" }`, "router/unknown-capability", `unknown capability "t/ruter"`, "t/router"},
		{"capability of a profile", "router {\n  profile \"x\" {\n    capability = \"t/ruter\"\n  }\n}", "router/unknown-capability", `unknown capability "t/ruter"`, "t/router"},
		{"capability with a role", `router { capability_role = { "t/voise" = "voice" } }`, "router/unknown-capability", `"t/voise"`, "t/voice"},
		{"intent", `router { intent = "route/decied" }`, "router/invalid-config", `unknown intent "route/decied"`, "route/decide"},
		{"meta intent", `router { meta_intents = ["text/respnd"] }`, "router/invalid-config", `unknown intent "text/respnd"`, "text/respond"},
		{"its own intent", `router { meta_intents = ["route/decide"] }`, "router/invalid-config", `never routed itself`, ""},
		{"meta intent with a plan", `router { meta_intents = ["text/respond"] }
intent "text/respond" {
  in   = "req/text"
  out  = "res/text"
  plan = edn("{:nodes [{:op :emit :input {:text \"a\"}}]}")
}`, "config/unused", `meta_intents names "text/respond", which has a plan`, ""},
		{"profile", `router { profile = "strict-mata" }`, "router/invalid-config", `unknown profile "strict-mata"`, "strict-meta"},
		{"role", `router { intent_role = { "text/respond" = "vioce" } }`, "router/invalid-config", `role "vioce", which has no prompt`, "voice"},
		{"model key", `router { intent_model_key = { "text/respond" = "large/" } }`, "router/invalid-config", `"large/", which is not a model key`, ""},
		{"capability with a model key", `router { capability_model_key = { "t/voise" = "large" } }`, "router/unknown-capability", `"t/voise"`, "t/voice"},
		{"intent with a role", `router { intent_default_role = { "text/respnd" = "voice" } }`, "router/invalid-config", `unknown intent "text/respnd"`, "text/respond"},
	} {
		c, ds := configtest.LoadWith(t, configtest.OnePlugin+"\n"+row.text+"\n", routable(t), nil)
		require.Len(t, ds, 1, "%s: %s", row.name, c.Report(0).Text(false))
		assert.Equal(t, row.typ, ds[0].Type, row.name)
		assert.Contains(t, ds[0].Message, row.says, row.name)
		assert.Equal(t, row.near, ds[0].Nearest, row.name)
		require.NotNil(t, ds[0].Range, row.name)
	}
	_, ds := configtest.LoadWith(t, configtest.OnePlugin+"\nrouter { meta = true }\n", configtest.Describer{"chess": configtest.Chess()}, nil)
	assert.Equal(t, []string{"router/invalid-config"}, configtest.Types(ds), "nothing serves route/decide")
}

// RTE-003: the roles of the router block stand between those of blocks and the
// built-in ones.
func TestRouterRoles(t *testing.T) {
	c, ds := configtest.LoadWith(t, configtest.OnePlugin+`
prompts {
  roles = { calm = "Be calm.", loud = "Be loud.", wild = "Be wild." }
}

router {
  capability_role     = { "t/voice" = "loud" }
  intent_role         = { "text/respond" = "calm" }
  intent_default_role = { "text/respond" = "wild", "route/decide" = "wild" }
}
`, routable(t), nil)
	require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	book, reg := c.Generation.Prompts, c.Generation.Registry
	voice, _ := reg.Capability("t/voice")
	for _, row := range []struct {
		asked, intent string
		c             *registry.Capability
		role, rule    string
	}{
		{"solver", "text/respond", voice, "solver", prompt.RuleCall},
		{"", "text/respond", voice, "loud", prompt.RuleRouterCapability},
		{"", "text/respond", nil, "calm", prompt.RuleRouterIntent},
		{"", "route/decide", nil, "wild", prompt.RuleRouterDefault},
		{"", "eval/grade", nil, "judge", prompt.RuleBuiltin},
		{"", "a/b", nil, "voice", prompt.RuleDefault},
	} {
		in, _ := reg.Intent(row.intent)
		role, rule := book.RoleOf(row.asked, row.intent, row.c, in)
		assert.Equal(t, row.role+" "+row.rule, role+" "+rule, "%s %s", row.asked, row.intent)
	}
}

// RTE-003: each level of the rules for model keys, strongest first, and none without a
// rule. A value that is not a model key is an error at its attribute.
func TestModelKeys(t *testing.T) {
	const router = `
router {
  capability_model_key     = { "t/voice" = "large" }
  intent_model_key         = { "text/respond" = "vendor/middle" }
  intent_default_model_key = { "text/respond" = "small", "route/decide" = "small" }
}
`
	const block = `
capability "t/voice" {
  plugin    = "chess"
  model_key = "own"
}
intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["t/voice"]
  model_key  = "written"
}
`
	for _, row := range []struct {
		text, asked, intent string
		capability          bool
		want                string
	}{
		{router + block, `:asked/model`, "text/respond", true, ":asked/model call"},
		{router + block, `nil`, "text/respond", true, `"own" capability`},
		{router, `nil`, "text/respond", true, `"large" router/capability-model-key`},
		{router + block, `nil`, "text/respond", false, `"written" intent`},
		{router, `nil`, "text/respond", false, `"vendor/middle" router/intent-model-key`},
		{router, `nil`, "route/decide", false, `"small" router/intent-default-model-key`},
		{router, `nil`, "a/b", false, `nil `},
		{"", `nil`, "text/respond", true, `nil `},
	} {
		c, ds := configtest.LoadWith(t, configtest.OnePlugin+row.text, routable(t), nil)
		require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
		in, _ := c.Generation.Registry.Intent(row.intent)
		var voice *registry.Capability
		if row.capability {
			voice, _ = c.Generation.Registry.Capability("t/voice")
		}
		key, rule := c.Generation.Prompts.ModelOf(edn.MustRead(row.asked), row.intent, voice, in)
		assert.Equal(t, row.want, key.String()+" "+rule)
	}
	for _, wrong := range []string{"a/", "/b", "two words"} {
		_, ds := configtest.LoadWith(t, configtest.OnePlugin+`
intent "text/respond" {
  in        = "req/text"
  out       = "res/text"
  model_key = "`+wrong+`"
}
`, routable(t), nil)
		assert.Equal(t, []string{"config/range"}, configtest.Types(ds), wrong)
	}
}

// RTE-002: a plan template is checked when the configuration is loaded, with the request
// as its bindings.
func TestPlanTemplates(t *testing.T) {
	template := func(nodes string) string {
		return configtest.OnePlugin + `
intent "text/respond" {
  in   = "req/text"
  out  = "res/text"
  plan = edn(<<-EDN
    {:nodes [` + nodes + `]}
  EDN
  )
}
`
	}
	load := func(nodes string) (*config.Config, diag.Diagnostics) {
		return configtest.LoadWith(t, template(nodes), routable(t), nil)
	}
	shallow := func(nodes string) diag.Diagnostics {
		_, ds := configtest.LoadWith(t, "ferment {\n  max_depth = 1\n}\n"+template(nodes), routable(t), nil)
		return ds
	}
	nested := `{:op :plan :as :all :plan {:nodes [
			{:op :call :intent :text/respond :input {:slot/id :input} :as :s}
			{:op :emit :input {:slot/path [:s :out]}}]}}
		{:op :emit :input {:slot/path [:all :out]}}`
	_, ds := load(nested)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"protocol/invalid"}, configtest.Types(shallow(nested)), "with the limits of the host")
	c, ds := load(`{:op :call :intent :text/respond :input {:slot/id :input} :as :solver} {:op :emit :input {:text {:slot/path [:solver :text]}}}`)
	require.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	in, _ := c.Generation.Registry.Intent("text/respond")
	assert.Equal(t, 2, in.Plan.Key("nodes").Len())
	for _, nodes := range []string{
		`{:op :call :intent :text/respnd :input {:slot/id :input}}`,
		`{:op :call :intent :text/respond :input {:slot/id :request}}`,
		`7`,
	} {
		_, ds := load(nodes)
		require.NotEmpty(t, ds, nodes)
		for _, d := range ds {
			assert.Equal(t, "protocol/invalid", d.Type, d.Message)
			require.NotNil(t, d.Range)
			assert.Contains(t, d.Message, ":nodes")
		}
	}
}
