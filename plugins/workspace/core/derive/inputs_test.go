package derive

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-092, WS-093, WS-117, WS-170: with :binds :inputs, the text of a directory follows from
// its basis: equal inputs give the equal frame on any machine, whatever the node and frame
// ids are, and what changes the text changes the basis.
func TestInputsDetermineTheText(t *testing.T) {
	by := func(agent string) func(*store.NewFrame) { return func(n *store.NewFrame) { n.Agent = agent } }
	for name, c := range map[string]struct {
		policy, typ string
		order       store.Word
		first, then func(w *world)
		equal       bool
	}{
		"node ids":              {`:concatenate`, "note", "", numbered("%d"), numbered("exec:%d"), true},
		"node ids of a summary": {`:summarize`, "note", "", numbered("%d"), numbered("exec:%d"), true},
		"node ids of a custom policy": {
			`{:kind :custom :intent :team/merge :deterministic? true}`, "note", "",
			numbered("%d"), numbered("exec:%d"), true,
		},
		"agents": {
			`:concatenate`, "note", "",
			func(w *world) { w.put("d/f1", "note", "x") },
			func(w *world) { w.put("d/f1", "note", "x", by("other")) }, true,
		},
		"agents of a filter": {
			`{:kind :filter :agents #{"writer"}}`, "note", "",
			func(w *world) { w.put("d/f1", "note", "x") },
			func(w *world) { w.put("d/f1", "note", "x", by("other")) }, false,
		},
		"types": {
			`:summarize`, store.EveryType, "",
			func(w *world) { w.put("d/f1", "one", "x"); w.put("d/f1", "two", "y") },
			func(w *world) { w.put("d/f1", "one", "y"); w.put("d/f1", "two", "x") }, false,
		},
		"types by name": {
			`:concatenate`, store.EveryType, policy.OrderName,
			func(w *world) { w.put("d/f1", "one", "x"); w.put("d/f1", "two", "y") },
			func(w *world) { w.put("d/f1", "one", "y"); w.put("d/f1", "two", "x") }, false,
		},
		"kinds": {
			`:summarize`, "note", "",
			func(w *world) { w.put("d/f1", "note", "x") },
			func(w *world) {
				w.scan(map[string]string{"d/f1/below": "1"})
				w.put("d/f1", "note", "x")
			}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			merge := func(_ context.Context, c Call) (*Answer, error) {
				return answer(c.Input.Key("frames").String(), ""), nil
			}
			synthesize := func(w *world, change ...func(*SynthesizeRequest)) *store.Frame {
				return w.synthesize("d", c.typ, append(change, func(r *SynthesizeRequest) {
					r.Policy, r.Binds, r.Order = edn.MustRead(c.policy), store.BindsInputs, c.order
				})...).Frame
			}
			w := newWorld(t, map[string]string{"d/f1": "1"})
			w.model = merge
			c.first(w)
			made := synthesize(w)
			c.then(w)
			typ := made.Type
			state, _ := w.state("d", typ)
			assert.Equal(t, map[bool]store.HeadState{true: store.Fresh, false: store.Stale}[c.equal], state)
			again := synthesize(w)
			assert.Equal(t, c.equal, made.ID == again.ID)
			assert.Equal(t, c.equal, made.Content == again.Content)
			force := func(r *SynthesizeRequest) { r.Force = true }
			assert.Equal(t, again.ID, synthesize(w, force).ID)
			w.valid("")
			naive := newWorld(t, map[string]string{"d/f1": "1"})
			naive.model = merge
			c.then(naive)
			other := synthesize(naive)
			assert.Equal(t, again.ID, other.ID)
			assert.Equal(t, again.Content, other.Content)
		})
	}
}

// numbered makes six files with the text of a format, and puts an equal note on each.
func numbered(format string) func(*world) {
	return func(w *world) {
		files := map[string]string{}
		for i := range 6 {
			files[fmt.Sprint("d/f", i)] = fmt.Sprintf(format, i)
		}
		w.scan(files)
		for i := range 6 {
			w.put(fmt.Sprint("d/f", i), "note", fmt.Sprint("note ", i, "\n"))
		}
	}
}

// put puts an authored frame on the current state of a path.
func (w *world) put(path, frameType, text string, change ...func(*store.NewFrame)) {
	w.t.Helper()
	_, err := w.store.Update(background, "tester", func(tx *store.Tx) error {
		t, err := tx.Tree()
		if err != nil {
			return err
		}
		n := store.NewFrame{
			Path:   path,
			Type:   frameType,
			Agent:  "writer",
			Origin: store.Authored,
			Text:   []byte(text),
			Inputs: []store.Input{{Kind: id.InputNode, ID: t.Lookup(path).ID}},
		}
		for _, c := range change {
			c(&n)
		}
		_, err = tx.PutFrame(n)
		return err
	})
	require.NoError(w.t, err)
}

// WS-092, WS-170: a frame whose recipe does not say what its basis holds of the entries has
// a text in the order of node ids. It is stale, and regenerated.
func TestFrameWithoutBoundInputs(t *testing.T) {
	w := newWorld(t, map[string]string{"d/f1": "1"})
	numbered("%d")(w)
	p, sel, err := w.parseSynthesis(SynthesizeRequest{Type: "note", Binds: store.BindsInputs})
	require.NoError(t, err)
	p.Order, sel.Bound = policy.OrderNode, nil
	w.store.SetResolver(func(_ *store.Frame, in store.Input) store.Input { return in })
	require.NoError(t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
		now, err := v.Current(background, "d")
		require.NoError(t, err)
		children, err := v.Select(background, "d", sel, false)
		require.NoError(t, err)
		digest, err := p.Digest(sel)
		require.NoError(t, err)
		recipe, err := synthesisRecipe(p, sel)
		require.NoError(t, err)
		old := store.NewFrame{
			Path:   "d",
			Type:   "note",
			Agent:  "synthesis",
			Origin: store.Synthesized,
			Inputs: children.Inputs(sel, *now, "d", digest),
			Text:   []byte("in another order"),
			Recipe: recipe,
		}
		_, err = w.store.Update(background, "tester", func(tx *store.Tx) error {
			_, err := tx.PutDerived(old)
			return err
		})
		return err
	}))
	w.Engine = New(w.o)
	state, reasons := w.state("d", "note")
	assert.Equal(t, store.Stale, state)
	assert.Equal(t, []store.Reason{store.RecipeChanged}, reasons)
	w.valid("")
	assert.Equal(t, Counts{Directory: 1}, w.regenerate("d").Counts)
	text, fresh := w.text("d", "note")
	is(t, "note 0\n\nnote 1\n\nnote 2\n\nnote 3\n\nnote 4\n\nnote 5\n\n|fresh", text, fresh)
	w.valid("")
}
