package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// function is what a function of the source names.
type function struct {
	texts map[string]bool // string literals
	uses  map[string]bool // functions: "name" of its package, or "package.name"
}

// functionsOf adds the functions of the package in a directory, by name, with the
// package before it unless it is this one. Methods of equal names are one. Those of the
// settings are left out: they read no input.
func functionsOf(t *testing.T, dir, pkg string, all map[string]*function) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") || e.Name() == "settings.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			declared, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			f := all[pkg+declared.Name.Name]
			if f == nil {
				f = &function{texts: map[string]bool{}, uses: map[string]bool{}}
				all[pkg+declared.Name.Name] = f
			}
			ast.Inspect(declared, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
						f.texts[text] = true
					}
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && (x.Name == "view" || x.Name == "store") {
						// What reads an input is RefFrom, view.Parse and the like.
						f.uses[x.Name+"."+n.Sel.Name] = strings.HasSuffix(n.Sel.Name, "From") || n.Sel.Name == "Parse"
						return false
					}
					f.uses[pkg+n.Sel.Name] = pkg != "store." || strings.HasSuffix(n.Sel.Name, "From")
				case *ast.Ident:
					f.uses[pkg+n.Name] = pkg != "store." || strings.HasSuffix(n.Name, "From")
				}
				return true
			})
		}
	}
}

// reached returns the functions that a function uses, itself included.
func reached(all map[string]*function, name string, seen map[string]bool) {
	if seen[name] || all[name] == nil {
		return
	}
	seen[name] = true
	for used, follows := range all[name].uses {
		if follows {
			reached(all, used, seen)
		}
	}
}

// WS-200: every key that the schema of an input has is read: what a caller asks for is not
// ignored. The function of an intent, or one that it uses, names the key.
func TestEachInputIsRead(t *testing.T) {
	all := map[string]*function{}
	functionsOf(t, ".", "", all)
	functionsOf(t, "core/view", "view.", all)
	functionsOf(t, "core/store", "store.", all)
	file := edn.MustRead(schemaText)
	for _, i := range intents() {
		name := runtime.FuncForPC(reflect.ValueOf(i.run).Pointer()).Name()
		seen := map[string]bool{}
		reached(all, name[strings.LastIndexByte(name, '.')+1:], seen)
		reads := func(key string) bool {
			for f := range seen {
				if all[f].texts[key] {
					return true
				}
			}
			return false
		}
		form := file.Key(i.name)
		require.True(t, form.IsMap(), i.name)
		for entry := range form.Key("in").Elems() {
			key, _ := entry.Nth(0)
			text, _ := key.AsKeyword()
			if slices.Contains([]string{"workspace", "agent/id", "agent/fallback", "content/type"}, text) {
				continue // of every request; the name of the last one is a constant of the store
			}
			assert.True(t, reads(text), ":%s ignores :%s", i.name, text)
		}
		for also := range form.Key("also").Elems() {
			switch kind, _ := also.AsKeyword(); kind {
			case "read":
				assert.True(t, seen["asOf"], ":%s ignores :as-of", i.name)
			case "node":
				assert.True(t, seen["store.RefFrom"], ":%s ignores the node", i.name)
			}
		}
	}
}
