package turns

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Sendable returns the messages without the tool calls that have no result directly after their
// message, and without the results that do not belong to such a call: providers reject a request
// with either. A path can have both, because it can end at any turn, and because any alternative of
// a turn can be selected. A message of which neither text nor a call is left is omitted.
func Sendable(messages []conversation.Message) []conversation.Message {
	out := make([]conversation.Message, 0, len(messages))
	for i := 0; i < len(messages); {
		m := messages[i]
		i++
		if m.Role() == conversation.RoleTool {
			continue // the results of calls are added with their message
		}
		if !hasCalls(m) {
			out = append(out, m)
			continue
		}
		first := i
		for i < len(messages) && messages[i].Role() == conversation.RoleTool {
			i++
		}
		results := answers(m, messages[first:i])
		if m, left := withResults(m, results); left {
			out = append(append(out, m), results...)
		}
	}
	return out
}

func hasCalls(m conversation.Message) bool {
	for range m.Calls() {
		return true
	}
	return false
}

// answers returns the first result of each call of a message.
func answers(m conversation.Message, results []conversation.Message) (out []conversation.Message) {
	open := map[string]bool{}
	for call := range m.Calls() {
		open[call.ID] = true
	}
	for _, each := range results {
		if r, ok := each.Result(); ok && open[r.CallID] {
			open[r.CallID] = false
			out = append(out, each)
		}
	}
	return out
}

// withResults returns a message without the calls that have no result; left is false if neither
// text nor a call remains.
func withResults(m conversation.Message, results []conversation.Message) (_ conversation.Message, left bool) {
	var parts []conversation.Part
	for p := range m.Parts() {
		if call, ok := p.(conversation.Call); ok && !slices.ContainsFunc(results, func(r conversation.Message) bool {
			result, _ := r.Result()
			return result.CallID == call.ID
		}) {
			continue
		}
		parts = append(parts, p)
	}
	if len(results) == 0 && strings.TrimSpace(m.Text()) == "" {
		return m, false
	}
	out, err := conversation.New(m.Role(), parts...)
	return out.WithAttribution(m.Attribution()), err == nil
}
