package main

import (
	"context"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// derivingIntents make frames from files and other frames.
func derivingIntents() []intent {
	return []intent{
		{
			name: "context/synthesize", says: "Makes the frame of a directory from the frames of its children.",
			needs: agent.Synthesize, effects: write, writes: true, streams: true, run: synthesize,
		},
		{
			name: "context/regenerate", says: "Makes those frames again whose inputs changed, and no others.",
			needs: agent.Regenerate, effects: write, writes: true, streams: true, run: regenerate,
		},
		{
			name: "context/invalidate", says: "Marks frames as invalid until they are made again.",
			needs: agent.Invalidate, effects: write, writes: true, run: invalidate, write: invalidWriting,
		},
		{
			name: "context/generate", says: "Has a model or an extractor write frames.",
			needs: agent.Generate, effects: write, writes: true, streams: true, plans: true, run: generate,
		},
	}
}

// caller returns the agent and the principal for which the engine makes frames. All attempts of a
// request have the same effect key, so a later attempt reuses the frames that an earlier one made
// by force.
func (r *request) caller() derive.Caller {
	return derive.Caller{Agent: r.agent.ID, Principal: r.actor, Effect: r.effect}
}

// synthesize makes the frame of one directory (WS-090).
func synthesize(ctx context.Context, r *request) (edn.Value, error) {
	path, err := r.pathOf(ctx, false)
	if err != nil {
		return edn.Nil(), err
	}
	word := func(key string) store.Word { return store.Word(r.word(key)) }
	done, err := r.engine.Synthesize(ctx, derive.SynthesizeRequest{
		Caller:   r.caller(),
		Path:     path,
		Type:     r.text("frame/type"),
		Into:     r.text("into"),
		Policy:   r.in.Key("policy"),
		Select:   word("select"),
		Children: word("children"),
		OnStale:  word("on-stale"),
		Binds:    word("binds"),
		Order:    word("order"),
		Truncate: r.flag("truncate?"),
		Force:    r.flag("force?"),
	})
	if err != nil {
		return edn.Nil(), err
	}
	r.server.meter.made(done.Built, done.Reused)
	out, err := r.stampedValue(ctx, done.Seq, done)
	if err != nil {
		return edn.Nil(), err
	}
	return out.AssocKey("frame/id", idValue(done.Frame.ID)).AssocKey("basis/id", idValue(done.Frame.Basis)), nil
}

// regenerate makes frames again whose inputs changed (WS-110).
func regenerate(ctx context.Context, r *request) (edn.Value, error) {
	asked, err := r.regeneration(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	done, err := r.engine.Regenerate(ctx, asked)
	if err != nil {
		return edn.Nil(), err
	}
	r.server.meter.made(done.Counts.File+done.Counts.Directory, done.Counts.Reused)
	return r.stamped(ctx, done.Seq, func(out *edn.MapBuilder) { putRegenerated(out, done) })
}

func (r *request) regeneration(ctx context.Context) (q derive.RegenerateRequest, err error) {
	q = derive.RegenerateRequest{
		Caller:    r.caller(),
		Recursive: r.flag("recursive?"),
		Types:     r.texts("frame/types"),
		Force:     r.flag("force?"),
		Deltas:    r.textDeltas(),
		Progress:  r.deriveProgress(),
	}
	if q.Path, q.Frame, err = r.target(ctx); err != nil {
		return q, err
	}
	if err := r.upTo(&q); err != nil {
		return q, err
	}
	if q.StopAt, err = r.paths("stop-at"); err != nil {
		return q, err
	}
	if err := r.wereDirectories(ctx, "stop-at", q.StopAt); err != nil {
		return q, err
	}
	missing, err := oneOf(r, "missing", "create", "skip")
	if err != nil {
		return q, err
	}
	q.CreateMissing, q.Policy = missing == "create", r.in.Key("policy")
	q.Concurrency = r.concurrency()
	generated, err := oneOf(r, "generated", "call", "skip")
	q.SkipGenerated = generated == "skip"
	return q, err
}

// target returns the node of the input, or the frame that it names in its place.
func (r *request) target(ctx context.Context) (path string, frame id.ID, err error) {
	if text := r.text("frame/id"); text != "" {
		frame, err = r.frameID(ctx, "frame/id", text)
		return "", frame, err
	}
	path, err = r.pathOf(ctx, true)
	return path, frame, err
}

// frameID returns the id of the frame that an entry of the input names (WS-181).
func (r *request) frameID(ctx context.Context, key, text string) (x id.ID, err error) {
	err = r.ws.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		x, err = v.FrameID(ctx, key, text)
		return err
	})
	return x, err
}

