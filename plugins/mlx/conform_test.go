package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/mlx/internal/servertest"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// The configuration of the conformance run is valid, and its samples match the
// offered capabilities.
func TestConformanceConfiguration(t *testing.T) {
	c := sdktest.Value(t, "conformance.config.edn")
	command, ok := c.Key("command").Nth(0)
	require.True(t, ok)
	require.Equal(t, `"SERVER"`, command.String())
	var words []edn.Value
	for _, w := range servertest.Command() {
		words = append(words, edn.Text(w))
	}
	s := settingsOf(t, c.AssocKey("command", edn.Vector(words...)).String())
	require.NoError(t, s.Check())
	samples := sdktest.Value(t, "conformance.edn")
	for _, intent := range append(s.Serve["voice"].Intents, "model/status", "model/freeze", "model/thaw", "model/reset", "model/quit") {
		require.True(t, samples.HasKey(intent), intent)
	}
}
