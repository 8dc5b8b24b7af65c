package dialect

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// OwnFields returns the request body fields that this package may set, which
// extra fields must not override: those of a request that uses every feature.
// The reasoning fields are among them only if the configuration sets an effort;
// otherwise extra fields may configure reasoning in more detail.
func OwnFields(p Preset, effort string) []string {
	number, seed := json.Number("0.5"), int64(1)
	r := &chat.Request{
		Messages: []chat.Message{{Role: chat.System, Content: "x"}, {Role: chat.User, Content: "x"}},
		Tools:    []chat.Tool{{Name: "x"}},
		Choice:   chat.Choice{Mode: chat.AnyTool},
		Output:   chat.Output{Form: chat.Native},
		Context:  1,
		Options: chat.Options{
			Temperature: number, TopP: number, PresencePenalty: number, FrequencyPenalty: number,
			MaxTokens: 1, Seed: &seed, Stop: []string{"x"},
		},
	}
	p.UsageInStream = true          // a quirk may set it
	own := map[string]any{"n": nil} // only one answer is read
	for _, r.Options.Effort = range []string{"", effort} {
		body := compose(p, r).body
		maps.Copy(own, body)
		rename(body, p.Renames)
		maps.Copy(own, body)
	}
	for name := range maps.Clone(own) {
		if other := OtherLimit(name); other != "" {
			own[other] = nil
		}
	}
	return slices.Sorted(maps.Keys(own))
}
