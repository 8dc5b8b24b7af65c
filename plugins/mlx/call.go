package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/mlx/internal/server"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// noticed is the maximum delay between a broken connection and the observed
// exit of the process, which is long on a busy machine. Only a server that
// breaks connections and stays alive costs a call this delay.
const noticed = time.Second

// answer answers a call; it implements the capabilities of the models. If the server crashes, the
// call is repeated once with a new server, unless a piece of the answer was emitted, memory ran out
// or ctx has ended.
func (h *service) answer(ctx context.Context, label string, request edn.Value, out answer.Sink) (edn.Value, error) {
	name, err := h.named(request)
	if err != nil {
		return edn.Nil(), err
	}
	intent, session := sdk.CallFrom(ctx).Intent, sessionOf(request)
	if intent == answer.Count {
		return h.count(ctx, label, name, session, request, out)
	}
	waiting := func() { _ = out.Progress(edn.MustMap(edn.K("model/state"), edn.K("starting"))) }
	var earlier []attempt
	for {
		lease, err := h.pool.Acquire(ctx, session, waiting)
		if err != nil {
			return edn.Nil(), told(err, earlier)
		}
		sink := &watched{Sink: out}
		callCtx, cancel := lease.Context(ctx)
		response, refused := lease.Server.provider.Answer(callCtx, h.model(lease.Server.models, label, name), intent,
			request, sink)
		cancel()
		death := h.fate(ctx, lease, response)
		lease.Release()
		switch {
		case refused != nil:
			return edn.Nil(), told(refused, earlier)
		case death == nil:
			h.observe(response)
			return merge(translated(response), earlier), nil
		}
		earlier = append(earlier, attempt{death: death, pid: lease.Server.PID(), usage: response.Key("result").Key("usage")})
		if ctx.Err() != nil || sink.seen.Load() || len(earlier) > 1 || death.Type == "model/out-of-memory" {
			return merge(failed(response, death.WithDetail("begun?", edn.Bool(sink.seen.Load()))), earlier), nil
		}
		sdk.Logger(ctx).Warn("the call is repeated: its model server died", "server_pid", lease.Server.PID(),
			"cause", death.Type)
	}
}

// count returns the number of tokens of a request. It uses the server only if one is running, and
// starts none.
func (h *service) count(
	ctx context.Context, label, name, session string, request edn.Value, out answer.Sink,
) (edn.Value, error) {
	var response edn.Value
	var err *contract.Error
	if t, up := h.pool.Up(session); up {
		response, err = t.provider.Answer(ctx, h.model(t.models, label, name), answer.Count, request, out)
	} else {
		response, err = h.cold.provider.Guess(h.model(h.cold.models, label, name), request, out)
	}
	if err != nil {
		return edn.Nil(), err
	}
	return response, nil
}

// fate returns the error of the server if it crashed during the call, and nil otherwise. It waits
// at most noticed for the exit of the process. A server that stalled is checked in the background.
func (h *service) fate(ctx context.Context, lease *lease, response edn.Value) *contract.Error {
	var within time.Duration
	typ, _ := response.Key("result").Key("error").Key("type").AsKeyword()
	switch typ {
	case "provider/unavailable", "stream/truncated", "stream/malformed", "provider/request-failed":
		within = noticed // as for a broken connection
	case "provider/timeout", "stream/stalled":
		lease.Suspect()
		return nil
	case "canceled":
		if ctx.Err() != nil {
			return nil // canceled by the caller
		}
		within = noticed
	default:
		return nil // an answer, or an error of the server itself
	}
	return lease.Died(ctx, within)
}

// sessionOf returns the session of a call, "" if it names none.
func sessionOf(request edn.Value) string {
	about := request.Key("context")
	for _, v := range []edn.Value{request.Key("session/id"), about.Key("session/id"), about.Key("conversation/id")} {
		if s, ok := v.AsString(); ok && s != "" {
			return s
		}
	}
	return ""
}

// named returns the model that a request names, "" for that of the capability. The error is
// provider/request-invalid for a model that the settings do not allow.
func (h *service) named(request edn.Value) (string, *contract.Error) {
	v := request.Key("model")
	name, ok := v.AsString()
	if !ok {
		name, _ = v.AsKeyword()
	}
	if name == "" || h.set.Allows(name) {
		return name, nil
	}
	return "", contract.Errorf("provider/request-invalid",
		"model %q is not allowed: this server runs %s and would have to load, or even download, another one", name, h.set.Model).
		WithSource(contract.SourceRequest).WithHint("add it to allow_models to permit that").
		WithDetail("model", edn.Text(name)).WithDetail("family", edn.K("provider/error")).WithDetail("sent?", edn.Bool(false))
}

