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
	dir := t.TempDir()
	read := func(name string) edn.Value {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return edn.MustRead(strings.ReplaceAll(string(text), "DIR", dir))
	}
	o := conformance.Options{Config: read("conformance.config.edn")}
	require.NoError(t, o.ReadSamples(read("conformance.edn")))
	sdktest.Conform(t, newPlugin(), o)
}
