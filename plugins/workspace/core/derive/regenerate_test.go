package derive

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/extract"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// randomTree returns the files of a random tree.
func randomTree(r *rand.Rand) map[string]string {
	files := map[string]string{}
	for range 2 + r.IntN(12) {
		parts := []string{}
		for range r.IntN(5) {
			parts = append(parts, string(rune('a'+r.IntN(3))))
		}
		files[strings.Join(append(parts, fmt.Sprintf("f%d", r.IntN(5))), "/")] = fmt.Sprintf("text %d", r.IntN(100))
	}
	return files
}

// ancestors returns the directories above paths.
func ancestors(paths []string) map[string]bool {
	all := map[string]bool{}
	for _, p := range paths {
		for p != "" {
			p = tree.Parent(p)
			all[p] = true
		}
	}
	return all
}

// whole gives every file an extracted frame, or some of them an authored one, and
// every directory a synthesized one.
func (w *world) whole(authored map[string]bool, binds store.Word) {
	w.t.Helper()
	w.notes(authored)
	w.made(authored, binds)
}

// notes gives some files an authored frame.
func (w *world) notes(authored map[string]bool) {
	w.t.Helper()
	for _, p := range slices.Sorted(maps.Keys(authored)) {
		if authored[p] {
			w.note(p, "t", "note on "+p)
		}
	}
}

// made gives the other files an extracted frame and every directory a synthesized one.
func (w *world) made(authored map[string]bool, binds store.Word) {
	w.t.Helper()
	w.extractions(authored)
	w.synthesize("", "t", build, func(r *SynthesizeRequest) { r.Binds = binds })
}

// extractions gives every file but the authored ones an extracted frame.
func (w *world) extractions(authored map[string]bool) {
	w.t.Helper()
	for _, p := range slices.Sorted(maps.Keys(w.files)) {
		if authored[p] {
			continue
		}
		_, err := w.Generate(background, GenerateRequest{Caller: writer, Targets: []Target{{Path: p}}, Type: "t", Producer: "extract/text"})
		require.NoError(w.t, err)
	}
}

// WS-111: after changes of files, a regeneration at the root makes exactly the
// frames of these files and of the directories above them; the result is that of
// making everything from nothing; a second run makes none.
func TestRegenerateIsMinimal(t *testing.T) {
	for seed := range proof.Size(t, "trees with changes", 10, 500) {
		r := rand.New(rand.NewPCG(uint64(seed), 111))
		files := randomTree(r)
		authored := map[string]bool{}
		paths := slices.Sorted(maps.Keys(files))
		for _, p := range paths {
			authored[p] = r.IntN(4) == 0
		}
		before := maps.Clone(files)
		w := newWorld(t, before)
		w.whole(authored, store.BindsNode)
		var changed []string
		extracted := 0
		for _, i := range r.Perm(len(paths))[:1+r.IntN(len(paths))] {
			p := paths[i]
			changed = append(changed, p)
			files[p] += fmt.Sprintf(" changed %d", seed)
			if !authored[p] {
				extracted++
			}
		}
		w.scan(files)
		out := w.regenerate("")
		require.Equal(t, Counts{File: extracted, Directory: len(ancestors(changed))}, out.Counts, "seed %d: %v", seed, changed)
		for _, item := range out.Items {
			require.Equal(t, NodeChanged, item.Reason)
			require.True(t, slices.Contains(changed, item.Path) || ancestors(changed)[item.Path])
		}
		require.Len(t, out.AuthoredStale, len(changed)-extracted) // WS-112
		again := w.regenerate("")
		require.Equal(t, Counts{}, again.Counts)
		require.Equal(t, out.Seq, again.Seq)

		naive := newWorld(t, before)
		naive.notes(authored) // those on changed files are stale then, as in w
		naive.scan(files)
		naive.made(authored, store.BindsNode)
		require.Equal(t, naive.heads(), w.heads(), "seed %d", seed) // WS-115: equal ids on every machine
	}
}

