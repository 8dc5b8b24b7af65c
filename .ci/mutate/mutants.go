package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is one change of the source that a test should notice. All mutants of
// a package are compiled into one program; hook(id) reports whether the mutant
// with this id is the one to run.
type mutant struct {
	id   int
	key  string // file, function and change; independent of line numbers
	file string
	line int

	// Text around the source between two offsets makes the mutant. The source
	// itself stays in place, so mutants nest and lines keep their numbers.
	from, to       int
	prefix, suffix string

	dead   bool // does not compile
	starts int  // where it stands in the written source, see source.write
	ends   int
}

// source is one file with its mutants.
type source struct {
	path    string // from the root of the repository
	pkg     string
	text    []byte
	mutants []*mutant
}

const hook = "fermentMutant"

// runtimeFile is added to the package: it knows which mutant to run, and notes
// which ones a test reaches.
const runtimeFile = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var fermentMutantNow, fermentMutantHits = fermentMutantOpen()

var fermentMutantSeen [%d]atomic.Bool

func fermentMutantOpen() (int, *os.File) {
	now, _ := strconv.Atoi(os.Getenv("FERMENT_MUTANT"))
	var hits *os.File
	if path := os.Getenv("FERMENT_MUTANT_HITS"); path != "" {
		hits, _ = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	return now, hits
}

func fermentMutant(id int) bool {
	if fermentMutantHits != nil && !fermentMutantSeen[id].Swap(true) {
		_, _ = fermentMutantHits.WriteString(strconv.Itoa(id) + "\n")
	}
	return id == fermentMutantNow
}

func fermentMutantPick[T any](id int, changed, kept T) T {
	if fermentMutant(id) {
		return changed
	}
	return kept
}

func fermentMutantMore[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float64](id int, v T) T {
	if fermentMutant(id) {
		return v + 1
	}
	return v
}
`

// finder collects the mutants of a file.
type finder struct {
	*source
	fset   *token.FileSet
	consts map[string]bool // of the package; true if the value is zero
	next   *int
	fn     string
	fnType *ast.FuncType
	seen   map[string]int
}

// find lists the mutants of a file. Ids count on from *next.
func find(path string, text []byte, consts map[string]bool, next *int) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{
		source: &source{path: path, pkg: file.Name.Name, text: text},
		fset:   fset,
		consts: consts,
		next:   next,
		seen:   map[string]int{},
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		f.fn, f.fnType = fn.Name.Name, fn.Type
		if fn.Recv != nil {
			f.fn = strings.Trim(f.of(fn.Recv.List[0].Type), "*") + "." + f.fn
		}
		f.walk(fn.Body)
	}
	return f.source, nil
}

// constants notes the constants that are declared at the top of a file, and
// which of them are zero.
func constants(text []byte, into map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
			for _, spec := range gen.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					into[name.Name] = i < len(spec.Values) && isZero(spec.Values[i], nil)
				}
			}
		}
	}
	return nil
}

func (f *finder) at(pos token.Pos) int { return f.fset.Position(pos).Offset }

func (f *finder) of(n ast.Node) string { return string(f.text[f.at(n.Pos()):f.at(n.End())]) }

// inline is the source of an expression in one line; false if that would change
// its meaning.
func (f *finder) inline(n ast.Node) (string, bool) {
	text := f.of(n)
	if !strings.Contains(text, "\n") {
		return text, true
	}
	if strings.Contains(text, "//") || strings.Contains(text, "func(") {
		return "", false
	}
	return strings.Join(strings.Fields(text), " "), true
}

// add notes a mutant; %d in a prefix is its id.
func (f *finder) add(n ast.Node, what, prefix, suffix string) {
	*f.next++
	shown := strings.Join(strings.Fields(f.of(n)), " ")
	if len(shown) > 80 {
		shown = shown[:60] + "..." + shown[len(shown)-17:]
	}
	key := fmt.Sprintf("%s %s: %s `%s`", f.path, f.fn, what, shown)
	f.seen[key]++
	if k := f.seen[key]; k > 1 {
		key += fmt.Sprintf(" (%d)", k)
	}
	id := fmt.Sprint(*f.next)
	f.mutants = append(f.mutants, &mutant{
		id: *f.next, key: key, file: f.path, line: f.fset.Position(n.Pos()).Line,
		from: f.at(n.Pos()), to: f.at(n.End()),
		prefix: strings.ReplaceAll(prefix, "%d", id), suffix: strings.ReplaceAll(suffix, "%d", id),
	})
}

func (f *finder) negate(cond ast.Expr) {
	f.add(cond, "negate", "("+hook+"(%d) != (", "))")
}

// walk looks for mutants below a node.
func (f *finder) walk(root ast.Node) {
	negated := map[ast.Expr]bool{} // whole conditions
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			outer := f.fnType
			f.fnType = n.Type
			f.walk(n.Body)
			f.fnType = outer
			return false
		case *ast.GenDecl, *ast.ArrayType:
			return false
		case *ast.IfStmt:
			f.negate(n.Cond)
			negated[n.Cond] = true
		case *ast.ForStmt:
			if n.Cond != nil {
				f.negate(n.Cond)
				negated[n.Cond] = true
			}
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, cond := range clause.(*ast.CaseClause).List {
						f.negate(cond)
						negated[cond] = true
					}
				}
			}
		case *ast.BlockStmt:
			f.statements(n.List)
		case *ast.CaseClause:
			f.statements(n.Body)
		case *ast.CommClause:
			f.statements(n.Body)
		case *ast.BinaryExpr:
			f.binary(n, negated[n])
		case *ast.Ident:
			if _, ok := f.consts[n.Name]; ok {
				f.add(n, "add 1 to", hook+"More(%d, ", ")")
			}
		case *ast.KeyValueExpr:
			f.walk(n.Value)
			return false
		case *ast.SelectorExpr:
			f.walk(n.X)
			return false
		case *ast.BasicLit:
			if n.Kind == token.INT {
				f.add(n, "add 1 to", hook+"More(%d, ", ")")
			}
		}
		return true
	})
}

var swapped = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+", token.MUL: "+",
}

func (f *finder) binary(n *ast.BinaryExpr, isCondition bool) {
	op, ok := swapped[n.Op]
	if !ok {
		return
	}
	x, okX := f.inline(n.X)
	y, okY := f.inline(n.Y)
	if !okX || !okY {
		return
	}
	what, changed := "swap "+n.Op.String()+" for "+op+" in", x+" "+op+" "+y
	switch n.Op {
	case token.EQL, token.NEQ:
		if !isCondition { // to negate it is the same
			f.add(n, what, "("+hook+"(%d) && ("+changed+") || !"+hook+"(%d) && (", "))")
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR:
		f.add(n, what, "("+hook+"(%d) && ("+changed+") || !"+hook+"(%d) && (", "))")
	default: // both sides are worked out, so they must have no effects
		if !strings.ContainsAny(x+y, "(\"`") {
			f.add(n, what, hook+"Pick(%d, "+changed+", ", ")")
		}
	}
}

