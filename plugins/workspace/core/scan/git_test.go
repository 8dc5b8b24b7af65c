//go:build unix

package scan

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

func run(t testing.TB, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	return r
}

// template is the .git of a repository with one commit.
func template(t testing.TB, format string) string {
	dir := t.TempDir()
	repo := coretest.Init(t, dir, format)
	repo.Run("commit", "-q", "--allow-empty", "-m", "x")
	for _, part := range []string{"hooks", "logs", "info", "COMMIT_EDITMSG"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, ".git", part)))
	}
	return filepath.Join(dir, ".git")
}

// equalsGit compares every entry of a tree with what git has of it.
func equalsGit(t testing.TB, r *Result, root string, entries map[string][2]string) {
	t.Helper()
	require.Equal(t, root, r.Tree.Root.Content.Hex())
	left := len(entries)
	r.Tree.Walk(func(path string, n *tree.Node) bool {
		if path == "" || n.Mode == id.Dir && r.Tree.Scheme.EmptyTree(n.Content) {
			return true
		}
		require.Equal(t, entries[path], [2]string{n.Mode.String(), n.Content.Hex()}, "%q", path)
		left--
		return true
	})
	require.Zero(t, left, "entries of git that were not scanned")
}

// WS-015, WS-016, WS-029: root, directories, files, links and nested
// repositories of generated hostile trees have the ids that git gives them.
func TestIDsAreGits(t *testing.T) {
	coretest.NeedGit(t)
	for _, scheme := range []id.Scheme{id.GitSHA1, id.GitSHA256} {
		t.Run(scheme.String(), func(t *testing.T) {
			format := strings.TrimPrefix(scheme.String(), "git-")
			root, nested := t.TempDir(), template(t, format)
			repo := coretest.Init(t, root, format)
			found := map[id.Mode]int{}
			for seed := range proof.Size(t, "hostile trees", 12, 1000) {
				coretest.Empty(t, root)
				r := rand.New(rand.NewPCG(uint64(seed), 15))
				coretest.Grow(t, r, root, coretest.Tree{Depth: 4, Width: 8, Ignore: true, Special: true, Nested: nested})
				result := run(t, Options{Root: root, Scheme: scheme, Workers: 1 + r.IntN(4)})
				require.Empty(t, result.Inexact, "seed %d", seed)
				want, entries := repo.WriteTree()
				equalsGit(t, result, want, entries)
				result.Tree.Walk(func(_ string, n *tree.Node) bool { found[n.Mode]++; return true })
			}
			for _, mode := range []id.Mode{id.Dir, id.File, id.Exec, id.Link, id.Repo} {
				assert.Positive(t, found[mode], "the trees must have entries of mode %s", mode)
			}
		})
	}
}

// WS-015, WS-016: the same for the sources of the modules that this build uses,
// with a submodule, a nested repository, a link, an executable file and an odd
// name added.
func TestIDsOfModulesAreGits(t *testing.T) {
	coretest.NeedGit(t)
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{if not .Main}}{{.Dir}}{{end}}{{end}}", "./...")
	list.Dir = filepath.Join("..", "..", "..", "..")
	out, err := list.Output()
	require.NoError(t, err)
	dirs := strings.Fields(string(out))
	slices.Sort(dirs)
	limit := proof.Size(t, "modules", 8, 25)
	exact := 0
	other := t.TempDir()
	coretest.Init(t, other, "sha1").Run("commit", "-q", "--allow-empty", "-m", "x")
	for _, dir := range slices.Compact(dirs) {
		if exact == limit {
			break
		}
		files, bytes := sizeOf(t, dir)
		if files == 0 || files > 600 || bytes > 8<<20 {
			continue
		}
		root := t.TempDir()
		require.NoError(t, os.CopyFS(root, os.DirFS(dir)))
		require.NoError(t, os.Symlink("go.mod", filepath.Join(root, "link to\nmod")))
		require.NoError(t, os.WriteFile(filepath.Join(root, "run\xff"), []byte("#!/bin/sh\n"), 0o755))
		repo := coretest.Init(t, root, "sha1")
		repo.Run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-f", other, "sub module")
		repo.Run("clone", "-q", other, filepath.Join(root, "nested"))
		result := run(t, Options{Root: root, Scheme: id.GitSHA1})
		if len(result.Inexact) > 0 {
			assert.Equal(t, git.ReasonAttributes, result.Inexact[0].Reason)
			continue
		}
		want, entries := repo.WriteTree()
		equalsGit(t, result, want, entries)
		assert.Equal(t, id.Repo, result.Tree.Lookup("sub module").Mode)
		assert.Equal(t, id.Repo, result.Tree.Lookup("nested").Mode)
		exact++
	}
	assert.Equal(t, limit, exact, "modules that are small enough and have no attributes")
}

