package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// encodeResponses encodes a request for the Responses API of OpenAI
// (openai-python, types/responses/response_create_params.py, 2026-08-21). The
// server stores nothing: reasoning is returned encrypted and sent back with the
// conversation.
func encodeResponses(p Preset, r *chat.Request) *encoding {
	e := &encoding{}
	body := map[string]any{
		"model":   r.Model,
		"input":   responsesInput(p, r.Messages, e),
		"stream":  !r.Whole,
		"store":   false,
		"include": []string{"reasoning.encrypted_content"},
	}
	e.body = body
	o := r.Options
	e.options(body, o, map[string]string{
		"temperature": "temperature", "top-p": "top_p", "max-tokens": p.LimitField, "reasoning-effort": elsewhere,
	})
	if o.Effort != "" {
		body["reasoning"] = map[string]any{"effort": o.Effort}
	}
	if len(r.Tools) > 0 {
		body["tools"] = each(r.Tools, responsesTool)
		choose(body, r.Choice, map[string]any{"type": "function", "name": r.Choice.Tool})
	}
	switch r.Output.Form {
	case chat.Native:
		format := map[string]any{
			"type": "json_schema", "name": r.Output.Name, "strict": true, "schema": r.Output.Schema,
		}
		body["text"] = map[string]any{"format": format}
	case chat.JSON:
		body["text"] = map[string]any{"format": map[string]any{"type": "json_object"}}
	}
	return e
}

// responsesTool sets the required field strict to false: a strict tool accepts
// only schemas of a certain form, and tool schemas are sent unchanged
// (openai-python, types/responses/function_tool_param.py, 2026-08-21).
func responsesTool(t chat.Tool) map[string]any {
	out := tool(t, "parameters")
	out["type"], out["strict"] = "function", false
	return out
}

// responsesInput encodes messages as items. System messages keep their places
// (openai-python, types/responses/response_input_item_param.py, 2026-08-21).
func responsesInput(p Preset, messages []chat.Message, e *encoding) []any {
	var all []any
	for _, m := range messages {
		switch m.Role {
		case chat.Assistant:
			all = append(all, responsesTurn(m, e)...)
		case chat.ToolRole:
			output := responsesContent(m.Each())
			all = append(all, map[string]any{"type": "function_call_output", "call_id": m.CallID, "output": output})
		case chat.System:
			all = append(all, map[string]any{"role": p.SystemRole, "content": responsesContent(m.Each())})
		default:
			all = append(all, map[string]any{"role": string(m.Role), "content": responsesContent(m.Each())})
		}
	}
	return all
}

func responsesContent(parts []chat.Part) any {
	return content(parts, "input_text", func(url string) map[string]any {
		return map[string]any{"type": "input_image", "detail": "auto", "image_url": url}
	})
}

// responsesTurn encodes a turn of the model: an item for each part in order,
// then the calls without a place among the parts.
func responsesTurn(m chat.Message, e *encoding) []any {
	var items []any
	for p, c := range m.Flow() {
		switch {
		case c != nil:
			items = append(items, map[string]any{
				"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": string(c.Args),
			})
		case p.Kind == chat.TextPart:
			item := map[string]any{"role": "assistant", "content": p.Text}
			if p.Field != "" {
				item["phase"] = p.Field
			}
			items = append(items, item)
		case reasoningItem(p):
			items = append(items, json.RawMessage(p.Signature))
		default:
			e.drop(lostReasoning)
		}
	}
	return items
}

// reasoningItem reports whether the signature of a part is an item of the
// Responses API: the API requires the whole item back unchanged.
func reasoningItem(p chat.Part) bool {
	var item responsesItem
	return p.Kind == chat.ThinkingPart && json.Unmarshal([]byte(p.Signature), &item) == nil && item.Type == "reasoning"
}

