package report

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func value(t require.TestingT, x any) string {
	v, err := edn.Encode(x)
	require.NoError(t, err)
	return v.String()
}

func side(t testing.TB, w *storetest.World, seq uint64) *Side {
	t.Helper()
	s, err := StoreSide(background, w, seq)
	require.NoError(t, err)
	return s
}

func difference(t testing.TB, w *storetest.World, a, b uint64, r DiffRequest) *Difference {
	t.Helper()
	d, err := Diff(background, side(t, w, a), side(t, w, b), r)
	require.NoError(t, err)
	return d
}

// WS-191: what happened to nodes, frames and heads between two states, as data;
// equal states have no difference; a part of the tree or one type can be asked
// for.
func TestDiff(t *testing.T) {
	w := storetest.Open(t, id.B3)
	empty := uint64(1)
	first := w.Tree(map[string]string{"a": "1", "d/b": "2", "d/old": "moved", "e/": "", "l": "link:a", "x": "1"})
	w.Put("a", "note", "one\ntwo\n")
	w.Put("d/b", "note", "kept")
	w.Put("d", "digest", "of d")
	w.Put("x", "note", "x")
	before2 := seqOf(t, w)
	w.Tree(map[string]string{"a": "2", "d/b": "2", "d/new": "moved", "l": "exec:", "x/y": ""})
	after := w.Put("a", "note", "one\nthree\n")
	last := seqOf(t, w)

	d := difference(t, w, before2, last, DiffRequest{Content: true})
	assert.Equal(t, `{:added ["x/y"] :directories/added ["x"] :directories/removed ["e"] :modified ["a" "l"] :removed ["x"] :renamed [{:from "d/old" :to "d/new"}]}`, value(t, d.Nodes))
	assert.Equal(t, []FrameAt{{Frame: after.ID, Place: store.PlaceOf("a"), Type: "note"}}, d.Frames.Added)
	require.Len(t, d.Frames.Moved, 1)
	assert.Equal(t, after.ID, d.Frames.Moved[0].New)
	assert.Equal(t, `[["d" "digest"] ["x" "note"]]`, edn.Vector(d.Frames.Stale...).String())
	require.Len(t, d.Texts, 1)
	assert.Equal(t, "--- a (note)\n+++ a (note)\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n", d.Texts[0].Diff)
	assert.False(t, d.Equal)

	same := difference(t, w, last, store.Latest, DiffRequest{Content: true})
	assert.Equal(t, `{:equal? true :frames {} :nodes {}}`, value(t, same))
	back := difference(t, w, last, before2, DiffRequest{})
	assert.Equal(t, `[["d" "digest"] ["x" "note"]]`, edn.Vector(back.Frames.Refreshed...).String())
	assert.Empty(t, back.Frames.Added)
	assert.Equal(t, d.Frames.Added, back.Frames.Removed)
	part := difference(t, w, before2, last, DiffRequest{Path: "d"})
	assert.Equal(t, `{:equal? false :frames {:stale [["d" "digest"]]} :nodes {:renamed [{:from "d/old" :to "d/new"}]}}`, value(t, part))
	typed := difference(t, w, before2, last, DiffRequest{Types: []string{"digest"}})
	assert.Empty(t, typed.Frames.Added)
	assert.Len(t, typed.Frames.Stale, 1)
	all := difference(t, w, empty, first, DiffRequest{})
	assert.Len(t, all.Nodes.Added, 5)
	w.Tree(map[string]string{"l": "exec:"})
	assert.Equal(t, `[["a" "note"] ["d" "digest"] ["d/b" "note"] ["x" "note"]]`, edn.Vector(difference(t, w, last, store.Latest, DiffRequest{}).Frames.Deleted...).String())

	other := side(t, storetest.Open(t, id.S2), store.Latest)
	other.Tree = storetest.Grow(id.S2, map[string]string{"a": ""})
	_, err := Diff(background, side(t, w, last), other, DiffRequest{})
	require.ErrorIs(t, err, contract.OfType("input/invalid"))
	a, b := side(t, w, last), side(t, w, last)
	a.Scanned.Rules, b.Scanned.Rules = id.B3.Params("1"), id.B3.Params("2")
	warned, err := Diff(background, a, b, DiffRequest{})
	require.NoError(t, err)
	assert.Len(t, warned.Warnings, 1) // WS-032
}

func seqOf(t testing.TB, w *storetest.World) (seq uint64) {
	require.NoError(t, w.View(background, store.Latest, func(s *store.Snapshot) error {
		seq = s.Seq()
		return nil
	}))
	return seq
}

