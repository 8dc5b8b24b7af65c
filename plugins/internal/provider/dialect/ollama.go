package dialect

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

func encodeOllama(r *chat.Request) *encoding {
	e, o, options := &encoding{}, r.Options, map[string]any{}
	e.options(options, o, map[string]string{
		"temperature": "temperature", "top-p": "top_p", "presence-penalty": "presence_penalty",
		"frequency-penalty": "frequency_penalty", "seed": "seed", "stop": "stop", "max-tokens": "num_predict",
		"reasoning-effort": elsewhere,
	})
	if r.Context > 0 {
		options["num_ctx"] = r.Context
	}
	// Without these options a server may cut the prompt or shift the context
	// silently.
	body := map[string]any{
		"model": r.Model, "messages": ollamaMessages(r.Messages, e), "stream": !r.Whole, "truncate": false, "shift": false,
	}
	e.body = body
	switch o.Effort {
	case "":
	case "none":
		body["think"] = false
	default:
		body["think"] = o.Effort
	}
	if len(options) > 0 {
		body["options"] = options
	}
	// The interface has no tool choice (ollama, ChatRequest of api/types.go,
	// 2026-08-21). A model without tools calls none.
	switch r.Choice.Mode {
	case chat.MustCall, chat.OneTool:
		e.refuse("it has no :tool-choice that demands a call")
	case chat.NoTool:
	default:
		if len(r.Tools) > 0 {
			body["tools"] = each(r.Tools, function)
		}
	}
	switch r.Output.Form {
	case chat.Native:
		body["format"] = r.Output.Schema
	case chat.JSON:
		body["format"] = "json"
	}
	return e
}

// ollamaMessages names the tool of a result, since calls have no ids here. The
// images of a message are separate from its text (ollama, Message of
// api/types.go, 2026-08-21), so their place in it is lost.
func ollamaMessages(messages []chat.Message, e *encoding) []map[string]any {
	var all []map[string]any
	for _, m := range messages {
		var texts, images []string
		thinking := ""
		for _, p := range m.Each() {
			switch {
			case p.Kind == chat.TextPart:
				texts = append(texts, p.Text)
			case p.Kind == chat.CallPart:
			case p.Kind == chat.ThinkingPart && p.Signature == "" && (p.Field == "" || p.Field == "thinking"):
				thinking += p.Text
			case p.Reasons():
				e.drop(lostReasoning)
			case p.URL != "":
				e.refuse("it takes images as data, not by URL")
			default:
				images = append(images, p.Data)
			}
		}
		out := map[string]any{"role": string(m.Role), "content": strings.Join(texts, "\n\n")}
		if len(images) > 0 {
			out["images"] = images
		}
		if thinking != "" {
			out["thinking"] = thinking
		}
		if m.Role == chat.ToolRole {
			out["tool_name"] = m.Tool
		}
		if len(m.Calls) > 0 {
			out["tool_calls"] = each(m.Calls, func(c chat.Call) map[string]any {
				return map[string]any{"function": map[string]any{"name": c.Name, "arguments": c.Args}}
			})
		}
		all = append(all, out)
	}
	return all
}

type ollamaLine struct {
	Model   text            `json:"model"`
	Message json.RawMessage `json:"message"`
	Done    *bool           `json:"done"`
	Reason  text            `json:"done_reason"`
	In      *count          `json:"prompt_eval_count"`
	Out     *count          `json:"eval_count"`
	Error   json.RawMessage `json:"error"`
}

type ollamaMessage struct {
	Content  spoken `json:"content"`
	Thinking spoken `json:"thinking"`
	Calls    []struct {
		ID       text       `json:"id"`
		Function openAIFunc `json:"function"`
	} `json:"tool_calls"`
}

type ollamaDecoder struct{}

func (*ollamaDecoder) Frame(data []byte, into *chat.Answer) ([]chat.Piece, error) {
	var l ollamaLine
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, ErrMalformed
	}
	if reported(l.Error) { // before done: a line may hold both
		return nil, &InBand{Body: bytes.Clone(data)}
	}
	if l.Done == nil && !present(l.Message) {
		return nil, ErrForeign
	}
	var m ollamaMessage
	if present(l.Message) {
		if err := json.Unmarshal(l.Message, &m); err != nil || unreadable(m.Content, m.Thinking) {
			return nil, ErrMalformed
		}
	}
	into.Model = first(string(l.Model), into.Model)
	if m.Thinking.text != "" {
		into.Block(chat.ThinkingPart, 0).Field = "thinking"
	}
	pieces := thought(0, m.Thinking.text, into)
	pieces = append(pieces, said(0, m.Content, into)...)
	for _, c := range m.Calls {
		call, _ := into.Call(len(into.Calls))
		call.ID, call.Name = string(c.ID), string(c.Function.Name)
		pieces = append(pieces, called(call, arguments(c.Function.Arguments), into)...)
	}
	if len(pieces) == 0 && (holdsText(data, "message") || holdsText(l.Message, "content")) {
		return nil, ErrMalformed
	}
	l.In.set(&into.Usage.In)
	l.Out.set(&into.Usage.Out)
	if l.Done != nil && *l.Done {
		into.Ended = true
		ollamaEnd(l.Reason, into)
	}
	return pieces, nil
}

var ollamaWords = finishes{"": chat.Stop, "stop": chat.Stop, "length": chat.Length}

// ollamaEnd sets the finish reason; older servers do not state one.
func ollamaEnd(word text, into *chat.Answer) {
	ollamaWords.finish(word, into)
	into.Assumed = word == ""
	if into.Finish == chat.Stop && len(into.Calls) > 0 {
		into.Finish = chat.ToolCalls
	}
}
