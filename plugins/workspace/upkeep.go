package main

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/report"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// upkeepIntents are about the store as a whole.
func upkeepIntents() []intent {
	return []intent{
		{
			name: "workspace/status", says: "Counts nodes, frames and heads, and says whether the directory is watched.",
			needs: agent.ReadWorkspace, effects: read, streams: true, run: status,
		},
		{
			name: "workspace/snapshot", says: "Lists, creates and removes names of states.",
			needs: agent.ReadWorkspace, alsoNeeds: changing, effects: either, writes: true, run: snapshots,
		},
		{
			name: "workspace/delete", says: "Marks a subtree as deleted; nothing is discarded.",
			admin: true, effects: write, writes: true, streams: true, run: deleteSubtree,
		},
		{
			name: "workspace/restore", says: "Removes the marks of deletion from a subtree.",
			admin: true, effects: write, writes: true, streams: true, run: restoreSubtree,
		},
	}
}

// changing returns the capabilities that an input needs in addition if its :op is a change.
func changing(in edn.Value) []agent.Capability {
	switch op, _ := in.Key("op").AsKeyword(); op {
	case "create", "remove", "add":
		return []agent.Capability{agent.Scan}
	}
	return nil
}

// otherDirectory is the warning about a store of data_dir whose directory was replaced.
const otherDirectory = "the directory is not the one that the last scan read, so all answers are about that one until " +
	"`ferment workspace scan`"

// status counts the nodes, frames and heads of a workspace. With :deleted it also lists the deleted
// paths.
func status(ctx context.Context, r *request) (edn.Value, error) {
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		facts, err := report.Collect(ctx, v, "")
		if err != nil {
			return err
		}
		counted := report.StatusOf(facts, report.StatusRequest{Breakdown: r.flag("breakdown?"), Coverage: r.flag("coverage?")})
		r.server.meter.stale.Store(int64(counted.Heads["stale"]))
		if err := putStruct(out, counted); err != nil {
			return err
		}
		out.Key("workspace/id", edn.Text(r.ws.Store.Identity.ID))
		out.Key("scheme", edn.Text(r.ws.Store.Identity.Scheme))
		out.Key("damaged?", edn.Bool(r.ws.Store.Damage() != nil))
		out.Key("watch", r.watchState())
		rebuilt, err := v.Rebuilt(ctx)
		if err != nil {
			return err
		}
		var reasons []string
		if r.ws.OtherDirectory() {
			reasons = append(reasons, otherDirectory)
		}
		for _, f := range rebuilt {
			reasons = append(reasons, f.Reason)
		}
		out.OptText("warning", strings.Join(reasons, "; "))
		if counted.Scanned {
			scanned, err := v.Scanned(ctx)
			if err != nil {
				return err
			}
			out.Key("tree/complete?", edn.Bool(!scanned.Incomplete))
		}
		return r.putDeleted(ctx, v, out)
	})
}

func (r *request) putDeleted(ctx context.Context, v *store.Snapshot, out *edn.MapBuilder) error {
	asked := r.in.Key("deleted")
	if asked.IsNil() {
		return nil
	}
	before := int64(math.MaxInt64)
	if age := asked.Key("older-than"); !age.IsNil() {
		d, err := duration(age, edn.K("deleted"), edn.K("older-than"))
		if err != nil {
			return err
		}
		before = r.server.now().Add(-d).UnixNano()
	}
	list, err := v.Deleted(ctx, before)
	if err != nil {
		return err
	}
	paths := make([]edn.Value, len(list))
	for i, d := range list {
		paths[i], err = edn.Encode(struct {
			store.Place
			Since   uint64    `edn:"since"`
			At      time.Time `edn:"at"`
			Frames  int       `edn:"frames"`
			Dropped int       `edn:"dropped,omitempty"`
		}{store.PlaceOf(d.Path), d.Since, d.At, d.Frames, d.Dropped})
		if err != nil {
			return err
		}
	}
	out.Key("deleted", edn.Vector(paths...))
	return nil
}

// duration reads "90d", "12h" or a number of milliseconds.
func duration(v edn.Value, path ...edn.Value) (time.Duration, error) {
	if ms, ok := v.AsInt(); ok && ms >= 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
		return time.Duration(ms) * time.Millisecond, nil
	}
	text, _ := v.AsString()
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, invalid(edn.Vector(path...), "%s is not a duration such as \"90d\" or \"12h\"", v)
}

// snapshots lists, creates and removes names of states (WS-175).
func snapshots(ctx context.Context, r *request) (edn.Value, error) {
	name := r.text("name")
	switch r.word("op") {
	case "list":
		return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
			list, err := v.Snapshots(ctx)
			if err != nil {
				return err
			}
			names := make([]edn.Value, len(list))
			for i, s := range list {
				names[i] = edn.MustMap(edn.K("name"), edn.Text(s.Name), edn.K("commit"), number(s.Seq))
			}
			out.Key("snapshots", edn.Vector(names...))
			return nil
		})
	case "remove":
		var removed bool
		return r.update(ctx, func(tx *store.Tx) (err error) {
			removed, err = tx.RemoveSnapshot(name)
			return err
		}, func(out *edn.MapBuilder) {
			out.Key("name", edn.Text(name))
			out.Key("removed?", edn.Bool(removed))
		})
	}
	at := uint64(0) // the latest
	if seq, ok := r.in.Key("commit").AsInt(); ok {
		at = uint64(seq)
	}
	var named uint64
	return r.update(ctx, func(tx *store.Tx) (err error) {
		named, err = tx.SetSnapshot(name, at)
		return err
	}, func(out *edn.MapBuilder) {
		out.Key("name", edn.Text(name))
		out.Key("commit", number(named))
	})
}

func deleteSubtree(ctx context.Context, r *request) (edn.Value, error) {
	return r.mark(ctx, "tombstoned", (*store.Tx).Delete)
}

func restoreSubtree(ctx context.Context, r *request) (edn.Value, error) {
	return r.mark(ctx, "restored", (*store.Tx).Restore)
}

// mark deletes or restores a subtree; with :dry-run? it only counts (WS-175).
func (r *request) mark(ctx context.Context, counted string, change func(*store.Tx, string) ([]string, error)) (edn.Value, error) {
	path, err := r.pathOf(ctx, true)
	if err != nil {
		return edn.Nil(), err
	}
	var done []string
	dropped := 0
	run := func(tx *store.Tx) (err error) {
		if done, err = change(tx, path); err == nil && counted == "restored" {
			dropped, err = tx.Dropped(done)
		}
		return err
	}
	answer := func(out *edn.MapBuilder) {
		out.Key(counted, number(len(done)))
		out.OptInt("dropped", int64(dropped))
		out.OptTrue("dry-run?", r.flag("dry-run?"))
	}
	return r.updateOrPreview(ctx, run, answer)
}

// updateOrPreview is update; with :dry-run? nothing is committed.
func (r *request) updateOrPreview(ctx context.Context, run func(*store.Tx) error, answer func(*edn.MapBuilder)) (edn.Value, error) {
	if !r.flag("dry-run?") {
		return r.update(ctx, run, answer)
	}
	if err := r.ws.Store.Preview(ctx, run); err != nil {
		return edn.Nil(), err
	}
	return r.stamped(ctx, store.Latest, answer)
}

// pathOf returns the path of the node that the input names. It must be in the tree, or
// have been there and be deleted, if that is wanted.
func (r *request) pathOf(ctx context.Context, deleted bool) (path string, err error) {
	err = r.ws.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		found, err := r.resolve(ctx, v, deleted)
		if err == nil {
			path = found.Path
		}
		return err
	})
	return path, err
}
