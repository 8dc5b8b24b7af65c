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

// Call says where a call stands in its run, and what it may spend and touch.
type Call struct {
	wire.CallContext
	// Intent and Capability are names without colon.
	Intent     string
	Capability string
	// Request is the whole request envelope.
	Request edn.Value
}

// call is one call inside the plugin.
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
}

// scope is what a context of this package carries.
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

// CallFrom gives the call that ctx belongs to, the zero Call if to none.
func CallFrom(ctx context.Context) Call {
	k := scopeOf(ctx).call
	if k == nil {
		return Call{}
	}
	return Call{CallContext: k.ctx, Intent: k.intent, Capability: k.capID, Request: k.request}
}

// Logger writes to the log of the plugin. In a call each line says which run,
// node and capability it belongs to. Never nil.
func Logger(ctx context.Context) *slog.Logger {
	s := scopeOf(ctx)
	if s.plugin == nil {
		return slog.Default()
	}
	if s.call == nil {
		return s.plugin.log
	}
	return s.plugin.log.With("run", s.call.ctx.Run, "node", s.call.ctx.Node, "capability", s.call.capID, "attempt", s.call.ctx.Attempt)
}

// Root is the directory that belongs to this instance of the plugin alone, for
// scratch files; empty before Configure and if the host gave none.
func Root(ctx context.Context) string {
	s := scopeOf(ctx)
	if s.setup == nil {
		return ""
	}
	return s.setup.given.Root
}

// Lifetime gives a context that ends with the plugin instead of with the call
// or hook that ctx belongs to, for work that goes on behind it. Accessors of
// calls find no call in it.
func Lifetime(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	if s.plugin == nil {
		return ctx
	}
	return (&scope{plugin: s.plugin, setup: s.setup}).in(s.plugin.life)
}

// ConfigFrom gives the decoded configuration. It is the zero T if the plugin's
// Config is not of type Config[T], and before Configure.
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

// ReportUsage states what the call used, as keys of the envelope's :usage such
// as :tokens-in or :cost-usd; later values replace earlier ones. It has no
// effect on Raw capabilities and outside of calls.
func ReportUsage(ctx context.Context, usage edn.Value) {
	if k := scopeOf(ctx).call; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.usage = merged(k.usage, usage)
	}
}

// ReportMeta states how the answer came about, as keys of the envelope's
// :invoke/meta such as :model or :finish; otherwise like ReportUsage.
func ReportMeta(ctx context.Context, meta edn.Value) {
	if k := scopeOf(ctx).call; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.meta = merged(k.meta, meta)
	}
}

// merged is a with the entries of b; what is no map counts as an empty one.
func merged(a, b edn.Value) edn.Value {
	if a.Kind() != edn.KindMap {
		a = edn.MustMap()
	}
	if b.Kind() != edn.KindMap {
		return a
	}
	return a.Merge(b)
}

// valueResponse is the response envelope for the answer of a function.
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

// asOut makes a map of any value.
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
	if !p.Bindings.IsNil() {
		result.Key("bindings", p.Bindings)
	}
	return k.response(&result)
}

// failure is how a failed call answers: with its error as the result where usage
// was reported, which a bare error has no place for.
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

// word reads a keyword, or the string that stands for one in JSON.
func word(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return s
}
