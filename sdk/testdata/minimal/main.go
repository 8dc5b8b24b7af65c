// Minimal is the plugin of the package comment, as a program.
package main

import (
	"context"

	"github.com/fermenthq/ferment/sdk"
)

type question struct {
	Name string `edn:"name"`
}

func greet(_ context.Context, q question) (string, error) {
	return "Hello, " + q.Name, nil
}

func main() {
	greeter := sdk.Func("demo/greeter", sdk.Intents("text/respond"), greet)
	sdk.Serve(sdk.Plugin{Name: "greeter", Version: "1.0.0", Capabilities: []sdk.Capability{greeter}})
}
