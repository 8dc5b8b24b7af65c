package dialect

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

func encodeAnthropic(r *chat.Request) (map[string]any, []string) {
	system, turns := anthropicMessages(r.Messages)
	o := r.Options
	body := map[string]any{"model": r.Model, "messages": turns, "stream": !r.Whole, "max_tokens": o.MaxTokens}
	if o.MaxTokens == 0 {
		body["max_tokens"] = DefaultMaxTokens
	}
	if system != "" {
		body["system"] = system
	}
	var dropped []string
	if t, err := o.Temperature.Float64(); err == nil && t > 1 {
		dropped = append(dropped, "temperature")
	} else {
		number(body, "temperature", o.Temperature)
	}
	number(body, "top_p", o.TopP)
	if len(o.Stop) > 0 {
		body["stop_sequences"] = o.Stop
	}
	for name, is := range map[string]bool{
		"presence-penalty": o.PresencePenalty != "", "frequency-penalty": o.FrequencyPenalty != "", "seed": o.Seed != nil, "reasoning-effort": o.Effort != "",
	} {
		if is {
			dropped = append(dropped, name)
		}
	}
	if len(r.Tools) > 0 {
		var tools []map[string]any
		for _, t := range r.Tools {
			tool := map[string]any{"name": t.Name, "input_schema": t.Schema}
			if t.Description != "" {
				tool["description"] = t.Description
			}
			tools = append(tools, tool)
		}
		body["tools"] = tools
	}
	if r.Output.Form == chat.Native {
		body["output_config"] = map[string]any{"format": map[string]any{"type": "json_schema", "schema": r.Output.Schema}}
	}
	return body, dropped
}

type anthropicTurn struct {
	Role    string           `json:"role"`
	Content []map[string]any `json:"content"`
}

// anthropicMessages puts system messages to the top, results of tools into user
// turns, and neighbours of one role into one turn.
func anthropicMessages(messages []chat.Message) (string, []anthropicTurn) {
	var system []string
	var turns []anthropicTurn
	add := func(role string, blocks ...map[string]any) {
		if n := len(turns); n > 0 && turns[n-1].Role == role {
			turns[n-1].Content = append(turns[n-1].Content, blocks...)
		} else {
			turns = append(turns, anthropicTurn{role, blocks})
		}
	}
	for _, m := range messages {
		switch m.Role {
		case chat.System:
			system = append(system, m.Content)
		case chat.ToolRole:
			add("user", map[string]any{"type": "tool_result", "tool_use_id": m.CallID, "content": m.Content})
		default:
			var blocks []map[string]any
			if m.Content != "" || len(m.Calls) == 0 {
				blocks = append(blocks, map[string]any{"type": "text", "text": m.Content})
			}
			for _, c := range m.Calls {
				blocks = append(blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Args})
			}
			add(string(m.Role), blocks...)
		}
	}
	return strings.Join(system, "\n\n"), turns
}

type anthropicEvent struct {
	Type    string            `json:"type"`
	Index   int               `json:"index"`
	Message *anthropicMessage `json:"message"`
	Block   anthropicBlock    `json:"content_block"`
	Delta   anthropicDelta    `json:"delta"`
	Usage   json.RawMessage   `json:"usage"`
	Error   json.RawMessage   `json:"error"`
	anthropicMessage
}

type anthropicMessage struct {
	ID         text             `json:"id"`
	Model      text             `json:"model"`
	Content    []anthropicBlock `json:"content"`
	StopReason text             `json:"stop_reason"`
	StopMore   json.RawMessage  `json:"stop_details"`
	Counts     json.RawMessage  `json:"usage"`
}

type anthropicBlock struct {
	Type     string          `json:"type"`
	Text     spoken          `json:"text"`
	Thinking spoken          `json:"thinking"`
	ID       text            `json:"id"`
	Name     text            `json:"name"`
	Input    json.RawMessage `json:"input"`
}

type anthropicDelta struct {
	Type       string          `json:"type"`
	Text       spoken          `json:"text"`
	Thinking   spoken          `json:"thinking"`
	Partial    spoken          `json:"partial_json"`
	StopReason text            `json:"stop_reason"`
	StopMore   json.RawMessage `json:"stop_details"`
}

type anthropicUsage struct {
	In      *count `json:"input_tokens"`
	Out     *count `json:"output_tokens"`
	Read    *count `json:"cache_read_input_tokens"`
	Written *count `json:"cache_creation_input_tokens"`
}

// anthropicDecoder keeps the parts of the input that are counted apart: an event
// may state some of them again, and the sum has to stay right.
type anthropicDecoder struct{ fresh, read, written int64 }

