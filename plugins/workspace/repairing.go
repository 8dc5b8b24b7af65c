package main

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// repairingIntents change the files of a store.
func repairingIntents() []intent {
	return []intent{
		{
			name: "workspace/repair", says: "Makes a damaged store valid again from what verifies.",
			admin: true, effects: write, writes: true, streams: true, opens: unopened, run: repair,
		},
		{
			name: "workspace/compact", says: "Drops the texts of what was deleted long ago and, if asked, of old states.",
			admin: true, effects: write, writes: true, streams: true, run: compact,
		},
	}
}

// repair shows what a repair would do or, with :apply?, does it (WS-173). The
// store is closed meanwhile; one that is in use is busy.
func repair(ctx context.Context, r *request) (edn.Value, error) {
	at, err := r.hub.locate(r.common.Workspace)
	if err != nil {
		return edn.Nil(), err
	}
	if err := r.hub.storeAt(at); err != nil {
		return edn.Nil(), err
	}
	apply := r.flag("apply?")
	var done *store.Repaired
	ran, err := r.hub.whileClosed(at, func() error {
		done, err = store.Repair(ctx, at.data, r.hub.options(at, r.cfg.Scheme).Store, apply)
		return err
	})
	switch {
	case err != nil:
		return edn.Nil(), err
	case !ran:
		return edn.Nil(), contract.Errorf("store/locked", "other requests use the workspace").WithOp("repair", at.root)
	}
	var out edn.MapBuilder
	out.Key("seq", edn.Int(0))
	steps := make([]string, len(done.Steps))
	for i, s := range done.Steps {
		steps[i] = string(s)
	}
	key := "would"
	if apply {
		key = "did"
	}
	out.Key(key, edn.Vector(keywords(steps)...))
	out.Key("lost", lostFrames(done.Lost))
	return out.Map(), nil
}

func lostFrames(list []store.LostFrame) edn.Value {
	lost := make([]edn.Value, 0, len(list))
	for _, f := range list {
		var b edn.MapBuilder
		b.Key("frame/id", idValue(f.Frame))
		putPath(&b, f.Path)
		b.Key("frame/type", edn.Text(f.Type))
		b.Key("seq", number(f.Seq))
		b.OptTrue("text?", f.Text)
		lost = append(lost, b.Map())
	}
	return edn.Vector(lost...)
}

// compact drops the texts of paths that were deleted long ago and, if asked, old states (WS-175).
func compact(ctx context.Context, r *request) (edn.Value, error) {
	c := store.Compaction{TTL: store.DefaultTTL, DryRun: r.flag("dry-run?")}
	if v := r.in.Key("ttl"); !v.IsNil() {
		ttl, err := duration(v, edn.K("ttl"))
		if err != nil {
			return edn.Nil(), err
		}
		c.TTL = ttl
	}
	if n, ok := r.in.Key("keep").AsInt(); ok {
		c.Keep = uint64(n)
	}
	done, err := r.ws.Store.Compact(ctx, r.actor, c)
	if err != nil {
		return edn.Nil(), err
	}
	return r.stamped(ctx, done.Seq, func(out *edn.MapBuilder) {
		out.Key("purged", number(done.Purged))
		out.Key("bytes-freed", number(done.Bytes))
		if done.Oldest > 0 {
			out.Key("oldest", number(done.Oldest))
		}
		out.OptTrue("dry-run?", c.DryRun)
	})
}
