package derive

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// call calls the model for the jobs of a level concurrently. Each job commits its frame in a
// transaction of its own.
func (w *work) call(ctx context.Context, jobs []*job) error {
	slices.SortStableFunc(jobs, func(a, b *job) int { return cmp.Compare(a.call.order, b.call.order) })
	n := cmp.Or(w.concurrency, w.e.o.Settings().Concurrency, defaultConcurrency)
	var all sync.WaitGroup
	var mu sync.Mutex
	var last atomic.Uint64
	conclude := func(j *job) {
		mu.Lock()
		defer mu.Unlock()
		w.done = append(w.done, j)
		if j.item.Outcome == Failed {
			w.failed.Store(true)
		} else {
			w.changed(j)
		}
		w.report()
	}
	for _, j := range jobs {
		leave, err := w.e.calls.enter(ctx, j.agent, n)
		if err != nil {
			all.Wait()
			return contract.AsError(err)
		}
		if w.onFailure == Stop && w.failed.Load() {
			leave()
			j.skip("an earlier call failed")
			conclude(j)
			continue
		}
		all.Go(func() {
			defer leave()
			seq, err := w.e.generate(ctx, w, j)
			for seq > last.Load() && !last.CompareAndSwap(last.Load(), seq) {
			}
			if err != nil {
				j.fail(err)
			}
			j.item.Nanos = w.e.o.Now() - j.began
			conclude(j)
		})
	}
	all.Wait()
	w.seq = max(w.seq, last.Load())
	return context.Cause(ctx)
}

// generate makes one frame with a model. Its inputs are read again before it is committed; if they
// changed meanwhile, the call is repeated, at most 3 times.
func (e *Engine) generate(ctx context.Context, w *work, j *job) (seq uint64, err error) {
	keys := []key{j.key()}
	if _, err := e.flight.acquire(ctx, keys, store.Latest); err != nil {
		return 0, err
	}
	defer func() { e.flight.release(keys, seq) }()
	for range maxAttempts {
		j.reuse, j.meta = nil, edn.MapBuilder{}
		var input edn.Value
		err = e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) (err error) {
			input, err = e.prepare(ctx, v, j)
			return err
		})
		if err == nil && j.reuse == nil {
			err = e.ask(ctx, w, j, input)
		}
		if err != nil {
			return 0, err
		}
		seq, err = e.o.Store.Update(ctx, w.caller.actor(), func(tx *store.Tx) error { return e.append(tx, j) })
		if err == nil {
			j.conclude(e.o.Now())
			if a := j.put.Frame.Meta; !a.Key("attribution/source").IsNil() {
				j.item.Attribution = attributionOf(a)
			}
			return seq, nil
		}
		if !errors.Is(err, store.ErrMoved) {
			return 0, err
		}
	}
	return 0, contract.Errorf("regenerate/contended", "gave up after %d attempts: %w", maxAttempts, err).
		WithOp("generate", store.Shown(j.item.Path))
}

// ask calls the intent and makes the NewFrame of its answer.
func (e *Engine) ask(ctx context.Context, w *work, j *job, input edn.Value) error {
	c := Call{Intent: string(j.call.Intent), Input: input, CapID: j.call.model}
	if w.deltas != nil {
		c.Delta = func(text string) { w.deltas(Delta{Path: j.item.Path, Type: j.item.Type, Text: text}) }
	}
	a, err := e.invoke(ctx, j.item.Path, c)
	if err != nil {
		return err
	}
	text, err := textOf(a)
	if err != nil {
		return contract.AsError(err).WithOp("generate", store.Shown(j.item.Path)).WithSource(contract.SourceDownstream)
	}
	finish, _ := a.Meta.Key("finish").AsKeyword()
	if finish == "" {
		finish, _ = a.Meta.Key("finish").AsString()
	}
	return e.accept(j, text, finish, attribution(a))
}

// accept makes the NewFrame of an answer.
func (e *Engine) accept(j *job, text, finish string, by edn.Value) error {
	switch {
	case strings.TrimSpace(text) == "":
		return contract.Errorf("generate/empty", "the model returned no text").
			WithOp("generate", store.Shown(j.item.Path))
	case (finish == "length" || finish == "max-tokens") && !j.call.acceptTruncated:
		return contract.Errorf("generate/truncated", "the answer was cut at its limit").
			WithOp("generate", store.Shown(j.item.Path)).
			WithHint("raise :max-tokens, or set :accept-truncated? true")
	}
	fixed, repaired := repair(text)
	if repaired {
		j.meta.Key("content/repaired?", edn.Bool(true))
	}
	recipe, err := j.call.recipe()
	if err != nil {
		return err
	}
	for _, in := range j.inputs {
		j.meta.Key(in.Kind+"/id", edn.Text(in.ID.String()))
	}
	sample := nextSample(j.existing)
	j.meta.Key("sample", edn.Int(int64(sample)))
	j.meta.OptText(effectKey, j.effect)
	if a, err := e.o.Agents().Get(j.agent); err == nil && !e.o.Settings().DropPrompts {
		j.prompts = []string{a.Prompts.System, j.call.template(a)}
		scheme := e.o.Store.Scheme
		j.meta.Key("prompt", edn.MustMap(
			edn.K("system"), edn.Text(scheme.Bytes([]byte(j.prompts[0])).String()),
			edn.K("user"), edn.Text(scheme.Bytes([]byte(j.prompts[1])).String())))
	}
	meta := j.meta.Map().Merge(by)
	j.frame = store.NewFrame{
		Path:     j.item.Path,
		Type:     j.item.Type,
		Agent:    j.agent,
		Origin:   store.Generated,
		Inputs:   j.inputs,
		Text:     []byte(fixed),
		Sample:   sample,
		Recipe:   recipe,
		Meta:     meta,
		MaxFrame: e.o.Settings().MaxFrame,
	}
	return nil
}

// append commits a generated frame with the texts of its prompt. If another request has used the
// number of the sample meanwhile, the next free one is used.
func (e *Engine) append(tx *store.Tx, j *job) error {
	if j.reuse != nil {
		return j.commit(tx)
	}
	for _, p := range j.prompts {
		if _, err := tx.PutContent([]byte(p)); err != nil {
			return err
		}
	}
	for {
		err := j.commit(tx)
		if !errors.Is(err, contract.OfType("frame/immutable")) {
			return err
		}
		j.frame.Sample++
		j.frame.Meta = j.frame.Meta.AssocKey("sample", edn.Int(int64(j.frame.Sample)))
	}
}

// attributionOf returns the attribution in the metadata of a frame.
func attributionOf(meta edn.Value) edn.Value {
	var b edn.MapBuilder
	for _, k := range []string{"cap/id", "provider", "finish", "prompt/hash", "usage", "attempts", "attribution/source"} {
		b.Opt(k, meta.Key(k))
	}
	return b.Map()
}
