package turns

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Sendable returns the messages with each result of a tool call directly after the message of its
// call, without the calls that have no result, and without the results that have no call: providers
// reject a request with any other order. A path can have these, because it can end at any turn, any
// alternative of a turn can be selected, and a result can be added after more messages. A message of
// which neither text nor a call is left is omitted.
func Sendable(messages []conversation.Message) []conversation.Message {
	results, _ := paired(messages)
	out := make([]conversation.Message, 0, len(messages))
	for i, m := range messages {
		switch {
		case m.Role() == conversation.RoleTool: // added with the message of its call
		case !hasCalls(m):
			out = append(out, m)
		default:
			if m, left := withResults(m, results[i]); left {
				out = append(append(out, m), results[i]...)
			}
		}
	}
	return out
}

// Open returns the tool calls that a result after the messages would answer: their ids, with the
// index of the message that makes the call.
func Open(messages []conversation.Message) map[string]int {
	_, open := paired(messages)
	return open
}

// paired returns the results by the index of the message whose call they belong to: the last one
// before them with the id, if it has no result yet. open has the calls without a result, as Open.
func paired(messages []conversation.Message) (results map[int][]conversation.Message, open map[string]int) {
	results, open = map[int][]conversation.Message{}, map[string]int{}
	for i, m := range messages {
		if r, ok := m.Result(); ok {
			if of, called := open[r.CallID]; called {
				delete(open, r.CallID)
				results[of] = append(results[of], m)
			}
			continue
		}
		for call := range m.Calls() {
			open[call.ID] = i
		}
	}
	return results, open
}

func hasCalls(m conversation.Message) bool {
	for range m.Calls() {
		return true
	}
	return false
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
