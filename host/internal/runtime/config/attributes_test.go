package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// HCL-044, HCL-019: each attribute at, below and above its range, and of
// another type.
func TestEveryAttribute(t *testing.T) {
	// Attributes whose values in range are invalid for another reason.
	elsewhere := map[string]bool{
		"plugin.command": true, "plugin.files": true, "plugin.workdir": true, // missing paths
		"ferment.root": true, "judge.anchors": true, "effects.secret.hosts": true, "effects.secret.header": true, // and a secret
		"plugin.isolation.cpu": true,                                                    // not enforceable
		"check.builtin":        true, "check.intent": true, "capability.provides": true, // unknown names, and checks without a kind
		"prompts.language_packs": true, "include.optional": true, "http.tls.cert_file": true, "http.tls.key_file": true, // missing files
		"store.path": true, "store.sync": true, // below data_dir; off in profile test only
		"store.driver":      true,                          // one needs store.dsn
		"effects.db.driver": true, "effects.db.path": true, // the other driver needs a dsn; away from the files of ferment
		"rubric.scale":    true,                                                                                                                          // must be ascending
		"capability.role": true, "intent.role": true, "prompts.roles": true, "prompts.intents": true, "prompts.fragments": true, "prompts.allowed": true, // names that refer to each other
		"router.profile": true, "router.capability_role": true, "router.intent_role": true, "router.intent_default_role": true, // names of others
		"router.capability_model_key": true, "router.intent_model_key": true, "router.intent_default_model_key": true,
		"capability.model_key": true, "intent.model_key": true, "intent.plan": true, // with a grammar of their own
		"router.meta":      true, // needs a plugin that serves route/decide
		"ferment.requires": true, "plugin.version": true,
		"capability.effects": true, "schema.spec": true, "check.condition": true,
		"plugin.restart.backoff": true, "plugin.restart.max_backoff": true, "plugin.health.timeout": true, "plugin.health.interval": true,
		// keys that are programs, and prefixes and hosts with their own grammar
		"effects.scope process/run.arguments": true, "capability.scope process/run.arguments": true, "role.scope process/run.arguments": true,
		"dispatch.breaker.window": true, "dispatch.breaker.min_samples": true, "dispatch.breaker.base": true, "dispatch.breaker.ceiling": true, "dispatch.breaker.ramp": true,
		"capability.breaker.window": true, "capability.breaker.min_samples": true, "capability.breaker.base": true, "capability.breaker.ceiling": true, "capability.breaker.ramp": true,
		"plugin.quality.window": true, "plugin.quality.min_samples": true, "intent.quality.window": true, "intent.quality.min_samples": true,
		"dispatch.retry.backoff": true, "dispatch.retry.max_backoff": true, "plugin.instances.min": true,
		"role.intents": true, "auth.account_roles": true, "auth.strong_types": true, // names with a grammar of their own
		"auth.oidc.issuer": true, "auth.oidc.ca_file": true, "http.tls.client_ca_file": true, // an https URL, and missing files
		"auth.client_cert.subjects": true, "auth.session_token.idle_ttl": true, "auth.session_token.refresh": true, // depend on others
		"session.vars.default_ttl": true, "session.class.default_ttl": true, // depend on max_ttl
		"session.binding.target": true,                                                                    // parts of a request
		"auth.tokens.ttl":        true, "auth.tokens.max_ttl": true, "http.tls_terminated_by_proxy": true, // depend on each other
	}
	load := configtest.Loader(t)
	for _, w := range configtest.EveryAttribute() {
		t.Run(w.Path, func(t *testing.T) {
			good, beyond, other := configtest.ValuesOf(w.Attr.Type)
			r, isReserved := language.ReservedAt(w.SpecPath())
			if isReserved && !r.Partly() {
				_, ds := load(w.File(append(good, other...)[0]))
				assert.Contains(t, configtest.Types(ds), "config/reserved")
				return
			}
			for _, v := range good {
				_, ds := load(w.File(v))
				found := configtest.Types(ds)
				if isReserved && len(found) == 1 && !elsewhere[w.Path] {
					assert.Equal(t, "config/reserved", found[0], "%s = %s", w.Path, v)
				} else if !elsewhere[w.Path] {
					assert.Empty(t, found, "%s = %s\n%s", w.Path, v, diag.NewReport(ds, 0, 1, 9).Text(false))
				}
			}
			for _, v := range beyond {
				_, ds := load(w.File(v))
				require.NotEmpty(t, configtest.Types(ds), "%s = %s", w.Path, v)
				assert.Equal(t, "config/range", configtest.Types(ds)[0], "%s = %s\n%s", w.Path, v, diag.NewReport(ds, 0, 1, 9).Text(false))
				assert.Equal(t, w.Attr.Name, ds[0].Path[len(ds[0].Path)-1])
			}
			for _, v := range other {
				_, ds := load(w.File(v))
				assert.NotEmpty(t, configtest.Types(ds), "%s = %s", w.Path, v)
			}
			_, ds := load(w.File("null"))
			if w.Attr.Required {
				assert.NotEmpty(t, configtest.Types(ds), "%s = null", w.Path)
			} else if !elsewhere[w.Path] {
				assert.Empty(t, configtest.Types(ds), "%s = null\n%s", w.Path, diag.NewReport(ds, 0, 1, 9).Text(false))
			}
		})
	}
}

