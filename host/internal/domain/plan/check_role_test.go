package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CHECK-015, RTE-003: a role is one of a prompt, a capability or an intent, or built in.
func TestUnknownRoles(t *testing.T) {
	spec := testSpec(t)
	spec.Capabilities[0].Role = "bard"
	spec.Intents[0].Role = "singer"
	r, err := registry.New(spec)
	require.NoError(t, err)
	env := plan.Env{Registry: r, Prompts: &prompt.Book{Roles: map[string]*prompt.Layer{"poet": {}}}}
	for role, near := range map[string]string{
		"poet": "", "bard": "", "singer": "", "voice": "", "coder": "", "judge": "", "router": "", "solver": "",
		"vioce": ":voice", "poett": ":poet", "bad": ":bard", "zzzzzzzz": "nil",
	} {
		text := `{:nodes [{:op :call :intent :text/respond :input {:prompt "p"} :role :` + role + `}]}`
		p, _ := readPlan(t, text)
		require.NotNil(t, p)
		fs := plan.Check(p, env)
		if near == "" {
			assert.Empty(t, fs, role)
			continue
		}
		if assert.Len(t, fs, 1, role) {
			assert.Equal(t, plan.Error, fs[0].Severity)
			assert.Equal(t, "CHECK-015 [:nodes 0 :role] "+near,
				fs[0].Check+" "+edn.Vector(fs[0].Path...).String()+" "+fs[0].Nearest.String())
		}
		assert.Empty(t, plan.Check(p, plan.Env{Registry: r}), "without prompts")
	}
}
