package main

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// frameIntents are those about single frames.
func frameIntents() []intent {
	return []intent{
		{
			name: "context/put-frame", says: "Appends a text about a file or directory.",
			needs: agent.Append, effects: write, writes: true, run: putFrame, write: putWriting,
		},
	}
}

// putFrame appends an authored frame (WS-070, WS-073, WS-084).
func putFrame(ctx context.Context, r *request) (edn.Value, error) { return r.commit(ctx, putWriting) }

func putWriting(ctx context.Context, r *request) (*writing, error) {
	in, err := r.wholeIDs(ctx)
	if err != nil {
		return nil, err
	}
	p, err := store.PutFrom(in)
	if err != nil {
		return nil, err
	}
	p.Agent, p.MaxFrame = r.agent.ID, int(r.cfg.MaxFrame)
	var put *store.Put
	return &writing{
		run: func(tx *store.Tx) (err error) {
			put, err = tx.Put(p)
			return err
		},
		answer: func(out *edn.MapBuilder) { putAnswer(out, put); r.server.meter.put(put) },
	}, nil
}

// wholeIDs returns the input of a put with whole ids of the frames that it names. The
// id of the frame itself is an expectation and stays as it is.
func (r *request) wholeIDs(ctx context.Context) (edn.Value, error) {
	in := r.in
	if text := r.text("expect/head"); text != "" {
		x, err := r.frameID(ctx, "expect/head", text)
		if err != nil {
			return in, err
		}
		in = in.AssocKey("expect/head", idValue(x))
	}
	basis := in.Key("basis")
	kind, _ := basis.Nth(0)
	frame, _ := basis.Nth(1)
	if text, ok := frame.AsString(); ok && basis.Len() == 2 {
		x, err := r.frameID(ctx, "basis", text)
		if err != nil {
			return in, err
		}
		in = in.AssocKey("basis", edn.Vector(kind, idValue(x)))
	}
	return in, nil
}

// commit runs one writing in a transaction of its own.
func (r *request) commit(ctx context.Context, prepare func(context.Context, *request) (*writing, error)) (edn.Value, error) {
	w, err := prepare(ctx, r)
	if err != nil {
		return edn.Nil(), err
	}
	return r.update(ctx, w.run, w.answer)
}

func putAnswer(out *edn.MapBuilder, p *store.Put) {
	out.Key("frame/id", idValue(p.Frame.ID))
	out.Key("frame/existing?", edn.Bool(p.Existing))
	out.Key("head/previous", idValue(p.Previous))
	out.Key("node/id", idValue(p.Frame.Node))
	out.Key("record/id", idValue(p.Frame.Record))
	out.Key("basis/id", idValue(p.Frame.Basis))
}
