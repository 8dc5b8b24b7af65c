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

// Each row of the table is whole and says where it was read.
func TestPresetRows(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Presets() {
		assert.False(t, seen[p.Name], "twice: %s", p.Name)
		seen[p.Name] = true
		assert.NotEmpty(t, p.Source, p.Name)
		_, err := time.Parse(time.DateOnly, p.Date)
		assert.NoError(t, err, p.Name)
		for _, part := range []string{p.Path, p.Auth, p.LimitField, p.SystemRole, string(p.Terminator), string(p.Dialect)} {
			assert.NotEmpty(t, part, p.Name)
		}
		assert.Equal(t, p.Version != "", strings.Contains(p.Path, "{version}"), p.Name)
		assert.NotContains(t, p.At("a/b c", "").Path, "{", p.Name)
	}
	azure, _ := PresetNamed("azure")
	assert.Equal(t, "/openai/deployments/a%2Fb%20c/chat/completions?api-version=v%26x", azure.At("a/b c", "v&x").Path)
}

// Vendors are told apart by the table alone: outside of it no code of the
// provider rooms names one.
func TestNoVendorOutsideOfTheTables(t *testing.T) {
	vendors := slices.DeleteFunc(PresetNames(), func(n string) bool { return n == "generic" })
	tables := []string{"rows", "table"}
	checked := 0
	for _, dir := range []string{".", "../settings", "../answer", "../transport", "../failure", "../pricing"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			checked++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			require.NoError(t, err)
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil || dir == "." && slices.Contains(tables, f.Name.Name) {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					lit, ok := n.(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						return true
					}
					text, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					for _, v := range vendors {
						assert.NotEqual(t, v, text, "%s: a vendor in control flow; make it a field of Preset", set.Position(lit.Pos()))
					}
					return true
				})
			}
		}
	}
	assert.Greater(t, checked, 30)
}
