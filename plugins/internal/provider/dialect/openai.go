package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

func encodeOpenAI(p Preset, r *chat.Request) *encoding {
	e := &encoding{}
	body := map[string]any{"model": r.Model, "messages": openAIMessages(p, r.Messages, e), "stream": !r.Whole}
	e.body = body
	if p.UsageInStream && !r.Whole {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	e.options(body, r.Options, map[string]string{
		"temperature": "temperature", "top-p": "top_p", "presence-penalty": "presence_penalty",
		"frequency-penalty": "frequency_penalty", "seed": "seed", "stop": "stop",
		"max-tokens": p.LimitField, "reasoning-effort": "reasoning_effort",
	})
	if len(r.Tools) > 0 {
		body["tools"] = each(r.Tools, function)
		// openai-python, types/chat/chat_completion_tool_choice_option_param.py, 2026-08-21
		name := map[string]any{"name": r.Choice.Tool}
		choose(body, r.Choice, map[string]any{"type": "function", "function": name})
	}
	switch r.Output.Form {
	case chat.Native:
		form := map[string]any{"name": r.Output.Name, "strict": true, "schema": r.Output.Schema}
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": form}
	case chat.JSON:
		body["response_format"] = map[string]any{"type": "json_object"}
	}
	return e
}

func openAIMessages(p Preset, messages []chat.Message, e *encoding) []map[string]any {
	var all []map[string]any
	for _, m := range messages {
		content := openAIContent(p, m, e)
		out := map[string]any{"role": string(m.Role), "content": content}
		for field, text := range openAIReasoning(p, m, e) {
			out[field] = text
		}
		switch {
		case m.Role == chat.System:
			out["role"] = p.SystemRole
		case m.Role == chat.ToolRole:
			out["tool_call_id"] = m.CallID
		case len(m.Calls) > 0:
			extras := callExtras(p, m)
			out["tool_calls"] = each(m.Calls, func(c chat.Call) map[string]any {
				f := map[string]any{"name": c.Name, "arguments": string(c.Args)}
				call := map[string]any{"id": c.ID, "type": "function", "function": f}
				if extra := extras[c.ID]; extra != nil {
					call[p.CallExtra] = extra
				}
				return call
			})
			if content == "" {
				out["content"] = nil
			}
		}
		all = append(all, out)
	}
	return all
}

// openAIContent returns the content of a message without the reasoning that is
// beside it (openai-python, types/chat/chat_completion_content_part_image_param.py
// and chat_completion_tool_message_param.py, 2026-08-21).
func openAIContent(preset Preset, m chat.Message, e *encoding) any {
	beside := func(p chat.Part) bool { return p.Reasons() && !preset.thought(p) || p.Kind == chat.CallPart }
	parts := slices.DeleteFunc(slices.Clone(m.Each()), beside)
	if m.Role == chat.ToolRole && slices.ContainsFunc(parts, func(p chat.Part) bool { return p.Kind == chat.ImagePart }) {
		e.refuse("it has no images in the result of a tool")
	}
	return content(parts, "text", func(url string) map[string]any {
		return map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}}
	})
}

// openAIReasoning returns the fields with the reasoning of a message. OpenAI's
// interface has none; servers that return reasoning require it back in the same
// field (DeepSeek, thinking mode: reasoning_content of turns with calls,
// 2026-11-25). Opaque data of the message replaces the text, which it contains.
func openAIReasoning(p Preset, m chat.Message, e *encoding) map[string]any {
	fields, texts := map[string]any{}, map[string]string{}
	for _, part := range m.Parts {
		if !part.Reasons() || opaque(part, p.CallExtra) || p.thought(part) {
			continue
		}
		field := part.Field
		if opaque(part, p.MessageExtra) {
			fields[field] = json.RawMessage(part.Signature)
			continue
		}
		if field == "" && len(p.ReasoningFields) > 0 {
			field = p.ReasoningFields[0]
		}
		if part.Kind == chat.RedactedPart || part.Signature != "" || !slices.Contains(p.ReasoningFields, field) {
			e.drop(lostReasoning)
			continue
		}
		texts[field] += part.Text
	}
	if len(fields) == 0 {
		for field, text := range texts {
			fields[field] = text
		}
	}
	return fields
}