// WS-191: on the level of files the difference equals that of git diff
// --name-status -M100%, for random trees with equal and empty files, links,
// exec bits, and names that git quotes.
func TestDiffEqualsGit(t *testing.T) {
	coretest.NeedGit(t)
	dir := t.TempDir()
	repo := coretest.Init(t, dir, "sha1")
	renames, pairs := 0, proof.Size(t, "pairs of trees against git", 30, 2000)
	for seed := range pairs {
		r := rand.New(rand.NewPCG(uint64(seed), 191))
		before := randomFiles(r)
		after := edited(r, before)
		older, newer := storetest.Grow(id.GitSHA1, before), storetest.Grow(id.GitSHA1, after)
		a, b := writeTree(t, repo, before), writeTree(t, repo, after)
		require.Equal(t, a, older.Root.Content.Hex(), "seed %d", seed)
		require.Equal(t, b, newer.Root.Content.Hex(), "seed %d", seed)

		d, err := Diff(background, &Side{Tree: older}, &Side{Tree: newer}, DiffRequest{})
		require.NoError(t, err)
		var got []string
		for sign, list := range map[string][]store.ShownPath{"A": d.Nodes.Added, "M": d.Nodes.Modified, "D": d.Nodes.Removed} {
			for _, p := range list {
				got = append(got, sign+" "+string(p))
			}
		}
		for _, x := range d.Nodes.Renamed {
			got = append(got, "R "+string(x.From)+" "+string(x.To))
		}
		renames += len(d.Nodes.Renamed)
		slices.Sort(got)
		require.Equal(t, nameStatus(repo.Run("diff", "--no-ext-diff", "--name-status", "-M100%", "-z", a, b)), got, "seed %d", seed)
	}
	assert.GreaterOrEqual(t, renames, pairs*3/4, "the trees have renames")
}

// nameStatus returns the lines of git, with changes of the kind of a file as
// modifications.
func nameStatus(out string) (list []string) {
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); {
		switch sign := fields[i][:1]; sign {
		case "R":
			list = append(list, "R "+fields[i+1]+" "+fields[i+2])
			i += 3
		case "T":
			list = append(list, "M "+fields[i+1])
			i += 2
		default:
			list = append(list, sign+" "+fields[i+1])
			i += 2
		}
	}
	slices.Sort(list)
	return list
}

// randomFiles returns files with few different texts, so that many are equal.
func randomFiles(r *rand.Rand) map[string]string {
	files := map[string]string{}
	for range r.IntN(25) {
		put(r, files, randomPath(r), randomText(r))
	}
	return files
}

func randomText(r *rand.Rand) string {
	return []string{"", "", "1", "1", "2", "exec:1", "link:a", "link:b", "exec:", "3"}[r.IntN(10)]
}

func randomPath(r *rand.Rand) string {
	names := []string{"a", "b", "c", "a-", "a.b", "a0", "\xff", "tab\t", "é", "\"", "z"}
	var parts []string
	for range 1 + r.IntN(3) {
		parts = append(parts, names[r.IntN(len(names))])
	}
	return strings.Join(parts, "/")
}

// put adds a file unless a path above or below it is one.
func put(r *rand.Rand, files map[string]string, path, text string) {
	for other := range files {
		if strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			if r.IntN(2) == 0 {
				return
			}
			delete(files, other)
		}
	}
	files[path] = text
}

