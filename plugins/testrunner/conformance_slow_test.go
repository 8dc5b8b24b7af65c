//go:build slow

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// CONF-007: the plugin passes its profiles.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile("conformance.edn")
	require.NoError(t, err)
	var o conformance.Options
	require.NoError(t, o.ReadSamples(edn.MustRead(strings.ReplaceAll(string(text), "DIR", t.TempDir()))))
	o.Process = sdktest.Self(t, "PATH="+os.Getenv("PATH"))
	sdktest.Conform(t, newPlugin(), o)
}
