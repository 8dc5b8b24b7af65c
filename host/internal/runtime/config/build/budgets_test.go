package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// BUD-001, LED-004, LED-006, BUD-004, PRM-006: budget blocks are converted to budgets.
func TestBudgets(t *testing.T) {
	c, ds := configtest.LoadWith(t, configtest.OnePlugin+`
budget "tenant" {
  max_usd       = 0.1
  unknown_price = "at-least"
}

budget "user" {
  max_attempts = 7
  max_tokens   = 100
  per          = "day"
  soft         = 0.5
}

budget "run" {
  max_wall          = "1m"
  max_depth         = 3
  max_usd           = "0.030"
  unknown_price     = "at-least"
  refuse_worst_case = true
}

intent "chess/best-move" {
  in  = "req/chess.position"
  out = "res/chess.move+pv+eval"
  budget {
    max_usd    = 0.01
    max_wall   = "5s"
    max_tokens = 200
  }
}
`, configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, configtest.Types(ds), "%v", ds)
	b := c.Generation.Budgets
	assert.Equal(t, "{:max-usd 0.1M}", b.Tenant.Limits.Value().String(), "the digits are those that were written")
	assert.Equal(t, "{:max-attempts 7}", b.User.Limits.Value().String())
	assert.Equal(t, "day 0.5M", b.User.Per+" "+b.User.Soft.String())
	assert.Equal(t, "{:max-usd 0.03M}", b.Run.Limits.Value().String())
	assert.Equal(t, time.Minute, b.Wall())
	assert.Equal(t, 3, b.Depth())
	assert.True(t, b.AtLeast(), "everybody who limits money agrees")
	assert.True(t, b.RefuseWorst())
	assert.Equal(t, "ferment.hcl:10:1", b.User.Where)
	p, err := c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, "{:max-tokens 100 :max-usd 0.01M :max-wall-ms 5000}", p.Budget.String(), "what a block says about each call holds for all, the lower one wins")
	p, err = c.Generation.Policies.For("chess/perft").Resolve()
	require.NoError(t, err)
	assert.Equal(t, "{:max-tokens 100}", p.Budget.String())

	c, ds = configtest.LoadWith(t, configtest.OnePlugin, configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, configtest.Types(ds))
	assert.Nil(t, c.Generation.Budgets)

	for text, want := range map[string]string{
		`budget "session" {}`:               "config/unknown-name", // this build has no sessions
		`budget "run" { per = "day" }`:      "config/unknown-name",
		`budget "user" { per = "week" }`:    "config/range",
		`budget "user" { soft = 2 }`:        "config/range",
		`budget "user" { max_usd = -1 }`:    "config/range",
		`budget "user" { max_wall = "0s" }`: "config/range",
		`budget "run" { max_attempts = 0 }`: "config/range",
		`budget "run" {}`:                   "config/unused",
		`budget "user" { soft = 0.5 }`:      "config/unused",
	} {
		_, ds := configtest.LoadWith(t, configtest.OnePlugin+"\n"+text+"\n", configtest.Describer{"chess": configtest.Chess()}, nil)
		if assert.NotEmpty(t, ds, text) {
			assert.Equal(t, want, ds[0].Type, "%s: %v", text, ds)
		}
	}
}

// HCL-018: in profile test-live every run has a default budget, which a block
// overrides.
func TestBudgetOfTestLive(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "{:max-usd 0.05M} 1m0s",
		"budget \"run\" {}\n":                  "{:max-usd 0.05M} 1m0s",
		"budget \"run\" {\n  max_usd = 2\n}\n": "{:max-usd 2M} 1m0s",
		"budget \"run\" {\n  max_usd = null\n  max_wall = \"2m\"\n}\n": "{:max-usd 0.05M} 2m0s",
	} {
		c, ds := configtest.LoadWith(t, "ferment {\n  profile = \"test-live\"\n}\n"+configtest.OnePlugin+text, configtest.Describer{"chess": configtest.Chess()}, nil)
		require.Empty(t, configtest.Types(ds), "%v", ds)
		b := c.Generation.Budgets
		require.NotNil(t, b, text)
		assert.Equal(t, want, b.Run.Limits.Value().String()+" "+b.Run.Wall.String(), text)
		assert.True(t, edn.Equal(edn.MustRead("0.8M"), b.Run.Soft) || b.Run.Soft.String() == "0.8", "%s", b.Run.Soft)
	}
}
