package main

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// frameIntents are those about single frames.
func frameIntents() []intent {
	return []intent{
		{
			name: "context/put-frame", says: "Appends a text about a file or directory.",
			needs: agent.Append, effects: write, writes: true, run: putFrame,
		},
		{
			name: "context/list-frames", says: "Lists the frames of a node, also those that are not heads, without their texts.",
			needs: agent.ReadContext, effects: read, run: listFrames,
		},
		{
			name: "context/get-head", says: "Returns the current frame of a node and a type, and whether it is fresh.",
			needs: agent.ReadContext, effects: read, run: getHead,
		},
		{
			name: "context/history", says: "Lists the states that a path has had, with the frames of each.",
			needs: agent.ReadContext, effects: read, run: history,
		},
	}
}

// putFrame appends an authored frame (WS-070, WS-073, WS-084).
func putFrame(ctx context.Context, r *request) (edn.Value, error) {
	p, err := store.PutFrom(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	p.Agent, p.Limits = r.agent.ID, r.limits()
	var put *store.Put
	return r.update(ctx, func(tx *store.Tx) (err error) {
		put, err = tx.Put(p)
		return err
	}, func(out *edn.MapBuilder) { putAnswer(out, put); r.server.meter.put(put) })
}

func putAnswer(out *edn.MapBuilder, p *store.Put) {
	out.Key("frame/id", idValue(p.Frame.ID))
	out.Key("frame/existing?", edn.Bool(p.Existing))
	out.Key("head/previous", idValue(p.Previous))
	out.Key("node/id", idValue(p.Frame.Node))
	out.Key("record/id", idValue(p.Frame.Record))
	out.Key("basis/id", idValue(p.Frame.Basis))
}

// limits are those of the settings.
func (r *request) limits() store.Limits { return store.Limits{Frame: int(r.cfg.MaxFrame)} }

// listFrames lists frames, also those that are not heads (WS-074).
func listFrames(ctx context.Context, r *request) (edn.Value, error) {
	f, err := r.filter()
	if err != nil {
		return edn.Nil(), err
	}
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		found, err := r.resolve(ctx, v, true)
		if err != nil {
			return err
		}
		f.Path = found.Path
		page, err := v.Frames(ctx, f)
		if err != nil {
			return err
		}
		list := make([]edn.Value, len(page.Frames))
		for i, x := range page.Frames {
			state, err := r.stateOf(ctx, v, x)
			if err != nil {
				return err
			}
			d := frameValue(x, state)
			list[i] = d.Map()
		}
		out.Key("frames", edn.Vector(list...))
		out.Key("cursor", cursorValue(page.Cursor))
		return nil
	})
}

// filter returns the frames that the input selects.
func (r *request) filter() (f store.Filter, err error) {
	f = store.Filter{Type: r.text("frame/type"), Agent: r.text("agent"), Cursor: r.text("cursor")}
	if f.Origin, err = oneOf(r, "origin", store.Authored, store.Extracted, store.Synthesized, store.Generated); err != nil {
		return f, err
	}
	if f.State, err = oneOf(r, "state", states...); err != nil {
		return f, err
	}
	if text := r.text("basis/id"); text != "" {
		if f.Basis, err = id.Parse(id.Basis, text); err != nil {
			return f, contract.AsError(err).WithDetail("path", edn.Vector(edn.K("basis/id")))
		}
	}
	f.Limit, err = r.limit()
	return f, err
}

var states = []store.HeadState{store.Fresh, store.Stale, store.Deleted}

// oneOf returns a word of the input, which must be one of the given ones.
func oneOf[T ~string](r *request, key string, allowed ...T) (T, error) {
	word := T(r.word(key))
	if r.in.Key(key).IsNil() || slices.Contains(allowed, word) {
		return word, nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return "", invalid(edn.Vector(edn.K(key)), "%s is not one of %v", r.in.Key(key), names).WithDetail("allowed", edn.Keywords(names...))
}

// stateOf returns the state of a frame if it is the head of its path and type.
func (r *request) stateOf(ctx context.Context, v *store.Snapshot, f *store.Frame) (store.HeadState, error) {
	h, err := v.Head(ctx, f.Path, f.Type)
	if err != nil || h.Frame.ID != f.ID {
		return "", err
	}
	return h.State, nil
}

// getHead returns the head of a node and a type (WS-071). A node id names one
// state of the path, also a past one; a path the current state, or the latest
// earlier one that has a frame.
func getHead(ctx context.Context, r *request) (edn.Value, error) {
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		found, err := r.resolve(ctx, v, true)
		if err != nil {
			return err
		}
		h, err := r.headOf(ctx, v, found)
		if err != nil {
			return err
		}
		out.Key("frame/id", idValue(h.Frame.ID))
		out.Key("state", edn.K(string(h.State)))
		d := frameValue(h.Frame, h.State)
		out.Key("frame", d.Map())
		return nil
	})
}

func (r *request) headOf(ctx context.Context, v *store.Snapshot, found *store.Found) (*store.Head, error) {
	kind := r.text("frame/type")
	if !r.in.HasKey("node/id") || found.Current() {
		return v.Head(ctx, found.Path, kind)
	}
	exact, err := v.HeadAt(ctx, found.Path, found.State().Node, kind)
	if err != nil {
		return nil, err
	}
	if exact.IsZero() {
		return nil, contract.Errorf("frame/no-head", "this state of it has no frame of type %q", kind).WithOp("head", store.Shown(found.Path))
	}
	f, err := v.Frame(ctx, exact)
	if err != nil {
		return nil, err
	}
	h := &store.Head{Frame: f, State: store.Stale}
	if found.Gone() {
		h.State = store.Deleted
	}
	return h, nil
}

// history lists the states of a path, the newest first (WS-074).
func history(ctx context.Context, r *request) (edn.Value, error) {
	limit, err := r.limit()
	if err != nil {
		return edn.Nil(), err
	}
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		found, err := r.resolve(ctx, v, true)
		if err != nil {
			return err
		}
		list, cursor, err := v.History(ctx, found.Path, limit, r.text("cursor"))
		if err != nil {
			return err
		}
		versions := make([]edn.Value, len(list))
		for i, x := range list {
			if versions[i], err = r.versionValue(ctx, v, &x); err != nil {
				return err
			}
		}
		out.Key("versions", edn.Vector(versions...))
		out.Key("cursor", cursorValue(cursor))
		return nil
	})
}

// versionValue returns one state of a path. With :frame/type only frames of it
// are listed.
func (r *request) versionValue(ctx context.Context, v *store.Snapshot, x *store.State) (edn.Value, error) {
	frames := x.Frames
	if kind := r.text("frame/type"); kind != "" {
		frames = nil
		for _, f := range x.Frames {
			frame, err := v.Frame(ctx, f)
			if err != nil {
				return edn.Nil(), err
			}
			if frame.Type == kind {
				frames = append(frames, f)
			}
		}
	}
	var b edn.MapBuilder
	b.Key("node/id", idValue(x.Node))
	b.Key("content/id", idValue(x.Content))
	b.Key("mode", edn.Text(x.Mode.String()))
	b.Key("size", number(x.Size))
	b.Key("since", number(x.Since))
	if x.Until > 0 {
		b.Key("until", number(x.Until))
	}
	if x.RenamedFrom != "" {
		b.Key("renamed-from", edn.Text(store.Shown(x.RenamedFrom)))
	}
	b.Key("frames", idList(frames))
	return b.Map(), nil
}

func cursorValue(text string) edn.Value {
	if text == "" {
		return edn.Nil()
	}
	return edn.Text(text)
}
