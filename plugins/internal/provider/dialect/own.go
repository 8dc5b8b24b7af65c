package dialect

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// OwnFields are the fields of a request body that this package sets for some
// request, which extra fields must not hide: those of a request that uses
// everything. The fields for the effort of reasoning are among them if the
// configuration names one; without it, extra fields may say more about reasoning
// than an effort does.
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
	p.UsageInStream = true          // a quirk may say so
	own := map[string]any{"n": nil} // one answer is read
	for _, r.Options.Effort = range []string{"", effort} {
		body := compose(p, r).body
		maps.Copy(own, body)
		rename(body, p.Renames)
		maps.Copy(own, body)
	}
	for name := range maps.Clone(own) {
		if other := otherLimit(name); other != "" {
			own[other] = nil
		}
	}
	return slices.Sorted(maps.Keys(own))
}
