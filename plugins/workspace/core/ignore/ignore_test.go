package ignore_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// paths returns all paths below a directory, without those of repositories.
func paths(t testing.TB, root string) (all []string, dirs map[string]bool) {
	dirs = map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if path == root {
			return nil
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		rel := strings.TrimPrefix(path, root+"/")
		all = append(all, rel)
		dirs[rel] = d.IsDir()
		return nil
	}))
	return all, dirs
}

// explain decides about a path with the files of a directory.
func explain(root, path string, dir bool) (d coretest.Decision, ignored bool) {
	exclude, _ := os.ReadFile(filepath.Join(root, ".git", "info", "exclude"))
	rules := ignore.Rules{Below: []*ignore.List{ignore.Parse(".git/info/exclude", "", exclude)}}
	p, _, ignored := ignore.NewExplainer(&rules, func(dir string) []*ignore.List {
		name := filepath.Join(root, dir, ".gitignore")
		if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
			return nil
		}
		text, _ := os.ReadFile(name)
		return []*ignore.List{ignore.Parse(strings.TrimPrefix(name, root+"/"), dir, text)}
	}).Explain(path, dir)
	if p != nil {
		d = coretest.Decision{Source: p.Source, Line: fmt.Sprint(p.Line), Pattern: p.Text}
	}
	return d, ignored
}

// WS-029: source, line and pattern are those of git for every path of generated
// trees with generated ignore files.
func TestDecisionsAreGits(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	repo := coretest.Init(t, root, "sha1")
	total, decided := proof.Size(t, "hostile paths", 700, 7000), 0
	for seed := uint64(0); total > 0; seed++ {
		coretest.Empty(t, root)
		r := rand.New(rand.NewPCG(seed, 29))
		coretest.Grow(t, r, root, coretest.Tree{Depth: 4, Width: 9, Ignore: true})
		require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "info", "exclude"), []byte(coretest.IgnoreFile(r)), 0o644))
		all, dirs := paths(t, root)
		if len(all) == 0 {
			continue
		}
		git := repo.Explain(all)
		require.Len(t, git, len(all))
		for _, path := range all {
			ours, _ := explain(root, path, dirs[path])
			require.Equal(t, git[path], ours, "seed %d, path %q", seed, path)
			if ours.Source != "" {
				decided++
			}
		}
		total -= len(all)
	}
	assert.Greater(t, decided, 100, "patterns must match some of the paths")
}

// WS-029: every pattern of one to three symbols against every name of up to
// three: the whole language in small, also what no manual describes.
func TestSmallPatternsAreGits(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	repo := coretest.Init(t, root, "sha1")
	for _, name := range []string{"a", "b", "-", "]", "*", "[a]", "\\", " ", "a ", "!", "#", "ab", "a-b", "[", "\x01", "\v", "\f", "A", "0", "_", "\x7f", "\xe9"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, name, "a"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name, "b"), nil, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(root, name, "a", name), nil, 0o644))
	}
	symbols := []string{"a", "b", "/", "*", "**", "?", "[", "]", "!", "^", "-", "\\", " ", "[:space:]", "[:punct:]", "[:cntrl:]", "[:print:]", "[:graph:]", "[:alnum:]", "#"}
	all, dirs := paths(t, root)
	r := rand.New(rand.NewPCG(1, 30))
	for range proof.Size(t, "small patterns", 150, 4000) {
		pattern := ""
		for range 1 + r.IntN(7) {
			pattern += symbols[r.IntN(len(symbols))]
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte(pattern), 0o644))
		git := repo.Explain(all)
		for _, path := range all {
			ours, _ := explain(root, path, dirs[path])
			require.Equal(t, git[path], ours, "pattern %q, path %q", pattern, path)
		}
	}
}

// WS-029: the parts of the language that are easy to get wrong, one by one.
func TestIgnoredPaths(t *testing.T) {
	for _, c := range []struct {
		patterns, path string
		dir, ignored   bool
	}{
		{"*.log", "d/a.log", false, true},
		{"*.log\n!a.log", "d/a.log", false, false},
		{"!a.log\n*.log", "a.log", false, true},
		{"d/\n!d/a", "d/a", false, true}, // nothing is included below an ignored directory
		{"d/*\n!d/a", "d/a", false, false},
		{"d/*\n!d/a/", "d/a/b", false, false},
		{"*\n!d/", "d/a", false, true}, // the contents are not included with their directory
		{"/a", "d/a", false, false},
		{"d/a", "x/d/a", false, false},
		{"a/", "a", false, false},
		{"a/", "a", true, true},
		{"**/a", "x/y/a", false, true},
		{"a/**", "a", true, false},
		{"a/**/b", "a/b", false, true},
		{"a/**/b", "a/x/y/b", false, true},
		{"a**/b", "ax/y/b", false, true}, // the prefix is compared first
		{"x**y", "x/y", false, false},
		{"a\\ ", "a ", false, true},
		{"a  ", "a", false, true},
		{"a\t", "a", false, false},
		{"a\r\nb", "a", false, true},
		{"\uFEFFa", "a", false, true},
		{"\\#a", "#a", false, true},
		{"\\!a", "!a", false, true},
		{"[[:upper:]]", "A", false, true},
		{"[!a-c]x", "dx", false, true},
		{"[a", "[a", false, false},
		{"a\\", "a\\", false, false},
	} {
		rules := ignore.Rules{}
		_, _, ignored := ignore.NewExplainer(&rules, func(dir string) []*ignore.List {
			if dir != "" {
				return nil
			}
			return []*ignore.List{ignore.Parse(".gitignore", "", []byte(c.patterns))}
		}).Explain(c.path, c.dir)
		assert.Equal(t, c.ignored, ignored, "%q against %q", c.path, c.patterns)
	}
}

