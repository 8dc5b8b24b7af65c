package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// BRK-002, BRK-008 to BRK-010: quality blocks are applied to capability and intent,
// and contradictory settings are rejected.
func TestQualityBlocks(t *testing.T) {
	const intent = `
intent "chess/best-move" {
  in  = "req/chess.position"
  out = "res/chess.move+pv+eval"
  quality {
    %s
  }
}
`
	c, ds := configtest.Load(t, configtest.ChessWith(`  quality {
    window        = 40
    min_pass_rate = 0.5
    action        = "restart"
  }`)+fmt.Sprintf(intent, "min_pass_rate = 0\n    min_samples = 12\n    hysteresis = 0\n    action = \"swap\"\n    swap_to = \"chess/engine\"\n    max_ejected = 0.25"))
	require.Empty(t, configtest.Types(ds), "%v", ds)
	engine, ok := c.Generation.Registry.Capability("chess/engine")
	require.True(t, ok)
	assert.Equal(t, registry.Quality{Window: 40, MinPassRate: registry.ShareOf(0.5), Action: registry.ActionRestart}, engine.Quality)
	in, ok := c.Generation.Registry.Intent("chess/best-move")
	require.True(t, ok)
	assert.Equal(t, registry.Quality{MinSamples: 12, MinPassRate: registry.ShareOf(0), Hysteresis: registry.ShareOf(0), Action: registry.ActionSwap, SwapTo: "chess/engine", MaxEjected: registry.ShareOf(0.25)}, in.Quality)
	assert.Equal(t, registry.Quality{Window: 40, MinSamples: 12, MinPassRate: registry.ShareOf(0), Hysteresis: registry.ShareOf(0), Action: registry.ActionSwap, SwapTo: "chess/engine", MaxEjected: registry.ShareOf(0.25)},
		in.Quality.Over(engine.Quality), "the intent switches off what the plugin asks for")

	_, ds = configtest.Load(t, configtest.ChessWith("  quality {\n    action  = \"swap\"\n    swap_to = \"chess/engine\"\n  }")+fmt.Sprintf(intent, ""))
	require.Equal(t, []string{"config/range"}, configtest.Types(ds), "a capability cannot take its own place (BRK-009)")
	assert.Equal(t, "quality.swap_to", strings.Join(ds[0].Path[2:], "."))

	for candidates, want := range map[string][]string{
		`["chess/engine"]`:                {"config/range"},
		`["chess/engine", "fast/engine"]`: nil,
	} {
		_, ds = configtest.LoadWith(t, configtest.OnePlugin+`
plugin "second" {
  command = ["bin/chess"]
}

capability "fast/engine" {
  plugin   = "second"
  provides = "chess/engine"
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = `+candidates+`

  quality {
    action  = "swap"
    swap_to = "chess/engine"
  }
}
`, configtest.Describer{"chess": configtest.Chess(), "second": configtest.Chess()}, nil)
		assert.Equal(t, want, configtest.Types(ds), "nor can the only candidate: %s: %v", candidates, ds)
	}

	for text, want := range map[string][2]string{
		"window = 5\n    min_samples = 6":                      {"config/range", "min_samples in intent \"chess/best-move\", quality must be at most window"},
		`swap_to = "chess/engin"`:                              {"config/dangling-reference", "names the unknown capability \"chess/engin\""},
		"action = \"restart\"\n    swap_to = \"chess/engine\"": {"config/unused", "swap_to in intent \"chess/best-move\", quality has no effect: its action is restart"},
		`action = "eject"`:                                     {"config/range", ""},
	} {
		_, ds := configtest.Load(t, configtest.OnePlugin+fmt.Sprintf(intent, text))
		require.Len(t, ds, 1, "%s: %v", text, ds)
		assert.Equal(t, want[0], ds[0].Type, text)
		assert.Contains(t, ds[0].Message, want[1])
	}
}