// upTo sets how far above its node a request reaches (WS-113).
func (r *request) upTo(q *derive.RegenerateRequest) error {
	v := r.in.Key("up")
	levels, isInt := v.AsInt()
	switch word := r.word("up"); {
	case v.IsNil() || word == "none" && v.IsKeyword():
	case word == "root" && v.IsKeyword():
		q.Up = derive.UpRoot
	case isInt && levels >= 0 && levels <= 1000:
		q.Up = int(levels)
	case v.IsString():
		path, err := store.CheckPath(word)
		q.UpTo, q.UpToSet = path, true
		return err
	default:
		return invalid(edn.Vector(edn.K("up")), "%s is not :none, :root, a number of levels or a path", v)
	}
	return nil
}

// paths returns a list of paths of the input.
func (r *request) paths(key string) ([]string, error) {
	list := r.texts(key)
	for i, text := range list {
		path, err := store.CheckPath(text)
		if err != nil {
			return nil, contract.AsError(err).WithDetail("at", edn.Vector(edn.K(key), edn.Int(int64(i))))
		}
		list[i] = path
	}
	return list, nil
}

// wereDirectories verifies that the paths under a key of the input are directories of the tree, or were at their end.
func (r *request) wereDirectories(ctx context.Context, key string, paths []string) error {
	return r.ws.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		for i, path := range paths {
			at := edn.Vector(edn.K(key), edn.Int(int64(i)))
			found, err := v.Resolve(ctx, store.Ref{Path: path}, true)
			if err != nil {
				return contract.AsError(err).WithDetail("at", at).WithHint("name a directory of the last scan")
			}
			if mode := found.States[0].Mode; mode != id.Dir {
				return invalid(at, "%s is not a directory, its kind is %s", store.Shown(path), mode.Kind())
			}
		}
		return nil
	})
}

func putRegenerated(out *edn.MapBuilder, done *derive.Regenerated) {
	out.Key("counts", countsValue(done.Counts))
	out.Key("items", itemsValue(done.Items))
	stale := make([]edn.Value, len(done.AuthoredStale))
	for i, s := range done.AuthoredStale {
		stale[i] = edn.Vector(store.ShownPath(s.Path).Value(), edn.Text(s.Type))
	}
	out.Key("authored-stale", edn.Vector(stale...))
	out.Key("stale-inputs", number(done.StaleInputs))
}

func countsValue(c derive.Counts) edn.Value {
	return edn.MustMap(edn.K("file"), number(c.File), edn.K("directory"), number(c.Directory), edn.K("reused"), number(c.Reused),
		edn.K("skipped"), number(c.Skipped), edn.K("failed"), number(c.Failed))
}

func itemsValue(list []derive.Item) edn.Value {
	all := make([]edn.Value, 0, min(len(list), maxListed))
	for _, x := range list[:min(len(list), maxListed)] {
		var b edn.MapBuilder
		putPath(&b, x.Path)
		b.Key("frame/type", edn.Text(x.Type))
		b.Key("old", idValue(x.Old))
		b.Key("new", idValue(x.New))
		b.OptKeyword("reason", string(x.Reason))
		b.Key("outcome", edn.K(string(x.Outcome)))
		b.OptText("why", x.Why)
		b.Key("ms", number(x.Nanos/1e6))
		b.OptInt("stale-inputs", int64(x.StaleInputs))
		b.Opt("attribution", x.Attribution)
		if x.Err != nil {
			b.Key("error", x.Err.Value())
		}
		all = append(all, b.Map())
	}
	return edn.Vector(all...)
}

// invalidate marks heads (WS-118).
func invalidate(ctx context.Context, r *request) (edn.Value, error) {
	return r.commit(ctx, invalidWriting)
}

func invalidWriting(ctx context.Context, r *request) (*writing, error) {
	path, frame, err := r.target(ctx)
	if err != nil {
		return nil, err
	}
	var marked int
	return &writing{
		run: func(tx *store.Tx) (err error) {
			if frame.IsZero() {
				marked, err = tx.Invalidate(path, r.flag("recursive?"), r.texts("frame/types"))
			} else {
				marked, err = tx.InvalidateFrame(frame)
			}
			return err
		},
		answer: func(out *edn.MapBuilder) { out.Key("invalidated", number(marked)) },
	}, nil
}

