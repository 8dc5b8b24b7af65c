package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

func encodeAnthropic(r *chat.Request) *encoding {
	e := &encoding{}
	system, turns := anthropicMessages(r.Messages, e)
	if len(turns) == 0 {
		e.refuse("it needs a message that is not a system message")
	}
	o := r.Options
	body := map[string]any{"model": r.Model, "messages": turns, "stream": !r.Whole, "max_tokens": o.MaxTokens}
	if o.MaxTokens == 0 {
		body["max_tokens"] = defaultMaxTokens
	}
	if system != nil {
		body["system"] = system
	}
	e.body = body
	if t, err := o.Temperature.Float64(); err == nil && t > 1 {
		e.drop("temperature")
		o.Temperature = ""
	}
	e.options(body, o, map[string]string{
		"temperature": "temperature", "top-p": "top_p", "stop": "stop_sequences",
		"max-tokens": elsewhere, "reasoning-effort": elsewhere, "reasoning-budget": elsewhere,
	})
	if len(r.Tools) > 0 {
		body["tools"] = each(r.Tools, func(t chat.Tool) map[string]any { return tool(t, "input_schema") })
		if choice := anthropicChoice(r.Choice); choice != nil {
			body["tool_choice"] = choice
		}
	}
	if r.Output.Form == chat.Native {
		body["output_config"] = map[string]any{"format": map[string]any{"type": "json_schema", "schema": r.Output.Schema}}
	}
	e.anthropicThinking(r)
	return e
}

// anthropicChoice is the field tool_choice (anthropic-sdk-python,
// types/tool_choice_param.py, 2026-08-07).
func anthropicChoice(c chat.Choice) map[string]any {
	switch c.Mode {
	case chat.AnyTool:
		return map[string]any{"type": "auto"}
	case chat.NoTool:
		return map[string]any{"type": "none"}
	case chat.MustCall:
		return map[string]any{"type": "any"}
	case chat.OneTool:
		return map[string]any{"type": "tool", "name": c.Tool}
	}
	return nil
}

type anthropicTurn struct {
	Role    string           `json:"role"`
	Content []map[string]any `json:"content"`
}

// anthropicMessages moves system messages to the top, puts results of tools
// into user turns, and joins neighbors of one role into one turn.
func anthropicMessages(messages []chat.Message, e *encoding) (any, []anthropicTurn) {
	var system []map[string]any
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
			system = append(system, anthropicBlocks(m, e)...)
		case chat.ToolRole:
			result := map[string]any{"type": "tool_result", "tool_use_id": m.CallID, "content": m.Content}
			if m.Parts != nil {
				result["content"] = anthropicParts(m, e)
			}
			if m.Failed { // anthropic-sdk-python, types/tool_result_block_param.py, 2026-08-07
				result["is_error"] = true
			}
			if m.Cache {
				e.mark(result)
			}
			add("user", result)
		default:
			blocks := anthropicBlocks(m, e)
			if len(blocks) > 0 {
				add(string(m.Role), blocks...)
			}
		}
	}
	e.fewerMarks()
	return anthropicSystem(system), turns
}

// anthropicSystem returns the system prompt: a string unless a block has a
// mark.
func anthropicSystem(blocks []map[string]any) any {
	var texts []string
	for _, b := range blocks {
		if b["cache_control"] != nil {
			return blocks
		}
		text, _ := b["text"].(string)
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil
	}
	return strings.Join(texts, "\n\n")
}

// mostMarks is the maximum number of cache marks in a request (Anthropic,
// prompt caching guide, 2026-11-25).
const mostMarks = 4

// mark marks a block as the end of a cached prefix (anthropic-sdk-python,
// types/cache_control_ephemeral_param.py, 2026-08-07).
func (e *encoding) mark(block map[string]any) {
	if block["cache_control"] == nil {
		block["cache_control"] = map[string]any{"type": "ephemeral"}
		e.marked = append(e.marked, block)
	}
}

