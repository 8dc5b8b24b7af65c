//go:build slow

package main

import (
	"testing"

	"github.com/fermenthq/ferment/sdk/sdktest"
)

// CONF-007: the plugin passes its profiles.
func TestConformance(t *testing.T) {
	o := sdktest.Samples(t, "conformance.edn")
	o.Config = sdktest.Value(t, "conformance.config.edn")
	sdktest.Conform(t, newPlugin(), o)
}
