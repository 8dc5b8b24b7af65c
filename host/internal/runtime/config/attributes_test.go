package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		"rubric.scale":    true,                                                                                                                          // must be ascending
		"capability.role": true, "intent.role": true, "prompts.roles": true, "prompts.intents": true, "prompts.fragments": true, "prompts.allowed": true, // names that refer to each other
		"ferment.requires": true, "plugin.version": true,
		"capability.effects": true, "schema.spec": true, "check.condition": true,
		"plugin.restart.backoff": true, "plugin.restart.max_backoff": true, "plugin.health.timeout": true, "plugin.health.interval": true,
		// keys that are programs, and prefixes and hosts with their own grammar
		"effects.scope process/run.arguments": true, "capability.scope process/run.arguments": true, "role.scope process/run.arguments": true,
		"dispatch.breaker.window": true, "dispatch.breaker.min_samples": true, "dispatch.breaker.base": true, "dispatch.breaker.ceiling": true, "dispatch.breaker.ramp": true,
		"capability.breaker.window": true, "capability.breaker.min_samples": true, "capability.breaker.base": true, "capability.breaker.ceiling": true, "capability.breaker.ramp": true,
		"plugin.quality.window": true, "plugin.quality.min_samples": true, "intent.quality.window": true, "intent.quality.min_samples": true,
		"dispatch.retry.backoff": true, "dispatch.retry.max_backoff": true, "plugin.instances.min": true,
	}
	for _, w := range everyAttribute() {
		t.Run(w.path, func(t *testing.T) {
			good, beyond, other := valuesOf(w.attr.Type)
			r, isReserved := reservedAt(w.specPath())
			if isReserved && !r.partly() {
				_, ds := load(t, w.file(append(good, other...)[0]))
				assert.Contains(t, types(ds), "config/reserved")
				return
			}
			for _, v := range good {
				_, ds := load(t, w.file(v))
				found := types(ds)
				if isReserved && len(found) == 1 && !elsewhere[w.path] {
					assert.Equal(t, "config/reserved", found[0], "%s = %s", w.path, v)
				} else if !elsewhere[w.path] {
					assert.Empty(t, found, "%s = %s\n%s", w.path, v, newReport(ds, 0, 1, 9).Text(false))
				}
			}
			for _, v := range beyond {
				_, ds := load(t, w.file(v))
				require.NotEmpty(t, types(ds), "%s = %s", w.path, v)
				assert.Equal(t, "config/range", types(ds)[0], "%s = %s\n%s", w.path, v, newReport(ds, 0, 1, 9).Text(false))
				assert.Equal(t, w.attr.Name, ds[0].Path[len(ds[0].Path)-1])
			}
			for _, v := range other {
				_, ds := load(t, w.file(v))
				assert.NotEmpty(t, types(ds), "%s = %s", w.path, v)
			}
			_, ds := load(t, w.file("null"))
			if w.attr.Required {
				assert.NotEmpty(t, types(ds), "%s = null", w.path)
			} else if !elsewhere[w.path] {
				assert.Empty(t, types(ds), "%s = null\n%s", w.path, newReport(ds, 0, 1, 9).Text(false))
			}
		})
	}
}

// HCL-001: every attribute has a type, a reload effect and a requirement; every
// default is a value of its type.
func TestSpecificationIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range everyAttribute() {
		assert.False(t, seen[w.path], "%s is there twice", w.path)
		seen[w.path] = true
		assert.Contains(t, "NUPH", string(w.attr.Reload), w.path)
		assert.NotEmpty(t, w.attr.Serves, w.path)
		assert.NotEmpty(t, w.attr.Type.String(), w.path)
		if w.attr.Default == "" {
			continue
		}
		assert.False(t, w.attr.Required, "%s is required and has a default", w.path)
		for _, profile := range Profiles() {
			report := newCollector(sources{})
			d := newDecoder(newEvaluator(report, newInputs("/", noEnv)))
			d.profile, d.base = profile, newSource("x", "/x", 0, nil)
			_, ok := d.fallback(&node{path: []string{"x"}}, w.attr)
			assert.True(t, ok || w.attr.DefaultIn(profile) == "", "%s = %s: %v", w.path, w.attr.DefaultIn(profile), report.result())
		}
	}
}

// Each reserved top-level block is rejected with a message and a range.
func TestReserved(t *testing.T) {
	n := 0
	for _, b := range Specification().Blocks {
		r, ok := reservedAt(b.Name)
		if !ok {
			continue
		}
		n++
		t.Run(b.Name, func(t *testing.T) {
			_, ds := load(t, b.Name+" {}\n")
			require.Equal(t, []string{"config/reserved"}, types(ds))
			assert.Equal(t, "1:1", fmt.Sprintf("%d:%d", ds[0].Range.Start.Line, ds[0].Range.Start.Column))
			assert.Contains(t, ds[0].Message, r.what)
		})
	}
	assert.NotZero(t, n)
}

// HCL-001: the reference names every attribute.
func TestReferenceNamesEveryAttribute(t *testing.T) {
	text, err := Reference("")
	require.NoError(t, err)
	for _, w := range everyAttribute() {
		assert.Contains(t, text, "`"+w.attr.Name+"`", w.path)
	}
}