// WS-031: request, workspace, deeper and higher directories, excludes.
func TestPrecedence(t *testing.T) {
	list := func(source, base, text string) *ignore.List { return ignore.Parse(source, base, []byte(text)) }
	ferment, gitignore, deep := list("fermentignore", "", "a"), list("gitignore", "", "a\nb\nc"), list("deep", "d", "c")
	rules := &ignore.Rules{
		Above: []*ignore.List{list("request", "", "r"), list("workspace", "", "r\nw")},
		Below: []*ignore.List{list("info", "", "c\nr\nz"), list("user", "", "z\ny")},
	}
	d := rules.Root(ferment, gitignore).Enter("d", deep, nil)
	for name, source := range map[string]string{"r": "request", "w": "workspace", "a": "fermentignore", "b": "gitignore", "c": "deep", "z": "info", "y": "user"} {
		p := d.Match(name, false)
		require.NotNil(t, p, name)
		assert.Equal(t, source, p.Source, name)
	}
	assert.Nil(t, d.Match("x", false))
}

// Matching ends in bounded time for patterns that make a plain search
// exponential.
func TestHostilePatternsEnd(t *testing.T) {
	began := proof.Spent()
	for _, pattern := range []string{
		strings.Repeat("a*", 500) + "b", strings.Repeat("**/", 500) + "x/y", strings.Repeat("**/a/", 200) + "b", strings.Repeat("*a/**/", 200) + "b", strings.Repeat("?*", 300) + "[b]",
	} {
		l := ignore.Parse("", "", []byte("/"+pattern))
		rules := &ignore.Rules{}
		for _, path := range []string{strings.Repeat("a", 2000), strings.Repeat("a/", 400) + "a"} {
			assert.Nil(t, rules.Root(l).Match(path, false))
		}
	}
	assert.Less(t, proof.Spent()-began, 20*time.Second)
}

// A pattern that has no special characters matches exactly its own name.
func TestLiteralPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9_.~-]{1,12}`).Draw(t, "name")
		other := rapid.StringMatching(`[a-zA-Z0-9_.~-]{1,12}`).Draw(t, "other")
		d := (&ignore.Rules{}).Root(ignore.Parse("", "", []byte(name)))
		assert.NotNil(t, d.Match(name, false))
		assert.Equal(t, name == other, d.Match(other, false) != nil)
	})
}

// An explainer decides about paths in any order as one that is new for each.
func TestExplainerRemembersDirectories(t *testing.T) {
	lists := map[string][]*ignore.List{}
	for dir, text := range map[string]string{"": "b/\n*.x\n!keep.x", "a": "c\n", "a/b": "never read\n", "c/d": "!b/\n"} {
		lists[dir] = []*ignore.List{ignore.Parse(dir+"/.gitignore", dir, []byte(text))}
	}
	rules := &ignore.Rules{}
	read := func(dir string) []*ignore.List { return lists[dir] }
	one := ignore.NewExplainer(rules, read)
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringMatching(`(a|b|c|d|ab)(/(a|b|c|d|ab)){0,4}(/(f\.x|keep\.x|f))?`).Draw(t, "path")
		dir := rapid.Bool().Draw(t, "directory")
		p, at, ignored := one.Explain(path, dir)
		wantPattern, wantAt, wantIgnored := ignore.NewExplainer(rules, read).Explain(path, dir)
		assert.Equal(t, wantPattern, p)
		assert.Equal(t, wantAt, at)
		assert.Equal(t, wantIgnored, ignored)
	})
}

// FuzzPattern compares single patterns with git.
func FuzzPattern(f *testing.F) {
	coretest.NeedGit(f)
	r := rand.New(rand.NewPCG(3, 31))
	for range 20 {
		f.Add(coretest.Pattern(r), coretest.Name(r))
	}
	root := f.TempDir() // the inputs of one process follow each other
	coretest.Init(f, root, "sha1")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if name == "" || len(name) > 200 || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || strings.EqualFold(name, ".git") || name == ".gitignore" || len(pattern) > 1000 {
			t.Skip()
		}
		coretest.Empty(t, root)
		require.NoError(t, os.MkdirAll(filepath.Join(root, name, "a"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name, "a", name), nil, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte(pattern), 0o644))
		all, dirs := paths(t, root)
		git := coretest.At(t, root).Explain(all)
		for _, path := range all {
			ours, _ := explain(root, path, dirs[path])
			require.Equal(t, git[path], ours, path)
		}
	})
}