func sizeOf(t testing.TB, dir string) (files int, bytes int64) {
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			files++
			bytes += info.Size()
		}
		return nil
	}))
	return files, bytes
}

// WS-017: each reason for which git can differ is reported with its path. Where
// git refuses the tree altogether, it does so for the same reason.
func TestInexactIsSaid(t *testing.T) {
	coretest.NeedGit(t)
	write := func(root, path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	config := func(text string) func(string) {
		return func(root string) { write(root, ".git/config", "[core]\n"+text) }
	}
	attributes := func(text string) func(string) {
		return func(root string) { write(root, "d/.gitattributes", "# comment\n* -text diff\n"+text) }
	}
	for name, c := range map[string]struct {
		change func(root string)
		reason git.Reason
		path   string
	}{
		"none":            {func(root string) { write(root, "a", "") }, "", ""},
		"autocrlf":        {config("autoCRLF = input # comment\n"), git.ReasonConfig, ".git/config"},
		"fileMode":        {config("filemode=false\n"), git.ReasonConfig, ".git/config"},
		"symlinks":        {config("symlinks = \"no\"\n"), git.ReasonConfig, ".git/config"},
		"ignoreCase":      {config("ignorecase\n"), git.ReasonConfig, ".git/config"},
		"sparse checkout": {config("sparseCheckout = true\n"), git.ReasonConfig, ".git/config"},
		"of a worktree": {func(root string) {
			write(root, ".git/config", "[extensions]\nworktreeConfig = true\n[core]\nautocrlf = false\n")
			write(root, ".git/config.worktree", "[core]\nautocrlf = true\n")
		}, git.ReasonConfig, ".git/config.worktree"},
		"defaults":              {config("ignorecase = 0\nautocrlf = off\nfilemode = yes\n"), "", ""},
		"include":               {config("\n[include]\npath = x\n"), git.ReasonInclude, "config"},
		"text":                  {attributes("*.go text\n"), git.ReasonAttributes, "d/.gitattributes"},
		"eol":                   {attributes("*.go eol=lf\n"), git.ReasonAttributes, "d/.gitattributes"},
		"crlf":                  {attributes("*.go crlf\n"), git.ReasonAttributes, "d/.gitattributes"},
		"filter":                {attributes("*.go filter=lfs\n"), git.ReasonAttributes, "d/.gitattributes"},
		"ident":                 {attributes("*.go ident\n"), git.ReasonAttributes, "d/.gitattributes"},
		"working-tree-encoding": {attributes("*.go working-tree-encoding=UTF-16\n"), git.ReasonAttributes, "d/.gitattributes"},
		"no attribute":          {attributes("*.go -ident !filter linguist-generated\n"), "", ""},
		"info/attributes":       {func(root string) { write(root, ".git/info/attributes", "* text=auto\n") }, git.ReasonAttributes, "attributes"},
		"relative attributesFile": {func(root string) {
			config("attributesFile = d/mine\n")(root)
			write(root, "d/mine", "*.go text\n")
		}, git.ReasonAttributes, "d/mine"},
		"excludesFile of another user": {config("excludesFile = ~other/mine\n"), git.ReasonUnreadable, "~other/mine"},
		"excludesFile with a prefix":   {config("excludesFile = %(prefix)/mine\n"), git.ReasonUnreadable, "%(prefix)/mine"},
		"nested repository out of reach": {func(root string) {
			write(root, "n/.git", "gitdir: "+filepath.Join(t.TempDir(), "absent")+"\n")
		}, git.ReasonUnreadable, "n"},
		"ignored attributes": {func(root string) {
			write(root, "d/.gitattributes", "* text\n")
			write(root, "d/.gitignore", "*\n")
		}, git.ReasonAttributes, "d/.gitattributes"},
		"no commit": {func(root string) { coretest.Init(t, makeDir(t, root, "n"), "sha1") }, git.ReasonNoCommit, "n"},
		".GIT":      {func(root string) { write(root, ".GIT/x", "") }, git.ReasonName, ".GIT"},
		"git~1":     {func(root string) { write(root, "d/Git~1", "") }, git.ReasonName, "d/Git~1"},
		".git .":    {func(root string) { write(root, ".git . ", "") }, git.ReasonName, ".git . "},
		".git:":     {func(root string) { write(root, ".git::$INDEX", "") }, git.ReasonName, ".git::$INDEX"},
		"a\\.git":   {func(root string) { write(root, `a\.git`, "") }, git.ReasonName, `a\.git`},
		"modules": {func(root string) {
			require.NoError(t, os.Symlink("x", filepath.Join(root, ".gitmodules")))
		}, git.ReasonName, ".gitmodules"},
		"fermentignore": {func(root string) { write(root, "d/.fermentignore", "x\n") }, git.ReasonIgnore, "d/.fermentignore"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			repo := coretest.Init(t, root, "sha1")
			write(root, "x", "x")
			c.change(root)
			o := Options{Root: root, Scheme: id.GitSHA1}
			first := run(t, o)
			o.Previous = first
			for _, r := range []*Result{first, run(t, o)} { // a warm scan says the same
				if c.reason == "" {
					require.Empty(t, r.Inexact)
					want, entries := repo.WriteTree()
					equalsGit(t, r, want, entries)
					continue
				}
				require.NotEmpty(t, r.Inexact)
				assert.Equal(t, c.reason, r.Inexact[0].Reason)
				assert.True(t, strings.HasSuffix(r.Inexact[0].Path, c.path), r.Inexact[0].Path)
			}
			if c.reason == git.ReasonName || c.reason == git.ReasonNoCommit {
				assert.Error(t, repo.Command("add", "-A").Run(), "git refuses the tree")
			}
			own := run(t, Options{Root: root, Scheme: id.B3})
			assert.Empty(t, own.Inexact)
		})
	}
}

