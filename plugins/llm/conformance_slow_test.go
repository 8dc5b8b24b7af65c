//go:build slow

package main

import (
	"testing"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// CONF-007: the plugin conforms to the contract.
func TestConformance(t *testing.T) {
	k := talks()["openai-chat"]
	server := wiretest.Serve(t, k.says(k.start, k.text("a "), k.text("b c"), k.finish("stop"), k.end))
	o := sdktest.Samples(t, "conformance.edn")
	o.Slow = nil // the server of this test gives the same answer to every request
	text := sdktest.Value(t, "conformance.config.edn").AssocKey("base-url", edn.Text(server.URL))
	o.Config = text
	sdktest.Conform(t, newPlugin(transport.System()), o, conformance.Options{})
}