// model returns the model of a capability, or a copy of it with the name of another model that the
// request names.
func (h *service) model(models map[string]*answer.Model, label, name string) *answer.Model {
	m := models[label]
	if name == "" || name == m.Name {
		return m
	}
	other := *m
	other.Name, other.Wire = name, h.set.Wire(name)
	return &other
}

// watched records whether a piece of the answer was emitted.
type watched struct {
	answer.Sink
	seen atomic.Bool
}

// Text, Reasoning, Delta and Progress implement answer.Sink.
func (w *watched) Text(text string) error { w.seen.Store(true); return w.Sink.Text(text) }

// Reasoning implements answer.Sink.
func (w *watched) Reasoning(text string) error { w.seen.Store(true); return w.Sink.Reasoning(text) }

// Delta implements answer.Sink.
func (w *watched) Delta(piece edn.Value) error { w.seen.Store(true); return w.Sink.Delta(piece) }

// attempt is a request whose server crashed.
type attempt struct {
	death *contract.Error
	pid   int
	usage edn.Value
}

func attempts(all []attempt) edn.Value {
	var list []edn.Value
	for _, a := range all {
		var m edn.MapBuilder
		m.Key("error", edn.K(a.death.Type))
		m.Opt("deaths", a.death.Details.Key("deaths"))
		m.Key("pid", edn.Int(int64(a.pid)))
		m.Opt("usage", a.usage)
		list = append(list, m.Map())
	}
	return edn.Vector(list...)
}

// told returns the error with the earlier attempts of the call in its details.
func told(err *contract.Error, earlier []attempt) *contract.Error {
	if len(earlier) == 0 {
		return err
	}
	return err.WithDetail("attempts", attempts(earlier))
}

// merge returns a response with the attempts of the call, and with the usage of the earlier
// requests added: the host sees one answer, but pays for all requests.
func merge(response edn.Value, earlier []attempt) edn.Value {
	if len(earlier) == 0 {
		return response
	}
	meta := response.Key("invoke/meta").AssocKey("attempts", attempts(earlier))
	result := response.Key("result")
	usage := result.Key("usage")
	if result.Key("type").String() == ":error" {
		earlier = earlier[:len(earlier)-1] // the last one is the response itself
	}
	broken := make([]edn.Value, len(earlier))
	for i, a := range earlier {
		broken[i] = a.usage
	}
	usage = pricing.Together(usage, broken...)
	if !usage.IsNil() {
		result = result.AssocKey("usage", usage)
	}
	return response.AssocKey("result", result).AssocKey("invoke/meta", meta)
}

// failed returns a response with err as its error and without an output.
func failed(response edn.Value, err *contract.Error) edn.Value {
	result := response.Key("result")
	if result.IsNil() {
		result = edn.MustMap()
	}
	result = result.AssocKey("type", edn.K("error")).AssocKey("error", err.Value()).Dissoc(edn.K("out"))
	return response.AssocKey("result", result)
}

// translated returns a response with a typed error if its error says that the server ran out of
// memory.
func translated(response edn.Value) edn.Value {
	e := response.Key("result").Key("error")
	typ, _ := e.Key("type").AsKeyword()
	if !slices.Contains([]string{"provider/overloaded", "provider/error"}, typ) {
		return response
	}
	message, _ := e.Key("message").AsString()
	if !server.Memory(message) {
		return response
	}
	return failed(response, contract.Errorf("model/out-of-memory", "%s",
		strings.TrimPrefix(message, "mlx: ")).WithDetails(e.Key("details")))
}

// observe adds the latency and the token rate of a response to the averages of the pool.
func (h *service) observe(response edn.Value) {
	usage := response.Key("result").Key("usage")
	first, ok := usage.Key("first-token-ms").AsInt()
	if !ok {
		return
	}
	whole, _ := usage.Key("latency-ms").AsInt()
	tokens, _ := usage.Key("tokens-out").AsInt()
	rate := 0.0
	if whole > first && tokens > 1 {
		rate = float64(tokens-1) * 1000 / float64(whole-first)
	}
	h.pool.Observe(time.Duration(max(first, 1))*time.Millisecond, rate)
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}
