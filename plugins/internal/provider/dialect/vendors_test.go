package dialect

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each row of the table is complete and names its source.
func TestPresetRows(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Presets() {
		assert.False(t, seen[p.Name], "twice: %s", p.Name)
		seen[p.Name] = true
		assert.NotEmpty(t, p.Source, p.Name)
		_, err := time.Parse(time.DateOnly, p.Date)
		assert.NoError(t, err, p.Name)
		assert.Equal(t, p.CallExtra+p.MessageExtra != "", p.ExtraSource != "", p.Name)
		for _, part := range []string{p.Path, p.Auth, p.LimitField, p.SystemRole, string(p.Terminator), string(p.Dialect)} {
			assert.NotEmpty(t, part, p.Name)
		}
		for _, path := range []string{p.Path, p.EmbedPath} {
			assert.Equal(t, p.Version != "" && path != "", strings.Contains(path, "{version}"), p.Name)
		}
		assert.NotContains(t, p.At("a/b c", "").Path+p.At("a/b c", "").EmbedPath, "{", p.Name)
	}
	azure, _ := PresetNamed("azure")
	assert.Equal(t, "/openai/deployments/a%2Fb%20c/chat/completions?api-version=v%26x", azure.At("a/b c", "v&x").Path)
}

// Only the tables distinguish vendors and wire formats: no other code of the
// provider packages names one.
func TestNoVendorOutsideOfTheTables(t *testing.T) {
	var vendors []string
	for _, p := range Presets() {
		if p.Name != "generic" {
			vendors = append(vendors, p.Name)
		}
	}
	names := []string{"OpenAI", "Responses", "Anthropic", "Ollama"}
	require.Len(t, formats(), len(names))
	tables := []string{"rows", "table", "formats", "fill"}
	files, err := filepath.Glob("../*/*.go")
	require.NoError(t, err)
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "../wiretest") || strings.HasPrefix(name, "../livetest") {
			continue
		}
		checked++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		here := filepath.Dir(name) == "../dialect"
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || here && slices.Contains(tables, f.Name.Name) {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					text, err := strconv.Unquote(n.Value)
					assert.False(t, n.Kind == token.STRING && err == nil && slices.Contains(vendors, text),
						"%s: a vendor in control flow; make it a field of Preset", set.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "dialect" {
						assert.NotContains(t, names, n.Sel.Name, "%s: a format in control flow; make it a column of formats", set.Position(n.Pos()))
					}
				case *ast.Ident:
					assert.False(t, here && slices.Contains(names, n.Name), "%s: a format in control flow; make it a column of formats", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
	assert.Greater(t, checked, 50)
}
