package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Call describes the current call: its position in the run, its budget,
// deadline and effects.
type Call struct {
	wire.CallContext
	// Intent and Capability are names without colon.
	Intent     string
	Capability string
	// Request is the whole request envelope.
	Request edn.Value
}

// call is the state of one call inside the plugin.
type call struct {
	ctx      wire.CallContext
	encoding wire.Encoding
	request  edn.Value
	intent   string
	capID    string
	mode     string
	stream   *Stream

	mu    sync.Mutex
	usage edn.Value
	meta  edn.Value
	// maxAsks limits the requests to the host, if it is not 0; asks counts them.
	maxAsks, asks int
}

// ask counts a request to the host.
func (k *call) ask() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.maxAsks > 0 && k.asks == k.maxAsks {
		return contract.Errorf("agent/iteration-limit", "host call: the agent has made %d requests, which is its limit", k.asks)
	}
	k.asks++
	return nil
}

// scope is the value that a context of this package carries.
type scope struct {
	plugin *Service
	setup  *setup
	call   *call
}

type scopeKey struct{}

func (s *scope) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	if s == nil {
		return &scope{}
	}
	return s
}

// CallFrom returns the call of ctx, or the zero Call if ctx belongs to none.
func CallFrom(ctx context.Context) Call {
	k := scopeOf(ctx).call
	if k == nil {
		return Call{}
	}
	return Call{CallContext: k.ctx, Intent: k.intent, Capability: k.capID, Request: k.request}
}

// Logger returns the log of the plugin, never nil. During a call each line has
// the run, node and capability of the call.
func Logger(ctx context.Context) *slog.Logger {
	s := scopeOf(ctx)
	if s.plugin == nil {
		return slog.Default()
	}
	if s.call == nil {
		return s.plugin.log
	}
	at := s.call.ctx
	return s.plugin.log.With("run", at.Run, "node", at.Node, "capability", s.call.capID, "attempt", at.Attempt)
}

// Root returns the private directory of this instance of the plugin, for
// scratch files. It is empty before Configure and if the host provides none.
func Root(ctx context.Context) string {
	s := scopeOf(ctx)
	if s.setup == nil {
		return ""
	}
	return s.setup.given.Root
}

// Lifetime returns a context for background work: it is canceled when the plugin
// ends, not when the call or hook of ctx ends. It carries no call. If ctx does not
// come from a plugin, Lifetime returns ctx.
func Lifetime(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	if s.plugin == nil {
		return ctx
	}
	return (&scope{plugin: s.plugin, setup: s.setup}).in(s.plugin.life)
}

// Draining returns a channel that is closed when the host begins to drain the plugin. The
// host then waits for the calls in flight. A call that does not end by itself, such as a
// stream of events, should return :runtime/not-ready: its caller continues in the process
// that replaces this one. If ctx does not come from a plugin, the channel is nil.
func Draining(ctx context.Context) <-chan struct{} {
	s := scopeOf(ctx)
	if s.plugin == nil {
		return nil
	}
	return s.plugin.draining
}

// ConfigFrom returns the decoded configuration. It is the zero T before
// Configure and if the plugin's Config is not a Config[T].
func ConfigFrom[T any](ctx context.Context) T {
	var zero T
	s := scopeOf(ctx)
	if s.setup == nil {
		return zero
	}
	if cfg, ok := s.setup.config.(T); ok {
		return cfg
	}
	return zero
}

// ReportUsage records what the call used, under keys of the envelope's :usage
// such as :tokens-in or :cost-usd; later values replace earlier ones. It has no
// effect on Raw capabilities or outside of a call.
func ReportUsage(ctx context.Context, usage edn.Value) {
	if k := scopeOf(ctx).call; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.usage = merged(k.usage, usage)
	}
}

// ReportMeta records how the answer was produced, under keys of the envelope's
// :invoke/meta such as :model or :finish. Otherwise it is like ReportUsage.
func ReportMeta(ctx context.Context, meta edn.Value) {
	if k := scopeOf(ctx).call; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.meta = merged(k.meta, meta)
	}
}

// merged returns a with the entries of b; a value that is not a map counts as
// an empty map.
func merged(a, b edn.Value) edn.Value {
	if a.Kind() != edn.KindMap {
		a = edn.MustMap()
	}
	if b.Kind() != edn.KindMap {
		return a
	}
	return a.Merge(b)
}

// valueResponse returns the response envelope for the return value of a
// function.
func (k *call) valueResponse(out any) (edn.Value, error) {
	v, err := Encode(out)
	if err != nil {
		return edn.Nil(), fmt.Errorf("encode output: %w", err)
	}
	var result edn.MapBuilder
	result.Key("type", edn.K("value"))
	result.Key("out", asOut(v))
	return k.response(&result), nil
}

// asOut wraps a value that is not a map: a string as {:text s}, nil as {},
// another value as {:value v}.
func asOut(v edn.Value) edn.Value {
	var m edn.MapBuilder
	switch v.Kind() {
	case edn.KindMap:
		return v
	case edn.KindNil:
	case edn.KindString:
		m.Key("text", v)
	default:
		m.Key("value", v)
	}
	return m.Map()
}

func (k *call) planResponse(p Plan) edn.Value {
	var result edn.MapBuilder
	result.Key("type", edn.K("plan"))
	result.Key("plan", p.Plan)
	result.Opt("bindings", p.Bindings)
	return k.response(&result)
}

// failure returns the answer of a failed call. If usage was reported, the error
// travels in a response envelope, because a bare error cannot carry usage.
func (k *call) failure(err error) (edn.Value, error) {
	k.mu.Lock()
	reported := k.usage.Len() > 0
	k.mu.Unlock()
	if !reported {
		return edn.Nil(), err
	}
	var result edn.MapBuilder
	result.Key("type", edn.K("error"))
	result.Key("error", contract.AsError(err).Value())
	return k.response(&result), nil
}

func (k *call) response(result *edn.MapBuilder) edn.Value {
	k.mu.Lock()
	defer k.mu.Unlock()
	var usage edn.MapBuilder
	usage.Key("mode", edn.K(k.mode))
	result.Key("usage", merged(usage.Map(), k.usage))
	var response edn.MapBuilder
	response.Key("result", result.Map())
	if k.meta.Len() > 0 {
		response.Key("invoke/meta", k.meta)
	}
	return response.Map()
}

// word returns the name of a keyword, or the string that represents it in JSON.
func word(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return s
}
