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

// MaxRequest is the most bytes that a request may have on the wire. Beyond it
// nothing is sent.
const MaxRequest = 16 << 20

// Provider is one account.
type Provider struct {
	Name   string
	Client *transport.Client
	Gate   *transport.Gate
	Report *failure.Reporter
	// Tolerant accepts answers that may have lost a part; their metadata says so.
	Tolerant bool
	// Missing says what is not configured; with it no request is made.
	Missing string
}

// Model is one model of a provider as it is configured.
type Model struct {
	Name string // at the provider
	// Wire is the name in requests where that is another one; empty: Name.
	Wire   string
	Preset dialect.Preset
	// Options hold unless the call says otherwise.
	Options       chat.Options
	StrictOptions bool
	Structured    string // auto, native, json or prompt
	Context       int64
	Price         pricing.Price
	// Headroom is how many tokens a request leaves for reasoning.
	Headroom int64
	Traits   dialect.Traits
	Learned  *Learned
	// Counting is how its tokens are counted.
	Counting *counting.Counting
}

// wire is the name in requests.
func (m *Model) wire() string { return cmp.Or(m.Wire, m.Name) }

// at is the server of the model.
func (m *Model) at(p *Provider) counting.Server {
	return counting.Server{Client: p.Client, Preset: m.Preset, Model: m.wire()}
}

// Sink takes the pieces of an answer while it arrives. Its methods may wait for
// whoever reads them.
type Sink interface {
	Text(text string) error
	Reasoning(text string) error
	Delta(piece edn.Value) error
	Progress(v edn.Value) error
}