// inContent is the Field of reasoning that came among the parts of the content.
const inContent = "content"

// thought reports whether a part is reasoning that is sent back in the content.
func (p Preset) thought(part chat.Part) bool {
	return p.Thinks && part.Kind == chat.ThinkingPart && part.Field == inContent && part.Signature == ""
}

// opaque reports whether a part is the opaque data of a field.
func opaque(p chat.Part, field string) bool {
	return field != "" && p.Field == field && json.Valid([]byte(p.Signature))
}

// callExtras returns the opaque data of calls by their ids. It is the part before
// the call.
func callExtras(p Preset, m chat.Message) map[string]json.RawMessage {
	extras := map[string]json.RawMessage{}
	var before chat.Part
	for part, call := range m.Flow() {
		if call != nil && opaque(before, p.CallExtra) {
			extras[call.ID] = json.RawMessage(before.Signature)
		}
		before = part
	}
	return extras
}

type openAIChunk struct {
	ID      text            `json:"id"`
	Object  text            `json:"object"`
	Model   text            `json:"model"`
	Choices json.RawMessage `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// Code holds an error of FastChat, beside its text.
	Code json.RawMessage `json:"error_code"`
}

// failed reports whether the server sent an error instead of a chunk: as error,
// or in the forms of FastChat and of vLLM without a wrapper.
func (c openAIChunk) failed() bool {
	return reported(c.Error) || reported(c.Code) || c.Object == "error"
}

// foreign reports whether an object has no field of a chunk.
func (c openAIChunk) foreign() bool {
	return c.Choices == nil && !present(c.Usage) && c.ID == "" && c.Object == "" && c.Model == ""
}

type openAIChoice struct {
	Index   int             `json:"index"`
	Delta   json.RawMessage `json:"delta"`
	Message json.RawMessage `json:"message"`
	Finish  text            `json:"finish_reason"`
	Error   json.RawMessage `json:"error"`
}

type openAIDelta struct {
	Role      text         `json:"role"`
	Content   spoken       `json:"content"`
	Refusal   text         `json:"refusal"`
	ToolCalls []openAICall `json:"tool_calls"`
	Function  *openAIFunc  `json:"function_call"`
}

// foreign reports whether a delta is of a message that is not the answer. Some servers state an
// empty role (MiniMax-AI/MiniMax-M2.5 issue 2) or a name of their own for the model.
func (m *openAIDelta) foreign() bool {
	others := []text{"system", "developer", "user", "tool", "function"}
	return slices.Contains(others, m.Role) && (m.Content.text != "" || len(m.ToolCalls) > 0 || m.Function != nil)
}

type openAICall struct {
	Index    *int       `json:"index"`
	ID       text       `json:"id"`
	Function openAIFunc `json:"function"`
	raw      json.RawMessage
}

func (c *openAICall) UnmarshalJSON(b []byte) error {
	type plain openAICall
	c.raw = bytes.Clone(b)
	return json.Unmarshal(b, (*plain)(c))
}

type openAIFunc struct {
	Name      text            `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type openAIUsage struct {
	In     *count `json:"prompt_tokens"`
	Out    *count `json:"completion_tokens"`
	Hit    count  `json:"prompt_cache_hit_tokens"` // DeepSeek, context caching, 2026-11-25
	Total  count  `json:"total_tokens"`
	InMore struct {
		Cached  count `json:"cached_tokens"`
		Written count `json:"cache_write_tokens"` // openai-python, types/completion_usage.py, 2026-08-21
	} `json:"prompt_tokens_details"`
	OutMore struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// openAIDecoder records whether the answer comes in deltas: some servers repeat
// all of it as a message in the last chunk. details is the opaque data of the
// message, calls the last call with each index.
type openAIDecoder struct {
	preset  Preset
	deltas  bool
	calls   map[int]*chat.RawCall
	usage   usageReader
	details fragments
}

var done = []byte("[DONE]")

func (d *openAIDecoder) Frame(data []byte, into *chat.Answer) ([]chat.Piece, error) {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, done) {
		into.Ended = true
		return nil, nil
	}
	var c openAIChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, ErrMalformed
	}
	if c.failed() {
		return nil, &InBand{Body: bytes.Clone(data)}
	}
	if c.foreign() {
		return nil, ErrForeign
	}
	var choices []openAIChoice
	if present(c.Choices) && json.Unmarshal(c.Choices, &choices) != nil {
		return nil, ErrMalformed
	}
	into.Model, into.RequestID = first(string(c.Model), into.Model), first(string(c.ID), into.RequestID)
	into.Usage = d.usage.read(data, c.Usage, into.Usage)
	var pieces []chat.Piece
	for _, choice := range choices {
		if choice.Index != 0 {
			continue
		}
		if reported(choice.Error) {
			return nil, &InBand{Body: bytes.Clone(choice.Error)}
		}
		got, err := d.choice(choice, into)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, got...)
	}
	if len(pieces) == 0 && unread(data) {
		return nil, ErrMalformed
	}
	return pieces, nil
}

