package main

import (
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/server"
	"github.com/fermenthq/ferment/sdk"
)

const version = "1.0.0"

func main() {
	sdk.Serve(newPlugin(transport.System(), server.DefaultRungs()))
}
