// Command wordcount is a complete plugin of a third party: a module of its own
// that needs nothing of Ferment but the SDK.
//
//	go build -o wordcount .
//	ferment act text/count '{:text "to be or not to be"}' --config ferment.hcl
package main

import (
	"context"
	"strings"

	"github.com/fermenthq/ferment/sdk"
)

// In is the input of the capability and Out its output. Their schemas are derived from the types.
type In struct {
	Text string `edn:"text"`
}

// Out is the output of the capability.
type Out struct {
	Words    int    `edn:"words"`
	Distinct int    `edn:"distinct"`
	Longest  string `edn:"longest"`
}

func count(_ context.Context, in In) (Out, error) {
	words := strings.Fields(in.Text)
	seen := map[string]bool{}
	out := Out{Words: len(words)}
	for _, w := range words {
		seen[strings.ToLower(w)] = true
		if len([]rune(w)) > len([]rune(out.Longest)) {
			out.Longest = w
		}
	}
	out.Distinct = len(seen)
	return out, nil
}

func plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "wordcount", Version: "0.1.0",
		Capabilities: []sdk.Capability{
			sdk.Func("demo/wordcount", sdk.Intents("text/count"), count, sdk.Deterministic()),
		},
	}
}

func main() { sdk.Serve(plugin()) }
