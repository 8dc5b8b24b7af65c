package question

import (
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// message parses a message. calls has the wire name of the tool of each earlier
// call by its id.
func (q *Question) message(v edn.Value, at []edn.Value, calls map[string]string) (chat.Message, *contract.Error) {
	said, err := contract.MessageFromValue(v)
	if err != nil {
		path := append([]edn.Value{}, at...)
		return chat.Message{}, invalid(slices.AppendSeq(path, err.Details.Key("path").Elems()), "%s", err.Message)
	}
	m := chat.Message{Role: chat.Role(said.Role())}
	parts := slices.Collect(said.Parts())
	for i, p := range parts {
		if err := q.add(&m, p, at, calls); err != nil {
			return m, err
		}
		if _, isCall := p.(conversation.Call); isCall && leads(parts[i:]) {
			m.Parts = append(m.Parts, chat.Part{Kind: chat.CallPart, Call: m.Calls[len(m.Calls)-1].ID})
		}
	}
	return simpler(m), nil
}

// leads reports whether a part that is not a call follows the first of parts, so that the position
// of the first part must be recorded.
func leads(parts []conversation.Part) bool {
	return slices.ContainsFunc(parts, func(p conversation.Part) bool {
		_, isCall := p.(conversation.Call)
		return !isCall
	})
}

// add adds a part to a message.
func (q *Question) add(
	m *chat.Message, p conversation.Part, at []edn.Value, calls map[string]string,
) *contract.Error {
	part := chat.Part{}
	switch p := p.(type) {
	case conversation.Text:
		part = chat.Part{Kind: chat.TextPart, Text: p.Text, Field: p.Field, Cache: p.Cache}
	case conversation.Image:
		if err := q.image(p, append(at, edn.K("content"))); err != nil {
			return err
		}
		part = chat.Part{Kind: chat.ImagePart, Media: p.MediaType, Data: p.Data, URL: p.URL, Cache: p.Cache}
	case conversation.Reasoning:
		part = chat.Part{
			Kind: chat.ThinkingPart, Text: p.Text, Data: p.Data,
			Signature: p.Signature, Field: p.Field, Model: p.Model,
		}
		if p.Data != "" {
			part.Kind = chat.RedactedPart
		}
	case conversation.Result:
		name, known := calls[p.CallID]
		if !known {
			return invalid(append(at, edn.K("tool/id")), "no call before this result has the id %q", p.CallID)
		}
		m.CallID, m.Tool, m.Failed = p.CallID, name, p.Failed
		return nil
	case conversation.Call:
		args, err := madeArgs(p, at)
		if err != nil {
			return err
		}
		call := chat.Call{ID: p.ID, Name: q.Names.Wire(p.Tool), Args: args}
		calls[call.ID] = call.Name
		m.Calls, m.Cache = append(m.Calls, call), p.Cache
		return nil
	default:
		return invalid(append(at, edn.K("content")),
			"a model reads text, images and reasoning, not a reference to stored content")
	}
	m.Parts = append(m.Parts, part)
	return nil
}

// madeArgs returns the arguments of an earlier call as JSON.
func madeArgs(call conversation.Call, at []edn.Value) ([]byte, *contract.Error) {
	args, err := edn.Read([]byte(call.Args))
	var text []byte
	if err == nil {
		text, err = edn.WriteJSON(args)
	}
	if err != nil {
		return nil, invalid(append(at, edn.K("tool/calls")),
			"the arguments of %q should be a map that JSON can hold: %w", call.ID, err)
	}
	if len(text) > MaxArgs {
		return nil, Beyond("the arguments of a call have %d bytes, the limit is %d", len(text), MaxArgs)
	}
	return text, nil
}

// simpler writes content that is one text as text, and the cache mark of the last
// part of a tool's result as that of the result.
func simpler(m chat.Message) chat.Message {
	if last := len(m.Parts) - 1; last >= 0 && m.Role == chat.ToolRole && m.Parts[last].Cache {
		m.Parts[last].Cache, m.Cache = false, true
	}
	if len(m.Parts) != 1 || m.Parts[0].Kind != chat.TextPart || m.Parts[0].Field != "" {
		return m
	}
	if p := m.Parts[0]; !p.Cache || len(m.Calls) == 0 { // else the mark is before the calls
		m.Content, m.Cache, m.Parts = p.Text, m.Cache || p.Cache, nil
	}
	return m
}
