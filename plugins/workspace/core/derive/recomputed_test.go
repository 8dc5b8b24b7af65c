package derive

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// temp is the agent of some directories. Without it they cannot be made again.
var temp = agent.Agent{ID: "temp", Role: agent.Synthesis}

// directories makes the frame of each directory without one, the deepest ones first.
func (w *world) directories(byTemp map[string]bool, change func(*SynthesizeRequest)) {
	w.t.Helper()
	w.agents = []agent.Agent{temp}
	present := w.present()
	dirs := slices.Collect(maps.Keys(ancestors(slices.Collect(maps.Keys(w.files)))))
	slices.SortFunc(dirs, func(a, b string) int { return tree.Depth(b) - tree.Depth(a) })
	for _, dir := range dirs {
		if present[dir+" t"] != "" {
			continue
		}
		w.synthesize(dir, "t", change, func(r *SynthesizeRequest) {
			if byTemp[dir] {
				r.Caller.Agent = temp.ID
			}
		})
	}
}

// present returns the heads of paths that are there, without those that ended.
func (w *world) present() map[string]string {
	w.t.Helper()
	all := w.heads()
	maps.DeleteFunc(all, func(_, h string) bool { return strings.HasSuffix(h, string(store.Deleted)) })
	return all
}

// recomputed verifies that the text of each fresh directory is that of the present heads
// of its entries, and that those which are not fresh were counted.
func (w *world) recomputed(out *Regenerated, what string) {
	w.t.Helper()
	heads := w.present()
	stale, texts := map[string]int{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(heads)) {
		path := strings.TrimSuffix(key, " t")
		if path == "" {
			continue
		}
		text, state := w.text(path, "t")
		dir := tree.Parent(path)
		texts[dir] += text + "\n"
		if state != string(store.Fresh) {
			stale[dir]++
		}
	}
	for dir := range ancestors(slices.Collect(maps.Keys(w.files))) {
		if text, state := w.text(dir, "t"); state == string(store.Fresh) {
			require.Equal(w.t, texts[dir], text, "%s: %q", what, dir)
		}
	}
	total := 0
	for _, item := range out.Items {
		if item.Outcome != Failed {
			require.Equal(w.t, stale[item.Path], item.StaleInputs, "%s: %q", what, item.Path)
			total += item.StaleInputs
		}
	}
	require.Equal(w.t, total, out.StaleInputs, what)
}