// HCL-001: every attribute has a type, a reload effect and a requirement; every
// default is a value of its type.
func TestSpecificationIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range configtest.EveryAttribute() {
		assert.False(t, seen[w.Path], "%s is there twice", w.Path)
		seen[w.Path] = true
		assert.Contains(t, "NUPH", string(w.Attr.Reload), w.Path)
		assert.NotEmpty(t, w.Attr.Serves, w.Path)
		assert.NotEmpty(t, w.Attr.Type.String(), w.Path)
		if w.Attr.Default == "" {
			continue
		}
		assert.False(t, w.Attr.Required, "%s is required and has a default", w.Path)
		for _, profile := range language.Profiles() {
			report := diag.NewCollector(diag.Sources{})
			d := decode.NewDecoder(expression.NewEvaluator(report, expression.NewInputs("/", configtest.NoEnv)))
			d.Profile, d.Base = profile, diag.NewSource("x", "/x", 0, nil)
			_, ok := d.Fallback(&syntax.Node{Path: []string{"x"}}, w.Attr)
			assert.True(t, ok || w.Attr.DefaultIn(profile) == "", "%s = %s: %v", w.Path, w.Attr.DefaultIn(profile), report.Result())
		}
	}
}

// Each reserved top-level block is rejected with a message and a range.
func TestReserved(t *testing.T) {
	for _, name := range []string{
		"cluster", "error", "workspace",
	} {
		t.Run(name, func(t *testing.T) {
			r, ok := language.ReservedAt(name)
			require.True(t, ok)
			_, ds := configtest.Load(t, name+" {}\n")
			require.Equal(t, []string{"config/reserved"}, configtest.Types(ds))
			assert.Equal(t, "1:1", fmt.Sprintf("%d:%d", ds[0].Range.Start.Line, ds[0].Range.Start.Column))
			assert.Contains(t, ds[0].Message, r.What)
			assert.Equal(t, r.Instead == "", ds[0].Hint == "remove it", ds[0].Hint)
		})
	}
	// What is configured elsewhere is part of the build, and the hint shows where.
	_, ds := configtest.Load(t, "workspace {\n  workers = 2\n}\n")
	require.Equal(t, []string{"config/reserved"}, configtest.Types(ds))
	assert.NotContains(t, ds[0].Message, "not part of this build")
	assert.Contains(t, ds[0].Hint, `plugin "workspace" { config {`)
}

// HCL-001: the reference names every attribute.
func TestReferenceNamesEveryAttribute(t *testing.T) {
	text, err := view.Reference("")
	require.NoError(t, err)
	for _, w := range configtest.EveryAttribute() {
		assert.Contains(t, text, "`"+w.Attr.Name+"`", w.Path)
	}
}