// WS-111: with inputs bound by content, nothing above an unchanged text is made
// again.
func TestEarlyCutoff(t *testing.T) {
	w := newWorld(t, map[string]string{"a/b/c": "one\n", "a/d": "two\n", "e": "three\n"})
	w.whole(nil, store.BindsInputs)
	w.edit("a/b/c", "one \n") // its description is the same
	out := w.regenerate("")
	assert.Equal(t, Counts{File: 1}, out.Counts)
	for _, h := range w.heads() {
		assert.Contains(t, h, "fresh")
	}
	w.edit("a/b/c", "other\n")
	assert.Equal(t, Counts{File: 1, Directory: 3}, w.regenerate("").Counts)
	w.edit("a/b/c", "one \n")
	assert.Equal(t, Counts{Reused: 3}, w.regenerate("").Counts, "the file has its frame of that state, the directories move their heads (WS-115)")
	for _, h := range w.heads() {
		assert.Contains(t, h, "fresh")
	}
}

// WS-110: fresh frames cause no read of a file, and nothing is written.
func TestFreshFramesAreNotTouched(t *testing.T) {
	w := newWorld(t, map[string]string{"a/b": "1", "c": "2"})
	w.whole(nil, store.BindsNode)
	before, reads := w.heads(), w.reads.Load()
	out := w.regenerate("")
	assert.Empty(t, out.Items)
	assert.Equal(t, before, w.heads())
	assert.Equal(t, reads, w.reads.Load())
	w.edit("c", "3")
	w.regenerate("")
	assert.Equal(t, reads+1, w.reads.Load(), "one file changed")
}

// WS-113: what is outside of the scope is not written.
func TestScope(t *testing.T) {
	files := map[string]string{"a/b/c/f": "1", "a/b/g": "1", "a/h": "1", "i": "1"}
	for name, c := range map[string]struct {
		path   string
		change func(*RegenerateRequest)
		want   string // paths that are made
		stale  string // paths that remain stale
		used   int    // stale frames that were used, also that of a boundary
	}{
		"subtree":       {"a/b", func(*RegenerateRequest) {}, "a/b a/b/c a/b/c/f a/b/g", " a a/h", 0},
		"one path":      {"a/b", func(r *RegenerateRequest) { r.Recursive = false }, "a/b", " a a/b/c a/b/c/f a/b/g a/h", 2},
		"one file":      {"a/b/c/f", func(*RegenerateRequest) {}, "a/b/c/f", " a a/b a/b/c a/b/g a/h", 0},
		"up 1":          {"a/b", func(r *RegenerateRequest) { r.Up = 1 }, "a a/b a/b/c a/b/c/f a/b/g", " a/h", 1},
		"up to root":    {"a/b/c", func(r *RegenerateRequest) { r.Up = UpRoot }, " a a/b a/b/c a/b/c/f", "a/b/g a/h", 2},
		"up to a path":  {"a/b/c", func(r *RegenerateRequest) { r.UpTo, r.UpToSet = "a", true }, "a a/b a/b/c a/b/c/f", " a/b/g a/h", 2},
		"stop":          {"", func(r *RegenerateRequest) { r.StopAt = []string{"a/b"} }, " a a/b/c a/b/c/f a/b/g a/h", "a/b", 1},
		"stop at it":    {"a/b", func(r *RegenerateRequest) { r.StopAt = []string{"a/b"} }, "a/b a/b/c a/b/c/f a/b/g", " a a/h", 0},
		"of other type": {"", func(r *RegenerateRequest) { r.Types = []string{"u"} }, "", " a a/b a/b/c a/b/c/f a/b/g a/h", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, files)
			w.whole(nil, store.BindsNode)
			changed := maps.Clone(files)
			changed["a/b/c/f"], changed["a/b/g"], changed["a/h"] = "2", "2", "2"
			w.scan(changed)
			out := w.regenerate(c.path, c.change)
			var made, stale []string
			for _, item := range out.Items {
				require.Equal(t, Made, item.Outcome, "%+v", item)
				made = append(made, item.Path)
			}
			for name, h := range w.heads() {
				if strings.HasSuffix(h, "stale") {
					stale = append(stale, strings.TrimSuffix(name, " t"))
				}
			}
			slices.Sort(stale)
			assert.Equal(t, c.want, strings.Join(made, " "))
			assert.Equal(t, c.stale, strings.Join(stale, " "))
			assert.Equal(t, c.used, out.StaleInputs)
		})
	}
	w := newWorld(t, files)
	w.settings.Boundaries = []string{"a"}
	w.whole(nil, store.BindsNode)
	w.edit("a/h", "2")
	assert.Equal(t, Counts{File: 1, Directory: 1}, w.regenerate("").Counts)
	_, err := w.Regenerate(background, RegenerateRequest{Caller: synthesis, Path: "a", UpTo: "i", UpToSet: true})
	typed(t, err, "input/invalid")
	_, err = w.Regenerate(background, RegenerateRequest{Caller: synthesis, Path: "none"})
	typed(t, err, "path/not-in-tree")
	_, err = w.Regenerate(background, RegenerateRequest{Caller: writer})
	typed(t, err, "agent/role-denied")
}

