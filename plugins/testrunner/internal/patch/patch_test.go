package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tree writes files; a name that ends in "@" is a link to the content.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(name, "@")))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "@") {
			require.NoError(t, os.Symlink(content, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// contents reads a tree back; links and empty directories are not in it.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(text)
		return err
	}))
	return files
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

const change = `--- a/f.txt
+++ b/f.txt
@@ -2,3 +2,3 @@
 line 2
-line 3
+line three
 line 4
`

// plugins.md 7.0, row :code/apply-patch: patches that apply.
func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		before  map[string]string
		patch   string
		strip   int
		after   map[string]string
		changes []Change
	}{
		"change": {
			before: map[string]string{"f.txt": lines(1, 5)}, patch: change, strip: 1,
			after:   map[string]string{"f.txt": strings.Replace(lines(1, 5), "line 3", "line three", 1)},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"no final newline in the text of the patch": {
			before: map[string]string{"f.txt": lines(1, 5)}, patch: strings.TrimSuffix(change, "\n"), strip: 1,
			after:   map[string]string{"f.txt": strings.Replace(lines(1, 5), "line 3", "line three", 1)},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"strip 0 of a plain diff": {
			before: map[string]string{"f.txt": "a\n"}, strip: 0,
			patch:   "--- f.txt\t2026-01-01 00:00:00\n+++ f.txt\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n",
			after:   map[string]string{"f.txt": "b\n"},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"strip 0 of a Git diff without prefixes": {
			before: map[string]string{"a/f.txt": "a\n"}, strip: 0,
			patch:   "diff --git a/f.txt a/f.txt\nindex 1..2 100644\n--- a/f.txt\n+++ a/f.txt\n@@ -1 +1 @@\n-a\n+b\n",
			after:   map[string]string{"a/f.txt": "b\n"},
			changes: []Change{{Path: "a/f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"strip 2": {
			before: map[string]string{"f.txt": "a\n"}, strip: 2,
			patch:   "--- a/src/f.txt\n+++ b/src/f.txt\n@@ -1 +1 @@\n-a\n+b\n",
			after:   map[string]string{"f.txt": "b\n"},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"strip 2 of a Git diff": {
			before: map[string]string{"f.txt": "a\n"}, strip: 2,
			patch:   "diff --git a/src/f.txt b/src/f.txt\n--- a/src/f.txt\n+++ b/src/f.txt\n@@ -1 +1 @@\n-a\n+b\n",
			after:   map[string]string{"f.txt": "b\n"},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"new file in a new directory": {
			before: map[string]string{}, strip: 1,
			patch:   "diff --git a/x/y.sh b/x/y.sh\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/x/y.sh\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n",
			after:   map[string]string{"x/y.sh": "a\nb"},
			changes: []Change{{Path: "x/y.sh", Status: New, Added: 2}},
		},
		"new file of another tool": {
			before: map[string]string{}, strip: 1,
			patch:   "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+a\n",
			after:   map[string]string{"new.txt": "a\n"},
			changes: []Change{{Path: "new.txt", Status: New, Added: 1}},
		},
		"deleted file with its directory": {
			before: map[string]string{"d/f.txt": "a\n", "g.txt": "g\n"}, strip: 1,
			patch:   "diff --git a/d/f.txt b/d/f.txt\ndeleted file mode 100644\n--- a/d/f.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
			after:   map[string]string{"g.txt": "g\n"},
			changes: []Change{{Path: "d/f.txt", Status: Deleted, Removed: 1}},
		},
		"rename with a change": {
			before: map[string]string{"old.txt": lines(1, 3)}, strip: 1,
			patch:   "diff --git a/old.txt b/new name.txt\nsimilarity index 60%\nrename from old.txt\nrename to new name.txt\n--- a/old.txt\n+++ b/new name.txt\n@@ -1,3 +1,3 @@\n-line 1\n+line one\n line 2\n line 3\n",
			after:   map[string]string{"new name.txt": "line one\n" + lines(2, 3)},
			changes: []Change{{Path: "new name.txt", From: "old.txt", Status: Renamed, Added: 1, Removed: 1}},
		},
		"copy": {
			before: map[string]string{"a.txt": "a\n"}, strip: 1,
			patch:   "diff --git a/a.txt b/b.txt\nsimilarity index 100%\ncopy from a.txt\ncopy to b.txt\n",
			after:   map[string]string{"a.txt": "a\n", "b.txt": "a\n"},
			changes: []Change{{Path: "b.txt", From: "a.txt", Status: Copied}},
		},
		"file becomes a directory": {
			before: map[string]string{"a": "a\n"}, strip: 1,
			patch:   "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\ndiff --git a/a/b b/a/b\nnew file mode 100644\n--- /dev/null\n+++ b/a/b\n@@ -0,0 +1 @@\n+b\n",
			after:   map[string]string{"a/b": "b\n"},
			changes: []Change{{Path: "a", Status: Deleted, Removed: 1}, {Path: "a/b", Status: New, Added: 1}},
		},
		"mail with text around": {
			before: map[string]string{"f.txt": lines(1, 5)}, strip: 1,
			patch:   "From: someone\nSubject: [PATCH] words\n\nwhy\n---\n f.txt | 2 +-\n\n" + change + "-- \n2.40\n",
			after:   map[string]string{"f.txt": strings.Replace(lines(1, 5), "line 3", "line three", 1)},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
		"empty context line without its blank": {
			before: map[string]string{"f.txt": "a\n\nb\n"}, strip: 1,
			patch:   "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n",
			after:   map[string]string{"f.txt": "a\n\nc\n"},
			changes: []Change{{Path: "f.txt", Status: Modified, Added: 1, Removed: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, c.before)
			p, refusal := Parse(c.patch, c.strip)
			require.Nil(t, refusal)
			changes, err := p.Apply(context.Background(), dir)
			require.NoError(t, err)
			assert.Equal(t, c.after, contents(t, dir))
			assert.Equal(t, c.changes, changes)
		})
	}
}

func TestApplySetsModes(t *testing.T) {
	dir := tree(t, map[string]string{"run.sh": "a\n"})
	p, refusal := Parse("diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n", 1)
	require.Nil(t, refusal)
	_, err := p.Apply(context.Background(), dir)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "run.sh"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
}

// plugins.md 7.0: each row is rejected with the file and, where one is
// concerned, the hunk; the tree stays unchanged.
func TestRefusals(t *testing.T) {
	add := func(name string) string { return "--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+a\n" }
	for name, c := range map[string]struct {
		patch string
		file  string
		hunk  int
		words string
	}{
		"no text":                     {"", "", 0, "names no file"},
		"prose":                       {"Here is what I would change.\n", "", 0, "names no file"},
		"wrong context":               {strings.Replace(change, " line 4", " line 5", 1), "f.txt", 1, `line 4 is "line 4\n", the patch expects "line 5\n"`},
		"wrong white space":           {strings.Replace(change, " line 4", "  line 4", 1), "f.txt", 1, "only white space differs"},
		"second hunk wrong":           {change + "@@ -5 +5 @@\n-line 6\n+line six\n", "f.txt", 2, `line 5 is "line 5\n"`},
		"beyond the end":              {"--- a/f.txt\n+++ b/f.txt\n@@ -50 +50 @@\n-a\n+b\n", "f.txt", 1, "fewer lines"},
		"offset by one":               {strings.Replace(change, "-2,3 +2,3", "-3,3 +3,3", 1), "f.txt", 1, "line 3"},
		"CRLF content":                {strings.ReplaceAll(change, "line 3\n", "line 3\r\n"), "f.txt", 1, "the line ends differ"},
		"CRLF headers":                {strings.ReplaceAll(change, "\n", "\r\n"), "f.txt", 0, "CRLF"},
		"hunk too long":               {change + "+more\n", "f.txt", 1, "more lines than its header"},
		"hunk too long by context":    {change + " line 5\n", "f.txt", 1, "more lines than its header"},
		"hunk too short":              {strings.TrimSuffix(change, " line 4\n"), "f.txt", 1, "fewer lines than its header"},
		"header without hunk":         {"--- a/f.txt\n+++ b/f.txt\n", "f.txt", 0, "no hunk"},
		"header then prose":           {"--- a/f.txt\n+++ b/f.txt\nreplace line 3\n", "f.txt", 0, "no hunk"},
		"hunk without header":         {"@@ -1 +1 @@\n-a\n+b\n", "", 0, "without file header"},
		"bad hunk header":             {"--- a/f.txt\n+++ b/f.txt\n@@ -x,1 +1 @@ long enough\n-a\n+b\n", "", 0, "cannot be read"},
		"hunks out of order":          {"--- a/f.txt\n+++ b/f.txt\n@@ -4 +4 @@\n-line 4\n+x\n@@ -2 +2 @@\n-line 2\n+y\n", "f.txt", 2, "order"},
		"missing file":                {strings.ReplaceAll(change, "f.txt", "g.txt"), "g.txt", 0, "does not exist"},
		"new file that exists":        {add("f.txt"), "f.txt", 0, "exists already"},
		"parent directory":            {add("../evil"), "../evil", 0, "leaves the tree"},
		"parent in the middle":        {add("a/../../evil"), "a/../../evil", 0, "leaves the tree"},
		"absolute":                    {"--- /dev/null\n+++ b//etc/passwd\n@@ -0,0 +1 @@\n+a\n", "", 0, ""},
		"absolute after strip":        {"diff --git a//etc/x b//etc/x\nnew file mode 100644\n--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+a\n", "", 0, ""},
		"inside .git":                 {add(".git/hooks/pre-commit"), ".git/hooks/pre-commit", 0, "Git directory"},
		"nothing to strip":            {strings.ReplaceAll(strings.ReplaceAll(change, "a/f", "f"), "b/f", "f"), "f.txt", 0, "leading directories"},
		"through a link":              {add("out/evil"), "out/evil", 0, "symbolic link out"},
		"through a link inside":       {add("in/evil"), "in/evil", 0, "symbolic link in"},
		"a link itself":               {strings.ReplaceAll(change, "f.txt", "link.txt"), "link.txt", 0, "symbolic link"},
		"through a file":              {add("f.txt/x"), "f.txt/x", 0, "not a directory"},
		"a directory":                 {strings.ReplaceAll(change, "f.txt", "dir"), "dir", 0, "not a regular file"},
		"new link":                    {"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n", "l", 0, "links"},
		"submodule":                   {"diff --git a/m b/m\nnew file mode 160000\nindex 0..1\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit 1\n", "m", 0, "submodules"},
		"binary":                      {"diff --git a/b.png b/b.png\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 1\nIc${MZ00031\n\nliteral 0\nHcmV?d00001\n\n", "b.png", 0, "binary"},
		"binary without data":         {"diff --git a/b.png b/b.png\nindex 1..2 100644\nBinary files a/b.png and b/b.png differ\n", "b.png", 0, "binary"},
		"delete with other content":   {"--- a/f.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "f.txt", 1, "still has content"},
		"file under a new file":       {add("n") + add("n/m"), "n/m", 0, "not a directory"},
		"file over a new directory":   {add("n/m") + add("n"), "n", 0, "directory of this name"},
		"second file fails, all fail": {change + strings.ReplaceAll(change, "f.txt", "g.txt"), "g.txt", 0, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[string]string{"f.txt": lines(1, 5), "dir/x": "x\n"}
			outside := tree(t, map[string]string{"keep": "k\n"})
			dir := tree(t, before)
			require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
			require.NoError(t, os.Symlink("dir", filepath.Join(dir, "in")))
			require.NoError(t, os.Symlink("f.txt", filepath.Join(dir, "link.txt")))

			refusal := refused(t, c.patch, dir)
			require.NotNil(t, refusal)
			if c.file != "" {
				assert.Equal(t, c.file, refusal.File)
			}
			assert.Equal(t, c.hunk, refusal.Hunk, refusal.Reason)
			assert.Contains(t, refusal.Error(), c.words)
			assert.Equal(t, before, contents(t, dir), "the tree must stay as it was")
			assert.Equal(t, map[string]string{"keep": "k\n"}, contents(t, outside))
		})
	}
}

func refused(t testing.TB, text, dir string) *Refusal {
	t.Helper()
	p, refusal := Parse(text, 1)
	if refusal != nil {
		return refusal
	}
	_, err := p.Apply(context.Background(), dir)
	require.Error(t, err)
	require.True(t, errors.As(err, &refusal), "%v", err)
	return refusal
}

func TestTooLarge(t *testing.T) {
	_, refusal := Parse(strings.Repeat("x", MaxSize+1), 1)
	require.NotNil(t, refusal)
	assert.Contains(t, refusal.Reason, "larger")

	var b strings.Builder
	for i := range MaxFiles + 1 {
		fmt.Fprintf(&b, "--- /dev/null\n+++ b/f%d\n@@ -0,0 +1 @@\n+a\n", i)
	}
	_, refusal = Parse(b.String(), 1)
	require.NotNil(t, refusal)
	assert.Contains(t, refusal.Reason, "1000 files")
}

func TestApplyStopsWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, refusal := Parse(change, 1)
	require.Nil(t, refusal)
	_, err := p.Apply(ctx, tree(t, map[string]string{"f.txt": lines(1, 5)}))
	assert.ErrorIs(t, err, context.Canceled)
}

// Patches written by Git apply: random trees, diffed by the real tool.
func TestAgreesWithGit(t *testing.T) {
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	pair := rapid.Custom(func(t *rapid.T) [2]map[string]string {
		return [2]map[string]string{randomTree(t, "before"), randomTree(t, "after")}
	})
	for seed := range 40 {
		trees := pair.Example(seed)
		dir := t.TempDir()
		for i, side := range []string{"old", "new"} {
			for name, text := range trees[i] {
				path := filepath.Join(dir, side, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
		}
		cmd := exec.Command(git, "diff", "--no-index", "--find-renames", "-U2", "old", "new")
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		text, _ := cmd.Output() // status 1 means that there are differences
		if len(text) == 0 {
			require.Equal(t, trees[0], trees[1])
			continue
		}
		p, refusal := Parse(string(text), 2)
		require.Nil(t, refusal, "%s", text)
		_, err := p.Apply(context.Background(), filepath.Join(dir, "old"))
		require.NoError(t, err, "%s", text)
		require.Equal(t, trees[1], contents(t, filepath.Join(dir, "old")), "%s", text)
	}
}

func randomTree(t *rapid.T, label string) map[string]string {
	name := rapid.SampledFrom([]string{"one.txt", "dir/two.txt", "dir/sub/three.go", "name with blanks"})
	text := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"alpha\n", "beta\n", "\n", "-- minus\n", "++ plus\n", "@@ -1 +1 @@\n", "\ttab\n", "zażółć\n", "cr\r\n"}), 1, 12).Draw(t, "lines")
		text := strings.Join(parts, "")
		if rapid.Bool().Draw(t, "unterminated") {
			text = strings.TrimSuffix(text, "\n") + "end"
		}
		return text
	})
	return rapid.MapOfN(name, text, 1, 4).Draw(t, label)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{change, "", "diff --git a/x b/x\nnew file mode 100644\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "GIT binary patch\nliteral 1\n", "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nold mode 100644\nnew mode 100755\n"} {
		f.Add(seed, 1)
	}
	base := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, strip int) {
		if strip < 0 || strip > 5 || len(text) > 1<<16 {
			return
		}
		p, refusal := Parse(text, strip)
		if refusal != nil {
			assert.NotEmpty(t, refusal.Reason)
			return
		}
		outer := filepath.Join(base, "t")
		require.NoError(t, os.RemoveAll(outer))
		dir := filepath.Join(outer, "tree")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f.txt"), []byte(lines(1, 5)), 0o644))
		_, _ = p.Apply(context.Background(), dir)
		entries, err := os.ReadDir(outer)
		require.NoError(t, err)
		assert.Len(t, entries, 1, "nothing is written outside the tree")
	})
}
