package main

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// batchConcurrency is the default number of concurrent items of a batch.
const batchConcurrency = 4

// batchIntents run other intents.
func batchIntents() []intent {
	return []intent{{
		name: "context/batch", says: "Runs a list of intents, or of writes in one transaction.",
		free: true, effects: either, writes: true, streams: true, run: batch,
	}}
}

// writing is a prepared item of an atomic batch: run writes it, answer adds its output after the
// commit.
type writing struct {
	run    func(*store.Tx) error
	answer func(*edn.MapBuilder)
}

// batch runs its items, each with its own checks of agent and input (WS-190).
func batch(ctx context.Context, r *request) (edn.Value, error) {
	if n, most := r.in.Key("items").Len(), r.cfg.MaxBatch; n > most {
		return edn.Nil(), contract.Errorf("limit/exceeded", "the batch has %d items, more than %d", n, most).
			WithDetail("limit", edn.K("batch")).WithDetail("max", number(most)).
			WithHint("divide it, or raise max_batch in the config block of the plugin")
	}
	items := make([]*request, 0, r.in.Key("items").Len())
	for v := range r.in.Key("items").Elems() {
		item, err := r.item(ctx, v, len(items))
		if err != nil {
			return edn.Nil(), err
		}
		items = append(items, item)
	}
	if r.flag("atomic?") {
		return r.atomic(ctx, items)
	}
	return r.each(ctx, items)
}

// item returns the request of an item. Agent and workspace are those of the batch
// unless the item names an agent; every item is about the same workspace.
func (r *request) item(_ context.Context, v edn.Value, n int) (*request, error) {
	at := edn.Vector(edn.K("items"), edn.Int(int64(n)), edn.K("intent"))
	name, _ := v.Key("intent").AsKeyword()
	i := r.server.table[name]
	if i == nil || name == "context/batch" || name == "workspace/watch" {
		return nil, invalid(at, ":%s cannot be an item of a batch", name)
	}
	in := v.Key("input")
	if in.IsNil() {
		in = edn.MustMap()
	}
	if in.HasKey("workspace") {
		return nil, invalid(edn.Vector(edn.K("items"), edn.Int(int64(n)), edn.K("input"), edn.K("workspace")),
			"the items of a batch are about the workspace of the batch")
	}
	if r.common.Agent != "" && !in.HasKey("agent/id") {
		in = in.AssocKey("agent/id", edn.Text(r.common.Agent))
	}
	if r.common.Fallback != "" && !in.HasKey("agent/fallback") {
		in = in.AssocKey("agent/fallback", edn.Text(r.common.Fallback))
	}
	return &request{running: r.running, server: r.server, intent: i, in: in, opened: r.opened, part: "/" + strconv.Itoa(n)}, nil
}

// each runs the items, a limited number of them concurrently. An item that fails does not affect
// the others.
func (r *request) each(ctx context.Context, items []*request) (edn.Value, error) {
	at := int64(batchConcurrency)
	if n, ok := r.in.Key("concurrency").AsInt(); ok {
		at = n
	}
	results := make([]edn.Value, len(items))
	var ok, done atomic.Int64
	show := r.progress("batch", "items")
	places := make(chan struct{}, at)
	var all sync.WaitGroup
	for n, item := range items {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			all.Wait()
			return edn.Nil(), contract.AsError(context.Cause(ctx))
		}
		all.Go(func() {
			defer func() { <-places }()
			out, err := item.runItem(ctx)
			if err != nil {
				results[n] = edn.MustMap(edn.K("error"), contract.AsError(err).Value())
			} else {
				results[n] = edn.MustMap(edn.K("out"), out)
				ok.Add(1)
			}
			show(int(done.Add(1)), len(items))
		})
	}
	all.Wait()
	return r.stamped(ctx, store.Latest, func(out *edn.MapBuilder) {
		out.Key("results", edn.Vector(results...))
		out.Key("ok", edn.Int(ok.Load()))
		out.Key("failed", edn.Int(int64(len(items))-ok.Load()))
	})
}

func (r *request) runItem(ctx context.Context) (out edn.Value, err error) {
	end := r.server.meter.begin(ctx, r.intent.name)
	defer func() { end(err) }()
	if err := r.check(ctx); err != nil {
		return edn.Nil(), err
	}
	return r.perform(ctx)
}

// ofItem names the item of an atomic batch that failed: the first is 0 in :items,
// and 1 for people.
func ofItem(n int, err error) error {
	e := contract.AsError(err)
	return e.WithOp("item "+strconv.Itoa(n+1)+": "+e.Op, e.Object).WithDetail("item", edn.Int(int64(n)))
}

// atomic runs all items in one transaction, or none. Only puts and invalidations
// can be items.
func (r *request) atomic(ctx context.Context, items []*request) (edn.Value, error) {
	writes := make([]*writing, len(items))
	for n, item := range items {
		fail := func(err error) (edn.Value, error) {
			return edn.Nil(), ofItem(n, err)
		}
		if item.intent.write == nil {
			return fail(invalid(edn.Vector(edn.K("items"), edn.Int(int64(n)), edn.K("intent")),
				":%s cannot be an item of an atomic batch: only :context/put-frame and :context/invalidate can", item.intent.name))
		}
		err := item.check(ctx)
		if err == nil {
			writes[n], err = item.intent.write(ctx, item)
		}
		if err != nil {
			return fail(err)
		}
	}
	results := make([]edn.Value, len(items))
	return r.update(ctx, func(tx *store.Tx) error {
		for n, w := range writes {
			if err := w.run(tx); err != nil {
				return ofItem(n, err)
			}
		}
		return nil
	}, func(out *edn.MapBuilder) {
		for n, w := range writes {
			var b edn.MapBuilder
			w.answer(&b)
			results[n] = edn.MustMap(edn.K("out"), b.Map())
		}
		out.Key("results", edn.Vector(results...))
		out.Key("ok", number(len(items)))
		out.Key("failed", edn.Int(0))
	})
}