// WS-110: one frame is made again if it is the head and stale.
func TestRegenerateOneFrame(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "1", "b": "1"})
	w.whole(nil, store.BindsNode)
	old := w.head("a", "t")
	w.scan(map[string]string{"a": "2", "b": "2"})
	out := w.regenerate("", func(r *RegenerateRequest) { r.Frame, r.Recursive = old.ID, false })
	require.Len(t, out.Items, 1)
	assert.Equal(t, []any{"a", old.ID, w.head("a", "t").ID}, []any{out.Items[0].Path, out.Items[0].Old, out.Items[0].New})
	require.NoError(t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
		_, err := v.Frame(background, old.ID) // WS-115: it stays
		return err
	}))
}

// WS-118: a marked head is made again; a rebuild that gives the same frame
// removes the mark. Marking twice changes nothing.
func TestInvalidate(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "e": "1"})
	w.whole(nil, store.BindsNode)
	assert.Equal(t, 2, w.mark(func(tx *store.Tx) (int, error) { return tx.Invalidate("d", true, []string{"t"}) }))
	assert.Equal(t, 0, w.mark(func(tx *store.Tx) (int, error) { return tx.Invalidate("d", true, nil) }))
	assert.Equal(t, 1, w.mark(func(tx *store.Tx) (int, error) { return tx.InvalidateFrame(w.head("", "t").ID) }))
	_, state := w.text("d", "t")
	assert.Equal(t, "invalid", state)
	reads := w.reads.Load()
	out := w.regenerate("")
	assert.Equal(t, Counts{Reused: 3}, out.Counts)
	assert.Equal(t, Invalidated, out.Items[0].Reason)
	assert.Equal(t, reads+1, w.reads.Load(), "the recipe of the file was run again")
	for _, h := range w.heads() {
		assert.Contains(t, h, "fresh")
	}
	assert.Empty(t, w.regenerate("").Items)
}

// WS-117: forced, every recipe runs again and must give the same. Missing frames
// of directories are made on request, with the recipe of the directory above.
func TestForceAndMissing(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "e": "1"})
	w.whole(nil, store.BindsNode)
	reads := w.reads.Load()
	out := w.regenerate("", func(r *RegenerateRequest) { r.Force = true })
	assert.Equal(t, Counts{Reused: 4}, out.Counts)
	assert.Equal(t, Forced, out.Items[0].Reason)
	assert.Equal(t, reads+2, w.reads.Load())

	w = newWorld(t, map[string]string{"d/a": "1"})
	w.note("d/a", "t", "x")
	w.synthesize("", "t", build, func(r *SynthesizeRequest) { r.Policy = edn.K("summarize") })
	w.scan(map[string]string{"d/a": "1", "d/n/m/f": "1"})
	w.note("d/n/m/f", "t", "new")
	failed := w.regenerate("")
	assert.Equal(t, Counts{Failed: 1, Directory: 1}, failed.Counts)
	assert.Equal(t, "synthesis/child-not-ready", failed.Items[1].Err.Type, "%v", failed.Items)
	out = w.regenerate("", func(r *RegenerateRequest) { r.CreateMissing = true })
	assert.Equal(t, 4, out.Counts.Directory, "d/n/m, d/n, d and the root: %v", out.Items)
	assert.Equal(t, 0, out.Counts.Failed)
	is(t, "1 entry described: 0 directories, 1 file; 3 bytes in 1 frame.\nfile f (t, 3 bytes): new\n|fresh", first(w.text("d/n/m", "t")), "fresh")
	for _, h := range w.heads() {
		assert.Contains(t, h, "fresh")
	}
}