// unread reports whether a chunk without a piece has a text where none is read,
// or a choice of another form.
func unread(chunk []byte) bool {
	var c struct {
		Choices []map[string]json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(chunk, &c) != nil || holdsText(chunk) {
		return true
	}
	return slices.ContainsFunc(c.Choices, func(choice map[string]json.RawMessage) bool {
		_, ends := choice["finish_reason"]
		known := ends || choice["delta"] != nil || choice["message"] != nil
		return !known && len(choice) > 0 || textIn(choice, "delta", "message") ||
			holdsText(choice["delta"], "content") || holdsText(choice["message"], "content")
	})
}

func (d *openAIDecoder) choice(c openAIChoice, into *chat.Answer) ([]chat.Piece, error) {
	var pieces []chat.Piece
	for i, raw := range []json.RawMessage{c.Delta, c.Message} {
		if !present(raw) {
			continue
		}
		var m openAIDelta
		if err := json.Unmarshal(raw, &m); err != nil || m.Content.unreadable || m.foreign() {
			return nil, ErrMalformed
		}
		if i == 1 && d.deltas {
			text := m.Content.text
			if text != "" && text != into.Text.String() || len(m.ToolCalls) > len(into.Calls) {
				return nil, ErrMalformed // the deltas were incomplete
			}
			continue
		}
		d.deltas = d.deltas || i == 0
		if extra := fieldOf(raw, d.preset.MessageExtra); present(extra) {
			if !d.details.add(extra) {
				return nil, ErrMalformed
			}
			into.Extra(d.preset.MessageExtra, nil).Details = &d.details
		}
		if field, text := d.thought(raw); text != "" {
			into.Block(chat.ThinkingPart, 0).Field = field
			pieces = append(pieces, thought(0, text, into)...)
		}
		switch reasoning := m.Content.reasoning; {
		case reasoning == "":
		case d.preset.Thinks:
			into.Block(chat.ThinkingPart, 0).Field = inContent
			pieces = append(pieces, thought(0, reasoning, into)...)
		default:
			pieces = append(pieces, piece(chat.ReasoningPiece, into.ShowReasoning(reasoning))...)
		}
		pieces = append(pieces, said(0, m.Content, into)...)
		into.Refusal.WriteString(string(m.Refusal) + m.Content.refusal)
		if m.Function != nil {
			m.ToolCalls = append(m.ToolCalls, openAICall{Index: new(int), Function: *m.Function})
		}
		for position, call := range m.ToolCalls {
			if i == 1 && call.Index == nil { // each is a whole call
				call.Index = &position
			}
			got := called(d.call(call, into), arguments(call.Function.Arguments), into)
			if extra := fieldOf(call.raw, d.preset.CallExtra); present(extra) {
				into.Extra(d.preset.CallExtra, got[0].Call).Sign(string(extra))
			}
			pieces = append(pieces, got...)
		}
	}
	if c.Finish != "" {
		openAIWords.finish(c.Finish, into)
	}
	return pieces, nil
}

// thought returns the first reasoning field with a text.
func (d *openAIDecoder) thought(raw json.RawMessage) (field, text string) {
	for _, field := range d.preset.ReasoningFields {
		var s spoken
		if v := fieldOf(raw, field); present(v) && json.Unmarshal(v, &s) == nil && s.text != "" {
			return field, s.text
		}
	}
	return "", ""
}

// call returns the call that a fragment belongs to: the one with its index, or the last one for
// servers that send no index. After index 0, an index above the number of calls proves that a call
// is missing. A bridge to Anthropic may count from the first block of text
// (router-for-me/CLIProxyAPI issue 5229).
func (d *openAIDecoder) call(c openAICall, into *chat.Answer) *chat.RawCall {
	var call *chat.RawCall
	index := len(into.Calls)
	if c.Index != nil {
		index = *c.Index
		call = d.calls[index]
	} else if index > 0 {
		call = into.Calls[index-1]
	}
	if call == nil && d.calls[0] != nil && index > len(into.Calls) {
		into.Damaged++
	}
	if call == nil || c.begins(call) {
		isNew := false
		for at := index; !isNew; at++ {
			call, isNew = into.Call(at)
		}
	}
	if c.Index != nil {
		d.calls[index] = call
	}
	call.ID, call.Name = first(call.ID, string(c.ID)), first(call.Name, string(c.Function.Name))
	return call
}

// begins reports whether a fragment is of another call than the one before with its index: it has
// another id, or a name and arguments although those before are complete. Gemini gives all calls
// the index 0 (omnigent-ai/omnigent pull request 28, su-kaka/gcli2api pull request 406). A server
// that makes a new id for each fragment sends the name only once.
func (c openAICall) begins(before *chat.RawCall) bool {
	id, name := string(c.ID), string(c.Function.Name)
	switch {
	case id != "" && id == before.ID:
		return false
	case id != "" && (c.Index == nil || name != "" && before.ID != ""):
		return true
	}
	args := before.Args.String()
	return name != "" && strings.TrimSpace(arguments(c.Function.Arguments)) != "" &&
		strings.HasSuffix(strings.TrimSpace(args), "}") && json.Valid([]byte(args))
}

// arguments is a fragment of JSON text; some servers write the object itself.
func arguments(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	if raw[0] == '"' {
		return unquote(raw)
	}
	return string(raw)
}

func (u openAIUsage) counts(before chat.Usage) chat.Usage {
	u.In.set(&before.In)
	u.Out.set(&before.Out)
	before.Cached = max(before.Cached, int64(u.InMore.Cached), int64(u.Hit))
	before.Written = max(before.Written, int64(u.InMore.Written))
	before.Reasoning = max(before.Reasoning, int64(u.OutMore.Reasoning))
	return before
}

var openAIWords = finishes{
	"stop": chat.Stop, "length": chat.Length, "tool_calls": chat.ToolCalls, "function_call": chat.ToolCalls,
	"content_filter": chat.Refused,
	// text-generation-inference cdc005b, router/src/lib.rs, FinishReason::format, 2026-11-28
	"stop_sequence": chat.Stop, "eos_token": chat.Stop,
	// Together, together-python 0c625ea, src/together/types/common.py, 2026-11-28
	"eos": chat.Stop,
	// Mistral, client-python 3c51fd6, chatcompletionchoicefinishreason.md, 2026-11-28
	"model_length": chat.Length,
	// Z.ai, can1357/oh-my-pi pull request 683, 2026-11-28
	"model_context_window_exceeded": chat.Length,
}

func first(s, or string) string {
	if s != "" {
		return s
	}
	return or
}