func makeDir(t testing.TB, root, path string) string {
	dir := filepath.Join(root, path)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// WS-031: core.excludesFile and info/exclude count in the schemes of git only.
func TestExcludesOfGit(t *testing.T) {
	coretest.NeedGit(t)
	root, home := t.TempDir(), t.TempDir()
	coretest.Init(t, root, "sha1")
	for _, f := range [][2]string{
		{filepath.Join(root, "a"), ""}, {filepath.Join(root, "b"), ""}, {filepath.Join(root, "c"), ""},
		{filepath.Join(root, ".git", "info", "exclude"), "a\n!c\n"},
		{filepath.Join(home, ".gitconfig"), "[core]\n\texcludesFile = ~/mine\n"}, {filepath.Join(home, "mine"), "b\nc\n"},
	} {
		require.NoError(t, os.WriteFile(f[0], []byte(f[1]), 0o644))
	}
	names := func(r *Result) (out []string) {
		for _, c := range r.Tree.Root.Children {
			out = append(out, c.Name)
		}
		return out
	}
	env := git.EnvironmentOf(func(name string) string { return map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}[name] })
	assert.Equal(t, []string{"c"}, names(run(t, Options{Root: root, Scheme: id.GitSHA1, Git: env})))
	assert.Equal(t, []string{"a", "b", "c"}, names(run(t, Options{Root: root, Scheme: id.B3, Git: env})))
}

// WS-031: a relative core.excludesFile is relative to the worktree, as for git.
func TestRelativeExcludesFile(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	repo := coretest.Init(t, root, "sha1")
	repo.Run("config", "core.excludesFile", "d/mine")
	write(t, root, "1.tmp", "d/2.tmp", "a")
	require.NoError(t, os.WriteFile(filepath.Join(root, "d", "mine"), []byte("*.tmp\n"), 0o644))
	r := run(t, Options{Root: root, Scheme: id.GitSHA1})
	assert.Empty(t, r.Inexact)
	want, entries := repo.WriteTree()
	equalsGit(t, r, want, entries)
	d, err := Explain(Options{Root: root, Scheme: id.GitSHA1}, "1.tmp", false)
	require.NoError(t, err)
	assert.Equal(t, repo.Explain([]string{"1.tmp"})["1.tmp"], coretest.Decision{Source: d.Source, Line: fmt.Sprint(d.Line), Pattern: d.Pattern})
}

