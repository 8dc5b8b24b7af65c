package conversationtest

import (
	"context"
	"iter"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Model is a model that computes its answer from the context and the options by
// a function. A function without state makes a deterministic model.
type Model func(c conversation.Context, o conversation.Options) (conversation.Message, error)

var _ conversation.Model = Model(nil)

// Says returns a model that answers with the texts in turn: the number of
// assistant messages in the context selects the text, and the last text repeats.
// At least one text is required.
func Says(texts ...string) Model {
	return func(c conversation.Context, _ conversation.Options) (conversation.Message, error) {
		n := 0
		for m := range c.All() {
			if m.Role() == conversation.RoleAssistant {
				n++
			}
		}
		return conversation.Assistant(texts[min(n, len(texts)-1)]), nil
	}
}

// Chat implements conversation.Model.
func (f Model) Chat(
	ctx context.Context, c conversation.Context, o conversation.Options,
) (conversation.Message, error) {
	if err := context.Cause(ctx); err != nil {
		return conversation.Message{}, err
	}
	return f(c, o)
}

// pieceBytes is the least number of bytes of a piece.
const pieceBytes = 7

// ChatStream implements conversation.Model. Pieces have a few characters.
func (f Model) ChatStream(
	ctx context.Context, c conversation.Context, o conversation.Options,
) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		m, err := f.Chat(ctx, c, o)
		if err != nil {
			yield(conversation.Delta{}, err)
			return
		}
		for kind, text := range pieces(m) {
			if err := context.Cause(ctx); err != nil {
				yield(conversation.Delta{}, err)
				return
			}
			if !yield(conversation.Delta{Kind: kind, Text: text}, nil) {
				return
			}
		}
		yield(conversation.Delta{Kind: conversation.DeltaMessage, Message: m}, nil)
	}
}

// pieces yields the pieces of a message.
func pieces(m conversation.Message) iter.Seq2[conversation.DeltaKind, string] {
	return func(yield func(conversation.DeltaKind, string) bool) {
		for p := range m.Parts() {
			kind, text := conversation.DeltaKind(""), ""
			switch p := p.(type) {
			case conversation.Text:
				kind, text = conversation.DeltaText, p.Text
			case conversation.Reasoning:
				kind, text = conversation.DeltaReasoning, p.Text
			case conversation.Call:
				kind, text = conversation.DeltaCall, p.Args
			}
			for text != "" {
				n := min(pieceBytes, len(text))
				for n < len(text) && !utf8.RuneStart(text[n]) {
					n++
				}
				if !yield(kind, text[:n]) {
					return
				}
				text = text[n:]
			}
		}
	}
}
