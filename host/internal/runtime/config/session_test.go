package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// SES-011: without a block the rules are the restrictive ones, and the permissive
// ones in the profiles for development.
func TestDefaultSessionRules(t *testing.T) {
	for _, profile := range language.Profiles() {
		want := session.Restrictive()
		if profile == language.ProfileDev || profile == language.ProfileTest {
			want = session.Permissive()
		}
		c, ds := configtest.Load(t, "ferment {\n  profile = \""+profile+"\"\n}\n")
		require.Empty(t, configtest.Types(ds), profile)
		got := c.Session.Rules
		assert.Equal(t, want.Policy.Effective("act/defaults", "text/respond"), got.Policy.Effective("act/defaults", "text/respond"), profile)
		got.Policy, want.Policy = session.Policy{}, session.Policy{}
		assert.Equal(t, want, got, profile)
		assert.Equal(t, time.Minute, c.Session.Sweep)
	}
}

// SES-010, SES-011, SES-012, SES-013, SES-014, SES-016: every setting of the block
// has its place in the rules; what a class leaves out is that of vars.
func TestSessionBlock(t *testing.T) {
	c, ds := configtest.Load(t, `
ferment { profile = "prod" }
session {
  sweep        = "5s"
  window_turns = 4
  window_chars = 50
  vars {
    require_qualified  = false
    allowed_namespaces = ["a", "session"]
    max_vars           = 3
    max_key_chars      = 9
    max_value          = "1KiB"
    default_ttl        = "1h"
    max_ttl            = "2h"
    frozen_delete      = true
    default_class      = "slow"
  }
  class "slow" {
    namespaces   = ["a"]
    max_ttl      = "3h"
    frozen_write = true
  }
  class "ephemeral" { namespaces = ["b"] }
  policy {
    default { read_namespaces = [] }
    operation "session/put-var" { write_namespaces = ["a"] }
    intent "text/respond" { delete_namespaces = ["b"] }
  }
  binding "session/language" {
    target   = ["input", "lang"]
    coerce   = "string"
    required = true
  }
}
`)
	require.Empty(t, configtest.Types(ds))
	r := c.Session.Rules
	assert.Equal(t, 5*time.Second, c.Session.Sweep)
	assert.Equal(t, session.Window{Turns: 4, Chars: 50}, r.Window)
	assert.False(t, r.RequireQualified)
	assert.Equal(t, []string{"a", "session"}, r.AllowedNamespaces)
	assert.Equal(t, [3]int{3, 9, 1 << 10}, [3]int{r.MaxVars, r.MaxKeyChars, r.MaxValueBytes})
	assert.Equal(t, "slow", r.Default)
	assert.Equal(t, map[string]session.Class{
		"durable":   {DefaultTTL: time.Hour, MaxTTL: 2 * time.Hour, FrozenDelete: true},
		"slow":      {DefaultTTL: time.Hour, MaxTTL: 3 * time.Hour, FrozenWrite: true, FrozenDelete: true},
		"ephemeral": {DefaultTTL: 15 * time.Minute, MaxTTL: time.Hour, FrozenWrite: true},
	}, r.Classes)
	assert.Equal(t, map[string]string{"a": "slow", "b": "ephemeral", "request": "ephemeral"}, r.ByNamespace)
	assert.Equal(t, session.Access{Read: []string{}, Write: []string{"a"}}, r.Policy.Effective("session/put-var", ""))
	assert.Equal(t, session.Access{Read: []string{}, Delete: []string{"b"}}, r.Policy.Effective("", "text/respond"))
	require.Len(t, r.Bindings, len(session.ShippedBindings()))
	assert.Contains(t, r.Bindings, session.Binding{Var: "session/language", Target: []string{"input", "lang"}, Coerce: "string", Required: true})
}

// SES-012: a namespace has one class, and a class that is named exists.
func TestSessionClassesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`vars { default_class = "durabel" }`:                                           "config/dangling-reference",
		`class "x" { namespaces = ["a"] }` + "\n" + `class "y" { namespaces = ["a"] }`: "config/duplicate",
	} {
		_, ds := configtest.Load(t, "session {\n"+text+"\n}\n")
		assert.Equal(t, []string{want}, configtest.Types(ds), text)
	}
}

// HCL-031, SES-012: a default lifetime is at most the longest one, also that of another block.
func TestSessionLifetimesPair(t *testing.T) {
	for text, want := range map[string][]string{
		`vars {
  default_ttl = "10d"
  max_ttl     = "1d"
}`: {"config/range"},
		`vars {
  default_ttl = "10d"
  max_ttl     = "0s"
}`: nil,
		`vars {
  max_ttl = "1d"
}
class "x" {
  namespaces  = ["x"]
  default_ttl = "2d"
}`: {"config/range"},
	} {
		_, ds := configtest.Load(t, "session {\n"+text+"\n}\n")
		assert.Equal(t, want, configtest.Types(ds), text)
	}
}

// SES-014: a binding fills a part that a request can have.
func TestSessionBindingTarget(t *testing.T) {
	_, ds := configtest.Load(t, `session {
  binding "user/lang" {
    target = ["inpt", "language"]
  }
}
`)
	require.Equal(t, []string{"config/unknown-name"}, configtest.Types(ds))
	assert.Equal(t, "input", ds[0].Nearest)
	assert.Equal(t, 3, ds[0].Range.Start.Line)
}
