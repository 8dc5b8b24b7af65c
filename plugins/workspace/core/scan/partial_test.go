//go:build unix

package scan

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-026: any list of paths, also of ones that do not exist.
func TestPartialScans(t *testing.T) {
	root := t.TempDir()
	coretest.Grow(t, rand.New(rand.NewPCG(5, 5)), root, coretest.Tree{Depth: 3, Width: 6, Ignore: true})
	full := run(t, Options{Root: root, Scheme: id.B3, Now: later})
	var paths []string
	full.Tree.Walk(func(path string, _ *tree.Node) bool {
		paths = append(paths, path, tree.Join(path, "none"))
		return true
	})
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom(paths), 1, 4).Draw(t, "paths")
		r, err := Run(t.Context(), Options{Root: root, Scheme: id.B3, Previous: full, Paths: some, Now: later})
		require.NoError(t, err)
		assert.Equal(t, nodes(full.Tree), nodes(r.Tree))
		assert.Equal(t, full.IgnoreDigest, r.IgnoreDigest)
	})
	_, err := Run(t.Context(), Options{Root: root, Scheme: id.B3, Paths: []string{"../x"}})
	require.Error(t, err)
}

// WS-026, WS-032: partial scans of the directories that were touched, one on top
// of the other, have the ids, the rules and the reasons of a full scan, also
// where ignore and attributes files come, change and go.
func TestPartialScansFollowRules(t *testing.T) {
	coretest.NeedGit(t)
	unborn := template(t, "sha1")
	require.NoError(t, os.Remove(filepath.Join(unborn, "refs", "heads", "main")))
	steps := proof.Size(t, "edits of rules", 120, 4000)
	for seed := uint64(0); steps > 0; seed++ {
		r := rand.New(rand.NewPCG(seed, 26))
		scheme := schemes[seed%4]
		root := t.TempDir()
		coretest.Grow(t, r, root, coretest.Tree{Depth: 4, Width: 7, Ignore: true})
		known := run(t, Options{Root: root, Scheme: scheme, Now: later})
		for range 12 {
			steps--
			touched := edit(t, r, root, known.Tree)
			if r.IntN(2) == 0 {
				touched = append(touched, editRules(t, r, root, known.Tree, unborn))
			}
			o := Options{Root: root, Scheme: scheme, Previous: known, Now: later}
			for _, path := range touched {
				o.Dirs = append(o.Dirs, tree.Parent(path))
				if r.IntN(2) == 0 || known.Tree.Lookup(path) != nil {
					o.Paths = append(o.Paths, path) // what a new name is, the listing says
				}
			}
			part, full := run(t, o), run(t, Options{Root: root, Scheme: scheme, Now: later})
			require.Equal(t, nodes(full.Tree), nodes(part.Tree), "seed %d, %q", seed, touched)
			require.Equal(t, full.IgnoreDigest, part.IgnoreDigest)
			require.Equal(t, full.Inexact, part.Inexact, "seed %d, %q", seed, touched)
			require.Equal(t, full.Tree.Root.Count(), part.Tree.Root.Count())
			known = part
		}
	}
}

// editRules writes or removes a rule file, or makes a repository without a
// commit, and returns the path.
func editRules(t *testing.T, r *rand.Rand, root string, tr *tree.Tree, unborn string) string {
	var dirs []string
	tr.Walk(func(path string, n *tree.Node) bool {
		if info, err := os.Lstat(filepath.Join(root, path)); err == nil && info.IsDir() {
			dirs = append(dirs, path) // the edit before moved others
		}
		return true
	})
	if r.IntN(6) == 0 {
		path := tree.Join(dirs[r.IntN(len(dirs))], "nested")
		require.NoError(t, os.RemoveAll(filepath.Join(root, path)))
		require.NoError(t, os.CopyFS(filepath.Join(root, path, ".git"), os.DirFS(unborn)))
		return path
	}
	path := tree.Join(dirs[r.IntN(len(dirs))], []string{".gitignore", ".fermentignore", ".gitattributes", "git~1"}[r.IntN(4)])
	abs := filepath.Join(root, path)
	require.NoError(t, os.RemoveAll(abs))
	switch r.IntN(4) {
	case 0:
	case 1:
		require.NoError(t, os.WriteFile(abs, []byte("*.go text\n"), 0o644))
	default:
		require.NoError(t, os.WriteFile(abs, []byte(coretest.IgnoreFile(r)), 0o644))
	}
	return path
}
