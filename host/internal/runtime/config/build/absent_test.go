package build_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// envOf returns an environment with these variables.
func envOf(set map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := set[name]
		return v, ok
	}
}

// EMB-002, BIND-009, LLM-005: the capabilities of a disabled plugin are registered
// under the ids of their blocks and not ready. The reason names the environment
// variables that the block depends on.
func TestCapabilitiesOfDisabledPlugins(t *testing.T) {
	const file = `locals {
  first  = env("FIRST_KEY", "") != ""
  chosen = local.first || env("SECOND_KEY", "") == "" ? "first" : "second"
}

plugin "first" {
  command = ["bin/chess"]
  enabled = local.first
}

plugin "second" {
  command = ["bin/chess"]
  enabled = env("SECOND_KEY", "") != ""
}

plugin "off" {
  command = ["bin/chess"]
  enabled = false
}

capability "any/engine" {
  plugin   = local.chosen
  provides = "chess/engine"
}

capability "off/engine" {
  plugin   = "off"
  provides = "chess/engine"
}

capability "off/nothing" {
  plugin   = "off"
  provides = "chess/nothing"
  enabled  = false
}
`
	for name, row := range map[string]struct {
		env     map[string]string
		absent  []string
		typ     string
		plugin  string
		hint    []string
		present bool
	}{
		"nothing is set": {
			absent: []string{"any/engine", "off/engine"}, typ: "provider/not-configured", plugin: "first",
			hint: []string{"FIRST_KEY", "SECOND_KEY"},
		},
		"the other one is set": {
			env: map[string]string{"SECOND_KEY": "k"}, absent: []string{"off/engine"}, present: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl": file})
			c, ds := configtest.LoadDir(t, dir+"/ferment.hcl", config.Options{
				Env: envOf(row.env), Describer: configtest.Describer{"first": configtest.Chess(), "second": configtest.Chess()}, Locking: lock.Ignored,
			})
			require.False(t, ds.HasErrors(), "%v", ds)
			reg := c.Generation.Registry
			assert.Equal(t, row.absent, reg.Absences())
			_, present := reg.Capability("any/engine")
			assert.Equal(t, row.present, present)
			assert.True(t, reg.Known("any/engine"))
			assert.False(t, reg.Known("off/nothing"))
			if !row.present {
				a, _ := reg.Absent("any/engine")
				assert.Equal(t, row.plugin, a.Plugin)
				assert.Equal(t, row.typ, a.Why.Type)
				for _, variable := range row.hint {
					assert.Contains(t, a.Why.Hint, variable)
				}
			}
			a, _ := reg.Absent("off/engine")
			assert.Equal(t, "runtime/not-ready", a.Why.Type)
			assert.NotEmpty(t, a.Where)
		})
	}
}
