package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// BRK-001, BRK-006: breaker blocks are applied to policy and capability, and
// contradictory settings are rejected.
func TestBreakerBlocks(t *testing.T) {
	c, ds := configtest.Load(t, configtest.OnePlugin+`
dispatch "default" {
  breaker {
    window    = 10
    threshold = 0.25
    base      = "2s"
    ramp      = [50, 100]
  }
}
capability "chess/engine" {
  plugin = "chess"
  breaker {
    min_samples = 2
    factor      = 3
    ceiling     = "1m"
  }
}
`)
	require.Empty(t, ds)
	assert.Equal(t, registry.Breaker{Window: 10, Threshold: 0.25, Base: 2 * time.Second, Ramp: []int{50, 100}}, c.Generation.Policies.Default.Breaker)
	engine, ok := c.Generation.Registry.Capability("chess/engine")
	require.True(t, ok)
	assert.Equal(t, registry.Breaker{MinSamples: 2, Factor: 3, Ceiling: time.Minute}, engine.Breaker)
	assert.Equal(t, registry.Breaker{Window: 10, MinSamples: 2, Threshold: 0.25, Base: 2 * time.Second, Factor: 3, Ceiling: time.Minute, Ramp: []int{50, 100}},
		engine.Breaker.Over(c.Generation.Policies.Default.Breaker))

	for text, says := range map[string]string{
		`ramp = [50, 25, 100]`:            "does not rise to 100",
		`ramp = [50]`:                     "does not rise to 100",
		`ramp = []`:                       "does not rise to 100",
		"window = 4\nmin_samples = 5":     "min_samples in dispatch \"default\", breaker must be at most window",
		"base = \"1m\"\nceiling = \"1s\"": "base in dispatch \"default\", breaker must be at most ceiling",
	} {
		_, ds := configtest.Load(t, configtest.OnePlugin+"dispatch \"default\" {\n  breaker {\n    "+text+"\n  }\n}\n")
		require.Len(t, ds, 1, text)
		assert.Equal(t, "config/range", ds[0].Type)
		assert.Contains(t, ds[0].Message, says)
	}
}
