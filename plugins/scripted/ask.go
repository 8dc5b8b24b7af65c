package main

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ask makes the host calls of the step in turn and returns the last answer. A failure of one is the
// failure of the call.
func (s step) ask(ctx context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error) {
	input, err := fill(s.arg.Key("input"), sources(ctx, request))
	if err != nil {
		return edn.Nil(), err
	}
	q := sdk.Ask{Input: input}
	q.Intent, _ = s.arg.Key("intent").AsKeyword()
	q.Capability, _ = s.arg.Key("cap/ref").AsKeyword()
	if s.arg.HasKey("handle") {
		path := slices.Collect(s.arg.Key("handle").Elems())
		v, _ := request.Key("input").GetIn(path...)
		if q.Handle, err = sdk.HandleFrom(v); err != nil {
			return edn.Nil(), err
		}
	}
	if s.arg.Key("stream").Truthy() {
		q.OnDelta = func(piece edn.Value) { _ = out.Delta(piece.Dissoc(edn.K("seq"))) }
	}
	times, ok := s.arg.Key("times").AsInt()
	if !ok {
		times = 1
	}
	var answer sdk.Answer
	for range times {
		if answer, err = sdk.HostFrom(ctx).Invoke(ctx, q); err != nil {
			return edn.Nil(), err
		}
	}
	return answer.Out(), nil
}
