package view_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// OPS-009: a limit that is lower than in profile prod is not weaker.
func TestWeakerLimits(t *testing.T) {
	for text, weaker := range map[string][]string{
		`act_rate = "10/s"`:     nil,
		`act_rate = "20/s"`:     nil,
		`act_rate = "1200/min"`: nil,
		`act_rate = "1300/min"`: {"act_rate"},
		`act_burst = 3`:         nil,
		`act_burst = 41`:        {"act_burst"},
	} {
		c, ds := configtest.Load(t, "ferment {\n  profile = \"prod\"\n}\n\nhttp {\n  limits {\n    "+text+"\n  }\n}\n")
		require.False(t, ds.HasErrors(), text)
		var got []string
		for _, w := range view.Weaker(c) {
			got = append(got, w.Path[len(w.Path)-1])
		}
		assert.Equal(t, weaker, got, text)
	}
}

// HCL-018, OPS-009: a budget that prod does not have is not weaker than none.
func TestBudgetIsNotWeaker(t *testing.T) {
	for profile, budget := range map[string]string{
		"test-live": "",
		"prod":      "budget \"run\" {\n  max_usd = \"9\"\n  max_wall = \"1h\"\n}\n",
	} {
		c, ds := configtest.Load(t, "ferment {\n  profile = \""+profile+"\"\n}\n\n"+budget)
		require.Empty(t, configtest.Types(ds), profile)
		assert.Empty(t, view.Weaker(c), profile)
	}
}
