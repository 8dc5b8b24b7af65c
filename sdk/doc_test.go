package sdk_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SDK-007: each exported name has a comment, and the tutorial consists of
// examples with checked outputs.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, dir := range packageDirs(t) {
		p := packageDoc(t, dir)
		require.NotEmpty(t, p.Doc, dir)
		said := func(name, text string) {
			assert.NotEmpty(t, strings.TrimSpace(text), "%s: %s has no comment", dir, name)
		}
		functions := func(all []*doc.Func) {
			for _, f := range all {
				said(f.Recv+"."+f.Name, f.Doc)
			}
		}
		values := func(all []*doc.Value) {
			for _, v := range all {
				if v.Doc != "" {
					continue // one comment for the group
				}
				for _, spec := range v.Decl.Specs {
					if s := spec.(*ast.ValueSpec); s.Names[0].IsExported() {
						said(s.Names[0].Name, s.Doc.Text()+s.Comment.Text())
					}
				}
			}
		}
		functions(p.Funcs)
		values(append(p.Consts, p.Vars...))
		for _, typ := range p.Types {
			said(typ.Name, typ.Doc)
			functions(append(typ.Funcs, typ.Methods...))
			values(append(typ.Consts, typ.Vars...))
		}
	}
	for _, name := range []string{"", "Func", "StreamFunc", "PlanFunc", "Raw", "Config", "Plugin_health", "HostFrom", "Model", "AgentFunc"} {
		assert.Contains(t, exampleOutputs(t, "."), name, "an example that runs")
	}
	assert.Contains(t, exampleOutputs(t, "sdktest"), "Serve")
}

// SDK-007: the plugin of the package comment is a program that other tests run.
func TestPackageCommentShowsAPlugin(t *testing.T) {
	source, err := os.ReadFile("testdata/minimal/main.go")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(source), "\npackage main\n")
	require.True(t, found)
	indented := regexp.MustCompile(`(?m)^.`).ReplaceAllString("package main\n"+program, "\t$0")
	assert.Contains(t, packageDoc(t, ".").Doc, indented)
}

// packageDirs returns the directories of the packages that authors may import.
func packageDirs(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "./...").Output()
	require.NoError(t, err)
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	var dirs []string
	for dir := range strings.FieldsSeq(string(out)) {
		rel, err := filepath.Rel(here, dir)
		require.NoError(t, err)
		if generated := strings.HasSuffix(rel, "pluginv1"); !generated && !strings.Contains(rel, "testdata") {
			dirs = append(dirs, rel)
		}
	}
	require.GreaterOrEqual(t, len(dirs), 9)
	return dirs
}

func packageDoc(t *testing.T, dir string) *doc.Package {
	t.Helper()
	set := token.NewFileSet()
	p, err := doc.NewFromFiles(set, files(t, set, dir, false), "github.com/fermenthq/ferment/sdk/"+dir)
	require.NoError(t, err)
	return p
}

// exampleOutputs returns the names of the examples that run.
func exampleOutputs(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range doc.Examples(files(t, token.NewFileSet(), dir, true)...) {
		if e.Output != "" {
			names = append(names, e.Name)
		}
	}
	return names
}

func files(t *testing.T, set *token.FileSet, dir string, tests bool) (all []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		require.NoError(t, err)
		all = append(all, f)
	}
	return all
}