// responsesEvent has the fields of all decoded events (openai-python,
// types/responses/response_stream_event.py, 2026-08-21).
type responsesEvent struct {
	Type     string          `json:"type"`
	Object   text            `json:"object"` // of an answer that is not streamed
	Index    *int            `json:"output_index"`
	ItemID   text            `json:"item_id"`
	Content  count           `json:"content_index"`
	Number   *count          `json:"sequence_number"`
	Summary  int             `json:"summary_index"`
	Delta    spoken          `json:"delta"`
	Text     spoken          `json:"text"` // of a part that is done
	Item     json.RawMessage `json:"item"`
	Response json.RawMessage `json:"response"`
	Error    json.RawMessage `json:"error"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	ID        text            `json:"id"`
	Status    text            `json:"status"`
	Phase     text            `json:"phase"`
	CallID    text            `json:"call_id"`
	Name      text            `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Summary   []responsesPart `json:"summary"`
	Content   []responsesPart `json:"content"`
	raw       json.RawMessage
}

type responsesPart struct {
	Type    text   `json:"type"`
	Text    spoken `json:"text"`
	Value   spoken `json:"value"` // in other formats
	Refusal text   `json:"refusal"`
}

// unreadable reports whether the part may hold a text in an unknown form.
func (p responsesPart) unreadable() bool {
	known := []text{"", "output_text", "refusal", "summary_text", "reasoning_text", "text"}
	empty := p.Text.text == ""
	return p.Text.unreadable || empty && (p.Value.text != "" || !slices.Contains(known, p.Type))
}

func (i *responsesItem) UnmarshalJSON(b []byte) error {
	type plain responsesItem
	if err := json.Unmarshal(b, (*plain)(i)); err != nil {
		return err
	}
	i.raw = bytes.Clone(b)
	return nil
}

type responsesBody struct {
	ID         text            `json:"id"`
	Model      text            `json:"model"`
	Status     text            `json:"status"`
	Output     []responsesItem `json:"output"`
	Incomplete json.RawMessage `json:"incomplete_details"`
	Limit      count           `json:"max_output_tokens"` // of the request, repeated
	Usage      json.RawMessage `json:"usage"`
	Error      json.RawMessage `json:"error"`
}

