package derive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/extract"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// job is one frame that is to be made.
type job struct {
	item     Item
	agent    string
	producer string // extract/…, synthesize or generate
	force    bool
	effect   string          // effect key of a request that forces what is fresh; else empty
	policy   *policy.Policy  // of synthesize
	sel      store.Selection // of a directory
	strict   bool            // an entry that is not ready is an error
	call     *callRecipe     // of generate
	began    int64
	batch    bool     // the path was not named: it is skipped if the producer does not suit it
	prompts  []string // texts to store with a generated frame

	// Read from the snapshot.
	asOf     uint64
	now      store.Version
	inputs   []store.Input
	frames   []policy.Frame
	existing []*store.Frame // with this basis
	text     []byte
	meta     edn.MapBuilder
	reuse    *store.Frame
	frame    store.NewFrame
	put      *store.Put
}

func (j *job) key() key { return key{j.item.Path, j.item.Type} }

// fail records an error. In a batch, a file that does not suit the producer is
// skipped.
func (j *job) fail(err error) {
	e := contract.AsError(err)
	if j.batch && slices.Contains([]string{"generate/binary", "generate/denied", "generate/too-large"}, e.Type) {
		j.skip(e.Message)
		return
	}
	j.item.Outcome, j.item.Err = Failed, e
}

func (j *job) skip(why string) { j.item.Outcome, j.item.Why = Skipped, why }

// forced makes the job run although its inputs have not changed, if force is true. All attempts at
// the request share one result: see effectKey.
func (j *job) forced(force bool, by Caller) {
	if force {
		j.force, j.effect = true, by.Effect
	}
}

// done reports whether the job has its outcome.
func (j *job) done() bool { return j.item.Outcome != "" }

// look reads what the job needs from the snapshot: the state of the path, its
// basis, and the frames that have the basis already.
func (e *Engine) look(ctx context.Context, v *store.Snapshot, j *job) error {
	if j.now.Mode != id.Dir || j.now.Node.IsZero() { // of a directory, nothing else matters
		now, err := v.Current(ctx, j.item.Path)
		if err != nil {
			return err
		}
		if now == nil {
			return contract.Errorf("path/not-in-tree", "the path is no longer in the tree").
				WithOp("derive", store.Shown(j.item.Path))
		}
		j.now = *now
	}
	j.asOf = v.Seq()
	var err error
	if j.producer == "synthesize" {
		err = e.lookDirectory(ctx, v, j)
	} else {
		err = lookFile(j)
	}
	if err != nil {
		return err
	}
	if j.existing, err = v.FramesOfBasis(ctx, j.item.Path, j.item.Type, j.agent, e.basisOf(j)); err != nil {
		return err
	}
	if j.reuse, err = j.attempted(ctx, v); err == nil && j.reuse == nil && !j.force {
		j.reuse, err = newestKept(ctx, v, j.existing)
	}
	return err
}

// newestKept returns the frame with the highest sample whose text is kept, nil if
// there is none.
func newestKept(ctx context.Context, v *store.Snapshot, list []*store.Frame) (*store.Frame, error) {
	for _, f := range slices.Backward(list) {
		if kept, err := v.HasText(ctx, f.Content); err != nil || kept {
			return f, err
		}
	}
	return nil, nil
}

// effectKey is the metadata key for the effect key of a forced request. By it, a repeated attempt
// at the request finds the sample that an earlier attempt made.
const effectKey = "effect/key"

// attempted returns the frame that an earlier attempt at the same request made, nil if there is
// none or its text was dropped.
func (j *job) attempted(ctx context.Context, v *store.Snapshot) (*store.Frame, error) {
	for _, f := range j.existing {
		if key, _ := f.Meta.Key(effectKey).AsString(); key != "" && key == j.effect {
			return newestKept(ctx, v, []*store.Frame{f})
		}
	}
	return nil, nil
}

// fits verifies that a file has at most limit bytes.
func (j *job) fits(limit int) error {
	if j.now.Size <= int64(limit) {
		return nil
	}
	return contract.Errorf("generate/too-large", "the file has %d bytes, more than %d", j.now.Size, limit).
		WithOp("generate", store.Shown(j.item.Path)).WithDetail("limit", edn.Int(int64(limit)))
}

func lookFile(j *job) error {
	if j.now.Mode != id.File && j.now.Mode != id.Exec {
		return contract.Errorf("input/invalid", "the producer %s requires a file, found the kind %s", j.producer,
			j.now.Mode.Kind()).WithOp("derive", store.Shown(j.item.Path))
	}
	if x, _ := extract.Get(j.producer); x.Whole {
		if err := j.fits(MaxSource); err != nil {
			return err
		}
	}
	j.inputs = []store.Input{
		{Kind: id.InputNode, ID: j.now.Node},
		{Kind: id.InputType, Text: []byte(j.item.Type)},
		{Kind: id.InputPolicy, Text: []byte(extractDigest(j.producer))},
	}
	return nil
}

