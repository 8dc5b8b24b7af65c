package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		c, ds := load(t, "ferment {\n  profile = \"prod\"\n}\n\nhttp {\n  limits {\n    "+text+"\n  }\n}\n")
		require.False(t, ds.HasErrors(), text)
		var got []string
		for _, w := range c.Weaker() {
			got = append(got, w.Path[len(w.Path)-1])
		}
		assert.Equal(t, weaker, got, text)
	}
}
