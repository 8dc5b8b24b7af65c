//go:build slow

package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// CONF-007: the plugin passes its profiles. The hanging call is checked
// separately, since it would delay every other check.
func TestConformance(t *testing.T) {
	sdktest.Conform(t, newPlugin(), conformance.Options{Config: sdktest.Value(t, "conformance.config.edn")})

	slow, err := sdk.Encode(inline(`{:hang true}`))
	require.NoError(t, err)
	busy := conformance.Options{Config: slow, Slow: &conformance.Sample{Capability: voice}}
	busy.Only = regexp.MustCompile(`^core/(cancel/stops|deadline|drain/deadline|shutdown)`)
	t.Run("busy", func(t *testing.T) { sdktest.Conform(t, newPlugin(), busy) })
}
