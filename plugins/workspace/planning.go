package main

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// planning returns the capability of an intent that answers with a value or,
// with :mode :plan, with a plan that the host runs, records and resumes (WS-147).
func (s *server) planning(i intent, options []sdk.Option) sdk.Capability {
	answer := func(ctx context.Context, envelope edn.Value, out *sdk.Stream) (edn.Value, error) {
		var result edn.MapBuilder
		v, err := s.serve(ctx, &i, envelope.Key("input"), out)
		if err != nil {
			return edn.Nil(), err
		}
		if plan := v.Key("plan"); plan.IsMap() {
			result.Key("type", edn.K("plan"))
			result.Key("plan", plan)
		} else {
			result.Key("type", edn.K("value"))
			result.Key("out", v)
		}
		return edn.MustMap(edn.K("result"), result.Map()), nil
	}
	return sdk.Raw(i.name, sdk.Intents(i.name), answer, options...)
}

// plan returns the plan of a generation.
func (r *request) plan(ctx context.Context, asked derive.GenerateRequest) (edn.Value, error) {
	input := r.in
	for _, key := range []string{"mode", "path", "path/b64", "node/id", "targets", "recursive?", "priority", "concurrency", "on-failure"} {
		input = input.Dissoc(edn.K(key))
	}
	input = input.AssocKey("workspace", edn.Text(r.root)).AssocKey("agent/id", edn.Text(r.agent.ID))
	plan, err := r.engine.Plan(ctx, asked, input, atPath)
	if err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(edn.K("plan"), plan), nil
}

// atPath adds a path to the input of a step.
func atPath(input edn.Value, path string) edn.Value {
	at := store.PlaceOf(path)
	if at.Raw != "" {
		return input.AssocKey("path/b64", edn.Text(at.Raw))
	}
	return input.AssocKey("path", edn.Text(at.Text))
}

// prepare returns the input of the call for one path, and the ticket with which to commit its
// answer. It writes nothing.
func (r *request) prepare(ctx context.Context, asked derive.GenerateRequest) (edn.Value, error) {
	p, err := r.engine.Prepare(ctx, asked)
	if err != nil {
		return edn.Nil(), err
	}
	ticket, err := edn.Encode(p.Ticket)
	if err != nil {
		return edn.Nil(), contract.Errorf("runtime/internal", "encode the ticket: %w", err)
	}
	return r.stamped(ctx, store.Latest, func(out *edn.MapBuilder) {
		out.Key("ticket", atPath(ticket, p.Ticket.Path))
		out.Key("input", p.Input)
		out.Key("frame/existing?", edn.Bool(p.Existing != nil))
		if p.Existing != nil {
			out.Key("frame/id", idValue(p.Existing.ID))
		}
	})
}

// commitTicket appends the answer to a prepared call.
func (r *request) commitTicket(ctx context.Context) (edn.Value, error) {
	asked := derive.CommitRequest{
		Caller:          r.caller(),
		Text:            r.text("text"),
		Attribution:     r.in.Key("attribution"),
		AcceptTruncated: r.flag("accept-truncated?"),
	}
	ticket := r.in.Key("ticket")
	ref, err := store.RefFrom(edn.MustMap().Merge(ticket))
	if err == nil {
		err = edn.Decode(ticket, &asked.Ticket)
	}
	if err != nil {
		return edn.Nil(), invalid(edn.Vector(edn.K("ticket")), "it is not a ticket of :phase :prepare: %w", err)
	}
	asked.Ticket.Path = ref.Path
	put, seq, err := r.engine.Commit(ctx, asked)
	if err != nil {
		return edn.Nil(), err
	}
	r.server.meter.put(put)
	return r.stamped(ctx, seq, func(out *edn.MapBuilder) {
		out.Key("frame/id", idValue(put.Frame.ID))
		out.Key("frame/existing?", edn.Bool(put.Existing))
	})
}
