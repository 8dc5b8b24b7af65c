package derive

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Call is a call of an intent through the host.
type Call struct {
	Intent string
	Input  edn.Value
	// CapID is the capability to call; if it is empty, the host chooses.
	CapID string
	// Delta is called with provisional text; nil if the caller does not need it.
	Delta func(text string)
}

// Answer is a successful answer of the host.
type Answer struct {
	Out edn.Value
	// Meta, Usage and Models are :invoke/meta, :usage and :models/used.
	Meta, Usage, Models edn.Value
}

// Invoke calls an intent and blocks until it is answered. The context, or the function itself,
// carries the trace, the deadline, the effects and the options of the request; the engine cannot
// extend them. If the call fails, the error is that of the host.
type Invoke func(ctx context.Context, c Call) (*Answer, error)

// invoke calls an intent and returns its answer or a provider/* error.
func (e *Engine) invoke(ctx context.Context, path string, c Call) (*Answer, error) {
	if e.o.Invoke == nil {
		return nil, contract.Errorf("provider/not-configured", "no host is connected to call :%s", c.Intent).
			WithOp("generate", store.Shown(path))
	}
	a, err := e.o.Invoke(ctx, c)
	if err != nil {
		return nil, providerError(ctx, path, err)
	}
	return a, nil
}

// customCall calls the intent of a custom policy.
func (e *Engine) customCall(ctx context.Context, intent string, input edn.Value) (string, error) {
	if e.o.Invoke == nil {
		return "", contract.Errorf("provider/not-configured", "no host is connected to call :%s", intent)
	}
	a, err := e.o.Invoke(ctx, Call{Intent: intent, Input: input})
	if err != nil {
		return "", err
	}
	return textOf(a)
}

// textOf returns the text of an answer.
func textOf(a *Answer) (string, error) {
	if a != nil {
		if text, ok := a.Out.Key("text").AsString(); ok {
			return text, nil
		}
	}
	return "", contract.Errorf("provider/error", "the answer has no text in :text").
		WithHint("let the intent answer with {:text \"..\"}")
}

// families maps the host's error types that name no family to provider errors.
var families = map[string]string{
	"unsupported/intent":      "provider/not-configured",
	"cap/not-found":           "provider/not-configured",
	"provider/not-configured": "provider/not-configured",
	"provider/auth-failed":    "provider/not-configured",
	"model/unavailable":       "provider/not-configured",
	"runtime/crashed":         "provider/request-failed",
	"runtime/start-failed":    "provider/request-failed",
	"runtime/unresponsive":    "provider/request-failed",
	"runtime/not-ready":       "provider/request-failed",
	"runtime/overloaded":      "provider/request-failed",
	"runtime/quarantined":     "provider/request-failed",
	"timeout/soft":            "provider/request-failed",
	"timeout/hard":            "provider/request-failed",
	"provider/timeout":        "provider/request-failed",
	"provider/unavailable":    "provider/request-failed",
	"provider/rate-limited":   "provider/request-failed",
	"provider/overloaded":     "provider/request-failed",
	"stream/truncated":        "provider/request-failed",
	"stream/stalled":          "provider/request-failed",
	"breaker/open":            "provider/request-failed",
}

// providerError returns the error of a failed call. The error of the host stays
// its cause.
func providerError(ctx context.Context, path string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return contract.AsError(cause) // the request ended, not the provider
	}
	cause := contract.AsError(err)
	typ := ""
	switch family := cause.Details.Key("family"); {
	case family.IsKeyword():
		typ, _ = family.AsKeyword()
	case family.IsString():
		typ, _ = family.AsString()
	}
	if !strings.HasPrefix(typ, "provider/") {
		typ = families[cause.Type]
	}
	if typ == "" {
		typ = "provider/error"
	}
	out := contract.Errorf(typ, "the call of the model failed: %s", cause.FullMessage()).WithOp("generate",
		store.Shown(path)).
		WithCause(cause).WithSource(contract.SourceDownstream)
	if cause.Hint != "" {
		out = out.WithHint(cause.Hint)
	}
	retry := cause.Retryable
	switch typ {
	case "provider/request-failed":
		retry = true
	case "provider/not-configured":
		retry = false
	}
	out.Err = errors.Join(err)
	return out.WithRetryable(retry)
}

// attribution returns the data about the model that answered, as the host reports it. Keys that the
// host does not report are absent.
func attribution(a *Answer) edn.Value {
	pick := func(from edn.Value, keys ...string) (out edn.MapBuilder, any bool) {
		for _, k := range keys {
			if v := from.Key(k); !v.IsNil() {
				out.Key(k, v)
				any = true
			}
		}
		return out, any
	}
	out, _ := pick(a.Meta, "cap/id", "finish", "prompt/hash", "attempts")
	model := a.Meta.Key("model")
	if first, ok := a.Models.Nth(0); ok && first.IsVector() {
		if a.Meta.Key("cap/id").IsNil() {
			capID, _ := first.Nth(0)
			out.Opt("cap/id", capID)
		}
		if model.IsNil() {
			model, _ = first.Nth(1)
		}
	}
	provider := a.Meta.Key("provider")
	if !provider.IsMap() {
		var b edn.MapBuilder
		b.Opt("name", provider)
		provider = b.Map()
	}
	if provider.Key("model").IsNil() && !model.IsNil() {
		provider = provider.AssocKey("model", model)
	}
	if p, any := pick(provider, "name", "type", "model", "model/served", "request/id"); any {
		out.Key("provider", p.Map())
	}
	if u, any := pick(a.Usage, "tokens-in", "tokens-out", "tokens-mark", "cost-usd", "cost-mark"); any {
		out.Key("usage", u.Map())
	}
	out.Key("attribution/source", edn.K("host"))
	return out.Map()
}

// repair replaces NUL and invalid UTF-8 in text, which a frame cannot contain, by U+FFFD.
func repair(text string) (fixed string, repaired bool) {
	fixed = strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
	return fixed, fixed != text
}
