package main

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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
	for _, other := range []string{"sdk/contract", "sdk/conformance", "plugins/llm", "plugins/internal/provider"} {
		if raiser == other || strings.HasPrefix(raiser, other+"/") {
			return false
		}
	}
	return true
}

// ERR-002, ERR-012, EVAL-075, in part: each error type that the source raises is
// named by a test outside the catalogue. That compares texts: it finds types
// without any test, and does not prove that the named test raises them. The list
// in testdata/error-types.txt says which types of the catalogue the program
// raises and which belong to what is not built.
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

// typesInSource finds the types of the catalogue that stand as text in the
// source: those in programs by package, and those in tests and their data.
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
			case strings.Contains(path, "/testdata/") || strings.HasSuffix(path, "_test.go"):
				if filepath.Base(path) == "error-types.txt" || filepath.Base(path) == "errors_test.go" || filepath.ToSlash(filepath.Dir(path)) == "../sdk/contract" {
					return nil // lists of types, which reach none
				}
				text, err := os.ReadFile(path)
				data.Write(text)
				data.WriteByte('\n')
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
