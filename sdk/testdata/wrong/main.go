// Wrong is a plugin with more than one fault in its declaration.
package main

import (
	"context"

	"github.com/fermenthq/ferment/sdk"
)

func nothing(context.Context, struct{}) (string, error) { return "", nil }

func main() {
	sdk.Serve(sdk.Plugin{
		Name: "Bad Name",
		Capabilities: []sdk.Capability{
			sdk.Func("no-namespace", sdk.Intents("text/respond"), nothing),
			sdk.Func("demo/twice", sdk.Intents("text/respond"), nothing),
			sdk.Func("demo/twice", sdk.Intents("text/respond"), nothing),
		},
	})
}