// fewerMarks keeps the first mark, after the part that all requests share, and
// the last ones, which the next turn continues.
func (e *encoding) fewerMarks() {
	if len(e.marked) <= mostMarks {
		return
	}
	for _, block := range e.marked[1 : len(e.marked)-mostMarks+1] {
		delete(block, "cache_control")
	}
	e.drop(lostMark)
}

// anthropicBlocks returns the parts of a message and its calls; calls without a
// place among the parts come last (anthropic-sdk-python,
// types/image_block_param.py, thinking_block_param.py and
// redacted_thinking_block_param.py, 2026-08-07).
func anthropicBlocks(m chat.Message, e *encoding) []map[string]any {
	blocks := anthropicParts(m, e)
	for _, block := range slices.Backward(blocks) {
		if m.Cache && block["type"] != "thinking" && block["type"] != "redacted_thinking" { // these take no mark
			e.mark(block)
			break
		}
	}
	return blocks
}

// anthropicParts writes the parts of a message and its calls.
func anthropicParts(m chat.Message, e *encoding) []map[string]any {
	var blocks []map[string]any
	for p, call := range m.Flow() {
		block := anthropicPart(p, call)
		if block == nil {
			e.drop(lostReasoning)
			continue
		}
		if p.Cache {
			e.mark(block)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// anthropicPart returns nil for reasoning of another format.
func anthropicPart(p chat.Part, call *chat.Call) map[string]any {
	switch {
	case call != nil:
		return map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": call.Args}
	case p.Kind == chat.TextPart:
		return map[string]any{"type": "text", "text": p.Text}
	case p.Kind == chat.RedactedPart:
		return map[string]any{"type": "redacted_thinking", "data": p.Data}
	case sealed(p):
		return map[string]any{"type": "thinking", "thinking": p.Text, "signature": p.Signature}
	case p.Kind == chat.ThinkingPart:
		return nil
	case p.URL != "":
		return map[string]any{"type": "image", "source": map[string]any{"type": "url", "url": p.URL}}
	}
	source := map[string]any{"type": "base64", "media_type": p.Media, "data": p.Data}
	return map[string]any{"type": "image", "source": source}
}

// leastBudget is the minimum token budget of extended thinking.
const leastBudget = 1024

// anthropicThinking sets the reasoning effort. Thinking excludes a temperature
// and a choice that demands a call, and after a tool result it is enabled only
// if the call came with reasoning (Anthropic, extended thinking and effort
// guides, 2026-11-25; anthropic-sdk-python, types/thinking_config_param.py and
// output_config_param.py, 2026-08-07).
func (e *encoding) anthropicThinking(r *chat.Request) {
	o, lacks := r.Options, TraitsOf(r.Model).Lacks
	forced := r.Choice.Mode == chat.MustCall || r.Choice.Mode == chat.OneTool
	if forced && slices.Contains(lacks, "demand") {
		e.refuse("the model takes no :tool-choice that demands a call")
	}
	thinking := map[string]any{}
	switch {
	case o.Budget > 0:
		if forced || o.Budget < leastBudget || slices.Contains(lacks, "budget") || inToolLoopWithout(r.Messages) {
			e.drop("reasoning-budget")
			return
		}
		thinking["type"], thinking["budget_tokens"] = "enabled", o.Budget
		if o.MaxTokens <= o.Budget {
			e.body["max_tokens"] = o.Budget + max(o.MaxTokens, defaultMaxTokens)
		}
	case o.Effort == "":
		return
	case o.Effort == "none" && slices.Contains(lacks, "none"):
		e.drop("reasoning-effort")
		return
	case o.Effort == "none":
		e.body["thinking"] = map[string]any{"type": "disabled"}
		return
	case slices.Contains(lacks, "effort") || !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, o.Effort):
		e.drop("reasoning-effort")
		return
	default:
		output, _ := e.body["output_config"].(map[string]any)
		if output == nil {
			output = map[string]any{}
		}
		output["effort"], e.body["output_config"] = o.Effort, output
		if forced || slices.Contains(lacks, "adaptive") {
			return
		}
		thinking["type"] = "adaptive"
	}
	e.body["thinking"] = thinking
	e.dropped = append(e.dropped, without(e.body, []string{"temperature"})...)
	if p, err := o.TopP.Float64(); err == nil && p < 0.95 {
		e.dropped = append(e.dropped, without(e.body, []string{"top_p"})...)
	}
}

// sealed reports whether a part is reasoning of this format.
func sealed(p chat.Part) bool {
	return p.Kind == chat.RedactedPart ||
		p.Kind == chat.ThinkingPart && p.Signature != "" && p.Field == "" && !reasoningItem(p)
}

// inToolLoopWithout reports whether the last turn of the model called tools and
// has no reasoning.
func inToolLoopWithout(messages []chat.Message) bool {
	for _, m := range slices.Backward(messages) {
		if m.Role != chat.ToolRole {
			return m.Role == chat.Assistant && len(m.Calls) > 0 && !slices.ContainsFunc(m.Parts, sealed)
		}
	}
	return false
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
	Type      string          `json:"type"`
	Text      spoken          `json:"text"`
	Thinking  spoken          `json:"thinking"`
	Signature text            `json:"signature"`
	Data      text            `json:"data"`
	ID        text            `json:"id"`
	Name      text            `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type anthropicDelta struct {
	Type       string          `json:"type"`
	Text       spoken          `json:"text"`
	Thinking   spoken          `json:"thinking"`
	Signature  text            `json:"signature"`
	Partial    spoken          `json:"partial_json"`
	Content    spoken          `json:"content"` // in other formats
	Value      spoken          `json:"value"`
	StopReason text            `json:"stop_reason"`
	StopMore   json.RawMessage `json:"stop_details"`
}

type anthropicUsage struct {
	In      *count `json:"input_tokens"`
	Out     *count `json:"output_tokens"`
	Read    *count `json:"cache_read_input_tokens"`
	Written *count `json:"cache_creation_input_tokens"`
	OutMore struct {
		Thinking *count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// anthropicDecoder keeps the separately counted parts of the input: an event
// may state some of them again, and the sum must stay correct. next is the index of
// the next block, 0 before the first one, which may have any index. blocks has the
// types of the started blocks, stoppedBlock for those with an end.
type anthropicDecoder struct {
	fresh, read, written int64
	next                 int
	blocks               map[int]string
}

const stoppedBlock = "stopped"

func (d *anthropicDecoder) Frame(data []byte, into *chat.Answer) ([]chat.Piece, error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil || e.unreadable() {
		return nil, ErrMalformed
	}
	if e.Type == "error" || reported(e.Error) {
		return nil, &InBand{Body: bytes.Clone(data)}
	}
	switch e.Type {
	case "message_start":
		if e.Message == nil {
			return nil, ErrMalformed
		}
		if len(d.blocks) > 0 { // another answer
			into.Damaged++
		}
		pieces := d.message(e.Message, e.Message.Counts, into)
		into.Usage.Out = -1 // this count is partial: the total is in message_delta
		return pieces, nil
	case "message": // not streamed
		into.Ended = true
		return d.message(&e.anthropicMessage, e.Usage, into), nil
	case "content_block_start":
		if _, again := d.blocks[e.Index]; again || d.next > 0 && e.Index > d.next { // or a block is missing
			into.Damaged++
		}
		d.next = max(d.next, e.Index+1)
		d.blocks[e.Index] = e.Block.Type
		return e.Block.pieces(e.Index, into), nil
	case "content_block_stop": // some servers omit it
		d.blocks[e.Index] = stoppedBlock
	case "content_block_delta":
		block, started := d.blocks[e.Index]
		if !started || block == stoppedBlock {
			into.Damaged++
		}
		if strings.HasSuffix(block, "_tool_use") { // the server runs the tool itself
			return nil, nil
		}
		pieces := e.Delta.pieces(e.Index, into)
		if len(pieces) == 0 && e.Delta.unread() {
			return nil, ErrMalformed
		}
		return pieces, nil
	case "message_delta":
		anthropicEnd(e.Delta.StopReason, e.Delta.StopMore, into)
		d.count(e.Usage, into)
	case "message_stop":
		into.Ended = true
	case "":
		return nil, ErrForeign
	}
	return nil, nil // ping and events of later versions
}

// unreadable reports whether the event has a text field that cannot be read.
func (e *anthropicEvent) unreadable() bool {
	blocks := append(e.Content, e.Block)
	if e.Message != nil {
		blocks = append(blocks, e.Message.Content...)
	}
	all := []spoken{e.Delta.Text, e.Delta.Thinking, e.Delta.Partial}
	for _, b := range blocks {
		all = append(all, b.Text, b.Thinking)
	}
	unread := func(b anthropicBlock) bool { return b.Type != "text" && b.Text.text != "" }
	return unreadable(all...) || slices.ContainsFunc(blocks, unread)
}

func (d *anthropicDecoder) message(m *anthropicMessage, usage json.RawMessage, into *chat.Answer) []chat.Piece {
	into.Model, into.RequestID = first(string(m.Model), into.Model), first(string(m.ID), into.RequestID)
	d.count(usage, into)
	anthropicEnd(m.StopReason, m.StopMore, into)
	var pieces []chat.Piece
	for i, b := range m.Content {
		pieces = append(pieces, b.pieces(i, into)...)
	}
	return pieces
}

// pieces returns the initial content of a block; in an answer that is not
// streamed, all of it.
func (b anthropicBlock) pieces(index int, into *chat.Answer) []chat.Piece {
	switch b.Type {
	case "text":
		return said(index, b.Text, into)
	case "thinking":
		into.Block(chat.ThinkingPart, index).Sign(string(b.Signature))
		return thought(index, b.Thinking.text, into)
	case "redacted_thinking":
		into.Block(chat.RedactedPart, index).Data = string(b.Data)
	case "tool_use":
		call, _ := into.Call(index)
		call.ID, call.Name = string(b.ID), string(b.Name)
		fragment := ""
		if raw := strings.TrimSpace(string(b.Input)); present(b.Input) && raw != "{}" {
			fragment = raw
		}
		return called(call, fragment, into)
	}
	return nil
}

// unread reports whether a delta without a piece has a text in another form.
func (b anthropicDelta) unread() bool {
	if b.Type == "text_delta" {
		return b.Text.text == "" && b.Content.text+b.Value.text != ""
	}
	return b.Text.text != ""
}

func (b anthropicDelta) pieces(index int, into *chat.Answer) []chat.Piece {
	switch b.Type {
	case "text_delta":
		return said(index, b.Text, into)
	case "thinking_delta":
		return thought(index, b.Thinking.text, into)
	case "signature_delta":
		into.Block(chat.ThinkingPart, index).Signature.WriteString(string(b.Signature))
	case "input_json_delta":
		return calledOn(index, b.Partial.text, into)
	}
	return nil
}

// count sums the input tokens: new ones, read from the cache and written to it.
func (d *anthropicDecoder) count(raw json.RawMessage, into *chat.Answer) {
	u, ok := loose[anthropicUsage](raw)
	if !ok {
		return
	}
	u.In.set(&d.fresh)
	u.Read.set(&d.read)
	u.Written.set(&d.written)
	u.Out.set(&into.Usage.Out)
	u.OutMore.Thinking.set(&into.Usage.Reasoning)
	if u.In != nil && *u.In >= 0 || into.Usage.In >= 0 {
		into.Usage.In, into.Usage.Cached, into.Usage.Written = d.fresh+d.read+d.written, d.read, d.written
	}
}

var anthropicWords = finishes{
	"end_turn": chat.Stop, "stop_sequence": chat.Stop, "tool_use": chat.ToolCalls, "refusal": chat.Refused,
	"max_tokens": chat.Length, "model_context_window_exceeded": chat.Length,
}

func anthropicEnd(word text, more json.RawMessage, into *chat.Answer) {
	if word == "" {
		return
	}
	anthropicWords.finish(word, into)
	if d, ok := loose[struct{ Category text }](more); ok && into.Finish == chat.Refused {
		into.Category = string(d.Category)
	}
}