// WS-097, WS-113, WS-115: whatever keeps entries of a directory from being made again, its
// frame is made from their present heads; a fresh one lacks none of them, and those that
// are not fresh are counted. A head of a node that became another kind is not one of them. Once
// nothing is in the way, the result is that of making everything from nothing.
func TestRegenerationIsRecomputation(t *testing.T) {
	used := 0
	for seed := range proof.Size(t, "trees with obstacles", 15, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 113))
		before := randomTree(r)
		files := maps.Clone(before)
		paths := slices.Sorted(maps.Keys(files))
		dirs := slices.Sorted(maps.Keys(ancestors(paths)))
		authored, byTemp := map[string]bool{}, map[string]bool{}
		for _, p := range paths {
			authored[p] = r.IntN(4) == 0
		}
		for _, dir := range dirs {
			byTemp[dir] = r.IntN(3) == 0
		}
		children := []store.Word{store.ChildrenRequire, store.ChildrenBuild, store.ChildrenSkip}[r.IntN(3)]
		binds := []store.Word{store.BindsNode, store.BindsInputs}[r.IntN(2)]
		recipe := func(r *SynthesizeRequest) {
			r.Children, r.Binds, r.Order = children, binds, policy.OrderName
		}
		some := func(list []string) (chosen []string) {
			for _, x := range list {
				if r.IntN(4) == 0 {
					chosen = append(chosen, x)
				}
			}
			return chosen
		}
		w := newWorld(t, before)
		w.notes(authored)
		w.extractions(authored)
		w.directories(byTemp, recipe)
		for round := range 4 {
			edits(r, files, paths, dirs[1:], authored)
			w.scan(files)
			if r.IntN(3) == 0 {
				w.mark(func(tx *store.Tx) (int, error) { return tx.Invalidate(dirs[r.IntN(len(dirs))], false, nil) })
			}
			w.agents = [][]agent.Agent{{temp}, nil}[r.IntN(2)]
			w.settings.Boundaries = some(dirs)
			target := dirs[r.IntN(len(dirs))]
			if !ancestors(slices.Collect(maps.Keys(files)))[target] {
				target = ""
			}
			out := w.regenerate(target, func(q *RegenerateRequest) {
				q.Recursive, q.StopAt = r.IntN(3) > 0, some(dirs)
				q.Up = []int{0, 1, UpRoot}[r.IntN(3)]
			})
			used += out.StaleInputs
			w.recomputed(out, fmt.Sprintf("seed %d, round %d", seed, round))
		}
		w.agents, w.settings.Boundaries = []agent.Agent{temp}, nil
		w.recomputed(w.regenerate(""), fmt.Sprintf("seed %d", seed))
		first := maps.Clone(authored) // what was not there before gets its first frame
		for p := range files {
			first[p] = authored[p] || w.present()[p+" t"] != ""
		}
		w.extractions(first)
		w.directories(byTemp, recipe)
		w.recomputed(w.regenerate(""), fmt.Sprintf("seed %d", seed))
		require.Equal(t, Counts{}, w.regenerate("").Counts, "seed %d", seed)

		naive := newWorld(t, before)
		naive.notes(authored)
		naive.scan(files)
		naive.extractions(authored)
		naive.directories(byTemp, recipe)
		require.Equal(t, naive.present(), w.present(), "seed %d", seed)
		w.valid("")
	}
	assert.NotZero(t, used, "heads that are not fresh were used")
}

// edits changes, removes and restores files of a tree, which keeps at least one, and makes
// files links and directories, and directories files. A note is about a file or a link.
func edits(r *rand.Rand, files map[string]string, paths, dirs []string, authored map[string]bool) {
	for range 1 + r.IntN(3) {
		p, text := paths[r.IntN(len(paths))], fmt.Sprintf("text %d", r.IntN(100))
		switch op := r.IntN(10); {
		case op < 2 && len(files) > 1:
			delete(files, p)
			continue
		case op == 2:
			text = "link:" + text
		case op == 3 && !authored[p]:
			p += "/k"
		case op == 4 && len(dirs) > 0:
			p = dirs[r.IntN(len(dirs))]
		}
		maps.DeleteFunc(files, func(other, _ string) bool { return tree.Below(other, p) || tree.Below(p, other) })
		files[p] = text
	}
}

// WS-113, WS-140: a model that describes a directory, and a listing, get the present frame of
// an entry that is not made again.
func TestStaleDirectoryIsDescribed(t *testing.T) {
	for _, producer := range []string{FromModel, Auto} {
		w := newWorld(t, map[string]string{"d/f": "one", "e": "one"})
		_, err := w.Generate(background, GenerateRequest{
			Caller: writer, Targets: []Target{{}}, Recursive: true, Type: "t", Producer: producer, Model: "ollama/voice",
		})
		require.NoError(t, err)
		before, _ := w.text("d", "t")
		w.scan(map[string]string{"d/f": "two", "e": "two"})
		out := w.regenerate("", func(r *RegenerateRequest) { r.StopAt = []string{"d"} })
		assert.Equal(t, Counts{File: 2, Directory: 1}, out.Counts, producer)
		assert.Equal(t, 1, out.StaleInputs, producer)
		text, state := w.text("", "t")
		assert.Equal(t, string(store.Fresh), state, producer)
		line, _, _ := strings.Cut(before, "\n")
		assert.Contains(t, text, line, producer)
	}
}