// generate makes frames by models and extractors (WS-140).
func generate(ctx context.Context, r *request) (edn.Value, error) {
	phase, err := oneOf(r, "phase", "prepare", "commit")
	if err != nil {
		return edn.Nil(), err
	}
	if phase == "commit" {
		return r.commitTicket(ctx)
	}
	mode, err := oneOf(r, "mode", "value", "plan")
	if err != nil {
		return edn.Nil(), err
	}
	asked, err := r.generation(ctx)
	switch {
	case err != nil:
		return edn.Nil(), err
	case phase == "prepare":
		return r.prepare(ctx, asked)
	case mode == "plan":
		return r.plan(ctx, asked)
	}
	done, err := r.engine.Generate(ctx, asked)
	if err != nil {
		return edn.Nil(), err
	}
	r.server.meter.made(done.Counts.File+done.Counts.Directory, done.Counts.Reused)
	return r.stamped(ctx, done.Seq, func(out *edn.MapBuilder) {
		out.Key("counts", countsValue(done.Counts))
		out.Key("items", itemsValue(done.Items))
		if len(done.Items) == 1 && !asked.Recursive {
			one := done.Items[0]
			out.Opt("frame/id", idValue(one.New))
			out.Key("frame/existing?", edn.Bool(one.Outcome == derive.Reused))
			out.Opt("attribution", one.Attribution)
		}
	})
}

func (r *request) generation(ctx context.Context) (q derive.GenerateRequest, err error) {
	q = derive.GenerateRequest{
		Caller:          r.caller(),
		Recursive:       r.flag("recursive?"),
		Type:            r.text("frame/type"),
		Producer:        r.word("producer"),
		Intent:          r.word("intent"),
		Model:           r.model(),
		Prompt:          r.text("prompt"),
		Params:          r.in.Key("params"),
		Call:            callOptions(ctx),
		Force:           r.flag("force?"),
		IfModelChanged:  r.flag("if-model-changed?"),
		AcceptTruncated: r.flag("accept-truncated?"),
		Deltas:          r.textDeltas(),
		Progress:        r.deriveProgress(),
	}
	q.Concurrency = r.concurrency()
	if q.OnFailure, err = oneOf(r, "on-failure", derive.Continue, derive.StopLevel, derive.Stop); err != nil {
		return q, err
	}
	priority, err := oneOf(r, "priority", derive.Urgent, derive.High, derive.Normal, derive.Low)
	if err != nil {
		return q, err
	}
	q.Targets, err = r.targets(ctx, priority)
	return q, err
}

// concurrency returns the number of calls at a time, 0 for that of the settings.
func (r *request) concurrency() int {
	n, _ := r.in.Key("concurrency").AsInt()
	return int(n)
}

// model returns the id of the model of the input, which is a text or a handle.
func (r *request) model() string {
	if id, ok := contract.HandleOf(r.in.Key("model")); ok {
		return id
	}
	return strings.TrimPrefix(r.word("model"), ":")
}

// targets returns the nodes of the input: those of :targets, else the one that
// it names.
func (r *request) targets(ctx context.Context, priority derive.Priority) (list []derive.Target, err error) {
	asked := r.in.Key("targets")
	if asked.IsNil() {
		path, err := r.pathOf(ctx, false)
		return []derive.Target{{Path: path, Priority: priority}}, err
	}
	for v := range asked.Elems() {
		target := derive.Target{Priority: priority}
		text, ok := v.AsString()
		if v.IsMap() {
			text, ok = v.Key("path").AsString()
			if own, given := v.Key("priority").AsKeyword(); given {
				target.Priority = derive.Priority(own)
			}
		}
		if !ok {
			return nil, invalid(edn.Vector(edn.K("targets"), edn.Int(int64(len(list)))), "%s is not a path", v)
		}
		if target.Path, err = store.CheckPath(text); err != nil {
			return nil, err
		}
		list = append(list, target)
	}
	return list, nil
}

func (r *request) deriveProgress() func(derive.Progress) {
	if r.out == nil {
		return nil
	}
	return func(p derive.Progress) { r.progress(p.Phase, "frames")(p.Done, p.Total) }
}

// textDeltas returns the function that relays provisional text, nil if the caller
// reads no stream (WS-146).
func (r *request) textDeltas() func(derive.Delta) {
	if r.out == nil {
		return nil
	}
	return func(d derive.Delta) {
		var b edn.MapBuilder
		b.Key("kind", edn.K("provisional"))
		at := store.PlaceOf(d.Path)
		b.OptText("path", at.Text)
		b.OptText("path/b64", at.Raw)
		b.Key("frame/type", edn.Text(d.Type))
		b.Key("text", edn.Text(d.Text))
		_ = r.out.Delta(b.Map()) // a caller that is gone cancels the call
	}
}
