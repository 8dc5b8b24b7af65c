package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// ErrMalformed says that a frame cannot be read.
var ErrMalformed = errors.New("the event cannot be read")

// ErrForeign says that what arrived is no answer of this format at all.
var ErrForeign = errors.New("the body is no answer of a model")

// InBand is an error that a provider sends where an answer is expected.
type InBand struct{ Body []byte }

func (e *InBand) Error() string { return "the provider sent an error instead of an answer" }

// Unsayable says that a format has no form for a part of a request that cannot
// be left out: the request would mean something else.
type Unsayable struct{ What string }

func (e *Unsayable) Error() string { return e.What }

// encoding is a request on its way into a format.
type encoding struct {
	body    map[string]any
	dropped []string
	refused string
	marked  []map[string]any // what has a mark for the cache
}

// drop notes options that the format cannot say.
func (e *encoding) drop(names ...string) { e.dropped = append(e.dropped, names...) }

// refuse notes why the request cannot be said.
func (e *encoding) refuse(format string, args ...any) { e.refused = fmt.Sprintf(format, args...) }

// defaultMaxTokens is the limit where a format demands one and nobody gave it.
const defaultMaxTokens = 4096

// Encoded is a request as it goes over the wire.
type Encoded struct {
	Body []byte
	// Fields are those of the body.
	Fields map[string]any
	// Dropped are options that the format cannot say or the model does not take,
	// sorted.
	Dropped []string
}

// Encode writes a question. The error is an *Unsayable if the format cannot say
// it.
func Encode(p Preset, r *chat.Request) (Encoded, error) {
	e := compose(p, r)
	if e.refused != "" {
		return Encoded{}, &Unsayable{What: e.refused}
	}
	body, dropped := e.body, e.dropped
	for _, name := range slices.Sorted(maps.Keys(r.Options.Extra)) {
		if _, taken := body[name]; !taken {
			body[name] = r.Options.Extra[name]
		}
	}
	dropped = append(dropped, without(body, slices.Concat(p.Refuses, r.Without))...)
	rename(body, p.Renames)
	text, err := marshal(body)
	if err != nil {
		return Encoded{}, fmt.Errorf("write the request: %w", err)
	}
	slices.Sort(dropped)
	return Encoded{Body: text, Fields: body, Dropped: slices.Compact(dropped)}, nil
}

// compose writes a question without what the caller adds. The reasoning of another
// model is no use to this one, and may be refused.
func compose(p Preset, r *chat.Request) *encoding {
	foreign := func(p chat.Part) bool { return p.Reasons() && p.Model != "" && p.Model != r.Model }
	own := *r
	own.Messages = slices.Clone(r.Messages)
	lost := false
	for i, m := range own.Messages {
		if slices.ContainsFunc(m.Parts, foreign) {
			own.Messages[i].Parts = slices.DeleteFunc(slices.Clone(m.Parts), foreign)
			lost = true
		}
	}
	e := p.Dialect.format().encode(p, &own)
	if lost {
		e.drop(lostReasoning)
	}
	if len(e.marked) == 0 && p.Caches == "" && slices.ContainsFunc(r.Messages, chat.Message.Marked) {
		e.drop(lostMark)
	}
	return e
}

// lostMark is what is dropped with a mark for a cache.
const lostMark = "cache"

// lostReasoning is what is dropped with reasoning that cannot be sent back.
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
	// Frame reads one frame into the answer and gives the pieces that came with
	// it. The error is ErrMalformed, ErrForeign or an *InBand; what the frame
	// held is not in the answer then.
	Frame(data []byte, into *chat.Answer) ([]chat.Piece, error)
}

// complete tells whether the answer has the end that the preset asks for.
func (p Preset) complete(a *chat.Answer) bool {
	switch p.Terminator {
	case Strict:
		return a.Ended
	case EOF:
		return true
	}
	return a.Ended || a.Finish != chat.Unfinished && !a.Resumed
}

// Close concludes how an answer ended whose body is over. It is false if the
// stream was cut.
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
