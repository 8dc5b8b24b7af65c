package main

import (
	"fmt"
	"os"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/plugins/tools/internal/task"
	"github.com/fermenthq/ferment/sdk"
)

const version = "1.0.0"

func main() {
	if len(os.Args) == 2 && os.Args[1] == worker.Arg {
		os.Exit(worker.Main(os.Stdin, os.Stdout, task.Hold))
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tools: cannot find its own binary:", err)
		os.Exit(1)
	}
	sdk.Serve(newPlugin(self))
}
