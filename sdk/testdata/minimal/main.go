// Minimal is the plugin of the first example, as a program.
package main

import (
	"context"

	"github.com/fermenthq/ferment/sdk"
)

type question struct {
	Name string `edn:"name"`
}

type answer struct {
	Text string `edn:"text"`
}

func greet(_ context.Context, q question) (answer, error) {
	return answer{Text: "Hello, " + q.Name}, nil
}

func main() {
	sdk.Serve(sdk.Plugin{
		Name: "greeter", Version: "1.0.0",
		Capabilities: []sdk.Capability{
			sdk.Func("demo/greeter", sdk.Intents("text/respond"), greet),
		},
	})
}