// WS-017: without HOME the configuration of the user is not known.
func TestUnknownHome(t *testing.T) {
	root := t.TempDir()
	env := git.EnvironmentOf(func(name string) string { return map[string]string{"GIT_CONFIG_NOSYSTEM": "1"}[name] })
	inexact := run(t, Options{Root: root, Scheme: id.GitSHA1, Git: env}).Inexact
	require.Len(t, inexact, 1)
	assert.Equal(t, git.ReasonUnreadable, inexact[0].Reason)
	assert.Equal(t, "~/.gitconfig", inexact[0].Path)
}

// WS-016: a nested repository is a leaf also if its .git is a link, or names a directory in this or
// another repository.
func TestLinkedRepositories(t *testing.T) {
	coretest.NeedGit(t)
	root, other := t.TempDir(), t.TempDir()
	coretest.Init(t, other, "sha1").Run("commit", "-q", "--allow-empty", "-m", "outside")
	repo := coretest.Init(t, root, "sha1")
	repo.Run("commit", "-q", "--allow-empty", "-m", "inside")
	repo.Run("worktree", "add", "-q", "worktree")
	repo.Run("worktree", "add", "-q", "--detach", "d/detached")
	coretest.At(t, other).Run("worktree", "add", "-q", filepath.Join(root, "foreign"))
	relative, err := filepath.Rel(filepath.Join(root, "named"), filepath.Join(other, ".git"))
	require.NoError(t, err)
	for dir, make := range map[string]func(git string) error{
		"linked":            func(git string) error { return os.Symlink(filepath.Join(other, ".git"), git) },
		"linked inside":     func(git string) error { return os.Symlink("../.git", git) },
		"linked to a file":  func(git string) error { return os.Symlink("../worktree/.git", git) },
		"linked to nothing": func(git string) error { return os.Symlink("../absent", git) },
		"linked to other":   func(git string) error { return os.Symlink("../worktree", git) },
		"named":             func(git string) error { return os.WriteFile(git, []byte("gitdir: "+relative+"\n"), 0o644) },
		"named absolutely": func(git string) error {
			return os.WriteFile(git, []byte("gitdir: "+filepath.Join(other, ".git")+"\n"), 0o644)
		},
	} {
		require.NoError(t, make(filepath.Join(makeDir(t, root, dir), ".git")))
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, "f"), nil, 0o644))
	}
	r := run(t, Options{Root: root, Scheme: id.GitSHA1})
	assert.Empty(t, r.Inexact)
	want, entries := repo.WriteTree()
	equalsGit(t, r, want, entries)
	leaves := 0
	r.Tree.Walk(func(_ string, n *tree.Node) bool {
		if n.Mode == id.Repo {
			leaves++
		}
		return true
	})
	assert.Equal(t, 7, leaves)
}

// WS-034: nested repositories are descended, or leaves if the workspace says so.
func TestNestedRepositories(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	nested := makeDir(t, root, "n")
	require.NoError(t, os.CopyFS(filepath.Join(nested, ".git"), os.DirFS(template(t, "sha1"))))
	require.NoError(t, os.WriteFile(filepath.Join(nested, "f"), nil, 0o644))
	assert.NotNil(t, run(t, Options{Root: root, Scheme: id.B3}).Tree.Lookup("n/f"))
	leaf := run(t, Options{Root: root, Scheme: id.B3, Boundaries: true}).Tree.Lookup("n")
	assert.Equal(t, id.Repo, leaf.Mode)
	assert.Empty(t, leaf.Children)
}

// WS-029: what git lists as untracked is what
// is scanned.
func TestListedFilesAreGits(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	repo := coretest.Init(t, root, "sha1")
	for seed := range proof.Size(t, "listed trees", 15, 500) {
		coretest.Empty(t, root)
		r := rand.New(rand.NewPCG(uint64(seed), 16))
		coretest.Grow(t, r, root, coretest.Tree{Depth: 4, Width: 8, Ignore: true})
		want := strings.FieldsFunc(repo.Run("ls-files", "-o", "-z", "--exclude-standard"), func(r rune) bool { return r == 0 })
		got := []string{}
		run(t, Options{Root: root, Scheme: id.GitSHA1}).Tree.Walk(func(path string, n *tree.Node) bool {
			if n.Mode != id.Dir {
				got = append(got, path)
			}
			return true
		})
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, fmt.Sprintf("%q", want), fmt.Sprintf("%q", got), "seed %d", seed)
	}
}

