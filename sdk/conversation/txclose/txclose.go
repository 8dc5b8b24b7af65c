package txclose

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
)

// Analyzer reports transactions that are not ended on some path of a function.
var Analyzer = &analysis.Analyzer{
	Name: "txclose",
	Doc:  "report transactions of conversations that some path leaves open",
	URL:  "https://pkg.go.dev/github.com/fermenthq/ferment/sdk/conversation/txclose",
	Run:  run,
}

// packages are the packages with a type Transaction. Their functions use a
// transaction without taking it over.
var packages = []string{
	"github.com/fermenthq/ferment/sdk/conversation", "github.com/fermenthq/ferment/sdk/conversation/session",
}

func run(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch f := n.(type) {
			case *ast.FuncDecl:
				if f.Body != nil {
					(&function{pass: pass, body: f.Body}).check()
				}
			case *ast.FuncLit:
				(&function{pass: pass, body: f.Body}).check()
			}
			return true
		})
	}
	return nil, nil
}

// function is a function whose paths are checked. Functions within it are checked
// on their own.
type function struct {
	pass  *analysis.Pass
	body  *ast.BlockStmt
	graph *cfg.CFG
}

// begin is a call that returns a transaction to the function.
type begin struct {
	call *ast.CallExpr
	tx   *types.Var
	err  *types.Var // the error that the call returns beside it, or nil
}

func (f *function) check() {
	if !f.mentionsTransaction() {
		return
	}
	f.graph = cfg.New(f.body, f.mayReturn)
	for _, block := range f.graph.Blocks {
		if !block.Live {
			continue
		}
		for i, node := range block.Nodes {
			f.checkUnbound(node)
			for _, b := range f.begins(node) {
				f.follow(b, block, i+1)
			}
		}
	}
}

// mentionsTransaction reports whether a call in the function returns a
// transaction.
func (f *function) mentionsTransaction() bool {
	found := false
	ast.Inspect(f.body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(f.results(call)) > 0 {
			found = true
		}
		return !found
	})
	return found
}

// results returns the indexes of the results of a call that are transactions.
func (f *function) results(call *ast.CallExpr) (all []int) {
	for i, t := range resultTypes(f.pass.TypesInfo.TypeOf(call)) {
		if isTransaction(t) {
			all = append(all, i)
		}
	}
	return all
}

func resultTypes(t types.Type) []types.Type {
	tuple, ok := t.(*types.Tuple)
	if !ok {
		return []types.Type{t}
	}
	var all []types.Type
	for v := range tuple.Variables() {
		all = append(all, v.Type())
	}
	return all
}

func isTransaction(t types.Type) bool {
	pointer, ok := t.(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(pointer.Elem()).(*types.Named)
	return ok && named.Obj().Name() == "Transaction" && isOurs(named.Obj().Pkg())
}

func isOurs(p *types.Package) bool { return p != nil && slices.Contains(packages, p.Path()) }

// begins returns the transactions that a statement binds to variables of the
// function.
func (f *function) begins(node ast.Node) (all []begin) {
	switch s := node.(type) {
	case *ast.AssignStmt:
		all = f.bound(s.Lhs, s.Rhs)
	case *ast.ValueSpec:
		names := make([]ast.Expr, len(s.Names))
		for i, n := range s.Names {
			names[i] = n
		}
		all = f.bound(names, s.Values)
	}
	return all
}

func (f *function) bound(left, right []ast.Expr) (all []begin) {
	for i, value := range right {
		call, ok := ast.Unparen(value).(*ast.CallExpr)
		if !ok {
			continue
		}
		to := left[i:]
		if len(right) > 1 {
			to = left[i : i+1]
		}
		for _, k := range f.results(call) {
			name, ok := to[k].(*ast.Ident)
			switch {
			case !ok: // stored in a field
			case name.Name == "_":
				f.pass.Reportf(call.Pos(), "the transaction is dropped, so that nothing can close it")
			default:
				if tx := f.local(name); tx != nil {
					all = append(all, begin{call: call, tx: tx, err: f.errorOf(to)})
				}
			}
		}
	}
	return all
}

// errorOf returns the variable of an error that is assigned last.
func (f *function) errorOf(left []ast.Expr) *types.Var {
	name, ok := left[len(left)-1].(*ast.Ident)
	if !ok {
		return nil
	}
	v := f.variable(name)
	if v == nil || !types.Identical(v.Type(), types.Universe.Lookup("error").Type()) {
		return nil
	}
	return v
}

// local returns the variable if it is declared in the body of the function:
// others outlive it.
func (f *function) local(name *ast.Ident) *types.Var {
	if v := f.variable(name); v != nil && f.body.Pos() <= v.Pos() && v.Pos() < f.body.End() {
		return v
	}
	return nil
}

func (f *function) variable(name *ast.Ident) *types.Var {
	v, _ := f.pass.TypesInfo.ObjectOf(name).(*types.Var)
	return v
}

// checkUnbound reports calls whose transaction is not bound to anything.
func (f *function) checkUnbound(node ast.Node) {
	inspect(node, func(n, parent, _ ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || !slices.Equal(f.results(call), []int{0}) {
			return
		}
		switch p := parent.(type) {
		case *ast.ExprStmt:
		case *ast.SelectorExpr:
			if ends(p.Sel.Name) {
				return
			}
		default:
			return
		}
		f.pass.Reportf(call.Pos(), "the transaction is dropped, so that nothing can close it")
	})
}

// mayReturn reports whether a call can return.
func (f *function) mayReturn(call *ast.CallExpr) bool {
	var name *ast.Ident
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
	default:
		return true
	}
	switch obj := f.pass.TypesInfo.ObjectOf(name).(type) {
	case *types.Builtin:
		return obj.Name() != "panic"
	case *types.Func:
		return !slices.Contains(endings[packagePath(obj)], obj.Name())
	}
	return true
}

// endings are functions that do not return.
var endings = map[string][]string{
	"os":      {"Exit"},
	"runtime": {"Goexit"},
	"log":     {"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln"},
	"testing": {"Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow"},
}

func packagePath(obj types.Object) string {
	if obj.Pkg() == nil {
		return ""
	}
	return obj.Pkg().Path()
}

// inspect visits the expressions of a statement with their parents, but not those
// of functions in it.
func inspect(node ast.Node, visit func(n, parent, grandparent ast.Node)) {
	stack := []ast.Node{nil, nil}
	ast.Inspect(node, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		visit(n, stack[len(stack)-1], stack[len(stack)-2])
		if _, inner := n.(*ast.FuncLit); inner {
			return false
		}
		stack = append(stack, n)
		return true
	})
}
