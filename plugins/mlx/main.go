package main

import (
	"os"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/server"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/launch"
)

const version = "1.0.0"

func main() {
	if status, ok := launch.Hidden(os.Args); ok {
		os.Exit(status)
	}
	sdk.Serve(newPlugin(transport.System(), server.DefaultRungs()))
}
