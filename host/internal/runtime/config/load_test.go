package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// HCL-006, HCL-029: one file is a complete configuration.
func TestLoadSample(t *testing.T) {
	c, ds := configtest.Load(t, configtest.Sample)
	require.Empty(t, ds, diag.NewReport(ds, 0, 1, 0).Text(false))
	require.NotNil(t, c.Generation)
	assert.Equal(t, []string{"chess/stockfish", "chess/embedded"}, c.Generation.Registry.Candidates("chess/best-move"))
	assert.Equal(t, `{:depth 8 :engine "builtin"}`, c.Plugins[0].Config.String())
	p, err := c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, 2, p.FallbackMax)
	assert.Equal(t, []string{"schema-valid", "short"}, p.Must)
}
