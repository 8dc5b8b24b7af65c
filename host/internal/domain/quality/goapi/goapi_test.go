package goapi

import (
	"bufio"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write symbols.txt from the toolchain's data")

// collect reads the API files of the toolchain, which list the names of each
// release.
func collect(t *testing.T) string {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "api", "go1*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "the toolchain comes without its API data; install it from a whole distribution")
	all := map[string]map[string]bool{}
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			// pkg syscall (linux-386-cgo), func Name(..) or: type Name struct, Field int
			rest, ok := strings.CutPrefix(lines.Text(), "pkg ")
			if !ok {
				continue
			}
			head, what, _ := strings.Cut(rest, ", ")
			pkg, _, _ := strings.Cut(head, " ")
			kind, name, _ := strings.Cut(what, " ")
			if !slices.Contains([]string{"func", "type", "var", "const"}, kind) {
				continue
			}
			if end := strings.IndexAny(name, " ([,="); end >= 0 {
				name = name[:end]
			}
			if all[pkg] == nil {
				all[pkg] = map[string]bool{}
			}
			all[pkg][name] = true
		}
		require.NoError(t, lines.Err())
		require.NoError(t, f.Close())
	}
	all["unsafe"] = map[string]bool{"Pointer": true, "Sizeof": true, "Offsetof": true, "Alignof": true, "Add": true, "Slice": true, "SliceData": true, "String": true, "StringData": true}
	var b strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(pkg + " " + strings.Join(slices.Sorted(maps.Keys(all[pkg])), " ") + "\n")
	}
	return b.String()
}

// TXT-007: the index is that of the toolchain which builds the program. For a
// newer one, go test ./host/internal/domain/quality/goapi -update writes it.
func TestIndexIsCurrent(t *testing.T) {
	now := collect(t)
	if *update {
		require.NoError(t, os.WriteFile("symbols.txt", []byte(now), 0o644))
		return
	}
	assert.True(t, now == symbols, "symbols.txt is not that of this toolchain; go test ./host/internal/domain/quality/goapi -update writes it anew")
}

func TestCheck(t *testing.T) {
	known := Index{"example.org/shop/cart": {"New": true}}
	for name, c := range map[string]struct{ code, want string }{
		"all exist":              {"package p\nimport (\n\"fmt\"\nstr \"strings\"\n)\nfunc f() { fmt.Println(str.ToUpper(\"x\")) }", ""},
		"no such function":       {"package p\nimport \"strings\"\nvar x = strings.Reverse(\"abc\")", "strings.Reverse"},
		"behind an alias":        {"package p\nimport s \"strings\"\nvar x = s.Reverse(\"abc\")", "strings.Reverse"},
		"no such package":        {"package p\nimport \"strings/utils\"", "strings/utils"},
		"a package of others":    {"package p\nimport \"github.com/x/strings\"\nvar x = strings.Reverse(\"abc\")", ""},
		"a path of a module":     {"package p\nimport \"myapp/strings\"\nvar x = strings.Reverse(\"abc\")", ""},
		"a version":              {"package p\nimport \"math/rand/v2\"\nvar x = rand.IntN(3)", ""},
		"not in that version":    {"package p\nimport \"math/rand/v2\"\nvar x = rand.Intn(3)", "math/rand/v2.Intn"},
		"a variable of the name": {"package p\nimport \"net/url\"\nfunc f(url string) { url.Foo() }", ""},
		"a field":                {"package p\nimport \"strings\"\nfunc f() { x.strings.Foo() }", ""},
		"a method of a result":   {"package p\nimport \"time\"\nvar x = time.Now().Foo()", ""},
		"a snippet":              {"s := strings.Title2(x)\nfmt.Println(s)", "strings.Title2"},
		"a snippet, a variable":  {"user.Name = path.String()\nlog.Infof(x)", ""},
		"the workspace":          {"package p\nimport \"example.org/shop/cart\"\nvar x = cart.New()\nvar y = cart.Fill()", "example.org/shop/cart.Fill"},
		"generic":                {"package p\nimport \"slices\"\nvar x = slices.Collect[int](nil)\nvar y = slices.Map[int](nil)", "slices.Map"},
		"no Go":                  {"def f(): return fmt.Foo(", "fmt.Foo"},
		"in a comment or text":   {"// strings.Foo\nvar x = \"strings.Foo\"", ""},
		"the system":             {"import \"syscall\"\nvar x = syscall.SIGTERM", ""},
	} {
		var got []string
		for _, u := range Check(c.code, known) {
			s := u.Package
			if u.Name != "" {
				s += "." + u.Name
			}
			got = append(got, s)
		}
		assert.Equal(t, c.want, strings.Join(got, " "), name)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("package p\nimport \"strings\"\nvar x = strings.Reverse(\"abc\")")
	f.Add("import (")
	f.Add("a.b.\x00C")
	f.Fuzz(func(t *testing.T, code string) {
		for _, u := range Check(code, nil) {
			if u.Start < 0 || u.End < u.Start || u.End > len(code) {
				t.Fatalf("bad place %v", u)
			}
		}
	})
}