// WS-033: source, line and pattern are those of git check-ignore -v, read from
// the files of a tree, also for paths that do not exist.
func TestExplanationsAreGits(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	repo := coretest.Init(t, root, "sha1")
	total, decided := proof.Size(t, "explained paths", 500, 7000), 0
	for seed := uint64(0); total > 0; seed++ {
		coretest.Empty(t, root)
		r := rand.New(rand.NewPCG(seed, 33))
		coretest.Grow(t, r, root, coretest.Tree{Depth: 4, Width: 9, Ignore: true})
		require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "info", "exclude"), []byte(coretest.IgnoreFile(r)), 0o644))
		var paths []string
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			if path != root {
				paths = append(paths, strings.TrimPrefix(path, root+"/"))
			}
			if d.IsDir() {
				none := tree.Join(strings.TrimPrefix(strings.TrimPrefix(path, root), "/"), coretest.Name(r))
				if _, err := os.Lstat(filepath.Join(root, none)); err != nil && len(none) < 1000 {
					paths = append(paths, none)
				}
			}
			return nil
		}))
		if len(paths) == 0 {
			continue
		}
		want := repo.Explain(paths)
		for _, path := range paths {
			d, err := Explain(Options{Root: root, Scheme: id.GitSHA1}, path, false)
			require.NoError(t, err)
			got := coretest.Decision{Source: d.Source, Pattern: d.Pattern}
			if d.Line > 0 {
				got.Line = fmt.Sprint(d.Line)
				decided++
			}
			require.Equal(t, want[path], got, "seed %d, path %q", seed, path)
			require.Equal(t, d.Source != "" && !strings.HasPrefix(d.Pattern, "!"), d.Ignored)
		}
		total -= len(paths)
	}
	assert.Greater(t, decided, 50, "patterns must match some of the paths")
}

// WS-028, WS-031, WS-033: the rules that git does not have are named too, and the
// text is that of an error.
func TestExplain(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/b/c", "d/x", "keep.go")
	require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte("\n*.log\n!keep.*\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "a", ".fermentignore"), []byte("/b/"), 0o644))
	require.NoError(t, os.Symlink("d", filepath.Join(root, "link")))
	o := Options{
		Root: root, Scheme: id.B3, Exclude: []string{"d/store"},
		Workspace: ignore.Parse("workspace", "", []byte("secret")), Patterns: ignore.Parse("request", "", []byte("!free.log")),
	}
	for path, want := range map[string]struct{ text, at string }{
		"x.log":       {`ignored by .gitignore:2 "*.log"`, "x.log"},
		"free.log":    {`not ignored because of request:1 "!free.log"`, "free.log"},
		"keep.go":     {`not ignored because of .gitignore:3 "!keep.*"`, "keep.go"},
		"a/b/c":       {`ignored by a/.fermentignore:1 "/b/"`, "a/b"},
		"e/secret/f":  {`ignored by workspace:1 "secret"`, "e/secret"},
		"d/store/log": {`ignored: d/store is never part of the tree`, "d/store"},
		"e/.git/x":    {`ignored: e/.git is never part of the tree`, "e/.git"},
		"link/x.log":  {`ignored by .gitignore:2 "*.log"`, "link/x.log"},
		"d/x":         {`not ignored: no pattern matches`, ""},
		"":            {`not ignored: no pattern matches`, ""},
	} {
		d, err := Explain(o, path, false)
		require.NoError(t, err)
		assert.Equal(t, want.text, d.String(), path)
		assert.Equal(t, want.at, d.At, path)
	}
	_, err := Explain(o, "../x", false)
	require.ErrorIs(t, err, contract.OfType("path/invalid"))
	require.NoError(t, os.Truncate(filepath.Join(root, ".gitignore"), maxRuleFile+1))
	_, err = Explain(o, "x", false)
	require.ErrorIs(t, err, contract.OfType("ignore/invalid"))
}