func (d *anthropicDecoder) Frame(data []byte, into *chat.Answer) ([]chat.Piece, error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil || e.unreadable() {
		return nil, ErrMalformed
	}
	switch e.Type {
	case "error":
		return nil, &InBand{Body: bytes.Clone(data)}
	case "message_start":
		if e.Message == nil {
			return nil, ErrMalformed
		}
		pieces := d.message(e.Message, e.Message.Counts, into)
		into.Usage.Out = -1 // what it states here is the begin: the whole is in message_delta
		return pieces, nil
	case "message": // not streamed
		into.Ended = true
		return d.message(&e.anthropicMessage, e.Usage, into), nil
	case "content_block_start":
		return e.Block.pieces(e.Index, into), nil
	case "content_block_delta":
		return e.Delta.pieces(e.Index, into), nil
	case "message_delta":
		anthropicEnd(string(e.Delta.StopReason), e.Delta.StopMore, into)
		d.count(e.Usage, into)
	case "message_stop":
		into.Ended = true
	case "":
		if reported(e.Error) {
			return nil, &InBand{Body: bytes.Clone(data)}
		}
		return nil, ErrForeign
	}
	return nil, nil // ping, content_block_stop and what later versions add
}

// unreadable reports whether the event holds text that is no text.
func (e *anthropicEvent) unreadable() bool {
	blocks := append(e.Content, e.Block)
	if e.Message != nil {
		blocks = append(blocks, e.Message.Content...)
	}
	all := []spoken{e.Delta.Text, e.Delta.Thinking, e.Delta.Partial}
	for _, b := range blocks {
		all = append(all, b.Text, b.Thinking)
	}
	return unreadable(all...)
}

func (d *anthropicDecoder) message(m *anthropicMessage, usage json.RawMessage, into *chat.Answer) []chat.Piece {
	into.Model, into.RequestID = first(string(m.Model), into.Model), first(string(m.ID), into.RequestID)
	d.count(usage, into)
	anthropicEnd(string(m.StopReason), m.StopMore, into)
	var pieces []chat.Piece
	for i, b := range m.Content {
		pieces = append(pieces, b.pieces(i, into)...)
	}
	return pieces
}

// pieces are what a block begins with; in an answer that is not streamed, all
// of it.
func (b anthropicBlock) pieces(index int, into *chat.Answer) []chat.Piece {
	switch b.Type {
	case "text":
		return said(b.Text, into)
	case "thinking":
		return thought(b.Thinking.text, into)
	case "tool_use":
		call, _ := into.Call(index)
		call.ID, call.Name = string(b.ID), string(b.Name)
		fragment := ""
		if raw := strings.TrimSpace(string(b.Input)); present(b.Input) && raw != "{}" {
			fragment = raw
		}
		return []chat.Piece{{Kind: chat.ToolCallPiece, Text: into.AddArgs(call, fragment), Call: call}}
	}
	return nil
}

func (b anthropicDelta) pieces(index int, into *chat.Answer) []chat.Piece {
	switch b.Type {
	case "text_delta":
		return said(b.Text, into)
	case "thinking_delta":
		return thought(b.Thinking.text, into)
	case "input_json_delta":
		if b.Partial.text == "" {
			return nil
		}
		call, _ := into.Call(index)
		return []chat.Piece{{Kind: chat.ToolCallPiece, Text: into.AddArgs(call, b.Partial.text), Call: call}}
	}
	return nil
}

// count adds up the input: what was read anew, from the cache and into it.
func (d *anthropicDecoder) count(raw json.RawMessage, into *chat.Answer) {
	u, ok := loose[anthropicUsage](raw)
	if !ok {
		return
	}
	u.In.set(&d.fresh)
	u.Read.set(&d.read)
	u.Written.set(&d.written)
	u.Out.set(&into.Usage.Out)
	if u.In != nil && *u.In >= 0 || into.Usage.In >= 0 {
		into.Usage.In, into.Usage.Cached, into.Usage.Written = d.fresh+d.read+d.written, d.read, d.written
	}
}

func anthropicEnd(word string, more json.RawMessage, into *chat.Answer) {
	if word == "" {
		return
	}
	into.FinishWord = word
	switch word {
	case "end_turn", "stop_sequence":
		into.Finish = chat.Stop
	case "max_tokens", "model_context_window_exceeded":
		into.Finish = chat.Length
	case "tool_use":
		into.Finish = chat.ToolCalls
	case "refusal":
		into.Finish = chat.Refused
		if d, ok := loose[struct{ Category text }](more); ok {
			into.Category = string(d.Category)
		}
	default:
		into.Finish = chat.Failed
	}
}
