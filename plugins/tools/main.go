package main

import (
	"fmt"
	"os"

	"github.com/fermenthq/ferment/plugins/tools/internal/worker"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/launch"
)

const version = "1.0.0"

func main() {
	if status, ok := hidden(os.Args); ok {
		os.Exit(status)
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tools: cannot find its own binary:", err)
		os.Exit(1)
	}
	sdk.Serve(newPlugin(self))
}

// hidden runs what the binary is started again for.
func hidden(args []string) (status int, ok bool) {
	if len(args) == 2 && args[1] == worker.Arg {
		return worker.Main(os.Stdin, os.Stdout), true
	}
	return launch.Hidden(args)
}