func edited(r *rand.Rand, before map[string]string) map[string]string {
	files := map[string]string{}
	for _, path := range sortedKeys(before) {
		switch r.IntN(5) {
		case 0: // removed
		case 1:
			put(r, files, path, randomText(r))
		case 2:
			put(r, files, randomPath(r), before[path])
		default:
			put(r, files, path, before[path])
		}
	}
	return files
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// writeTree writes files and returns the id of their tree.
func writeTree(t testing.TB, repo *coretest.Repo, files map[string]string) string {
	coretest.Empty(t, repo.Dir)
	for path, text := range files {
		full := filepath.Join(repo.Dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if target, ok := strings.CutPrefix(text, "link:"); ok {
			require.NoError(t, os.Symlink(target, full))
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "exec:") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(full, []byte(text), mode))
	}
	_ = os.Remove(filepath.Join(repo.Dir, ".git", "index"))
	repo.Run("add", "-A", "-f")
	return strings.TrimSpace(repo.Run("write-tree"))
}

// Git tries 100 files of equal content for each added one.
func TestManyEqualFiles(t *testing.T) {
	coretest.NeedGit(t)
	repo := coretest.Init(t, t.TempDir(), "sha1")
	before, after := map[string]string{}, map[string]string{}
	for i := range 150 {
		before[fmt.Sprintf("d%03d/x%d", i, i)] = "same"
		after[fmt.Sprintf("e%03d/x%d", i, 149-i)] = "same"
	}
	a, b := writeTree(t, repo, before), writeTree(t, repo, after)
	d, err := Diff(background, &Side{Tree: storetest.Grow(id.GitSHA1, before)}, &Side{Tree: storetest.Grow(id.GitSHA1, after)}, DiffRequest{})
	require.NoError(t, err)
	var got []string
	for _, x := range d.Nodes.Renamed {
		got = append(got, "R "+string(x.From)+" "+string(x.To))
	}
	slices.Sort(got)
	assert.Equal(t, nameStatus(repo.Run("diff", "--name-status", "-M100%", "-z", a, b)), got)
}

// WS-191: the difference of two texts, applied to the first, gives the second.
func TestUnifiedApplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "long line\n"})
		end := rapid.SampledFrom([]string{"", "", "end", "a"})
		before := strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, "before"), "") + end.Draw(t, "end")
		var after string
		if rapid.Bool().Draw(t, "edit") {
			list := lines(before)
			for range rapid.IntRange(0, 4).Draw(t, "edits") {
				at := rapid.IntRange(0, len(list)).Draw(t, "at")
				list = slices.Insert(list, at, line.Draw(t, "line"))
				cut := rapid.IntRange(0, len(list)-1).Draw(t, "cut")
				list = slices.Delete(list, cut, cut+1)
			}
			after = strings.Join(list, "")
		} else {
			after = strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, "after"), "") + end.Draw(t, "end")
		}
		diff := unified("x", before, after)
		if before == after {
			require.Empty(t, diff)
			return
		}
		files, _, err := gitdiff.Parse(strings.NewReader(diff))
		require.NoError(t, err, diff)
		require.Len(t, files, 1, diff)
		var out strings.Builder
		require.NoError(t, gitdiff.Apply(&out, strings.NewReader(before), files[0]), diff)
		require.Equal(t, after, out.String(), diff)
	})
}

// Texts that differ in most of many lines are replaced as a whole.
func TestUnifiedGivesUp(t *testing.T) {
	var before, after strings.Builder
	for i := range 3000 {
		fmt.Fprintln(&before, "old", i)
		fmt.Fprintln(&after, "new", i)
	}
	diff := unified("x", "same\n"+before.String(), "same\n"+after.String())
	assert.Contains(t, diff, "@@ -1,3001 +1,3001 @@\n same\n-old 0\n")
	assert.Equal(t, 3000, strings.Count(diff, "\n+new"))
}

// WS-191: an export is compared like the state that it was made from, as a whole
// or within the path that it is about.
func TestDiffOfExports(t *testing.T) {
	w := storetest.Open(t, id.B3)
	files := map[string]string{"a": "1", "d/b": "2", "d/c": "3", "d/\xff": ""}
	w.Tree(files)
	child := w.Put("d/b", "note", "about b")
	w.Put("a", "note", "about a")
	w.Put("d", "digest", "of d", func(n *store.NewFrame) { n.Inputs = append(n.Inputs, store.Input{Kind: id.InputFrame, ID: child.ID}) })
	files["d/c"] = "4"
	w.Tree(files)
	exported := func(sel store.ExportRange) *Side { return exportSide(t, w, sel) }
	whole, part := exported(store.ExportRange{History: true}), exported(store.ExportRange{Path: "d", History: true})
	diff := func(a *Side, path string) *Difference {
		d, err := Diff(background, a, side(t, w, store.Latest), DiffRequest{Path: path, Content: true})
		require.NoError(t, err)
		return d
	}
	assert.True(t, diff(whole, "").Equal)
	assert.True(t, diff(part, "d").Equal)
	limited := []*Side{
		part, exported(store.ExportRange{}), exported(store.ExportRange{Types: []string{"note"}}),
		exported(store.ExportRange{Path: "d", Agents: []string{"absent"}, History: true}),
	}
	for i, some := range limited {
		assert.True(t, diff(some, "").Equal, "%d: what an export leaves out is no difference", i)
		back, err := Diff(background, side(t, w, store.Latest), some, DiffRequest{})
		require.NoError(t, err)
		assert.True(t, back.Equal, "%d: from the other side", i)
	}
	_, err := Diff(background, part, side(t, w, store.Latest), DiffRequest{Path: "a"})
	require.ErrorIs(t, err, contract.OfType("input/invalid"), "the export has nothing of it")
	w.Put("d/b", "note", "again about b")
	delete(files, "a")
	w.Tree(files)
	assert.Equal(t, `[["a" "note"]]`, edn.Vector(diff(whole, "").Frames.Deleted...).String())
	assert.Empty(t, diff(part, "").Nodes.Removed, "a is not a part of it")
	for _, d := range []*Difference{diff(whole, "d"), diff(part, "d"), diff(part, ""), diff(limited[2], "d")} {
		assert.Len(t, d.Frames.Moved, 1)
		require.Len(t, d.Texts, 1)
		assert.Contains(t, d.Texts[0].Diff, "-about b\n\\ No newline at end of file\n+again about b\n")
	}
}