type responsesUsage struct {
	In     *count `json:"input_tokens"`
	Out    *count `json:"output_tokens"`
	Total  count  `json:"total_tokens"`
	InMore struct {
		Cached  *count `json:"cached_tokens"`
		Written *count `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutMore struct {
		Reasoning *count `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// responsesDecoder records the ids of the items, which determine their order where a server omits
// output_index (llama.cpp, issue 20607, 2026-11-25), and whether an item was cut, whatever status
// the response states. parts has the parts of the texts that had deltas.
type responsesDecoder struct {
	ids     []string
	cut     bool
	parts   map[partKey]*partText
	numbers sequence
}

// partKey holds the index of an item and that of one of its parts.
type partKey struct {
	item int
	part count
}

// partText is the place of a part in the text of its item. done means that it was repeated.
type partText struct {
	start, end int
	done       bool
}

// sequence checks the numbers of the events. Some servers number a few events only, or give all of
// them 0 (BerriAI/litellm pull request 28899): numbers that do not rise prove nothing.
type sequence struct {
	last            *count
	holed, disorder bool
}

func (s *sequence) add(number *count) {
	if number == nil {
		return
	}
	if s.last != nil {
		s.disorder = s.disorder || *number <= *s.last
		s.holed = s.holed || *number > *s.last+1
	}
	s.last = number
}

func (s *sequence) lacks() bool { return s.holed && !s.disorder }

func (d *responsesDecoder) Frame(data []byte, into *chat.Answer) ([]chat.Piece, error) {
	var e responsesEvent
	if json.Unmarshal(data, &e) != nil || e.Delta.unreadable {
		return nil, ErrMalformed
	}
	d.numbers.add(e.Number)
	if e.Type == "" && e.Object == "response" {
		return d.response(data, "", into)
	}
	if e.Type == "error" || reported(e.Error) {
		return nil, &InBand{Body: bytes.Clone(data)}
	}
	switch e.Type {
	case "":
		return nil, ErrForeign
	case "response.created", "response.queued", "response.in_progress":
		if r, ok := loose[responsesBody](e.Response); ok {
			r.identify(into)
		}
		return nil, nil
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return d.response(e.Response, strings.TrimPrefix(e.Type, "response."), into)
	case "response.output_item.added", "response.output_item.done":
		var item responsesItem
		if json.Unmarshal(e.Item, &item) != nil || item.unreadable() {
			return nil, ErrMalformed
		}
		d.cut = d.cut || item.Status == incomplete
		id := text(first(string(item.ID), string(item.CallID)))
		return item.add(d.index(e.Index, id), strings.HasSuffix(e.Type, "done"), into), nil
	}
	return d.delta(e, into), nil
}

// delta decodes the events with a part of an item. output_item.done repeats the
// whole item, so of the other done events only the text is compared, or read if it
// came without deltas. A delta after it begins the next part of a server that omits content_index.
func (d *responsesDecoder) delta(e responsesEvent, into *chat.Answer) []chat.Piece {
	index := d.index(e.Index, e.ItemID)
	switch e.Type {
	case "response.output_text.delta":
		all := &into.Block(chat.TextPart, index).Text
		p := d.parts[partKey{index, e.Content}]
		if p == nil || p.done {
			p = &partText{start: all.Len(), end: all.Len()}
			d.parts[partKey{index, e.Content}] = p
		}
		if p.end != all.Len() { // another part has begun
			into.Damaged++
		}
		pieces := saidIn(index, e.Delta, into)
		p.end = all.Len()
		return pieces
	case "response.output_text.done":
		have := ""
		if p := d.parts[partKey{index, e.Content}]; p != nil {
			have = into.Block(chat.TextPart, index).Text.String()[p.start:p.end]
			p.done = true
		}
		return saidIn(index, spoken{text: missing(have, e.Text.text, into)}, into)
	case "response.refusal.delta":
		into.Refusal.WriteString(e.Delta.text)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return thought(index, e.Delta.text, into)
	case "response.reasoning_summary_part.added":
		if e.Summary > 0 {
			return thought(index, betweenSummaries, into)
		}
	case "response.function_call_arguments.delta":
		return calledOn(index, e.Delta.text, into)
	}
	return nil // server-side tools, annotations and events of later versions
}

const betweenSummaries = "\n\n"

// commentary is the phase of a text that the model says on the way to its answer.
const commentary = "commentary"

// saidIn appends a piece to the text of the message item with the index. Commentary is shown as
// reasoning and left out of the text of the answer.
func saidIn(index int, s spoken, into *chat.Answer) []chat.Piece {
	b := into.Block(chat.TextPart, index)
	if b.Field != commentary {
		return said(index, s, into)
	}
	between := ""
	if s.text != "" && b.Text.Len() == 0 && into.Reasoning.Len() > 0 {
		between = into.ShowReasoning(betweenSummaries)
	}
	shown := into.ShowReasoning(s.text)
	b.Text.WriteString(shown)
	return piece(chat.ReasoningPiece, between+shown)
}

func (d *responsesDecoder) index(stated *int, id text) int {
	if stated != nil {
		return *stated
	}
	i := slices.Index(d.ids, string(id))
	if i < 0 {
		d.ids = append(d.ids, string(id))
		i = len(d.ids) - 1
	}
	return i
}

// add adds the parts of an item that its deltas lacked, or all of it if there
// were none.
func (i *responsesItem) add(index int, done bool, into *chat.Answer) []chat.Piece {
	switch i.Type {
	case "message":
		b := into.Block(chat.TextPart, index)
		b.Field = first(string(i.Phase), b.Field)
		refusal := into.Refusal.Len() > 0
		for _, p := range i.Content {
			if !refusal {
				into.Refusal.WriteString(string(p.Refusal))
			}
		}
		return saidIn(index, spoken{text: missing(b.Text.String(), i.text(""), into)}, into)
	case "function_call":
		call, isNew := into.Call(index)
		call.ID, call.Name = first(string(i.CallID), call.ID), first(string(i.Name), call.Name)
		args := missing(call.Args.String(), arguments(i.Arguments), into)
		if isNew || args != "" {
			return called(call, args, into)
		}
	case "reasoning":
		b := into.Block(chat.ThinkingPart, index)
		var item bytes.Buffer
		if done && json.Compact(&item, i.raw) == nil {
			b.Sign(strings.ToValidUTF8(item.String(), "\uFFFD"))
		}
		if b.Text.Len() == 0 {
			return thought(index, i.text(betweenSummaries), into)
		}
	}
	return nil
}

// text returns the joined texts of the parts of an item.
func (i *responsesItem) text(between string) string {
	var all []string
	for _, p := range slices.Concat(i.Summary, i.Content) {
		if p.Text.text != "" {
			all = append(all, p.Text.text)
		}
	}
	return strings.Join(all, between)
}

func (i *responsesItem) unreadable() bool {
	unread := !slices.Contains([]string{"message", "function_call", "reasoning"}, i.Type) && holdsText(i.raw)
	parts := slices.Concat(i.Summary, i.Content)
	return unread || slices.ContainsFunc(parts, responsesPart.unreadable)
}

// missing returns the part of a stated text that its deltas lacked: all of it if there were none,
// else nothing. If the two differ, it marks the answer as damaged.
func missing(have, whole string, into *chat.Answer) string {
	switch {
	case have == "":
		return whole
	case whole != "" && strings.TrimSpace(have) != strings.TrimSpace(whole):
		into.Damaged++
	}
	return ""
}

func (r *responsesBody) identify(into *chat.Answer) {
	into.Model, into.RequestID = first(string(r.Model), into.Model), first(string(r.ID), into.RequestID)
}

// response decodes the end of a stream, or an answer that is not streamed. If
// events came before, the repeated output is only compared with them.
func (d *responsesDecoder) response(raw json.RawMessage, word string, into *chat.Answer) ([]chat.Piece, error) {
	r, ok := loose[responsesBody](raw)
	if !ok || slices.ContainsFunc(r.Output, func(i responsesItem) bool { return i.unreadable() }) {
		return nil, ErrMalformed
	}
	if reported(r.Error) {
		return nil, &InBand{Body: slices.Concat([]byte(`{"error":`), r.Error, []byte("}"))}
	}
	r.identify(into)
	if u, ok := loose[responsesUsage](r.Usage); ok {
		u.In.set(&into.Usage.In)
		u.Out.set(&into.Usage.Out)
		u.InMore.Cached.set(&into.Usage.Cached)
		u.InMore.Written.set(&into.Usage.Written)
		u.OutMore.Reasoning.set(&into.Usage.Reasoning)
		into.Usage = withTotal(into.Usage, int64(u.Total), false)
	}
	var pieces []chat.Piece
	if len(into.Blocks) == 0 && into.Refusal.Len() == 0 {
		for i, item := range r.Output {
			pieces = append(pieces, item.add(i, true, into)...)
		}
	} else {
		r.compare(into)
	}
	if len(r.Output) == 0 && d.numbers.lacks() { // the output would show what is missing
		into.Damaged++
	}
	others := []text{incomplete, "failed", "cancelled", "queued", "in_progress"}
	if word == "completed" && slices.Contains(others, r.Status) {
		word = "" // the body says otherwise
	}
	d.cut = d.cut || slices.ContainsFunc(r.Output, func(i responsesItem) bool { return i.Status == incomplete })
	r.end(first(word, string(r.Status)), d.cut, into)
	return pieces, nil
}

// compare marks an answer as damaged if it lacks a part of the output.
func (r *responsesBody) compare(into *chat.Answer) {
	said, calls := "", 0
	for _, item := range r.Output {
		switch {
		case item.Type == "message" && item.Phase != commentary:
			said += item.text("")
		case item.Type == "function_call":
			calls++
		}
	}
	if calls > len(into.Calls) || missing(into.Text.String(), said, into) != "" {
		into.Damaged++
	}
}

// incomplete is the status of a response, or of an item, that was cut.
const incomplete = "incomplete"

var responsesWords = finishes{
	"completed": chat.Stop, "tool_calls": chat.ToolCalls, "max_output_tokens": chat.Length, "content_filter": chat.Refused,
}

// end sets the finish reason. An answer in progress has no end. Ollama 0.17.4 also
// reports completed for an answer that was cut at its limit (openai/responses.go,
// processCompletion, 2026-11-25), so an answer that used its whole limit counts as cut.
func (r *responsesBody) end(status string, cut bool, into *chat.Answer) {
	why, _ := loose[struct{ Reason text }](r.Incomplete)
	switch status {
	case "completed":
		switch {
		case cut, r.Limit > 0 && into.Usage.Out >= int64(r.Limit):
			status = "max_output_tokens"
		case len(into.Calls) > 0:
			status = "tool_calls"
		}
	case incomplete:
	case "failed", "cancelled":
		why.Reason = "" // the status is worse than any reason
	default:
		return
	}
	into.Ended = true
	responsesWords.finish(text(first(string(why.Reason), status)), into)
}
