package answer

import (
	"cmp"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/counting"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/edn"
)

// MaxRequest is the maximum size of a request on the wire, in bytes. A larger
// one is not sent.
const MaxRequest = 16 << 20

// Provider answers calls to the models of one account. Its fields must not change after the first
// call.
type Provider struct {
	Name   string
	Client *transport.Client
	Gate   *transport.Gate
	Report *failure.Reporter
	// Tolerant accepts answers that may be incomplete; their metadata names
	// what may be missing.
	Tolerant bool
	// Missing describes a required setting that is absent; if it is not empty,
	// no request is made and calls fail with provider/not-configured.
	Missing string
}

// Model is one configured model of a provider.
type Model struct {
	Name string // used by the provider, and in results
	// Wire is the name of the model in requests, empty if it is Name.
	Wire   string
	Preset dialect.Preset
	// Options are the defaults for calls.
	Options       chat.Options
	StrictOptions bool
	Structured    string // auto, native, json or prompt
	Context       int64
	Price         pricing.Price
	// Headroom is the number of tokens for reasoning that a request adds to the
	// limit of the answer, Asked that of a request that asks the model to reason.
	Headroom, Asked int64
	Traits          dialect.Traits
	Learned         *Learned
	// Counting counts the tokens of the model.
	Counting *counting.Counting
}

// wire returns the name in requests.
func (m *Model) wire() string { return cmp.Or(m.Wire, m.Name) }

// at returns the server of the model.
func (m *Model) at(p *Provider) counting.Server {
	return counting.Server{Client: p.Client, Preset: m.Preset, Model: m.wire()}
}

// Sink receives the pieces of an answer as they arrive. Its methods may block on a slow reader. An
// error means that the caller no longer reads; the call then ends as canceled.
type Sink interface {
	Text(text string) error
	Reasoning(text string) error
	Delta(piece edn.Value) error
	Progress(v edn.Value) error
}
