package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// AUTH-006, AUTH-010, AUTH-011: the blocks operations, auth, intent access and role are
// the access and the identity of a generation.
func TestAccessOfBlocks(t *testing.T) {
	c, ds := configtest.Load(t, anyPlugin+`
role "auditor" {
  intents = ["text/*", "any/one"]
}

intent "any/one" {
  in  = "req/any"
  out = "res/any"

  access {
    any       = ["auditor"]
    forbidden = ["operator"]
  }
}

operations {
  rule "runs/*" {
    any = ["auditor"]
  }

  rule "runs/purge" {
    all = ["admin"]
  }

  rule "admin/drain" {
    any = ["operator"]
  }
}

auth {
  anonymous_role = "auditor"
  global_context = ["role/auditor"]
  account_roles  = { robot = ["operator", "auditor"] }
  strong_types   = ["robot"]

  tokens {
    ttl = "1h"
  }
}
`)
	require.Empty(t, configtest.Types(ds))
	a, who := c.Generation.Access, c.Generation.Identity
	may := func(operation, role string) bool {
		return a.Operation(operation, policy.Caller{Roles: []string{role}}).OK
	}
	assert.True(t, may(policy.ReadRuns, "role/auditor"))
	assert.False(t, may(policy.ReadRuns, policy.RoleUser), "the rule of the namespace replaces the shipped one")
	assert.True(t, may(policy.PurgeRuns, policy.RoleAdmin))
	assert.False(t, may(policy.PurgeRuns, "role/auditor"), "an exact name wins")
	assert.True(t, may("admin/drain", policy.RoleOperator))
	assert.False(t, may("admin/status", policy.RoleOperator))
	assert.True(t, may(policy.Act, policy.RoleUser), "shipped")
	assert.Equal(t, policy.Rule{Any: []string{"role/auditor"}, All: []string{}, Forbidden: []string{policy.RoleOperator}, Where: a.Intents["any/one"].Where}, a.Intents["any/one"])
	assert.Regexp(t, `^ferment.hcl:\d+:3$`, a.Intents["any/one"].Where)
	assert.Equal(t, map[string][]string{"role/auditor": {"any/one", "text/*"}}, a.RoleIntents)
	assert.True(t, who.Required)
	assert.Equal(t, "role/auditor", who.Anonymous)
	assert.Equal(t, []string{"role/auditor"}, who.Global)
	assert.ElementsMatch(t, []string{policy.RoleOperator, "role/auditor"}, who.Account["robot"])
	assert.Equal(t, []string{"robot", "simple"}, who.Types())
	assert.Equal(t, time.Hour, who.TokenTTL)
	assert.Equal(t, 365*24*time.Hour, who.MaxTokenTTL)
	assert.EqualValues(t, 19<<10, who.Basic.Memory)
	assert.Contains(t, who.Known, "role/auditor")
}

// AUTH-031: the profiles for development need no credentials, and their callers are
// users; all others need them.
func TestIdentityOfProfiles(t *testing.T) {
	for profile, open := range map[string]bool{"prod": false, "dev": true, "admin": false, "test": true, "test-live": false} {
		c, _ := configtest.Load(t, "ferment {\n  profile = \""+profile+"\"\n}\n")
		require.NotNil(t, c.Generation, profile)
		assert.Equal(t, !open, c.Generation.Identity.Required, profile)
		want := policy.RoleAnonymous
		if open {
			want = policy.RoleUser
		}
		assert.Equal(t, want, c.Generation.Identity.Anonymous, profile)
		assert.Equal(t, policy.ShippedOperationRules(), c.Generation.Access.Operations, profile)
	}
}

// HCL-029, HCL-031: each row gives one diagnostic at the place of the mistake.
func TestAccessProblems(t *testing.T) {
	for text, want := range map[string]string{
		"operations {\n  rule \"runs/raed\" {\n    any = [\"user\"]\n  }\n}":  `config/dangling-reference operations, rule "runs/raed" names the unknown operation "runs/raed" at 5:3`,
		"operations {\n  rule \"admin/dran\" {\n    any = [\"user\"]\n  }\n}": `config/dangling-reference operations, rule "admin/dran" names the unknown operation "admin/dran" at 5:3`,
		"operations {\n  rule \"nope/*\" {\n    any = [\"user\"]\n  }\n}":     `config/dangling-reference operations, rule "nope/*" names the unknown operation "nope/*" at 5:3`,
		"operations {\n  rule \"runs/read\" {\n    any = [\"usr\"]\n  }\n}":   `config/dangling-reference operations, rule "runs/read" names the unknown role "usr" at 6:12`,
		"auth {\n  anonymous_role = \"nope\"\n}":                              `config/dangling-reference auth names the unknown role "nope" at 5:20`,
		"auth {\n  logged_in_role = \"nope\"\n}":                              `config/dangling-reference auth names the unknown role "nope" at 5:20`,
		"auth {\n  global_context = [\"user\", \"nope\"]\n}":                  `config/dangling-reference auth names the unknown role "nope" at 5:29`,
		"auth {\n  account_roles = { robot = [\"nope\"] }\n}":                 `config/dangling-reference auth names the unknown role "nope" at 5:30`,
		"auth {\n  account_roles = { \"My Robot\" = [] }\n}":                  `config/type account_roles in auth: "My Robot" is not an account type at 5:21`,
		"auth {\n  strong_types = [\"A B\"]\n}":                               `config/type strong_types in auth: "A B" is not an account type at 5:19`,
		"auth {\n  tokens {\n    ttl = \"400d\"\n  }\n}":                      `config/range`,
		"auth {\n  oidc \"x\" {}\n}":                                          `config/reserved "oidc" in auth is not supported`,
		"role \"x\" {\n  intents = [\"text\"]\n}":                             `config/type role "x": "text" is not the name of an intent at 5:14`,
		"http {\n  listen = [\"127.0.0.1:0\", \"10.0.0.1:80\"]\n}":            `http/insecure-listener listen in http: "10.0.0.1:80" is open to other machines at 5:28`,
		"http {\n  listen = [\":80\"]\n}":                                     `http/insecure-listener listen in http: ":80" is open to other machines at 5:13`,
		"http {\n  tls_terminated_by_proxy = true\n}":                         `config/missing tls_terminated_by_proxy in http requires trusted_proxies at 5:29`,
		"http {\n  trusted_proxies = [\"10.0.0.1/8\"]\n}":                     `config/range`,
	} {
		_, ds := configtest.Load(t, anyPlugin+text+"\n")
		if !assert.NotEmpty(t, ds, text) {
			continue
		}
		got := ds[0].Type + " " + ds[0].Message
		if ds[0].Range != nil {
			got += " at " + ds[0].Range.String()[len("ferment.hcl:"):]
		}
		assert.Contains(t, got, want, text)
	}
	_, ds := configtest.Load(t, anyPlugin+"http {\n  listen                  = [\"0.0.0.0:80\"]\n  trusted_proxies         = [\"10.0.0.0/8\"]\n  tls_terminated_by_proxy = true\n}\n")
	assert.Empty(t, configtest.Types(ds), "callers are identified, and TLS ends at the proxy")
}
