package edn

// Limits bound the input of a reader. They are checked while reading, before
// memory is allocated.
type Limits struct {
	Bytes  int // length of the text
	Depth  int // open collections and tags
	Nodes  int // scalars, collections, tags and discarded forms
	String int // bytes of one string, after its escapes are resolved
}

// Hard caps that no Limits can raise.
const (
	maxBytes = 64 << 20
	maxNodes = 64 << 20 // no text within maxBytes has more
)

// Presets of the contract. They must not be modified.
var (
	// Wire is the default: messages from and to a plugin.
	Wire = Limits{Bytes: 16 << 20, Depth: 128, Nodes: 1_000_000, String: 8 << 20}
	// Body is for requests over HTTP and the command line, and for plan files.
	Body = Limits{Bytes: 4 << 20, Depth: 128, Nodes: 200_000, String: 1 << 20}
	// Config is for EDN inside a configuration file.
	Config = Limits{Bytes: 64 << 10, Depth: 32, Nodes: 10_000, String: 64 << 10}
	// Stored is for the value store and exports.
	Stored = Limits{Bytes: 64 << 20, Depth: 128, Nodes: 4_000_000, String: 64 << 20}
)

// capped returns l within the hard caps; a zero or negative field takes the
// value of Wire.
func (l Limits) capped() Limits {
	d := Wire
	pick := func(n, fallback, top int) int {
		if n <= 0 {
			n = fallback
		}
		return min(n, top)
	}
	return Limits{
		Bytes:  pick(l.Bytes, d.Bytes, maxBytes),
		Depth:  pick(l.Depth, d.Depth, MaxDepth),
		Nodes:  pick(l.Nodes, d.Nodes, maxNodes),
		String: pick(l.String, d.String, maxBytes),
	}
}

// Option configures a reader.
type Option func(*settings)

type settings struct {
	limits Limits
	source string
}

func newSettings(opts []Option) settings {
	if len(opts) == 0 {
		return settings{limits: Wire}
	}
	return chosenSettings(opts)
}

// chosenSettings is separate because the argument of options escapes to the
// heap.
func chosenSettings(opts []Option) settings {
	s := settings{limits: Wire}
	for _, o := range opts {
		o(&s)
	}
	s.limits = s.limits.capped()
	return s
}

// WithLimits replaces the default limits, Wire. A zero or negative field keeps the
// default; depth is capped at 512, bytes and strings at 64 MiB.
func WithLimits(l Limits) Option { return func(s *settings) { s.limits = l } }

// WithSource names the text in errors, for example by its file name.
func WithSource(name string) Option { return func(s *settings) { s.source = name } }
