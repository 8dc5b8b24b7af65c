package derive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/extract"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The targets of a call.
const (
	targetFile      store.Word = "file"
	targetDirectory store.Word = "directory"
)

// callRecipe describes a call of a model for a frame. The exported fields are stored as the
// parameters of the recipe.
type callRecipe struct {
	Intent    store.Word       `edn:"intent"`
	Target    store.Word       `edn:"target"`
	Selection *store.Selection `edn:"selection,omitempty"` // of a directory
	// Prompt is the content id of a prompt that replaces that of the agent.
	Prompt id.ID     `edn:"prompt"`
	Params edn.Value `edn:"params"`

	prompt          string // text of Prompt
	model           string
	force           bool
	ifModelChanged  bool
	acceptTruncated bool
	order           int // of the call in its level
}

// callRecipeOf reads the recipe of a generated frame.
func (e *Engine) callRecipeOf(ctx context.Context, v *store.Snapshot, f *store.Frame) (*callRecipe, error) {
	c, err := readCallRecipe(f)
	if err != nil {
		return nil, err
	}
	// If the agent names no model, the host chooses one, as it did for the first call: a plugin may
	// name only capabilities for which the request has a handle (ENV-018).
	if a, err := e.o.Agents().Get(f.Agent); err == nil {
		c.model = a.Model
	}
	if c.Prompt.IsZero() {
		return c, nil
	}
	text, err := v.Content(ctx, c.Prompt)
	if err != nil {
		return nil, contract.Errorf("agent/prompt-missing", "the prompt of the request that made the frame is not stored: %w", err).
			WithOp("generate", store.Shown(f.Path)).WithHint("generate it with the prompt again, or set store_prompts = true")
	}
	c.prompt = string(text)
	return c, nil
}

func readCallRecipe(f *store.Frame) (*callRecipe, error) {
	c := &callRecipe{}
	if err := edn.Decode(f.Recipe.Key("params"), c); err != nil {
		return nil, contract.Errorf("store/corrupt", "the recipe of frame %s cannot be read: %w", f.ID, err).WithOp("generate", store.Shown(f.Path))
	}
	return c, nil
}

// recipe returns the recipe of a frame that the call makes.
func (c *callRecipe) recipe() (edn.Value, error) {
	params, err := edn.Encode(c)
	if err != nil {
		return edn.Nil(), contract.Errorf("runtime/internal", "encode the parameters of a generation recipe: %w", err)
	}
	return store.Recipe("generate", edn.Nil(), params), nil
}

// promptID returns the id of the prompt of the agent or the request, and of the system prompt of
// the agent, which replaces all prompt layers of the host (PRM-003). The third part of the id,
// which would identify those layers, is empty.
func (c *callRecipe) promptID(scheme id.Scheme, a *agent.Agent) id.ID {
	user := "request " + c.Prompt.String()
	if c.Prompt.IsZero() {
		user = "agent " + c.template(a)
	}
	return scheme.Prompt(a.Prompts.System, user, "")
}

// template returns the prompt before its placeholders are filled in.
func (c *callRecipe) template(a *agent.Agent) string {
	switch {
	case !c.Prompt.IsZero():
		return c.prompt
	case c.Target == targetDirectory:
		return a.Prompts.Directory
	}
	return a.Prompts.File
}

// promptNow returns the prompt id that a frame would have if it were made now. ok is false if its
// agent no longer exists or its recipe cannot be read.
func (e *Engine) promptNow(f *store.Frame) (id.ID, bool) {
	a, err := e.o.Agents().Get(f.Agent)
	if err != nil {
		return id.ID{}, false
	}
	c, err := readCallRecipe(f)
	if err != nil {
		return id.ID{}, false
	}
	return c.promptID(e.o.Store.Scheme, a), true
}

// paramsID returns the id of all parameters of the call other than the prompt. The model is not one
// of them, because another model may answer.
func (c *callRecipe) paramsID(scheme id.Scheme) (id.ID, error) {
	v, err := edn.Encode(&callRecipe{Intent: c.Intent, Target: c.Target, Selection: c.Selection, Params: c.Params})
	if err != nil {
		return id.ID{}, contract.Errorf("runtime/internal", "encode the parameters of a generation: %w", err)
	}
	return scheme.Params(string(v.Canonical())), nil
}

// prepare reads what a call needs from a snapshot: its basis, the frames that have it already, and
// the input of the intent unless one of them can be reused.
func (e *Engine) prepare(ctx context.Context, v *store.Snapshot, j *job) (input edn.Value, err error) {
	a, selected, err := e.lookCall(ctx, v, j)
	if err != nil {
		return input, err
	}
	if j.reuse, err = j.attempted(ctx, v); err == nil && j.reuse == nil && j.reusable() {
		j.reuse, err = newestKept(ctx, v, j.existing)
	}
	if err != nil || j.reuse != nil {
		return input, err
	}
	return e.render(ctx, v, j, a, selected)
}

