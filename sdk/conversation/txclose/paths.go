package txclose

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"
)

// follow reports a transaction that is open at the end of a path from its begin.
func (f *function) follow(b begin, block *cfg.Block, from int) {
	p := paths{function: f, tx: b.tx, seen: map[*cfg.Block]bool{}}
	if p.deferred(b.call.Pos()) {
		return
	}
	noTransaction := branch{err: b.err, failed: true}
	if end := p.open(block, from, noTransaction); end.IsValid() {
		f.pass.Reportf(b.call.Pos(), "%s is not closed on the path to line %d: begin with defer %s.Close()",
			b.tx.Name(), f.pass.Fset.Position(end).Line, b.tx.Name())
	}
}

// paths is a search for a path on which a transaction stays open.
type paths struct {
	*function
	tx   *types.Var
	seen map[*cfg.Block]bool
}

// branch is a branch on an error, on which the transaction is not open: the one
// on which it is set (failed), or the one on which it is nil.
type branch struct {
	err    *types.Var
	failed bool
}

// open returns the end of a path from the node of the block on which the
// transaction stays open. If the block ends with the branch fine, that is not
// followed.
func (p *paths) open(block *cfg.Block, from int, fine branch) token.Pos {
	for _, node := range block.Nodes[from:] {
		if p.released(node) {
			return token.NoPos
		}
		if err, ok := p.commits(node); ok {
			fine = branch{err: err}
		} else if fine.err != nil && p.assigns(node, fine.err) {
			fine = branch{}
		}
		if p.assigns(node, p.tx) {
			return node.Pos()
		}
		if ret, ok := node.(*ast.ReturnStmt); ok {
			return ret.Pos()
		}
	}
	skipped := p.successor(block, fine)
	for i, next := range block.Succs {
		if i == skipped || p.seen[next] {
			continue
		}
		p.seen[next] = true
		if end := p.open(next, 0, branch{}); end.IsValid() {
			return end
		}
	}
	return token.NoPos
}

// successor returns the index of the branch among the successors of a block, -1 if
// it is none of them.
func (p *paths) successor(block *cfg.Block, b branch) int {
	if b.err == nil || len(block.Succs) != 2 || len(block.Nodes) == 0 {
		return -1
	}
	cond, ok := block.Nodes[len(block.Nodes)-1].(*ast.BinaryExpr)
	if !ok || cond.Op != token.NEQ && cond.Op != token.EQL {
		return -1
	}
	name, ok := cond.X.(*ast.Ident)
	if !ok || p.variable(name) != b.err || !p.pass.TypesInfo.Types[cond.Y].IsNil() {
		return -1
	}
	if (cond.Op == token.NEQ) == b.failed {
		return 0
	}
	return 1
}

// assigns reports whether a statement sets the variable.
func (p *paths) assigns(node ast.Node, v *types.Var) bool {
	if spec, ok := node.(*ast.ValueSpec); ok { // in a loop, the variable of its next round
		for _, name := range spec.Names {
			if p.variable(name) == v {
				return true
			}
		}
	}
	s, ok := node.(*ast.AssignStmt)
	if !ok {
		return false
	}
	for _, left := range s.Lhs {
		if name, ok := left.(*ast.Ident); ok && p.variable(name) == v {
			return true
		}
	}
	return false
}

// commits reports whether a statement commits the transaction in a session, and
// returns the variable that it sets to the error of the commit.
func (p *paths) commits(node ast.Node) (err *types.Var, ok bool) {
	inspect(node, func(n, _, _ ast.Node) {
		call, isCall := n.(*ast.CallExpr)
		if !isCall {
			return
		}
		fun, isMethod := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !isMethod || fun.Sel.Name != "Commit" || !isOurs(p.pass.TypesInfo.ObjectOf(fun.Sel).Pkg()) {
			return
		}
		ok = ok || p.isTransaction(fun.X) || len(call.Args) == 2 && p.isTransaction(call.Args[1])
	})
	if s, assigned := node.(*ast.AssignStmt); ok && assigned {
		err = p.errorOf(s.Lhs)
	}
	return err, ok
}

// isTransaction reports whether an expression is the variable.
func (p *paths) isTransaction(e ast.Expr) bool {
	name, ok := ast.Unparen(e).(*ast.Ident)
	return ok && p.variable(name) == p.tx
}

// ends reports whether a method ends any transaction.
func ends(method string) bool { return method == "Close" || method == "Rollback" }

// released reports whether a statement ends the transaction or hands it over.
func (p *paths) released(node ast.Node) bool {
	released := false
	inspect(node, func(n, parent, grandparent ast.Node) {
		switch n := n.(type) {
		case *ast.FuncLit:
			released = released || p.captured(n)
		case *ast.Ident:
			if p.pass.TypesInfo.Uses[n] == p.tx && p.takes(n, parent, grandparent) {
				released = true
			}
		}
	})
	return released
}

// captured reports whether a function ends the transaction, commits it or hands it over.
func (p *paths) captured(f *ast.FuncLit) bool {
	_, commits := p.commits(f.Body)
	return commits || p.released(f.Body)
}

// deferred reports whether a function that is deferred before a position ends the transaction. It
// runs also if the transaction begins later.
func (p *paths) deferred(before token.Pos) bool {
	found := false
	inspect(p.body, func(n, _, _ ast.Node) {
		d, ok := n.(*ast.DeferStmt)
		if !ok || d.Pos() > before {
			return
		}
		f, ok := d.Call.Fun.(*ast.FuncLit)
		found = found || ok && p.captured(f)
	})
	return found
}

// takes reports whether a use of the transaction ends it or hands it over.
func (p *paths) takes(use ast.Expr, parent, grandparent ast.Node) bool {
	switch parent := parent.(type) {
	case *ast.SelectorExpr:
		method, ok := p.pass.TypesInfo.ObjectOf(parent.Sel).(*types.Func)
		if !ok {
			return false // the transaction in one of a session
		}
		if call, ok := grandparent.(*ast.CallExpr); !ok || call.Fun != parent {
			return true // as a function value
		}
		return ends(method.Name()) || method.Name() == "Commit" && method.Pkg().Path() == packages[0]
	case *ast.CallExpr:
		return !p.borrows(parent)
	case *ast.BinaryExpr:
		return false
	case *ast.AssignStmt:
		for i, left := range parent.Lhs {
			if left == use {
				return false
			}
			if name, ok := left.(*ast.Ident); ok && name.Name == "_" && i < len(parent.Rhs) && parent.Rhs[i] == use {
				return false
			}
		}
	}
	return true
}

// borrows reports whether a call uses a transaction without taking it over.
func (p *paths) borrows(call *ast.CallExpr) bool {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		return isOurs(p.pass.TypesInfo.ObjectOf(fun.Sel).Pkg())
	case *ast.Ident:
		return isOurs(p.pass.TypesInfo.ObjectOf(fun).Pkg())
	}
	return false
}