// WS-014, WS-174: of states whose roots differ, diff says so, also where all nodes and frames are
// equal: of one path that was deleted and had no frame, for example.
func TestDiffOfStateRoots(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"a": "1", "b": "1"})
	w.Put("a", "note", "about a")
	before, backup := side(t, w, store.Latest), exportSide(t, w, store.ExportRange{History: true})
	_, err := w.Update(background, "", func(tx *store.Tx) error {
		_, err := tx.Delete("b")
		return err
	})
	require.NoError(t, err)
	after := side(t, w, store.Latest)
	for _, older := range []*Side{before, backup} {
		d, err := Diff(background, older, after, DiffRequest{})
		require.NoError(t, err)
		assert.False(t, d.Equal)
		assert.Equal(t, []id.ID{before.Root, after.Root}, d.StateRoots)
		assert.Empty(t, entriesOf(d, false))
		d, err = Diff(background, older, after, DiffRequest{Path: "a"})
		require.NoError(t, err)
		assert.True(t, d.Equal, "of a part, the state roots say nothing")
	}
	for _, limited := range []store.ExportRange{{}, {Path: "a", History: true}} {
		d, err := Diff(background, exportSide(t, w, limited), before, DiffRequest{})
		require.NoError(t, err)
		assert.Empty(t, d.StateRoots)
	}
}

// exportSide exports the current state and reads it as a side.
func exportSide(t *testing.T, w *storetest.World, sel store.ExportRange) *Side {
	t.Helper()
	var out bytes.Buffer
	w.Read(func(s *store.Snapshot) error {
		_, err := s.Export(background, &out, sel)
		return err
	})
	bundle, err := store.ReadExport(&out)
	require.NoError(t, err)
	temp := t.TempDir()
	side, err := ExportSide(background, bundle, temp, w.Store)
	require.NoError(t, err)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
	return side
}

// ranges are what exports of a workspace can be limited to.
var ranges = []store.ExportRange{
	{},
	{History: true},
	{Path: "d"},
	{Path: "d", History: true},
	{Types: []string{"digest"}},
	{Agents: []string{"writer"}, History: true},
}

// randomHistory changes a workspace in 24 steps, and calls visit after every fourth one.
func randomHistory(t *testing.T, seed int, w *storetest.World, visit func(step int)) {
	t.Helper()
	paths := []string{"a", "d/b", "d/e/c"}
	r := rand.New(rand.NewPCG(uint64(seed), 191))
	w.Tree(map[string]string{"a": "0", "d/b": "0", "d/e/c": "0"})
	var frames []*store.Frame
	deleted := false
	update := func(change func(*store.Tx) error) {
		_, err := w.Update(background, "", change)
		require.NoError(t, err)
	}
	for step := range 24 {
		w.Now++
		path, typ := paths[r.IntN(len(paths))], []string{"note", "digest"}[r.IntN(2)]
		switch op := r.IntN(10); {
		case op < 2:
			files := map[string]string{"keep": ""}
			for _, p := range paths {
				if n := r.IntN(4); n > 0 {
					files[p] = fmt.Sprint(n)
				}
			}
			w.Tree(files)
		case op < 7:
			if side(t, w, store.Latest).Tree.Lookup(path) == nil || deleted && path == "d/e/c" {
				continue
			}
			frames = append(frames, w.Put(path, typ, fmt.Sprint(seed, step), func(n *store.NewFrame) {
				if len(frames) > 0 && r.IntN(2) == 0 {
					n.Inputs = []store.Input{{Kind: id.InputFrame, ID: frames[r.IntN(len(frames))].ID}}
				}
			}))
		case op == 7:
			update(func(tx *store.Tx) error {
				_, err := tx.Invalidate(path, false, nil)
				return err
			})
		case op == 8:
			deleted = !deleted
			update(func(tx *store.Tx) error {
				mark := tx.Restore
				if deleted {
					mark = tx.Delete
				}
				_, err := mark("d/e")
				return err
			})
		default:
			_, err := w.Compact(background, "", store.Compaction{Keep: uint64(r.IntN(3))})
			require.NoError(t, err)
		}
		if step%4 == 3 {
			visit(step)
		}
	}
}

