package derive

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/extract"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-140: extractors by name; files that do not suit one are skipped in batches
// and errors alone.
func TestExtractorsByName(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "package a\n", "b.txt": "b", "c": "\x00"})
	by := func(producer string) func(*GenerateRequest) {
		return func(r *GenerateRequest) {
			r.Model, r.Producer, r.Targets, r.Recursive = "", producer, []Target{{}}, true
		}
	}
	out, err := w.generate(by(extract.GoOutline))
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 1, Skipped: 2}, out.Counts)
	out, err = w.generate(by(extract.Text))
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 2, Skipped: 1}, out.Counts)
	out, err = w.generate(by(extract.Facts))
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 3}, out.Counts)
	_, err = w.generate(by(extract.Text), on("c"), func(r *GenerateRequest) { r.Recursive = false })
	typed(t, err, "generate/binary")
	_, err = w.generate(by(extract.GoOutline), on("b.txt"), func(r *GenerateRequest) { r.Recursive = false })
	typed(t, err, "input/invalid")
}

// WS-119, WS-145: a fresh frame is reused without a reason to make it; only a frame that
// was not there is missing.
func TestReusedFramesHaveNoReason(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a", "d/b.txt": "b"})
	all := func(r *GenerateRequest) { r.Model, r.Targets, r.Recursive = "", []Target{{}}, true }
	for _, want := range []Item{{Outcome: Made, Reason: Missing}, {Outcome: Reused}} {
		out, err := w.generate(all)
		require.NoError(t, err)
		require.Len(t, out.Items, 4)
		for _, item := range out.Items {
			assert.Equal(t, want, Item{Outcome: item.Outcome, Reason: item.Reason}, item.Path)
		}
	}
}

// WS-140, WS-145, WS-230: a file of any size gets facts, with the size of the whole file. One that is
// too large for its producer, such as a program that was built into the tree, is skipped with the
// reason, and everything else is made.
func TestLargeFiles(t *testing.T) {
	text, binary := strings.Repeat("x", MaxSource+1), "\x7fELF\x00"+strings.Repeat("x", MaxSource)
	w := newWorld(t, map[string]string{"bin/tool": text, "bin/elf": binary, "d/a": "1", "b": "2"})
	all := func(r *GenerateRequest) { r.Model, r.Targets, r.Recursive = "", []Target{{}}, true }
	skipped := func(out *GenerateResult) (list []string) {
		for _, i := range out.Items {
			if i.Outcome == Skipped {
				list = append(list, i.Path+": "+i.Why)
			}
		}
		return list
	}
	out, err := w.generate(all)
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 4, Directory: 3}, out.Counts)
	head := func(path string) string {
		text, state := w.text(path, out.Items[0].Type)
		assert.Equal(t, string(store.Fresh), state)
		return text
	}
	assert.Equal(t, "Text, 16777217 bytes.\n", head("bin/tool"))
	assert.Equal(t, "ELF program or library, 16777221 bytes.\n", head("bin/elf"))
	one := func(producer string) func(*GenerateRequest) {
		return func(r *GenerateRequest) { r.Model, r.Type, r.Producer = "", "one", producer }
	}
	_, err = w.generate(on("bin/tool"), one(extract.Facts))
	require.NoError(t, err)
	for _, producer := range []string{extract.Text, extract.GoOutline} {
		_, err = w.generate(on("bin/tool"), one(producer))
		typed(t, err, "generate/too-large")
	}
	out, err = w.generate(all, func(r *GenerateRequest) { r.Type, r.Producer = "text", extract.Text })
	require.NoError(t, err)
	assert.Subset(t, skipped(out), []string{"bin/tool: the file has 16777217 bytes, more than 16777216"})

	// Bytes behind those that are described belong to the file too.
	w.mu.Lock()
	w.files["bin/tool"] = text[1:] + "y"
	w.mu.Unlock()
	_, err = w.generate(on("bin/tool"), one(extract.Facts), func(r *GenerateRequest) { r.Force = true })
	typed(t, err, "frame/basis-mismatch")
	w.scan(map[string]string{"bin/tool": text, "d/a": "1", "b": "2"})

	w.settings.MaxInput = 300
	w.edit("d/big", strings.Repeat("x", 301))
	byModel := func(r *GenerateRequest) { all(r); r.Model, r.Type = "m/x", "t" }
	plan, err := w.Plan(background, GenerateRequest{Caller: writer, Targets: []Target{{}}, Recursive: true, Type: "t", Model: "m/x"},
		edn.MustMap(), func(in edn.Value, _ string) edn.Value { return in })
	require.NoError(t, err)
	assert.Equal(t, 5*3+1, plan.Key("nodes").Len(), "a prepare, a call and a commit of what fits, and the result")
	out, err = w.generate(byModel)
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 2, Directory: 3, Skipped: 2}, out.Counts)
	assert.Equal(t, []string{"bin/tool: the file has 16777217 bytes, more than 300", "d/big: the file has 301 bytes, more than 300"}, skipped(out))
}
