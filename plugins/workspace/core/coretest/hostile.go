package coretest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Names are file names for tests: ordinary ones, and ones with spaces, control
// characters, glob or git syntax, invalid UTF-8 or great length.
var Names = []string{
	"a", "b", "c", "foo", "bar", "foo.o", "a.log", "x.go", "build", "target", "node_modules",
	"Foo", "FOO", "a b", " lead", "trail ", "trail  ", "-rf", "--", "tab\there", "new\nline", "cr\r", "quo\"te", "quo'te",
	"back\\slash", "\\", "star*", "*", "**", "?", "[a]", "[", "]", "[!x]", "{a,b}", "!not", "#hash", "!", "#", "~", "$x", "a..b", "...", "..a", ".hidden",
	"\u00e9", "e\u0301", "\u65e5\u672c", "\xff\xfe", "\xc3", "\x7f", "\x01", ".gitfoo", "git", "gitx", "foo:bar", ":x", ":(top)y", "%s", "a-", "a.", "a0",
	"very" + strings.Repeat("long", 60),
}

// Name returns a random file name for a hostile tree.
func Name(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf("f%d", r.IntN(1000))
	case 1: // bytes without slash and NUL
		b := make([]byte, 1+r.IntN(6))
		for i := range b {
			for b[i] == 0 || b[i] == '/' {
				b[i] = byte(r.IntN(256))
			}
		}
		if s := strings.ToLower(string(b)); s == "." || s == ".." || strings.HasPrefix(s, ".git") {
			return "z"
		}
		return string(b)
	}
	return Names[r.IntN(len(Names))]
}

// Tree configures Grow.
type Tree struct {
	Depth  int
	Width  int // most entries of a directory
	Ignore bool
	// Special adds FIFOs. Nested is a directory with the .git of a repository
	// that has a commit; copies of it become nested repositories.
	Special bool
	Nested  string
}

// Grow fills a directory with a hostile tree.
func Grow(t testing.TB, r *rand.Rand, dir string, o Tree) {
	t.Helper()
	g := grower{t: t, r: r, Tree: o}
	g.directory(dir, o.Depth)
}

type grower struct {
	Tree
	t testing.TB
	r *rand.Rand
}

func (g *grower) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *grower) directory(dir string, depth int) {
	for range g.r.IntN(g.Width + 1) {
		path := filepath.Join(dir, Name(g.r))
		if _, err := os.Lstat(path); err == nil || len(path) > 3000 {
			continue
		}
		switch n := g.r.IntN(20); {
		case n < 7 && depth > 0:
			g.must(os.Mkdir(path, 0o755))
			g.directory(path, depth-1)
		case n == 7:
			g.must(os.Symlink(g.target(dir), path))
		case n == 8 && g.Special:
			g.must(syscall.Mkfifo(path, 0o600))
		case n == 9 && g.Nested != "":
			g.nested(path)
		default:
			g.must(os.WriteFile(path, g.content(), 0o600))
			g.must(os.Chmod(path, []os.FileMode{0o600, 0o644, 0o755, 0o700, 0o611, 0o744, 0o666}[g.r.IntN(7)]))
		}
	}
	if g.Ignore && g.r.IntN(3) == 0 {
		_ = os.Remove(filepath.Join(dir, ".gitignore"))
		g.must(os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(IgnoreFile(g.r)), 0o644))
	}
}

func (g *grower) content() []byte {
	switch g.r.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte("equal\n")
	case 2:
		return []byte("crlf\r\n")
	}
	b := make([]byte, g.r.IntN(40_000)/(1+g.r.IntN(400)))
	for i := range b {
		b[i] = byte(g.r.IntN(256))
	}
	return b
}

func (g *grower) target(dir string) string {
	return []string{".", "..", dir, "a", "nowhere", "/", "/etc/passwd", "self", "\xff", "a/b/../c"}[g.r.IntN(10)]
}

