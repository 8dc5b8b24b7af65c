package turns

import (
	"iter"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of a conversation.
const (
	MaxText  = 1 << 20 // bytes of text in a message
	MaxParts = 256     // of a message
	MaxTurns = 10_000  // on a path
	MaxSpans = 64      // alternatives of a turn
)

// Check returns an error for messages that cannot be part of a conversation:
// conversation/invalid-message for no or an empty message, conversation/too-large for more
// than MaxTurns messages or a message beyond a limit.
func Check(messages []conversation.Message) *contract.Error {
	if len(messages) == 0 {
		return contract.Errorf("conversation/invalid-message", "messages is empty, expected at least one message").
			WithDetail("path", edn.Vector(edn.K("messages")))
	}
	if len(messages) > MaxTurns {
		return tooLarge("messages", len(messages), MaxTurns)
	}
	for i, m := range messages {
		if m.Role() == "" || m.Empty() {
			return invalid(i, "it has no role or no content")
		}
		parts, text := 0, 0
		for p := range m.Parts() {
			parts++
			text += textBytes(p)
		}
		if parts > MaxParts {
			return tooLarge("parts of a message", parts, MaxParts).WithDetail("message", edn.Int(int64(i)))
		}
		if text > MaxText {
			return tooLarge("bytes of text in a message", text, MaxText).WithDetail("message", edn.Int(int64(i)))
		}
	}
	return nil
}

// textBytes returns the size of the text and data of a part, in bytes.
func textBytes(p conversation.Part) int {
	switch p := p.(type) {
	case conversation.Text:
		return len(p.Text)
	case conversation.Reasoning:
		return len(p.Text) + len(p.Data) + len(p.Signature)
	case conversation.Call:
		return len(p.Tool) + len(p.Args)
	case conversation.Image:
		return len(p.Data) + len(p.URL)
	}
	return 0
}

// Results returns a conversation/invalid-message error if a message is the result of a tool
// call that no message before it makes, else nil.
func Results(messages iter.Seq[conversation.Message]) *contract.Error {
	called, i := map[string]bool{}, 0
	for m := range messages {
		if r, ok := m.Result(); ok && !called[r.CallID] {
			return invalid(i, "it is the result of the call "+edn.Text(r.CallID).String()+", which no message before it makes").
				WithHint("add the result after the message with its call, or cut the turns after the changed one: `:tail :cut`")
		}
		for c := range m.Calls() {
			called[c.ID] = true
		}
		i++
	}
	return nil
}

// Needed returns the ids of the tool calls that messages answer, but that no message before
// the answer makes.
func Needed(messages []conversation.Message) (ids []string) {
	called := map[string]bool{}
	for _, m := range messages {
		if r, ok := m.Result(); ok && !called[r.CallID] {
			ids = append(ids, r.CallID)
		}
		for c := range m.Calls() {
			called[c.ID] = true
		}
	}
	return ids
}

// Fits returns a conversation/too-large error if the change makes a path too long or adds
// too many alternatives to a turn. spans is the largest number of alternatives that a turn
// which gets a new one already has.
func (c Change) Fits(spans int) *contract.Error {
	if n := c.Keep + len(c.Steps); n > MaxTurns {
		return tooLarge("turns", n, MaxTurns)
	}
	if len(c.Spans) > 0 && c.Spans[0].Turn != 0 && spans+1 > MaxSpans {
		return tooLarge("alternatives of a turn", spans+1, MaxSpans)
	}
	return nil
}

func invalid(message int, why string) *contract.Error {
	return contract.Errorf("conversation/invalid-message", "message %d: %s", message, why).
		WithDetail("path", edn.Vector(edn.K("messages"), edn.Int(int64(message))))
}

func tooLarge(what string, found, limit int) *contract.Error {
	return contract.Errorf("conversation/too-large", "%d %s, the limit is %d", found, what, limit).
		WithDetail("limit", edn.Int(int64(limit))).WithDetail("found", edn.Int(int64(found)))
}
