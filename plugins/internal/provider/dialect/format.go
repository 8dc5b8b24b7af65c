package dialect

import (
	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/frame"
)

// format holds everything that depends on the wire format of a server.
type format struct {
	encode  func(Preset, *chat.Request) *encoding
	decoder func(Preset) Decoder
	// splitter splits a stream with an unspecific media type; media is the type
	// of the format's streams.
	splitter func() frame.Splitter
	media    string
	// embedPath is the path of the embedding endpoint unless a preset has
	// another one, with embedFields in its request; "" if the format has none.
	embedPath   string
	embedFields map[string]any
	// asksUsage means that a streaming request must ask for usage.
	asksUsage bool
	// also is another format of the same vendor that its models support.
	also Name
}

// formats returns the row of each wire format. Sources of the paths of vectors:
// openai-python, resources/embeddings.py, and ollama, docs/api.md, both 2026-08-21.
func formats() map[Name]format {
	events := func() frame.Splitter { return &frame.Events{} }
	lines := func() frame.Splitter { return &frame.Lines{} }
	floats := map[string]any{"encoding_format": "float"}
	const eventStream = "text/event-stream"
	return map[Name]format{
		OpenAI: {
			encode: encodeOpenAI,
			decoder: func(p Preset) Decoder {
				usage := usageReader{under: p.UsageUnder, total: p.UsageTotal}
				return newRepeating(&openAIDecoder{preset: p, usage: usage, calls: map[int]*chat.RawCall{}}, "content", nil)
			},
			splitter: events, media: eventStream, asksUsage: true, also: Responses,
			embedPath: "/embeddings", embedFields: floats,
		},
		Responses: {
			encode:   encodeResponses,
			decoder:  func(Preset) Decoder { return &responsesDecoder{parts: map[partKey]*partText{}} },
			splitter: events, media: eventStream,
			embedPath: "/embeddings", embedFields: floats,
		},
		Anthropic: {
			encode: func(_ Preset, r *chat.Request) *encoding { return encodeAnthropic(r) },
			decoder: func(Preset) Decoder {
				d := &anthropicDecoder{blocks: map[int]string{}}
				return newRepeating(d, "text", func() int { return len(d.blocks) })
			},
			splitter: events, media: eventStream,
		},
		Ollama: {
			encode:   func(_ Preset, r *chat.Request) *encoding { return encodeOllama(r) },
			decoder:  func(Preset) Decoder { return &ollamaDecoder{} },
			splitter: lines, media: "application/x-ndjson",
			embedPath:   "/api/embed",
			embedFields: map[string]any{"truncate": false}, // otherwise the server cuts long texts silently
		},
	}
}

func (n Name) format() format { return formats()[n] }

// Accept returns the Accept header of a request in the format.
func (n Name) Accept() string { return n.format().media + ", application/json" }

// AsksUsage reports whether a streaming request must ask for usage.
func (n Name) AsksUsage() bool { return n.format().asksUsage }

// Speaks reports whether a server of format n also accepts format other.
func (n Name) Speaks(other Name) bool { return n == other || other == n.format().also }

// NewDecoder returns the decoder of a preset.
func NewDecoder(p Preset) Decoder { return p.Dialect.format().decoder(p) }

// Splitter returns the splitter for the media type of an answer. For an unknown
// media type it returns the splitter of the format's streams, and nil for a
// media type that is never an answer.
func Splitter(p Preset, media string) frame.Splitter {
	f := p.Dialect.format()
	switch media {
	case "text/event-stream":
		return &frame.Events{}
	case "application/x-ndjson", "application/jsonl", "application/x-jsonlines":
		return &frame.Lines{}
	case "application/json":
		if f.media == "text/event-stream" {
			return &frame.Whole{}
		}
		return f.splitter() // one line
	case "", "text/plain", "application/octet-stream":
		return f.splitter()
	}
	return nil
}