// lookCall computes the basis of a call, and finds the frames that have it. selected is nil unless
// the target is a directory.
func (e *Engine) lookCall(ctx context.Context, v *store.Snapshot, j *job) (a *agent.Agent, selected *store.Selected, err error) {
	now, err := v.Current(ctx, j.item.Path)
	if err != nil {
		return nil, nil, err
	}
	if now == nil {
		return nil, nil, contract.Errorf("path/not-in-tree", "the path is no longer in the tree").
			WithOp("generate", store.Shown(j.item.Path))
	}
	j.now = *now
	if a, err = e.o.Agents().Get(j.agent); err != nil {
		return nil, nil, err
	}
	isDir := now.Mode == id.Dir
	if isDir != (j.call.Target == targetDirectory) || !isDir && now.Mode != id.File && now.Mode != id.Exec {
		return nil, nil, contract.Errorf("input/invalid", "the path is no longer a %s", j.call.Target).
			WithOp("generate", store.Shown(j.item.Path))
	}
	scheme := e.o.Store.Scheme
	params, err := j.call.paramsID(scheme)
	if err != nil {
		return nil, nil, err
	}
	from := store.FileContext(scheme, now.Node)
	if isDir {
		if selected, err = v.Select(ctx, j.item.Path, *j.call.Selection, true); err != nil {
			return nil, nil, err
		}
		j.item.StaleInputs = selected.Stale
		from = selected.Context(scheme)
	}
	j.inputs = []store.Input{
		{Kind: id.InputPrompt, ID: j.call.promptID(scheme, a)},
		{Kind: id.InputContext, ID: from},
		{Kind: id.InputParams, ID: params},
	}
	j.existing, err = v.FramesOfBasis(ctx, j.item.Path, j.item.Type, j.agent, e.basisOf(j))
	return a, selected, err
}

func (e *Engine) basisOf(j *job) id.ID { return e.o.Store.Scheme.Basis(store.IDInputs(j.inputs)) }

// reusable reports whether a stored frame answers the request.
func (j *job) reusable() bool {
	if len(j.existing) == 0 || j.call.force {
		return false
	}
	if !j.call.ifModelChanged || j.call.model == "" {
		return true
	}
	served, _ := j.existing[len(j.existing)-1].Meta.Key("cap/id").AsKeyword()
	return served == j.call.model
}

// render fills in the prompt. Text from files and frames is marked as data and inserted in one
// pass, so that placeholders in it are not expanded.
func (e *Engine) render(ctx context.Context, v *store.Snapshot, j *job, a *agent.Agent, selected *store.Selected) (edn.Value, error) {
	settings := e.o.Settings()
	if err := settings.refuse(j); err != nil {
		return edn.Nil(), err
	}
	limit := settings.maxInput()
	var content, frames string
	var err error
	if selected == nil {
		content, err = e.fileText(ctx, j, limit)
	} else {
		frames, err = frameTexts(ctx, v, settings.sendable(selected.Children))
	}
	if err != nil {
		return edn.Nil(), err
	}
	text := strings.NewReplacer(
		"{path}", store.Shown(j.item.Path),
		"{node_type}", string(j.call.Target),
		"{file_size}", fmt.Sprint(j.now.Size),
		"{content}", content,
		"{frames}", frames,
	).Replace(j.call.template(a))
	if len(text) > limit {
		return edn.Nil(), contract.Errorf("generate/too-large", "the input has %d bytes, more than %d", len(text), limit).
			WithOp("generate", store.Shown(j.item.Path)).WithDetail("limit", edn.Int(int64(limit)))
	}
	input := j.call.Params
	if !input.IsMap() {
		input = edn.MustMap()
	}
	input = input.AssocKey("text", edn.Text(text))
	if a.Prompts.System != "" {
		input = input.AssocKey("system", edn.Text(a.Prompts.System))
	}
	return input, nil
}

// fileText returns the text of a file as data.
func (e *Engine) fileText(ctx context.Context, j *job, limit int) (string, error) {
	if err := j.fits(limit); err != nil {
		return "", err
	}
	data, err := e.source(ctx, j.item.Path, j.now)
	if err != nil {
		return "", err
	}
	if extract.Binary(data) {
		return "", contract.Errorf("generate/binary", "the file is not text").WithOp("generate", store.Shown(j.item.Path))
	}
	text, repaired := repair(string(data))
	if repaired {
		j.meta.Key("content/repaired?", edn.Bool(true))
	}
	return asData(text, j.now.Content, "file", j.item.Path), nil
}

// frameTexts returns the texts of child frames as data, ordered by name.
func frameTexts(ctx context.Context, v *store.Snapshot, children []store.Child) (string, error) {
	slices.SortStableFunc(children, func(a, b store.Child) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, c := range children {
		text, err := v.Content(ctx, c.Content)
		if err != nil {
			return "", err
		}
		fixed, _ := repair(string(text))
		b.WriteString(asData(fixed, c.Content, c.Type, c.Path))
	}
	return b.String(), nil
}

// asData marks text as data. The mark contains a part of the hash of the text, so that a text
// cannot contain its own mark deliberately.
func asData(text string, content id.ID, kind, path string) string {
	mark := "data-" + content.Hex()[:12]
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fmt.Sprintf("\n<%s %s=%q>\n%s</%s>\n", mark, kind, store.Shown(path), text, mark)
}