// WS-191: whatever happened in a workspace before, an export of any range is equal to the
// state that it was made from, in both directions.
func TestDiffWithOwnExport(t *testing.T) {
	for seed := range proof.Size(t, "histories with exports", 4, 200) {
		w := storetest.Open(t, id.B3)
		randomHistory(t, seed, w, func(step int) {
			for _, sel := range ranges {
				export, current := exportSide(t, w, sel), side(t, w, store.Latest)
				for name, pair := range map[string][2]*Side{"from": {export, current}, "to": {current, export}} {
					d, err := Diff(background, pair[0], pair[1], DiffRequest{})
					require.NoError(t, err)
					require.Equal(t, `{:equal? true :frames {} :nodes {}}`, value(t, d),
						"seed %d, step %d, %s the export of %v", seed, step, name, sel)
				}
			}
		})
	}
}

// WS-191: a comparison the other way round has the same entries, mirrored, whatever states and
// exports of two workspaces are compared. WS-014: states with different state roots are not equal.
func TestDiffIsMirrored(t *testing.T) {
	for seed := range proof.Size(t, "pairs of histories", 3, 100) {
		r := rand.New(rand.NewPCG(uint64(seed), 14))
		var sides []*Side
		roots := map[*Side]id.ID{}
		for other := range 2 {
			w := storetest.Open(t, id.B3)
			if other == 1 {
				w.Tree(map[string]string{"a": "0", "d/b": "0", "d/e/c": "0"})
				sides = append(sides, side(t, w, store.Latest)) // without a frame
			}
			randomHistory(t, seed+1000*other, w, func(int) {
				current := side(t, w, store.Latest)
				w.Read(func(s *store.Snapshot) (err error) {
					roots[current], err = s.StateRoot(background)
					return err
				})
				sides = append(sides, current, exportSide(t, w, ranges[r.IntN(len(ranges))]))
			})
		}
		for i, a := range sides {
			for k, b := range sides[:i] {
				there, err := Diff(background, a, b, DiffRequest{})
				require.NoError(t, err)
				back, err := Diff(background, b, a, DiffRequest{})
				require.NoError(t, err)
				require.Equal(t, entriesOf(there, false), entriesOf(back, true), "seed %d: %d and %d", seed, i, k)
				require.Equal(t, there.Equal, back.Equal, "seed %d: %d and %d", seed, i, k)
				if !roots[a].IsZero() && !roots[b].IsZero() && roots[a] != roots[b] {
					require.False(t, there.Equal, "seed %d: %d and %d", seed, i, k)
				}
			}
		}
	}
}

// entriesOf returns what a difference lists, of one that is mirrored as the other direction
// has it. Of files with equal content, another one can be the source of a rename then, so a
// rename counts as one that was removed and one that was added.
func entriesOf(d *Difference, mirrored bool) (list []string) {
	added, removed := "added", "removed"
	if mirrored {
		added, removed = removed, added
	}
	paths := func(what string, all []store.ShownPath) {
		for _, p := range all {
			list = append(list, what+" "+string(p))
		}
	}
	n, f := d.Nodes, d.Frames
	paths(added, n.Added)
	paths(removed, n.Removed)
	paths("modified", n.Modified)
	paths(added+" directory", n.AddedDirs)
	paths(removed+" directory", n.RemovedDirs)
	for _, x := range n.Renamed {
		paths(removed, []store.ShownPath{x.From})
		paths(added, []store.ShownPath{x.To})
	}
	for what, frames := range map[string][]FrameAt{added: f.Added, removed: f.Removed} {
		for _, x := range frames {
			list = append(list, fmt.Sprint(what, " frame ", x.Frame, x.Place, x.Type))
		}
	}
	for _, x := range f.Moved {
		if mirrored {
			x.Old, x.New = x.New, x.Old
		}
		list = append(list, fmt.Sprint("moved ", x))
	}
	for _, states := range [][]edn.Value{f.Stale, f.Invalidated, f.Refreshed, f.Deleted} {
		for _, x := range states {
			list = append(list, "state of "+x.String())
		}
	}
	slices.Sort(list)
	return list
}
