package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// AUTH-006, AUTH-010, AUTH-011: the blocks operations, auth, intent access and role are
// the access and the identity of a generation.
func TestAccessOfBlocks(t *testing.T) {
	c, ds := configtest.Load(t, anyPlugin+`
role "auditor" {
  intents      = ["text/*", "any/one"]
  max_priority = 3
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

  session_token {
    operations = ["http.v1/act"]
  }

  browser {
    enabled = true
  }
}

http {
  cors_origins = ["https://app.example"]
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
	assert.Equal(t, map[string]int{"role/auditor": 3}, a.RolePriority)
	assert.True(t, who.Required)
	assert.Equal(t, "role/auditor", who.Anonymous)
	assert.Equal(t, []string{"role/auditor"}, who.Global)
	assert.ElementsMatch(t, []string{policy.RoleOperator, "role/auditor"}, who.Account["robot"])
	assert.Equal(t, []string{"robot", "simple"}, who.Types())
	assert.Equal(t, time.Hour, who.TokenTTL)
	assert.Equal(t, identity.SessionTokens{Operations: []string{policy.Act}, IdleTTL: 30 * time.Minute, Refresh: 5 * time.Minute}, who.Sessions)
	assert.Equal(t, 12*time.Hour, who.BrowserTTL)
	assert.Equal(t, []string{"https://app.example"}, c.HTTP.Origins)
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

// oidc is a block with an issuer and more attributes.
func oidc(issuer, more string) string {
	if issuer != "" {
		issuer = "issuer = \"" + issuer + "\""
	}
	return "auth {\n  oidc \"x\" {\n    " + issuer + "\naudience = \"ferment\"\n  " + more + "\n}\n}"
}

// AUTH-005: the blocks oidc are the issuers of a generation.
func TestIssuersOfBlocks(t *testing.T) {
	c, ds := configtest.Load(t, anyPlugin+oidc("https://corp.example/realm", `claim = "realm.roles"
roles = { "ops team" = ["operator", "role/user"], staff = ["user"] }
algorithms = ["EdDSA"]
skew = "0s"`))
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []identity.Issuer{{
		Name: "x", URL: "https://corp.example/realm", Audience: "ferment", Algorithms: []string{"EdDSA"}, Claim: "realm.roles",
		Roles: map[string][]string{"ops team": {policy.RoleOperator, policy.RoleUser}, "staff": {policy.RoleUser}},
	}}, c.Generation.Identity.Issuers)
	c, ds = configtest.Load(t, anyPlugin+oidc("https://corp.example", ""))
	require.Empty(t, configtest.Types(ds))
	by := c.Generation.Identity.Issuers[0]
	assert.Equal(t, []string{"RS256", "ES256", "EdDSA"}, by.Algorithms)
	assert.Equal(t, time.Minute, by.Skew)
	assert.Equal(t, "roles", by.Claim)
}

// HCL-029, HCL-031: each row gives one diagnostic at the place of the mistake.
func TestAccessProblems(t *testing.T) {
	for text, want := range map[string]string{
		"operations {\n  rule \"runs/raed\" {\n    any = [\"user\"]\n  }\n}":       `config/dangling-reference operations, rule "runs/raed" names the unknown operation "runs/raed" at 5:3`,
		"operations {\n  rule \"admin/dran\" {\n    any = [\"user\"]\n  }\n}":      `config/dangling-reference operations, rule "admin/dran" names the unknown operation "admin/dran" at 5:3`,
		"operations {\n  rule \"nope/*\" {\n    any = [\"user\"]\n  }\n}":          `config/dangling-reference operations, rule "nope/*" names the unknown operation "nope/*" at 5:3`,
		"operations {\n  rule \"runs/read\" {\n    any = [\"usr\"]\n  }\n}":        `config/dangling-reference operations, rule "runs/read" names the unknown role "usr" at 6:12`,
		"operations {\n  rule \"runs/read\" {\n    forbidden = [\"user\"]\n  }\n}": `config/range operations, rule "runs/read" permits no caller: forbidden only takes from what any or all permits at 6:17`,
		"auth {\n  anonymous_role = \"nope\"\n}":                                   `config/dangling-reference auth names the unknown role "nope" at 5:20`,
		"auth {\n  logged_in_role = \"nope\"\n}":                                   `config/dangling-reference auth names the unknown role "nope" at 5:20`,
		"auth {\n  global_context = [\"user\", \"nope\"]\n}":                       `config/dangling-reference auth names the unknown role "nope" at 5:29`,
		"auth {\n  account_roles = { robot = [\"nope\"] }\n}":                      `config/dangling-reference auth names the unknown role "nope" at 5:30`,
		"auth {\n  account_roles = { \"My Robot\" = [] }\n}":                       `config/type account_roles in auth: "My Robot" is not an account type at 5:21`,
		"auth {\n  strong_types = [\"A B\"]\n}":                                    `config/type strong_types in auth: "A B" is not an account type at 5:19`,
		"auth {\n  tokens {\n    ttl = \"400d\"\n  }\n}":                           `config/range`,
		"auth {\n  session_token {\n    operations = [\"admin/drain\"]\n  }\n}":    `config/range`,
		"auth {\n  session_token {\n    refresh = \"30m\"\n  }\n}":                 `config/range refresh in auth, session_token must be below idle_ttl at 6:15`,
		"auth {\n  client_cert {\n    subjects = { \"CN=a\" = \"ann\" }\n  }\n}":   `config/missing subjects in auth, client_cert requires client_ca_file in http, tls at 6:16`,
		"http {\n  cors_origins = [\"https://a\", \"*\"]\n}":                       `config/type`,
		oidc("", ""):                                                                   `config/missing auth, oidc "x" lacks the attribute "issuer" at 5:3`,
		oidc("http://a", ""):                                                           `config/type auth, oidc "x": issuer is not the URL of an issuer at 6:14`,
		oidc("https://a/?b=c", ""):                                                     `config/type auth, oidc "x": issuer is not the URL of an issuer at 6:14`,
		oidc("https://a", `skew = "6m"`):                                               `config/range`,
		oidc("https://a", `algorithms = ["HS256"]`):                                    `config/range`,
		oidc("https://a", `algorithms = []`):                                           `config/range`,
		oidc("https://a", `claim = ""`):                                                `config/range auth, oidc "x": claim is empty at 8:11`,
		oidc("https://a", `roles = { staff = ["user", "nope"] }`):                      `config/dangling-reference auth, oidc "x" names the unknown role "nope" at 8:30`,
		oidc("https://a", `ca_file = "absent.pem"`):                                    `config/missing auth, oidc "x": ca_file cannot be read at 8:13`,
		oidc("https://a", `ca_file = "ferment.hcl"`):                                   `config/type auth, oidc "x": ca_file has no certificate at 8:13`,
		oidc("https://a", "}\noidc \"y\" {\nissuer = \"https://a\"\naudience = \"b\""): `config/duplicate auth, oidc "y" has the issuer of auth, oidc "x" at 10:10`,
		"role \"x\" {\n  intents = [\"text\"]\n}":                                      `config/type role "x": "text" is not the name of an intent at 5:14`,
		"http {\n  listen = [\"127.0.0.1:0\", \"10.0.0.1:80\"]\n}":                     `http/insecure-listener listen in http: "10.0.0.1:80" is open to other machines at 5:28`,
		"http {\n  listen = [\":80\"]\n}":                                              `http/insecure-listener listen in http: ":80" is open to other machines at 5:13`,
		"http {\n  tls_terminated_by_proxy = true\n}":                                  `config/missing tls_terminated_by_proxy in http requires trusted_proxies at 5:29`,
		"http {\n  trusted_proxies = [\"10.0.0.1/8\"]\n}":                              `config/range`,
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
