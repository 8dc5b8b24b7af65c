// Future is a plugin of the protocol revision that comes after this one.
package main

import (
	"github.com/hashicorp/go-plugin"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/wire"
)

func main() {
	service, err := sdk.NewService(sdk.Plugin{Name: "future", Version: "2.0.0", Capabilities: []sdk.Capability{
		sdk.Raw("demo/future", nil, nil),
	}}, nil, nil)
	if err != nil {
		panic(err)
	}
	cfg := wire.ServeConfig(service)
	cfg.ProtocolVersion = wire.Protocol + 1
	plugin.Serve(cfg)
}
