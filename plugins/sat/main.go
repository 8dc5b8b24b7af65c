package main

import (
	"fmt"
	"os"
	"time"

	"github.com/fermenthq/ferment/plugins/sat/internal/solve"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
)

const version = "1.0.0"

func main() {
	if len(os.Args) == 2 && os.Args[1] == solve.WorkerArg {
		os.Exit(solve.WorkerMain(os.Stdin, os.Stdout, os.Stderr))
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sat: cannot find its own binary:", err)
		os.Exit(1)
	}
	sdk.Serve(newPlugin(self))
}

// newPlugin makes the plugin; self is the binary that serves as worker.
func newPlugin(self string) sdk.Plugin {
	return sdk.Plugin{
		Name:     "sat",
		Version:  version,
		Features: []string{sdk.FeatureHotSwap},
		Needs:    []string{"process/self"},
		Capabilities: []sdk.Capability{
			sdk.Func("sat/solver", sdk.Intents("sat/solve"), solver{self: self}.solve,
				sdk.Kind("solver"), sdk.Tags("embedded"),
				sdk.Cost(contract.Cost{Latency: 50 * time.Millisecond}),
				sdk.Description("Finds a model of a formula or shows that there is none.")),
			sdk.Func("sat/verifier", sdk.Intents("sat/verify"), verify,
				sdk.Kind("checker"), sdk.Tags("embedded"), sdk.Deterministic(),
				sdk.Description("Evaluates a formula under a model.")),
		},
	}
}