// nested makes a directory that is, or only looks like, a nested repository.
func (g *grower) nested(path string) {
	dotgit := filepath.Join(path, ".git")
	g.must(os.Mkdir(path, 0o755))
	g.must(os.WriteFile(filepath.Join(path, "inside"), []byte("inside"), 0o644))
	switch g.r.IntN(6) {
	case 0: // an empty directory is no repository
		g.must(os.Mkdir(dotgit, 0o755))
	case 1: // nor is a file with other text
		g.must(os.WriteFile(dotgit, []byte("nothing\n"), 0o644))
	case 2: // a repository whose head is a commit
		g.must(os.CopyFS(dotgit, os.DirFS(g.Nested)))
		g.must(os.WriteFile(filepath.Join(dotgit, "HEAD"), g.commit(), 0o644))
	case 3: // one whose branch is in packed-refs
		g.must(os.CopyFS(dotgit, os.DirFS(g.Nested)))
		g.must(os.WriteFile(filepath.Join(dotgit, "packed-refs"), append(bytes.TrimSpace(g.commit()), " refs/heads/main\n"...), 0o644))
		g.must(os.Remove(filepath.Join(dotgit, "refs", "heads", "main")))
	case 4: // one elsewhere in the tree
		g.must(os.CopyFS(filepath.Join(path, "real"), os.DirFS(g.Nested)))
		g.must(os.WriteFile(dotgit, []byte("gitdir: real\n"), 0o644))
	default:
		g.must(os.CopyFS(dotgit, os.DirFS(g.Nested)))
	}
}

func (g *grower) commit() []byte {
	b, err := os.ReadFile(filepath.Join(g.Nested, "refs", "heads", "main"))
	g.must(err)
	return b
}

// IgnoreFile returns the text of a random ignore file.
func IgnoreFile(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(10) == 0 {
		b.WriteString("\uFEFF")
	}
	for range r.IntN(6) {
		b.WriteString(Pattern(r))
		if r.IntN(8) == 0 {
			b.WriteString("\r")
		}
		b.WriteString("\n")
	}
	if r.IntN(4) == 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	return b.String()
}

// Pattern returns a random line of an ignore file.
func Pattern(r *rand.Rand) string {
	if r.IntN(30) == 0 {
		return []string{"", "#", "!", "/", "//", "!/", "**", "/**", "**/", "/*", "*/", "\\", "!#", "\\!", "\\#hash", "[", "[]", "[!]", "[]a]", "[a-", "[[:alpha:]", "[[:nope:]]", " ", "\\ ", "a\x00b"}[r.IntN(25)]
	}
	var b strings.Builder
	if r.IntN(5) == 0 {
		b.WriteByte('!')
	}
	if r.IntN(4) == 0 {
		b.WriteByte('/')
	}
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(part(r))
	}
	b.WriteString([]string{"", "", "", "/", "/**", "/*", "**", " ", "\\ ", "  ", "\t"}[r.IntN(11)])
	return b.String()
}

// part returns a component of a pattern: a name with some of it replaced.
func part(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return "**"
	case 1:
		return "*"
	}
	name := Names[r.IntN(len(Names))]
	if r.IntN(3) == 0 {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name) && i < 12; i++ {
		switch r.IntN(9) {
		case 0:
			b.WriteByte('*')
		case 1:
			b.WriteByte('?')
		case 2:
			b.WriteString(class(r, name[i]))
		case 3:
			b.WriteString("\\" + name[i:i+1])
		case 4:
			b.WriteString("**")
		default:
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

func class(r *rand.Rand, c byte) string {
	s := string([]byte{c})
	options := []string{
		"[" + s + "]", "[!" + s + "]", "[^x]", "[a-z]", "[!a-z]", "[z-a]", "[\\" + s + "]", "[" + s + "-]", "[-" + s + "]", "[]" + s + "]", "[a-\\z]",
		"[[:alpha:]]", "[[:alnum:]_.]", "[[:space:]]", "[[:punct:]]", "[![:digit:]]", "[[:upper:]-z]", "[[a]", "[[:x]", "[/]", "[a-c/]", "[" + s,
	}
	return options[r.IntN(len(options))]
}
