package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// watchIntents follow the directory.
func watchIntents() []intent {
	return []intent{{
		name: "workspace/watch", says: "Commits changes of the directory as they happen and streams them.",
		needs: agent.Scan, alsoNeeds: watchNeeds, effects: write, writes: true, streams: true, opens: creating, run: watchTree,
	}}
}

func watchNeeds(in edn.Value) []agent.Capability {
	if in.Key("regenerate").IsNil() {
		return nil
	}
	return []agent.Capability{agent.Regenerate}
}

// watchTree streams events until the caller is gone, the directory is lost, or
// :max-changes changes were sent (WS-163).
func watchTree(ctx context.Context, r *request) (edn.Value, error) {
	o, err := r.subscription(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	leave, err := r.hub.enterWatch(r.opened)
	if err != nil {
		return edn.Nil(), err
	}
	defer leave()
	w, done, err := r.watcherOf()
	if err != nil {
		return edn.Nil(), err
	}
	defer done()
	events, end := untilDrained(ctx)
	defer end()
	sub, err := w.Subscribe(events, o.Within(ctx)) // a regeneration is finished
	if err != nil {
		return edn.Nil(), err
	}
	defer sub.Close()
	most, _ := r.in.Key("max-changes").AsInt()
	var changes int64
	for most == 0 || changes < most {
		e, err := sub.Next(events)
		if err != nil {
			return edn.Nil(), err
		}
		r.server.meter.watched(e)
		if err := r.out.Delta(eventValue(e)); err != nil {
			return edn.Nil(), err
		}
		if e.Kind == watch.Change || e.Kind == watch.Rescan {
			changes++
		}
	}
	return r.stamped(ctx, store.Latest, func(out *edn.MapBuilder) { out.Key("changes", edn.Int(changes)) })
}

// untilDrained returns a context that also ends when the host begins to drain the plugin: the
// process that replaces this one needs the store, and continues after the last transaction that was
// sent.
func untilDrained(ctx context.Context) (context.Context, func()) {
	draining := sdk.Draining(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-draining:
			cancel(contract.Errorf("runtime/not-ready", "the process of the plugin is being replaced or stopped").
				WithOp("watch", "").WithHint("watch again, with :after and the last transaction"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// watcherOf returns the watcher of the workspace. The first request decides how
// long it waits for more changes.
func (r *request) watcherOf() (w *watch.Watcher, done func(), err error) {
	scanning, err := r.scanOptions()
	if err != nil {
		return nil, nil, err
	}
	scanning.Progress = nil
	ms := func(key string) time.Duration {
		n, _ := r.in.Key(key).AsInt()
		return time.Duration(n) * time.Millisecond
	}
	w, done = r.opened.watcher(watch.Options{
		Debounce:  ms("debounce"),
		Batch:     ms("batch"),
		Reconcile: ms("reconcile"),
		Scan:      scanning,
	})
	return w, done, nil
}

// subscription returns what a subscription does besides reporting changes.
func (r *request) subscription(ctx context.Context) (o watch.SubscribeOptions, err error) {
	if after, ok := r.in.Key("after").AsInt(); ok {
		seq := uint64(after)
		o.After = &seq
	}
	if !r.in.Key("regenerate").IsNil() {
		if o.Regenerate, err = r.regenerateAfter(); err != nil {
			return o, err
		}
	}
	if hook := r.in.Key("on-change"); !hook.IsNil() {
		name, _ := hook.Key("intent").AsKeyword()
		if err := policy.CheckIntent(name, edn.K("on-change"), edn.K("intent")); err != nil {
			return o, err
		}
		if err := r.served(ctx, name); err != nil {
			return o, err
		}
		o.OnChange = func(ctx context.Context, e *watch.Event) error {
			input := eventValue(e).AssocKey("workspace", edn.Text(r.root))
			if params := hook.Key("params"); !params.IsNil() {
				input = input.AssocKey("params", params)
			}
			_, err := r.ask(ctx, sdk.Ask{Intent: name, Input: input})
			return err
		}
	}
	return o, nil
}

// served returns an error if the host has no capability for the intent of a hook: calls of such an
// intent would fail after each change, unnoticed.
func (r *request) served(ctx context.Context, intent string) error {
	_, err := sdk.HostFrom(ctx).Describe(ctx, sdk.Ref{Intent: intent})
	if !errors.Is(err, contract.OfType("invalid-request")) {
		return nil // the first change reports other problems
	}
	return invalid(edn.Vector(edn.K("on-change"), edn.K("intent")), "the host serves no intent :%s", intent).
		WithHint("name an intent of the configuration")
}

// regenerateAfter returns a function that regenerates frames after a batch of changes (WS-164):
// below the highest directory in scope, every frame of the types that is not fresh; with a number
// of levels, those of the changed paths and of as many ancestors. A failure does not stop the
// batch; the path is tried again after the next batch.
func (r *request) regenerateAfter() (func(context.Context, *watch.Event) (any, error), error) {
	of := *r
	of.in = r.in.Key("regenerate")
	q := derive.RegenerateRequest{Caller: r.caller(), Types: of.texts("frame/types"), Up: derive.UpRoot}
	if !of.in.Key("up").IsNil() {
		q.Up = 0
		if err := of.upTo(&q); err != nil {
			return nil, err
		}
	}
	var err error
	if q.StopAt, err = of.paths("stop-at"); err != nil {
		return nil, err
	}
	pending := map[string]derive.RegenerateRequest{} // by path
	return func(ctx context.Context, e *watch.Event) (any, error) {
		if err := r.addPending(ctx, pending, q, e.Changes); err != nil {
			return nil, err
		}
		var total derive.Regenerated
		var problems []error
		for _, path := range deepestFirst(pending) {
			done, err := r.engine.Regenerate(ctx, pending[path])
			switch {
			case context.Cause(ctx) != nil:
				return nil, context.Cause(ctx)
			case store.IsMissing(err): // the next batch has its removal
				delete(pending, path)
			case err != nil:
				problems = append(problems, err)
			default:
				if total.Add(done); done.Counts.Failed == 0 {
					delete(pending, path)
				}
			}
		}
		r.server.meter.made(total.Counts.File+total.Counts.Directory, total.Counts.Reused)
		var out edn.MapBuilder
		putRegenerated(&out, &total)
		return out.Map(), errors.Join(problems...)
	}, nil
}

// addPending adds the requests for a batch: one for everything in scope if the scope has a highest
// directory or the batch does not list all changes, else one per path. For a path that is gone, it
// is the nearest existing directory above.
func (r *request) addPending(ctx context.Context, pending map[string]derive.RegenerateRequest,
	q derive.RegenerateRequest, c *watch.Changes) error {
	if q.UpToSet || q.Up == derive.UpRoot || !c.Complete() {
		q.Path, q.Recursive = q.UpTo, true
		pending[q.Path] = q
		return nil
	}
	add := func(path string) {
		q.Path, q.Recursive = path, pending[path].Recursive
		pending[path] = q
	}
	for _, path := range slices.Concat(c.Added, c.Modified) {
		add(path)
	}
	return r.ws.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		for _, path := range c.Removed {
			dir, err := v.DirectoryAbove(ctx, path)
			if err != nil {
				return err
			}
			add(dir)
		}
		return nil
	})
}

// deepestFirst returns the paths so that the inputs of a frame come before it.
func deepestFirst(pending map[string]derive.RegenerateRequest) []string {
	return slices.SortedFunc(maps.Keys(pending), func(a, b string) int {
		return cmp.Or(tree.Depth(b)-tree.Depth(a), strings.Compare(a, b))
	})
}

// watchState says whether the directory is watched.
func (r *request) watchState() edn.Value {
	s := r.opened.watchState()
	if s.Subscriptions == 0 {
		return edn.K("off")
	}
	var b edn.MapBuilder
	b.Key("subscriptions", number(s.Subscriptions))
	b.Key("watched", number(s.Watched))
	b.Key("polled", number(s.Polled))
	b.Key("overflows", number(s.Overflows))
	b.OptTrue("degraded?", s.Polled > 0)
	if s.Err != nil {
		b.Key("error", contract.AsError(s.Err).Value())
	}
	return b.Map()
}

// eventValue returns an event as the payload of a delta.
func eventValue(e *watch.Event) edn.Value {
	var b edn.MapBuilder
	b.Key("kind", edn.K("event"))
	b.Key("event", edn.K(string(e.Kind)))
	b.Key("event/seq", number(e.Seq))
	b.Key("commit", number(e.Commit))
	b.Opt("root", idValue(e.Root))
	if c := e.Changes; c != nil {
		b.Key("added", pathList(c.Added))
		b.Key("modified", pathList(c.Modified))
		b.Key("removed", pathList(c.Removed))
		b.Key("ancestors", pathList(c.Ancestors))
		renamed := make([]edn.Value, len(c.Renamed))
		for i, x := range c.Renamed {
			renamed[i] = moved(x.From, x.To)
		}
		b.Key("renamed", edn.Vector(renamed...))
		b.Key("added/count", number(c.Counts.Added))
		b.Key("modified/count", number(c.Counts.Modified))
		b.Key("removed/count", number(c.Counts.Removed))
		b.OptTrue("summary?", c.Summary)
	}
	if e.Polled > 0 {
		b.Key("polled", number(e.Polled))
	}
	if e.Err != nil {
		b.Key("error", contract.AsError(e.Err).Value())
	}
	if e.Report != nil {
		if v, err := edn.Encode(e.Report); err == nil {
			b.Key("report", v)
		}
	}
	return b.Map()
}
