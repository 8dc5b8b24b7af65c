package derive

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

// state returns the state of a head by path and why it is not fresh.
func (w *world) state(path, frameType string) (store.HeadState, []store.Reason) {
	w.t.Helper()
	var h *store.Head
	require.NoError(w.t, w.store.View(background, store.Latest, func(v *store.Snapshot) (err error) {
		h, err = v.Head(background, path, frameType)
		return err
	}))
	return h.State, h.Reasons
}

func (w *world) compact(c store.Compaction) *store.Compacted {
	w.t.Helper()
	done, err := w.store.Compact(background, "tester", c)
	require.NoError(w.t, err)
	return done
}

// valid validates the store and returns its warnings of one code.
func (w *world) valid(code store.Code) (warnings []store.Finding) {
	w.t.Helper()
	report, err := w.store.Validate(background, store.Check{Rerun: w.Rerun})
	require.NoError(w.t, err)
	require.Empty(w.t, report.Errors)
	for _, f := range report.Warnings {
		if f.Code == code {
			warnings = append(warnings, f)
		}
	}
	return warnings
}

// back is a workspace whose tree is again what it was before the texts of that
// state were dropped: files have frames of the types t (extracted), model
// (generated) and note (authored), directories t.
func back(t *testing.T) *world {
	one, two := map[string]string{"d/a": "one", "d/b": "same"}, map[string]string{"d/a": "two", "d/b": "same"}
	w := newWorld(t, one)
	w.whole(nil, store.BindsNode)
	w.note("d/a", "note", "about one")
	model := GenerateRequest{Caller: writer, Targets: []Target{{Path: "d/a"}}, Type: "model", Producer: FromModel}
	_, err := w.Generate(background, model)
	require.NoError(t, err)
	w.scan(two)
	_, err = w.Regenerate(background, RegenerateRequest{Caller: synthesis, Recursive: true})
	require.NoError(t, err)
	w.note("d/a", "note", "about two")
	assert.Equal(t, 5, w.compact(store.Compaction{TTL: store.DefaultTTL, Keep: 1}).Purged, "a has three types, d and the root one")
	require.Empty(t, w.valid(store.TextMissing), "no head of the present state lost its text")
	w.scan(one)
	return w
}

// WS-071, WS-072, WS-175: a head whose text a compaction dropped is not fresh when
// its path returns to the state of the head, and a validation names it.
func TestDroppedTextIsNotFresh(t *testing.T) {
	w := back(t)
	for path, types := range map[string][]string{"d/a": {"t", "note", "model"}, "d": {"t"}, "": {"t"}} {
		for _, frameType := range types {
			state, reasons := w.state(path, frameType)
			assert.Equal(t, store.Stale, state, path+" "+frameType)
			assert.Contains(t, reasons, store.TextDropped, path+" "+frameType)
		}
	}
	state, _ := w.state("d/b", "t")
	assert.Equal(t, store.Fresh, state, "the file did not change")
	assert.Len(t, w.valid(store.TextMissing), 5)
}

// WS-110, WS-115, WS-143: regenerate makes dropped texts again, with a model as
// another sample; an authored one is reported, and put-frame stores it again.
func TestRegenerateDroppedText(t *testing.T) {
	w := back(t)
	calls := len(w.calls)
	done, err := w.Regenerate(background, RegenerateRequest{Caller: synthesis, Recursive: true})
	require.NoError(t, err)
	assert.Zero(t, done.Counts.Failed)
	assert.Equal(t, []PathType{{"d/a", "note"}}, done.AuthoredStale)
	assert.Len(t, w.calls, calls+1)
	for _, frameType := range []string{"t", "model"} {
		text, state := w.text("d/a", frameType)
		assert.Contains(t, text, "one")
		assert.Equal(t, string(store.Fresh), state)
	}
	_, state := w.text("", "t")
	assert.Equal(t, string(store.Fresh), state)
	require.Len(t, w.valid(store.TextMissing), 1)

	w.note("d/a", "note", "about one")
	text, state := w.text("d/a", "note")
	assert.Equal(t, []string{"about one", string(store.Fresh)}, []string{text, state})
	require.Empty(t, w.valid(store.TextMissing))
	again, err := w.Regenerate(background, RegenerateRequest{Caller: synthesis, Recursive: true})
	require.NoError(t, err)
	assert.Empty(t, again.Items, "nothing is left to do")
}