func (e *Engine) lookDirectory(ctx context.Context, v *store.Snapshot, j *job) error {
	if j.now.Mode != id.Dir {
		return contract.Errorf("synthesis/not-directory", "the path is not a directory").
			WithOp("synthesize", store.Shown(j.item.Path))
	}
	selected, err := v.Select(ctx, j.item.Path, j.sel, true)
	if err != nil {
		return err
	}
	j.item.StaleInputs = selected.Stale
	if j.sel.OnStale == store.StaleFail && selected.Stale > 0 || j.sel.OnStale == store.StaleExclude {
		j.item.StaleInputs = 0
	}
	if j.sel.OnStale == store.StaleFail && selected.Stale > 0 {
		return notReady(j.item.Path, selected.StalePaths, "with stale frames")
	}
	if j.sel.Children != store.ChildrenSkip {
		if err := e.ready(ctx, v, j, selected); err != nil {
			return err
		}
	}
	digest, err := e.digest(j.policy, j.sel)
	if err != nil {
		return contract.AsError(err)
	}
	j.inputs = selected.Inputs(j.sel, j.now, j.item.Path, digest)
	settings := e.o.Settings()
	children := settings.sendable(selected.Children)
	j.frames = make([]policy.Frame, len(children))
	for i, c := range children {
		if j.sel.Binds == store.BindsInputs { // the basis does not hold these
			c.Node, c.Frame, c.State = id.ID{}, id.ID{}, ""
		}
		j.frames[i].Child = c
	}
	if j.policy.Intent != "" {
		return settings.refuse(j)
	}
	return nil
}

// ready verifies that every directory in a directory is ready: it has a head, and
// if the job is strict, a fresh one. Those that may not be sent are no inputs.
func (e *Engine) ready(ctx context.Context, v *store.Snapshot, j *job, selected *store.Selected) error {
	ready := map[string]bool{}
	for _, c := range selected.Children {
		if c.Mode == id.Dir && (!j.strict || c.State == store.Fresh) {
			ready[c.Path] = true
		}
	}
	missing, err := v.NotReady(ctx, j.item.Path, j.sel, ready)
	settings := e.o.Settings()
	missing = slices.DeleteFunc(missing, func(dir string) bool { return settings.denied(dir, id.Dir) != "" })
	if err != nil || len(missing) == 0 {
		return err
	}
	return notReady(j.item.Path, missing, "without a fresh frame")
}

func notReady(dir string, paths []string, what string) *contract.Error {
	list := make([]edn.Value, 0, min(len(paths), 100))
	for _, p := range paths[:min(len(paths), 100)] {
		list = append(list, store.ShownPath(p).Value())
	}
	text := fmt.Sprintf("1 entry %s: %s", what, store.Shown(paths[0]))
	if len(paths) > 1 {
		text = fmt.Sprintf("%d entries %s: %s and others", len(paths), what, store.Shown(paths[0]))
	}
	return contract.Errorf("synthesis/child-not-ready", "%s", text).
		WithOp("synthesize", store.Shown(dir)).WithDetail("paths", edn.Vector(list...)).
		WithHint("use :children :build to make their frames first")
}

