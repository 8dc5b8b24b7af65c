package extract

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// maxNames is the number of exported names in an outline.
const maxNames = 200

func parseGo(f File, mode parser.Mode) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), baseName(f), f.Data, mode)
}

func parses(f File) bool {
	_, err := parseGo(f, parser.SkipObjectResolution)
	return err == nil
}

// goOutline describes a Go file: its package, what it imports, and its exported
// names.
func goOutline(f File) (string, error) {
	if Binary(f.Data) {
		return "", notText(f, GoOutline)
	}
	file, err := parseGo(f, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", contract.Errorf("input/invalid", "the file does not parse: %w", err).WithOp(GoOutline, f.Path).
			WithHint("use extract/text, which describes any text")
	}
	o := outline{synopsis: (&doc.Package{}).Synopsis, inTest: strings.HasSuffix(f.Path, "_test.go")}
	for _, d := range file.Decls {
		o.declaration(d)
	}
	source := valid(f.Data)
	var b strings.Builder
	kind := "Go package"
	if o.inTest {
		kind = "Go tests of package"
	}
	fmt.Fprintf(&b, "%s %s, %s, %s", kind, file.Name.Name, plural(lines(source), "line"), plural(len(o.exported), "exported name"))
	if s := o.synopsis(file.Doc.Text()); s != "" {
		fmt.Fprintf(&b, ": %s", cut(s, maxSentence))
	} else if first := o.first(); first != "" {
		fmt.Fprintf(&b, ": %s", first)
	}
	b.WriteString("\n")
	if ast.IsGenerated(file) {
		b.WriteString("generated code\n")
	}
	if imports := importsOf(file); len(imports) > 0 {
		fmt.Fprintf(&b, "\nimports: %s\n", strings.Join(imports, ", "))
	}
	if len(o.exported) > 0 {
		b.WriteString("\nexports:\n")
		for i, line := range o.exported {
			if i == maxNames {
				fmt.Fprintf(&b, "and %d more\n", len(o.exported)-i)
				break
			}
			b.WriteString(line + "\n")
		}
	}
	if len(o.tests) > 0 {
		fmt.Fprintf(&b, "\ntests:\n%s\n", strings.Join(o.tests[:min(len(o.tests), maxNames)], "\n"))
	}
	if n := len(o.unexported); n > 0 {
		fmt.Fprintf(&b, "\nunexported: %s\n", plural(n, "declaration"))
	}
	b.WriteString(tasks(source))
	return b.String(), nil
}

func importsOf(file *ast.File) (list []string) {
	for _, i := range file.Imports {
		if name, err := strconv.Unquote(i.Path.Value); err == nil {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// outline collects the names of a file in the order of the source.
type outline struct {
	synopsis   func(string) string
	exported   []string
	tests      []string
	unexported []string
	inTest     bool
}

// first names the first exported declarations, for a file whose package is
// documented elsewhere.
func (o *outline) first() string {
	list := o.exported
	if len(list) == 0 {
		list = o.tests
	}
	if len(list) == 0 {
		list = o.unexported
	}
	var names []string
	for _, line := range list[:min(len(list), 4)] {
		name, _, _ := strings.Cut(line, ": ")
		names = append(names, name)
	}
	if len(list) > len(names) {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

func (o *outline) add(what, comment string) {
	if s := o.synopsis(comment); s != "" {
		what += ": " + cut(s, maxSentence)
	}
	o.exported = append(o.exported, what)
}

func (o *outline) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		o.function(d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			o.spec(d, s)
		}
	}
}

func (o *outline) function(d *ast.FuncDecl) {
	name, exported := d.Name.Name, d.Name.IsExported()
	if d.Recv != nil && len(d.Recv.List) == 1 {
		receiver := receiverName(d.Recv.List[0].Type)
		exported = exported && ast.IsExported(receiver)
		name = receiver + "." + name
	}
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if o.inTest && d.Recv == nil && strings.HasPrefix(name, prefix) && len(d.Type.Params.List) <= 1 {
			line := name
			if s := o.synopsis(d.Doc.Text()); s != "" {
				line += ": " + cut(s, maxSentence)
			}
			o.tests = append(o.tests, line)
			return
		}
	}
	if !exported {
		o.unexported = append(o.unexported, "func "+name)
		return
	}
	o.add("func "+name, d.Doc.Text())
}

func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.IndexListExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

func (o *outline) spec(d *ast.GenDecl, s ast.Spec) {
	comment := func(own, line *ast.CommentGroup) string {
		switch {
		case own != nil:
			return own.Text()
		case line != nil:
			return line.Text()
		}
		return d.Doc.Text()
	}
	switch s := s.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			o.unexported = append(o.unexported, "type "+s.Name.Name)
			return
		}
		o.add("type "+s.Name.Name+kindOfType(s), comment(s.Doc, s.Comment))
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if !name.IsExported() {
				o.unexported = append(o.unexported, d.Tok.String()+" "+name.Name)
				continue
			}
			text := ""
			if s.Doc != nil || s.Comment != nil || len(d.Specs) == 1 {
				text = comment(s.Doc, s.Comment)
			}
			o.add(d.Tok.String()+" "+name.Name, text)
		}
	}
}

func kindOfType(s *ast.TypeSpec) string {
	switch s.Type.(type) {
	case *ast.StructType:
		return " struct"
	case *ast.InterfaceType:
		return " interface"
	case *ast.FuncType:
		return " func"
	}
	return ""
}
