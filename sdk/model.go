package sdk

import (
	"context"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ChatIntent is the intent that language models serve for conversations.
const ChatIntent = "model/chat"

// Model is a language model behind the host, for agents and for functions that
// hold a conversation. The zero Model is the one that the host chooses for
// [ChatIntent]; a Handle of the call selects a capability. Each message is one
// request to the host, to which bindings, gates and budgets apply and which is
// recorded like any other.
//
// A Model is used with the context of a call, and while that call runs. It is safe
// for concurrent use. Its errors are those of [Host.Invoke];
// :conversation/invalid-message for a message that it cannot send;
// :runtime/invalid-result for an answer that is not a message; and errors without
// a type for options that cannot be encoded.
type Model struct {
	// Handle selects the capability; with the zero Handle the host chooses.
	Handle Handle
	// Intent is the intent to request, [ChatIntent] if it is empty. Another one gets
	// the last text of the user as :prompt beside the messages. The answer must have
	// the form of res/chat, or be prose, such as res/text; tools need ChatIntent.
	Intent string
	// Fields are additional keys of the request envelope; nil for none.
	Fields edn.Value
	// OnAnswer, if set, is called with each answer before its message is
	// returned. The usage is under :result and the model under :invoke/meta of
	// the answer.
	OnAnswer func(Answer)
}

var _ conversation.Model = Model{}

// Chat implements conversation.Model. The attribution of the message has the
// capability, the model and the run.
func (m Model) Chat(ctx context.Context, c conversation.Context, o conversation.Options) (conversation.Message, error) {
	return m.ask(ctx, c, o, nil)
}

// ChatStream implements conversation.Model. Text arrives as early as the policy of
// the intent shows it; DeltaRetract withdraws an answer that was rejected.
func (m Model) ChatStream(ctx context.Context, c conversation.Context, o conversation.Options) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false
		message, err := m.ask(ctx, c, o, func(piece edn.Value) {
			if d, ok := deltaOf(piece); ok && !left && !yield(d, nil) {
				left = true
				cancel()
			}
		})
		switch {
		case left:
		case err != nil:
			yield(conversation.Delta{}, err)
		default:
			yield(conversation.Delta{Kind: conversation.DeltaMessage, Message: message}, nil)
		}
	}
}

func (m Model) ask(
	ctx context.Context, c conversation.Context, o conversation.Options, on func(edn.Value),
) (conversation.Message, error) {
	intent := m.Intent
	if intent == "" {
		intent = ChatIntent
	}
	input, err := chatInput(intent, c, o)
	if err != nil {
		return conversation.Message{}, err
	}
	fields, err := withOptions(m.Fields, o)
	if err != nil {
		return conversation.Message{}, err
	}
	answer, err := HostFrom(ctx).Invoke(ctx, Ask{
		Intent: intent, Handle: m.Handle, Input: input, Fields: fields, OnDelta: on,
	})
	if err != nil {
		return conversation.Message{}, err
	}
	if m.OnAnswer != nil {
		m.OnAnswer(answer)
	}
	message, bad := contract.MessageFromAnswer(answer.Out())
	if bad != nil {
		return conversation.Message{}, contract.Errorf("runtime/invalid-result", "the answer of :%s: %w", intent, bad)
	}
	by := message.Attribution()
	meta := answer.Response.Key("invoke/meta")
	by.Capability, by.Run = word(meta.Key("cap/id")), CallFrom(ctx).Run
	by.Model, _ = meta.Key("model").AsString()
	if by.Finish == "" {
		by.Finish = word(meta.Key("finish"))
	}
	return message.WithAttribution(by), nil
}

// chatInput returns the input of a request for a message.
func chatInput(intent string, c conversation.Context, o conversation.Options) (edn.Value, error) {
	i := 0
	for m := range c.All() {
		if slices.ContainsFunc(slices.Collect(m.Parts()), isReference) {
			return edn.Nil(), contract.Errorf("conversation/invalid-message",
				"ask the model: message %d has content by reference, expected the content itself", i).
				WithHint("load the content and put it in the place of the reference")
		}
		i++
	}
	in := contract.MessagesInput(intent, c.All())
	tools := make([]edn.Value, len(o.Tools))
	for i, t := range o.Tools {
		tool, err := toolValue(t)
		if err != nil {
			return edn.Nil(), fmt.Errorf("tool %q: %w", t.Name, err)
		}
		tools[i] = tool
	}
	if len(tools) > 0 {
		in = in.AssocKey("tools", edn.Vector(tools...))
	}
	if o.ToolChoice != "" {
		choice, err := edn.Keyword(o.ToolChoice)
		if err != nil {
			return edn.Nil(), fmt.Errorf("tool choice: %w", err)
		}
		in = in.AssocKey("tool-choice", choice)
	}
	return in, nil
}

func isReference(p conversation.Part) bool {
	_, is := p.(conversation.Reference)
	return is
}

// noArgs is the schema of a tool without arguments.
var noArgs = edn.MustRead(`[:map {:closed true}]`)

func toolValue(t conversation.Tool) (edn.Value, error) {
	id, err := edn.Keyword(t.Name)
	if err != nil {
		return edn.Nil(), err
	}
	form := noArgs
	if t.Schema != "" {
		if form, err = edn.ReadString(t.Schema); err != nil {
			return edn.Nil(), fmt.Errorf("schema: %w", err)
		}
	}
	var b edn.MapBuilder
	b.Key("tool/id", id)
	b.OptText("description", t.Description)
	b.Key("in-schema", form)
	return b.Map(), nil
}

// withOptions adds the options that are part of the :budget to the fields of a
// request.
func withOptions(fields edn.Value, o conversation.Options) (edn.Value, error) {
	var own edn.MapBuilder
	own.OptInt("max-tokens", int64(o.MaxTokens))
	if o.Temperature != nil {
		t, err := edn.Float(*o.Temperature)
		if err != nil {
			return edn.Nil(), fmt.Errorf("temperature: %w", err)
		}
		own.Key("temperature", t)
	}
	budget := own.Map()
	if budget.Len() == 0 {
		return fields, nil
	}
	return merged(fields, edn.MustMap(edn.K("budget"), merged(fields.Key("budget"), budget))), nil
}

// deltaOf converts a piece of an answer. Pieces of kinds that it does not know are
// left out.
func deltaOf(piece edn.Value) (conversation.Delta, bool) {
	text, _ := piece.Key("text").AsString()
	switch kind := conversation.DeltaKind(word(piece.Key("kind"))); kind {
	case conversation.DeltaText, conversation.DeltaReasoning, conversation.DeltaCall:
		return conversation.Delta{Kind: kind, Text: text}, text != ""
	case conversation.DeltaRetract:
		return conversation.Delta{Kind: kind, Text: word(piece.Key("reason"))}, true
	}
	return conversation.Delta{}, false
}
