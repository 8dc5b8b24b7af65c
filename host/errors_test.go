package host_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

var updateTypes = flag.Bool("update", false, "write testdata/error-types.txt")

// catalogueFiles name types because they are the catalogue, not because they
// raise one: the catalogue, and what the exit codes say of its types.
var catalogueFiles = []string{"sdk/contract/catalogue", "sdk/contract/exit"}

// named tells whether the tests of a package name the types that it raises. The
// catalogue knows other names of types and raises none; the conformance suite
// lists what others may raise; the model adapter has a table of failures whose
// rows its tests go by.
func named(raiser string) bool {
	for _, other := range []string{
		"sdk/contract", "sdk/conformance", "host/internal/runtime/cli/exit", "plugins/llm", "plugins/internal/provider",
	} {
		if raiser == other || strings.HasPrefix(raiser, other+"/") {
			return false
		}
	}
	return true
}

// goldenDiagnostics is the folder of what the configuration reports for broken
// files: the types in it were produced. Other data of tests is mostly input.
const goldenDiagnostics = "/testdata/diag/"

// ERR-002, ERR-012, EVAL-075, in part: each error type that the source raises is
// named by a test of something else than the catalogue. A type counts if it is in
// a string literal of a test or in a golden diagnostic. It does not count in a
// comment, in other data, where a test makes the error itself (contract.Errorf and
// the like), or where a script has a plugin answer with it.
//
// This does not prove that a test raises the error: a type in a set :switch-on or
// in a table of inputs counts too. Which types a test run has produced would have
// to be collected over all packages and processes, and nothing does that. The list
// in testdata/error-types.txt says which types of the catalogue the program raises
// and which belong to what is not built.
func TestErrorTypes(t *testing.T) {
	raised, tested := typesInSource(t)
	var list strings.Builder
	list.WriteString("# Types of the catalogue: what raises them, or - for what this build does not have.\n")
	for _, row := range contract.Rows() {
		if strings.HasSuffix(row.Type, "/*") {
			continue
		}
		by := "-"
		if where := raised[row.Type]; len(where) > 0 {
			slices.Sort(where)
			where = slices.Compact(where)
			by = strings.Join(where, " ")
			if slices.ContainsFunc(where, named) {
				assert.True(t, tested[row.Type], ":%s is raised by %s, and no test beside those of the catalogue names it", row.Type, by)
			}
		}
		list.WriteString(row.Type + " " + by + "\n")
	}
	path := filepath.Join("testdata", "error-types.txt")
	if *updateTypes {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(list.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), list.String(), "go test ./host -run TestErrorTypes -update writes it anew")
}

// typesInSource returns the types of the catalogue that the source names: those of
// programs by package, and those that tests name apart from what they inject.
func typesInSource(t *testing.T) (raised map[string][]string, tested map[string]bool) {
	t.Helper()
	raised, tested = map[string][]string{}, map[string]bool{}
	var data strings.Builder
	for _, root := range []string{"../sdk", "../host", "../plugins"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			switch {
			case d.IsDir():
				if d.Name() == "node_modules" || d.Name() == "bench" {
					return filepath.SkipDir
				}
			case strings.Contains(path, "/testdata/") && !strings.Contains(path, goldenDiagnostics):
			case strings.Contains(path, "/testdata/") || strings.HasSuffix(path, "_test.go"):
				if filepath.Base(path) == "error-types.txt" || filepath.Base(path) == "errors_test.go" || filepath.ToSlash(filepath.Dir(path)) == "../sdk/contract" {
					return nil // lists of types, which reach none
				}
				text, err := testText(path)
				data.WriteString(text + "\n")
				return err
			case strings.HasSuffix(path, ".go"):
				return typesIn(path, raised)
			}
			return nil
		}))
	}
	text := data.String()
	for _, row := range contract.Rows() {
		tested[row.Type] = names(text, row.Type)
	}
	return raised, tested
}

// testText returns the text of a data file, and of a test the string literals that
// inject no error.
func testText(path string) (string, error) {
	if !strings.HasSuffix(path, ".go") || strings.Contains(path, "/testdata/") {
		text, err := os.ReadFile(path)
		return string(text), err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return !injects(n)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				b.WriteString(injected.ReplaceAllString(n.Value, "") + "\n")
			}
		}
		return true
	})
	return b.String(), nil
}

// injected is an error in a script of a test plugin: the plugin is told to answer
// with it, which is no assertion.
var injected = regexp.MustCompile(`:error \{:type :[a-z0-9/.-]+`)

// injects reports whether a call in a test makes an error that something under
// test is to be given.
func injects(call *ast.CallExpr) bool {
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	return slices.Contains([]string{"Errorf", "errorOf", "death", "fails"}, name)
}

// names reports whether a text holds a type as a whole name.
func names(text, typ string) bool {
	part := func(c byte) bool {
		return c == '-' || c == '/' || c == '.' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for rest := text; ; {
		i := strings.Index(rest, typ)
		if i < 0 {
			return false
		}
		end := i + len(typ)
		if (i == 0 || !part(rest[i-1])) && (end == len(rest) || !part(rest[end]) || rest[end] == '.') {
			return true
		}
		rest = rest[end:]
	}
}

// typesIn adds the types that a file names in its code.
func typesIn(path string, into map[string][]string) error {
	name := strings.TrimPrefix(filepath.ToSlash(path), "../")
	for _, prefix := range catalogueFiles {
		if strings.HasPrefix(name, prefix) {
			return nil
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		if row, ok := contract.Lookup(text); ok {
			into[row.Type] = append(into[row.Type], filepath.ToSlash(filepath.Dir(name)))
		}
		return true
	})
	return nil
}
