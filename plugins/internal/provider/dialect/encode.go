package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/frame"
)

// ErrMalformed says that a frame cannot be read.
var ErrMalformed = errors.New("the event cannot be read")

// ErrForeign says that what arrived is no answer of this format at all.
var ErrForeign = errors.New("the body is no answer of a model")

// InBand is an error that a provider sends where an answer is expected.
type InBand struct{ Body []byte }

func (e *InBand) Error() string { return "the provider sent an error instead of an answer" }

// DefaultMaxTokens is the limit where a format demands one and nobody gave it.
const DefaultMaxTokens = 4096

// Encoded is a request as it goes over the wire.
type Encoded struct {
	Body []byte
	// Fields are those of the body.
	Fields map[string]any
	// Dropped are options that the format cannot say or the model does not take,
	// sorted.
	Dropped []string
}

// Encode writes a question.
func Encode(p Preset, r *chat.Request) (Encoded, error) {
	var body map[string]any
	var dropped []string
	switch p.Dialect {
	case Anthropic:
		body, dropped = encodeAnthropic(r)
	case Ollama:
		body, dropped = encodeOllama(r)
	default:
		body, dropped = encodeOpenAI(p, r)
	}
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

// number puts a number into the body if there is one.
func number(body map[string]any, name string, n json.Number) {
	if n != "" {
		body[name] = n
	}
}

// Decoder reads the frames of an answer.
type Decoder interface {
	// Frame reads one frame into the answer and gives the pieces that came with
	// it. The error is ErrMalformed, ErrForeign or an *InBand; what the frame
	// held is not in the answer then.
	Frame(data []byte, into *chat.Answer) ([]chat.Piece, error)
}

// NewDecoder makes the decoder of a preset.
func NewDecoder(p Preset) Decoder {
	switch p.Dialect {
	case Anthropic:
		return &anthropicDecoder{}
	case Ollama:
		return &ollamaDecoder{}
	}
	return &openAIDecoder{reasoning: p.ReasoningFields, usage: usageReader{under: p.UsageUnder, total: p.UsageTotal}}
}

// Splitter chooses how a body is cut, by its media type; without one that is
// known, by what the format uses for streams.
func Splitter(p Preset, media string) frame.Splitter {
	switch media {
	case "text/event-stream":
		return &frame.Events{}
	case "application/x-ndjson", "application/jsonl", "application/x-jsonlines":
		return &frame.Lines{}
	case "application/json":
		if p.Dialect != Ollama {
			return &frame.Whole{}
		}
		return &frame.Lines{}
	case "", "text/plain", "application/octet-stream":
		if p.Dialect == Ollama {
			return &frame.Lines{}
		}
		return &frame.Events{}
	}
	return nil
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