// statements drops statements and returns zero values.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
			f.drop(s)
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.drop(s)
			}
		case *ast.BranchStmt:
			if s.Tok != token.FALLTHROUGH {
				f.drop(s)
			}
		case *ast.ReturnStmt:
			f.returns(s)
		}
	}
}

func (f *finder) drop(s ast.Stmt) {
	if text := f.of(s); text == "_ = 0" || strings.HasPrefix(text, "panic(") {
		return
	}
	f.add(s, "drop", "if !"+hook+"(%d) { ", " }")
}

// returns negates what a predicate returns and returns zero values elsewhere.
func (f *finder) returns(s *ast.ReturnStmt) {
	var zero []string
	if f.fnType.Results != nil {
		for _, field := range f.fnType.Results.List {
			typ, ok := f.inline(field.Type)
			if !ok {
				return
			}
			for range max(1, len(field.Names)) {
				zero = append(zero, "*new("+typ+")")
			}
		}
	}
	switch {
	case len(zero) == 0:
		f.drop(s)
	case len(zero) == 1 && zero[0] == "*new(bool)" && len(s.Results) == 1:
		f.negate(s.Results[0])
	case slices.ContainsFunc(s.Results, func(x ast.Expr) bool { return !isZero(x, f.consts) }):
		f.add(s, "return zero for", "if "+hook+"(%d) { return "+strings.Join(zero, ", ")+" }; ", "")
	}
}

func isZero(x ast.Expr, consts map[string]bool) bool {
	switch x := x.(type) {
	case *ast.Ident: // the first iota of a group is zero
		return x.Name == "nil" || x.Name == "false" || x.Name == "iota" || consts[x.Name]
	case *ast.BasicLit:
		return x.Value == "0" || x.Value == `""`
	case *ast.CompositeLit:
		_, isMap := x.Type.(*ast.MapType)
		return len(x.Elts) == 0 && !isMap
	}
	return false
}

// write is the source with its mutants that are not dead.
func (s *source) write() []byte {
	type insertion struct {
		at    int
		ends  bool // a suffix
		size  int  // of what it encloses: outer prefixes and inner suffixes come first
		order int
		text  string
		m     *mutant
	}
	var all []insertion
	for i, m := range s.mutants {
		if m.dead {
			continue
		}
		all = append(all,
			insertion{m.from, false, m.to - m.from, i, m.prefix, m},
			insertion{m.to, true, m.to - m.from, i, m.suffix, m})
	}
	slices.SortStableFunc(all, func(a, b insertion) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		if a.ends != b.ends { // what ends here ends before the next begins
			if a.ends {
				return -1
			}
			return 1
		}
		if a.ends {
			return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(b.order, a.order))
		}
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.order, b.order))
	})
	var out bytes.Buffer
	last := 0
	for _, in := range all {
		out.Write(s.text[last:in.at])
		last = in.at
		if !in.ends {
			in.m.starts = out.Len()
		}
		out.WriteString(in.text)
		if in.ends {
			in.m.ends = out.Len()
		}
	}
	out.Write(s.text[last:])
	return out.Bytes()
}

// kill marks the innermost mutant at an offset of the written source as one that
// does not compile. If there is none, the error is about an expression with a
// mutant beside the offset: the nearest one in the line.
func (s *source) kill(written []byte, pos int) bool {
	begin := 1 + bytes.LastIndexByte(written[:pos], '\n')
	end := pos + bytes.IndexByte(written[pos:], '\n')
	var inner, near *mutant
	for _, m := range s.mutants {
		switch {
		case m.dead || m.starts < begin || m.starts >= end:
		case m.starts <= pos && pos < m.ends:
			if inner == nil || m.ends-m.starts <= inner.ends-inner.starts {
				inner = m
			}
		case near == nil || abs(m.starts-pos) < abs(near.starts-pos):
			near = m
		}
	}
	m := cmp.Or(inner, near)
	if m != nil {
		m.dead = true
	}
	return m != nil
}

func abs(n int) int { return max(n, -n) }