// WS-117: first frames are made in the scope of the request, also if it is not
// recursive, and up to its highest directory.
func TestMissingInScope(t *testing.T) {
	files := map[string]string{"s/d/a": "1", "s/d/n/f": "1", "s/e": "1", "x/y": "1"}
	for _, c := range []struct {
		path   string
		change func(*RegenerateRequest)
		made   []string
	}{
		{"s/d", func(*RegenerateRequest) {}, []string{"s/d"}},
		{"s/d/a", func(r *RegenerateRequest) { r.Up = 1 }, []string{"s/d"}},
		{"s/d/a", func(r *RegenerateRequest) { r.UpTo, r.UpToSet = "s", true }, []string{"s", "s/d"}},
		{"s/d", func(r *RegenerateRequest) { r.Up = UpRoot }, []string{"", "s", "s/d"}},
		{"s/d/n", func(r *RegenerateRequest) { r.Up = UpRoot }, []string{"", "s", "s/d"}},
		{"s", func(*RegenerateRequest) {}, nil}, // s/d has no frame and is not in scope
		{"s/d", func(r *RegenerateRequest) { r.Up, r.StopAt = UpRoot, []string{"s"} }, []string{"s/d"}},
		{"x", func(r *RegenerateRequest) { r.Types = []string{"t"} }, nil},
		{"x", func(r *RegenerateRequest) { r.Types = []string{"other"} }, []string{"x"}},
	} {
		w := newWorld(t, files)
		w.note("s/d/a", "t", "about a")
		w.note("s/e", "t", "about e")
		w.note("x/y", "other", "about y")
		out := w.regenerate(c.path, func(r *RegenerateRequest) { r.Recursive, r.CreateMissing = false, true }, c.change)
		var made []string
		for _, item := range out.Items {
			if item.Outcome == Made {
				made = append(made, item.Path)
			}
		}
		assert.Equal(t, c.made, made, "%s: %v", c.path, out.Items)
	}
}

// WS-112: an item whose agent is gone, or may not do it any more, fails alone.
func TestAgentOfARecipe(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "1", "b": "1"})
	w.agents = []agent.Agent{{ID: "temp", Role: agent.Writer}}
	for path, who := range map[string]string{"a": "temp", "b": "writer"} {
		_, err := w.Generate(background, GenerateRequest{Caller: Caller{Agent: who}, Targets: []Target{{Path: path}}, Type: "t", Producer: extract.Text})
		require.NoError(t, err)
	}
	w.scan(map[string]string{"a": "2", "b": "2"})
	for typ, agents := range map[string][]agent.Agent{"agent/unknown": nil, "agent/role-denied": {{ID: "temp", Role: agent.Reader}}} {
		w.agents = agents
		out := w.regenerate("")
		assert.Equal(t, typ, out.Items[0].Err.Type)
	}
	assert.Equal(t, "writer", w.head("b", "t").Agent, "the frame keeps the agent of its recipe, not that of the caller")
	_, state := w.text("b", "t")
	assert.Equal(t, "fresh", state)
}