// WS-097, WS-100, WS-175: generate and synthesize do not answer with a frame whose
// text was dropped, and do not combine what has no text.
func TestMakeDroppedTextAgain(t *testing.T) {
	w := back(t)
	synthesize := SynthesizeRequest{Caller: synthesis, Path: "d", Type: "t"}
	_, err := w.Synthesize(background, synthesize)
	require.Error(t, err)
	assert.Equal(t, "synthesis/child-not-ready", contract.AsError(err).Type)
	_, err = w.Generate(background, GenerateRequest{Caller: writer, Targets: []Target{{Path: "d/a"}}, Type: "t", Producer: "extract/text"})
	require.NoError(t, err)
	done, err := w.Synthesize(background, synthesize)
	require.NoError(t, err)
	text, state := w.text("d", "t")
	assert.Equal(t, []any{true, string(store.Fresh)}, []any{strings.Contains(text, "one"), state})
	assert.Equal(t, w.head("d", "t").ID, done.Frame.ID)
}

// WS-175: what a compaction dropped of a deleted subtree does not come back as
// fresh when it is restored.
func TestRestoreDroppedText(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "one", "b": "two"})
	w.whole(nil, store.BindsNode)
	_, err := w.store.Update(background, "tester", func(tx *store.Tx) error { _, err := tx.Delete("d"); return err })
	require.NoError(t, err)
	w.compact(store.Compaction{})
	require.Empty(t, w.valid(store.TextMissing), "what is deleted is not a head of the tree")
	_, err = w.store.Update(background, "tester", func(tx *store.Tx) error {
		paths, err := tx.Restore("d")
		if err != nil {
			return err
		}
		dropped, err := tx.Dropped(paths)
		assert.Equal(t, 2, dropped)
		return err
	})
	require.NoError(t, err)
	state, reasons := w.state("d/a", "t")
	assert.Equal(t, []any{store.Stale, []store.Reason{store.TextDropped}}, []any{state, reasons})
	_, err = w.Regenerate(background, RegenerateRequest{Caller: synthesis, Recursive: true})
	require.NoError(t, err)
	text, _ := w.text("d/a", "t")
	assert.Contains(t, text, "one")
	state, _ = w.state("d", "t")
	assert.Equal(t, store.Fresh, state)
}

// WS-097, WS-175: a new file below a deleted directory does not block the directories above,
// since the frames of a deleted directory are used in no other one.
func TestNewFileBelowDeletedDirectory(t *testing.T) {
	w := newWorld(t, map[string]string{"s/1": "one", "b": "two"})
	w.whole(nil, store.BindsNode)
	_, err := w.store.Update(background, "tester", func(tx *store.Tx) error { _, err := tx.Delete("s"); return err })
	require.NoError(t, err)
	w.regenerate("")
	w.edit("s/2", "three")
	w.note("s/2", "t", "about three")
	for _, missing := range []bool{false, true} {
		for _, item := range w.regenerate("", func(r *RegenerateRequest) { r.CreateMissing = missing }).Items {
			require.Nil(t, item.Err, item.Path)
		}
	}
	w.synthesize("", "t")
	w.synthesize("", "t", build)
	text, state := w.text("", "t")
	assert.Equal(t, string(store.Fresh), state)
	assert.NotContains(t, text, "three")
	_, err = w.store.Update(background, "tester", func(tx *store.Tx) error { _, err := tx.Restore("s"); return err })
	require.NoError(t, err)
	w.regenerate("")
	w.synthesize("", "t", build)
	text, _ = w.text("", "t")
	assert.Contains(t, text, "three")
}
