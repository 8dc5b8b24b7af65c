package dialect

import (
	"encoding/json"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// usageReader decodes the usage of an event.
type usageReader struct {
	under string // another field that may hold usage, "" for none
	total bool   // reasoning tokens are included only in the total
}

// read adds the usage stated in an event to the previous one.
func (r usageReader) read(event []byte, usage json.RawMessage, before chat.Usage) chat.Usage {
	if !present(usage) && r.under != "" {
		usage = within(event, r.under)
	}
	u, ok := loose[openAIUsage](usage)
	if !ok {
		return before
	}
	return withTotal(u.counts(before), int64(u.Total), r.total)
}

// withTotal compares a usage with the total that the provider states. What the total has above the
// counts is reasoning if hides is set, or if the provider states as many tokens of reasoning: xAI
// counts them beside those of the output (UKGovernmentBEIS/inspect_ai issue 5528, 2026-11-29).
func withTotal(u chat.Usage, total int64, hides bool) chat.Usage {
	if total <= 0 || u.In < 0 || u.Out < 0 {
		return u
	}
	above := total - u.In - u.Out
	hidden := above > 0 && (hides || above == u.Reasoning)
	if hidden {
		u.Out += above
		u.Reasoning = max(u.Reasoning, above)
	}
	u.Short = above > 0 && !hidden
	return u
}

// within returns the usage in a field of an event, nil if it has none.
func within(event []byte, field string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(event, &fields) != nil || !present(fields[field]) {
		return nil
	}
	var inner struct {
		Usage json.RawMessage `json:"usage"`
	}
	if json.Unmarshal(fields[field], &inner) != nil {
		return nil
	}
	return inner.Usage
}