// WS-112, WS-114: generated frames call the model again, commit one by one, and
// what is made from them follows; they can be left stale.
func TestRegenerateGenerated(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "d/b": "1"})
	for _, p := range []string{"d/a", "d/b"} {
		_, err := w.Generate(background, GenerateRequest{Caller: writer, Targets: []Target{{Path: p}}, Type: "t", Model: "ollama/voice"})
		require.NoError(t, err)
	}
	w.synthesize("", "t", build)
	w.edit("d/a", "2")
	out := w.regenerate("", func(r *RegenerateRequest) { r.SkipGenerated = true })
	assert.Equal(t, Counts{Directory: 2, Skipped: 1}, out.Counts)
	assert.Len(t, w.calls, 2)
	seq := out.Seq
	out = w.regenerate("")
	assert.Equal(t, Counts{File: 1, Directory: 2}, out.Counts)
	assert.Equal(t, seq+2, out.Seq, "one transaction for the file, one for the directories")
	assert.Len(t, w.calls, 3)
	assert.Equal(t, "about: 2\nabout: 1\n", sorted(first(w.text("d", "t"))))
	assert.Empty(t, w.regenerate("").Items)
	forced := w.regenerate("d/a", func(r *RegenerateRequest) { r.Force = true })
	assert.Equal(t, Counts{File: 1}, forced.Counts)
	assert.Equal(t, uint64(1), w.head("d/a", "t").Sample) // WS-117
}

func sorted(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	slices.Reverse(lines)
	return strings.Join(lines, "\n") + "\n"
}

// WS-095, WS-172: a deterministic frame is proved by running its recipe again;
// what proves nothing is not run.
func TestRerun(t *testing.T) {
	n := 0
	w := newWorld(t, map[string]string{"a": "1", "b": "1"})
	w.model = func(_ context.Context, c Call) (*Answer, error) {
		n++
		return answer(fmt.Sprint("merged ", n), ""), nil
	}
	w.extracted("t")
	w.note("b", "t", "by hand")
	w.synthesize("", "t")
	w.synthesize("", "t", func(r *SynthesizeRequest) {
		r.Policy = edn.MustRead(`{:kind :custom :intent :x/y :deterministic? true}`)
	})
	loose := w.synthesize("", "t", func(r *SynthesizeRequest) { r.Policy = edn.MustRead(`{:kind :custom :intent :x/z}`) })
	rerun := func(f *store.Frame) (content string) {
		require.NoError(t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
			x, err := w.Rerun(background, v, f)
			content = x.String()
			return err
		}))
		return content
	}
	require.NoError(t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
		root, err := v.Resolve(background, store.Ref{}, false)
		require.NoError(t, err)
		page, err := v.FramesOf(background, root, store.Filter{Type: "t"})
		require.Len(t, page.Frames, 3)
		for _, f := range page.Frames {
			switch policy, _ := f.Meta.Key("policy").AsKeyword(); {
			case f.ID == loose.Frame.ID:
				assert.Empty(t, rerun(f))
			case policy == "custom":
				assert.NotEqual(t, f.Content.String(), rerun(f), "it claims to be deterministic and is not")
			default:
				assert.Equal(t, f.Content.String(), rerun(f))
			}
		}
		return err
	}))
	a := w.head("a", "t")
	assert.Equal(t, a.Content.String(), rerun(a))
	assert.Empty(t, rerun(w.head("b", "t")))
	w.edit("a", "2")
	assert.Empty(t, rerun(a), "its inputs are gone")
}

// WS-170, WS-172: a file that was edited or removed since the scan is a warning of a
// validation with rerun, and a failed item of a regeneration that says to scan again.
func TestRerunOfChangedFiles(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "1", "b": "1", "c": "1"})
	for _, p := range []string{"a", "b", "c"} {
		_, err := w.Generate(background, GenerateRequest{
			Caller: writer, Targets: []Target{{Path: p}}, Type: "t", Producer: "extract/text",
		})
		require.NoError(t, err)
	}
	w.mu.Lock()
	w.files["a"] = "2"
	delete(w.files, "b")
	w.mu.Unlock()
	var drifted []string
	for _, f := range w.valid(store.DiskDiffers) {
		drifted = append(drifted, f.Path)
	}
	assert.Equal(t, []string{"a", "b"}, drifted)
	out := w.regenerate("", func(r *RegenerateRequest) { r.Force = true })
	assert.Equal(t, 2, out.Counts.Failed)
	for _, item := range out.Items {
		if item.Outcome == Failed {
			e := contract.AsError(item.Err)
			assert.Equal(t, []string{"frame/basis-mismatch", "scan again"}, []string{e.Type, e.Hint})
		}
	}
}