// run makes the texts of jobs in parallel. The texts of child frames are read
// one after the other, since they come from one snapshot.
func (e *Engine) run(ctx context.Context, v *store.Snapshot, jobs []*job) error {
	for _, j := range jobs {
		if j.done() || j.reuse != nil {
			continue
		}
		if err := j.readFrames(ctx, v); err != nil {
			j.fail(err)
		}
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for _, j := range jobs {
		if j.done() || j.reuse != nil {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			defer func() {
				if p := recover(); p != nil { // of an extractor or a registered synthesizer
					j.fail(contract.Errorf("runtime/internal", "the producer %s panicked: %v", j.producer, p))
				}
			}()
			if err := e.produce(ctx, j); err != nil {
				j.fail(err)
			}
			j.frames = nil
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// readFrames reads the texts of the child frames.
func (j *job) readFrames(ctx context.Context, v *store.Snapshot) error {
	contents := make([]id.ID, len(j.frames))
	for i := range j.frames {
		contents[i] = j.frames[i].Content
	}
	texts, err := v.Contents(ctx, contents)
	if err != nil {
		return err
	}
	var dropped []string
	for i := range j.frames {
		text, ok := texts[j.frames[i].Content]
		if !ok {
			_, err := v.Content(ctx, j.frames[i].Content)
			if !errors.Is(err, store.ErrTextDropped) {
				return err
			}
			dropped = append(dropped, j.frames[i].Path)
			continue
		}
		j.frames[i].Text = string(text)
	}
	if len(dropped) > 0 {
		return notReady(j.item.Path, dropped, "with a frame whose text is no longer stored").
			WithHint("write a frame of that type for these entries again, or regenerate it")
	}
	return nil
}

// produce makes the text of one job, except for jobs that call a model.
func (e *Engine) produce(ctx context.Context, j *job) error {
	if j.producer == "synthesize" {
		return e.combine(ctx, j)
	}
	x, ok := extract.Get(j.producer)
	if !ok {
		return contract.Errorf("input/invalid", "unknown producer %q, expected one such as %s", j.producer, extract.Auto).
			WithOp("derive", store.Shown(j.item.Path))
	}
	data, err := e.source(ctx, j.item.Path, j.now)
	if err != nil {
		return err
	}
	text, err := x.Run(extract.File{Path: j.item.Path, Exec: j.now.Mode == id.Exec, Size: j.now.Size, Data: data})
	if err != nil {
		return err
	}
	j.text = []byte(text)
	return nil
}

// source reads a file, but of one that is larger than MaxSource it returns the first maxHead bytes.
// If the file is not the one of the tree, the error is frame/basis-mismatch.
func (e *Engine) source(ctx context.Context, path string, now store.Version) ([]byte, error) {
	changed := func(how string) error {
		return contract.Errorf("frame/basis-mismatch", "the file %s since the last scan", how).
			WithOp("read", store.Shown(path)).WithHint("scan again")
	}
	data, content, err := e.read(ctx, path, now.Size)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, changed("was removed")
	}
	if errors.Is(err, contract.OfType("store/io")) { // it says nothing about the file
		return nil, err
	}
	if err != nil {
		return nil, contract.Errorf("scan/unreadable", "%w", err).WithOp("read", store.Shown(path))
	}
	if content != now.Content {
		return nil, changed("changed")
	}
	return data, nil
}

// read returns what source does, and the content id of the whole file, which should have a size.
func (e *Engine) read(ctx context.Context, path string, size int64) (data []byte, content id.ID, err error) {
	f, err := e.o.Open(path)
	if err != nil {
		return nil, id.ID{}, err
	}
	defer func() { _ = f.Close() }()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	all := io.LimitReader(f, size+1) // one that has grown has another id
	if size <= MaxSource {
		data, err = io.ReadAll(all)
		return data, e.o.Store.Scheme.Bytes(data), err
	}
	blob := e.o.Store.Scheme.NewBlob()
	blob.Reset(size)
	data, err = io.ReadAll(io.TeeReader(io.LimitReader(all, maxHead), blob))
	if err == nil {
		_, err = io.Copy(blob, all)
	}
	return data, blob.ID(), err
}

func (e *Engine) combine(ctx context.Context, j *job) error {
	limit := cmp.Or(e.o.Settings().MaxFrame, store.MaxFrame)
	n := len(j.frames)
	r, err := j.policy.Text(ctx, j.item.Path, j.frames, limit, e.registry, e.customCall)
	if err != nil {
		return err
	}
	j.text = []byte(r.Text)
	j.meta.Key("policy", edn.K(string(j.policy.Kind)))
	j.meta.Key("child-frames", edn.Int(int64(n)))
	j.meta.OptInt("omitted", int64(r.Omitted))
	return nil
}

// finish makes the NewFrame of a job whose text is there.
func (e *Engine) finish(v *store.Snapshot, j *job) error {
	scheme := e.o.Store.Scheme
	origin, recipe := store.Extracted, store.Recipe(j.producer, edn.Nil(), edn.Nil())
	var sample uint64
	sampled := false
	if j.producer == "synthesize" {
		var err error
		if recipe, err = synthesisRecipe(j.policy, j.sel); err != nil {
			return err
		}
		origin, sampled = store.Synthesized, j.policy.Sampled()
	}
	if n := len(j.existing); n > 0 { // it was forced, or its text was dropped
		last := j.existing[n-1]
		if sampled {
			sample = last.Sample + 1
		} else if last.Content != scheme.Bytes(j.text) {
			return contract.Errorf("synthesis/nondeterministic", "the second run gave the content %s, the first one %s", scheme.Bytes(j.text), last.Content).
				WithOp(j.producer, store.Shown(j.item.Path))
		}
	}
	j.meta.Key("basis/id", edn.Text(e.basisOf(j).String()))
	if sampled {
		j.meta.OptText(effectKey, j.effect)
	}
	j.frame = store.NewFrame{
		Path:     j.item.Path,
		Type:     j.item.Type,
		Agent:    j.agent,
		Origin:   origin,
		Inputs:   j.inputs,
		Text:     j.text,
		Sample:   sample,
		Sampled:  sampled,
		Recipe:   recipe,
		Meta:     j.meta.Map(),
		MaxFrame: e.o.Settings().MaxFrame,
		AsOf:     j.asOf,
		Now:      j.now,
		First:    len(j.existing) == 0,
	}
	f := e.o.Store.Seal(j.frame, j.now)
	j.item.New = f.ID
	v.Assume(f, j.now, j.text)
	return nil
}

// commit appends the frame of a job, or moves its head.
func (j *job) commit(tx *store.Tx) (err error) {
	if j.reuse != nil {
		j.put, err = tx.MoveHead(j.reuse.ID, j.asOf)
	} else {
		j.put, err = tx.PutDerived(j.frame)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", store.Shown(j.item.Path), err)
	}
	return nil
}

// conclude records the outcome of a committed job.
func (j *job) conclude(now int64) {
	j.item.New, j.item.Nanos = j.put.Frame.ID, now-j.began
	j.item.Outcome = Made
	if j.put.Existing {
		j.item.Outcome = Reused
	}
}
