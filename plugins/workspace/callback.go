package main

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// rank orders frames by an intent (WS-133). The intent gets the descriptors of frames, without
// those whose path may not be sent, and must return frame ids.
func (r *request) rank(ctx context.Context, name string, candidates []view.Frame, query string) ([]string, error) {
	denied := r.hub.derivation.Denied
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(f view.Frame) bool { return denied(f.Path()) })
	list, err := edn.Encode(candidates)
	if err != nil {
		return nil, err
	}
	var input edn.MapBuilder
	input.Key("candidates", list)
	input.Key("query", edn.Text(query))
	answer, err := r.ask(ctx, sdk.Ask{Intent: name, Input: input.Map()})
	if err != nil {
		return nil, err
	}
	var out struct {
		IDs []string `edn:"ids"`
	}
	if err := answer.Decode(&out); err != nil {
		return nil, contract.Errorf("provider/error", "the intent :%s did not return :ids: %w", name, err).
			WithHint("let the intent answer with {:ids [\"FRAME\" ..]}")
	}
	return out.IDs, nil
}

// ask calls another intent through the host.
func (r *request) ask(ctx context.Context, a sdk.Ask) (sdk.Answer, error) {
	if err := policy.CheckIntent(a.Intent, edn.K("intent")); err != nil {
		return sdk.Answer{}, err
	}
	r.server.meter.callbacks.Add(1)
	return r.server.call(ctx, a)
}

// call calls an intent within a span, with the options of the request that ctx belongs to. The error
// has no part of the input.
func (s *server) call(ctx context.Context, a sdk.Ask) (sdk.Answer, error) {
	a.Fields = unlimited(callOptions(ctx))
	end := s.meter.span(ctx, "callback", a.Intent)
	answer, err := sdk.HostFrom(ctx).Invoke(ctx, a)
	if err != nil {
		err = withoutInput(a.Intent, contract.AsError(err))
	}
	end(err)
	return answer, err
}

// withoutInput returns the error of a call without what it repeats of the input, which has texts of
// frames and files (WS-210). An error about the input keeps the place, and what was expected there.
// An error that was caused by one loses its message, which can repeat that of its cause. Other errors
// are returned unchanged.
func withoutInput(intent string, e *contract.Error) *contract.Error {
	out := *e
	if e.Cause != nil {
		out.Cause = withoutInput(intent, e.Cause)
	}
	if e.Type != "invalid-request" && e.Type != "input/invalid" && !e.Details.HasKey("path") {
		if out.Cause == e.Cause {
			return e
		}
		out.Message, out.Err = "", nil
		return &out
	}
	message := "the call of :" + intent + " was refused"
	var details edn.MapBuilder
	for _, part := range []struct{ key, before string }{{"path", " at "}, {"reason", ", "}, {"expected", ", expected "}} {
		if v := e.Details.Key(part.key); !v.IsNil() {
			message += part.before + v.String()
			details.Key(part.key, v)
		}
	}
	var findings []edn.Value
	for f := range e.Details.Key("findings").Elems() {
		findings = append(findings, f.Dissoc(edn.K("got")))
	}
	if len(findings) > 0 {
		first, _ := findings[0].Key("message").AsString()
		message += ", " + findings[0].Key("path").String() + " " + first
		details.Key("findings", edn.Vector(findings...))
	}
	out.Message, out.Details, out.Err = message, details.Map(), nil
	return &out
}

// callOptions returns the parts of the request that are passed on to a call of another intent. In
// any case, the host limits the call to the budget, deadline and effects of the request (WS-141).
func callOptions(ctx context.Context) edn.Value {
	envelope := sdk.CallFrom(ctx).Request
	var b edn.MapBuilder
	for _, key := range []string{"done", "dispatch", "constraints", "budget"} {
		b.Opt(key, envelope.Key(key))
	}
	return b.Map()
}

// longest is the longest deadline of a call, in milliseconds.
const longest = 24 * 60 * 60 * 1000

// unlimited sets the longest deadline for a call of another intent, so that the deadline of the
// request limits it, which can be longer than the default for a call.
func unlimited(fields edn.Value) edn.Value {
	return fields.AssocKey("deadline-ms", edn.Int(longest))
}

// invokeHost calls an intent for the engine.
func (s *server) invokeHost(ctx context.Context, c derive.Call) (*derive.Answer, error) {
	if err := policy.CheckIntent(c.Intent, edn.K("intent")); err != nil {
		return nil, err
	}
	s.meter.modelCalls.Add(1)
	a := sdk.Ask{Intent: c.Intent, Input: c.Input, Capability: c.CapID}
	if c.Delta != nil {
		a.OnDelta = func(piece edn.Value) {
			if text, ok := piece.Key("text").AsString(); ok {
				c.Delta(text)
			}
		}
	}
	answer, err := s.call(ctx, a)
	if err != nil {
		return nil, err
	}
	result := answer.Response.Key("result")
	return &derive.Answer{
		Out: answer.Out(), Meta: answer.Response.Key("invoke/meta"), Usage: result.Key("usage"), Models: answer.Response.Key("models/used"),
	}, nil
}
