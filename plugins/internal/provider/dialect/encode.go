package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// ErrMalformed means that a frame cannot be read.
var ErrMalformed = errors.New("the event cannot be read")

// ErrForeign means that the body is not an answer of this format at all.
var ErrForeign = errors.New("the body is not an answer of a model")

// InBand is an error that a provider sends in place of an answer.
type InBand struct{ Body []byte }

func (e *InBand) Error() string { return "the provider sent an error instead of an answer" }

// Unsayable is the error for a request that a format cannot express. The part
// that What names must not be dropped, because that would change the meaning of
// the request.
type Unsayable struct{ What string }

func (e *Unsayable) Error() string { return e.What }

// encoding is a request being encoded.
type encoding struct {
	body    map[string]any
	dropped []string
	refused string
	marked  []map[string]any // blocks with a cache mark
	sent    []chat.Message   // without the reasoning of other models
}

// drop records options that the format cannot express.
func (e *encoding) drop(names ...string) { e.dropped = append(e.dropped, names...) }

// refuse records why the request cannot be expressed.
func (e *encoding) refuse(format string, args ...any) { e.refused = fmt.Sprintf(format, args...) }

// defaultMaxTokens is the limit if the format requires one and the request has
// none.
const defaultMaxTokens = 4096

// Encoded is a request as sent over the wire.
type Encoded struct {
	Body []byte
	// Fields are the fields of the body.
	Fields map[string]any
	// Dropped are options that the format cannot express or the model does not
	// accept, sorted.
	Dropped []string
	// Messages are those of the request without the reasoning of other models.
	Messages []chat.Message
}

// Encode encodes a request. The error is an *Unsayable if the format cannot
// express it.
func Encode(p Preset, r *chat.Request) (Encoded, error) {
	e := fill(p, r)
	if e.refused != "" {
		return Encoded{}, &Unsayable{What: e.refused}
	}
	rename(e.body, p.Renames)
	text, err := marshal(e.body)
	if err != nil {
		return Encoded{}, fmt.Errorf("write the request: %w", err)
	}
	slices.Sort(e.dropped)
	return Encoded{Body: text, Fields: e.body, Dropped: slices.Compact(e.dropped), Messages: e.sent}, nil
}

// Reasoning reports whether a request, as it would be sent, asks its model to reason, and the budget that
// it then has; 0: none. An effort or a budget that is dropped asks for nothing.
func Reasoning(p Preset, r *chat.Request) (budget int64, asked bool) {
	if r.Options.Budget == 0 && r.Options.Effort == "" {
		return 0, false
	}
	body := fill(p, r).body
	if thinking, ok := body["thinking"].(map[string]any); ok { // of Anthropic; its effort alone is none
		budget, _ = thinking["budget_tokens"].(int64)
		return budget, thinking["type"] != "disabled"
	}
	effort := cmp.Or(body["reasoning_effort"], body["think"])
	if reasoning, ok := body["reasoning"].(map[string]any); ok {
		effort = reasoning["effort"]
	}
	return 0, effort != nil && effort != "none" && effort != false
}

// fill encodes a request with the caller's extra fields, and without the fields that are rejected.
func fill(p Preset, r *chat.Request) *encoding {
	e := compose(p, r)
	if e.refused != "" {
		return e
	}
	for _, name := range slices.Sorted(maps.Keys(r.Options.Extra)) {
		if _, taken := e.body[name]; !taken {
			e.body[name] = r.Options.Extra[name]
		}
	}
	e.drop(without(e.body, slices.Concat(p.Refuses, r.Without))...)
	for _, rejected := range r.Rejected {
		if contains(e.body, rejected) {
			e.drop(without(e.body, []string{rejected.Field})...)
		}
	}
	return e
}

// compose encodes a request without the caller's extra fields. Reasoning of
// another model is dropped: it is of no use to this one, which may reject it.
func compose(p Preset, r *chat.Request) *encoding {
	foreign := func(p chat.Part) bool { return p.Reasons() && p.Model != "" && p.Model != r.Model }
	own := *r
	own.Whole = own.Whole || slices.ContainsFunc(r.Rejected, func(x chat.Rejected) bool { return x.Field == streamField })
	own.Messages = p.withCallIDs(r.Model, r.Messages)
	lost := false
	for i, m := range own.Messages {
		if slices.ContainsFunc(m.Parts, foreign) {
			own.Messages[i].Parts = slices.DeleteFunc(slices.Clone(m.Parts), foreign)
			lost = true
		}
	}
	e := p.Dialect.format().encode(p, &own)
	e.sent = own.Messages
	if lost {
		e.drop(lostReasoning)
	}
	if len(e.marked) == 0 && p.Caches == "" && slices.ContainsFunc(r.Messages, chat.Message.Marked) {
		e.drop(lostMark)
	}
	return e
}

// lostMark is the name of a dropped cache mark.
const lostMark = "cache"

// lostReasoning is the name of dropped reasoning.
const lostReasoning = "reasoning"

// marshal writes JSON with sorted keys and without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decoder reads the frames of an answer.
type Decoder interface {
	// Frame decodes one frame into the answer and returns its pieces. The error
	// is ErrMalformed, ErrForeign or an *InBand; the answer then lacks the
	// contents of the frame.
	Frame(data []byte, into *chat.Answer) ([]chat.Piece, error)
}

// complete reports whether the answer has the end that the preset requires.
func (p Preset) complete(a *chat.Answer) bool {
	switch p.Terminator {
	case Strict:
		return a.Ended
	case EOF:
		return true
	}
	return a.Ended || a.Finish != chat.Unfinished && !a.Resumed
}

// Close sets the finish of an answer whose body has ended. It returns false if
// the stream was cut.
func (p Preset) Close(a *chat.Answer) bool {
	if !p.complete(a) {
		return false
	}
	if a.Finish == chat.Unfinished {
		a.Finish, a.Assumed = chat.Stop, true
		if len(a.Calls) > 0 {
			a.Finish = chat.ToolCalls
		}
	}
	return true
}
