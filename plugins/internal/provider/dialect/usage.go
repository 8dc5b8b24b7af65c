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
	after := u.counts(before)
	if hidden := int64(u.Total) - after.In - after.Out; r.total && after.In >= 0 && after.Out >= 0 && hidden > 0 {
		after.Out += hidden
		after.Reasoning = max(after.Reasoning, hidden)
	}
	return after
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
