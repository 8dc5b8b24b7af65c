//go:build slow

package main

import (
	"testing"

	"github.com/fermenthq/ferment/sdk/sdktest"
)

// CONF-007: the plugin passes its profiles.
func TestConformance(t *testing.T) {
	sdktest.Conform(t, newPlugin(), sdktest.Samples(t, "conformance.edn"))
}
