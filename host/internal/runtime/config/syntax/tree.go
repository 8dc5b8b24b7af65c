package syntax

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Attribute is an attribute of a file before evaluation. Relative paths in it refer to the
// directory of Source.
type Attribute struct {
	Spec      *language.Attr // nil in an open block
	Name      string
	Expr      hcl.Expression
	NameRange hcl.Range // of the name
	Source    *diag.Source
	// Under has the overridden attributes, the weakest first.
	Under []*Attribute
}

// Node is a block of the configuration before evaluation. Files are merged before they are
// evaluated, because locals of one file are visible in all.
type Node struct {
	Spec   *language.Block
	Path   []string // block types and labels from the root
	Labels []string
	Header hcl.Range
	Source *diag.Source
	Attrs  map[string]*Attribute
	Blocks []*Node
	twins  map[string]*Node // blocks by identity while a file is read
	Layers []Layer          // of a foreign block, the weakest first
	Also   []spot           // other places of the block
	// Damaged is set if the block has an invalid name, which may be a misspelled required one.
	Damaged bool
}

// spot is a place of a block.
type spot struct {
	header hcl.Range
	Source *diag.Source
}

// Layer is the body of a block with the schema of a plugin in one file.
type Layer struct {
	spot
	Body hcl.Body
}

// Title returns the block in the form of diagnostics, such as: plugin "chess", instances.
func (n *Node) Title() string { return language.Title(n.Path) }

// SpecPath returns the path of the block in the specification: types without labels.
func (n *Node) SpecPath() string {
	var parts []string
	block := language.Specification()
	for i := 0; i < len(n.Path); i++ {
		next, ok := block.Block(n.Path[i])
		if !ok {
			break
		}
		parts = append(parts, n.Path[i])
		if next.Label != language.LabelNone {
			i++
		}
		block = next
	}
	return strings.Join(parts, ".")
}

// Children returns the nested blocks of one type.
func (n *Node) Children(name string) []*Node {
	var out []*Node
	for _, b := range n.Blocks {
		if b.Spec.Name == name {
			out = append(out, b)
		}
	}
	return out
}

// Tree returns the tree of a parsed file. Names that the specification does not have are reported.
func Tree(s *diag.Source, body hcl.Body, report *diag.Collector) *Node {
	root := &Node{
		Spec:   language.Specification(),
		Source: s,
		Header: hcl.Range{Filename: s.Name, Start: hcl.InitialPos, End: hcl.InitialPos},
	}
	(&grower{source: s, report: report}).grow(root, body)
	return root
}

// grower builds the tree of one file.
type grower struct {
	source *diag.Source
	report *diag.Collector
}

func (g *grower) at(r hcl.Range) *diag.Range { return g.source.Range(r) }

// grow adds the attributes and blocks of a body to the block n.
func (g *grower) grow(n *Node, body hcl.Body) {
	n.Attrs = map[string]*Attribute{}
	if !g.object(n, body) {
		return
	}
	switch {
	case n.Spec.Foreign:
		n.Layers = []Layer{{spot{n.Header, g.source}, body}}
		return
	case n.Spec.Open:
		g.open(n, body)
		return
	}
	// strangers reports unknown names with better messages than the library.
	content, rest, diags := body.PartialContent(g.wanted(n.Spec))
	if native, ok := body.(*hclsyntax.Body); ok {
		g.labels(n, native)
	} else {
		reportSyntax(g.report, g.source, nil, diags)
	}
	for name, a := range content.Attributes {
		spec, _ := n.Spec.Attr(name)
		if g.allowed(n, name, a.NameRange) {
			n.Attrs[name] = &Attribute{
				Spec:      spec,
				Name:      name,
				Expr:      g.native(a.Expr),
				NameRange: a.NameRange,
				Source:    g.source,
			}
		}
	}
	for _, b := range content.Blocks {
		g.block(n, b)
	}
	g.strangers(n, body, rest)
}

// object reports a JSON body that is not an object.
func (g *grower) object(n *Node, body hcl.Body) bool {
	if _, ok := body.(*hclsyntax.Body); ok {
		return true
	}
	_, diags := body.JustAttributes()
	if diags.HasErrors() {
		reportSyntax(g.report, g.source, nil, diags)
		g.report.Poison(cmp.Or(n.Spec.Name, diag.AnyName), diag.AnyName)
		n.Damaged = true
	}
	return !diags.HasErrors()
}

// labels reports blocks with too few or too many labels, which the library omits from the content.
func (g *grower) labels(n *Node, body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		spec, known := n.Spec.Block(b.Type)
		want := 0
		if known && spec.Label != language.LabelNone {
			want = 1
		}
		if !known || len(b.Labels) == want {
			continue
		}
		shape := b.Type + " { ... }"
		if want == 1 {
			shape = b.Type + ` "NAME" { ... }`
		}
		path, at := append(slices.Clone(n.Path), b.Type), b.DefRange()
		if len(b.Labels) > want {
			at = b.LabelRanges[want]
		}
		g.report.Add(diag.Diagnostic{
			Type:     "config/syntax",
			Message:  fmt.Sprintf("%s takes %s, found %d", language.Title(path), diag.Counted(want, "label"), len(b.Labels)),
			Range:    g.at(at),
			Path:     path,
			Expected: edn.Text(shape),
			Found:    edn.Text(strings.TrimSpace(string(b.DefRange().SliceBytes(g.source.Text)))),
		})
		g.lost(n, b.Type, diag.AnyName)
	}
}

// lost records an invalid block in n.
func (g *grower) lost(n *Node, block, label string) {
	if n.Damaged = true; len(n.Path) == 0 {
		g.report.Poison(block, label)
	}
}

func (g *grower) wanted(spec *language.Block) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range spec.Attrs {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, b := range spec.Blocks {
		h := hcl.BlockHeaderSchema{Type: b.Name}
		if b.Label != language.LabelNone {
			h.LabelNames = []string{string(b.Label)}
		}
		s.Blocks = append(s.Blocks, h)
	}
	return s
}

func (g *grower) open(n *Node, body hcl.Body) {
	attrs, diags := body.JustAttributes()
	if native, ok := body.(*hclsyntax.Body); ok {
		diags = nil // they concern only blocks
		for _, b := range native.Blocks {
			g.lost(n, n.Spec.Name, b.Type)
			g.report.Poison(n.Spec.Name, b.Type)
			g.report.Add(diag.Diagnostic{
				Type:     "config/type",
				Message:  fmt.Sprintf("%s in %s is an attribute, not a block", diag.Quote(b.Type), n.Title()),
				Range:    g.at(b.TypeRange),
				Path:     append(slices.Clone(n.Path), b.Type),
				Expected: edn.Text("NAME = VALUE"),
				Hint:     "write " + b.Type + " = { ... }",
			})
		}
	}
	reportSyntax(g.report, g.source, nil, diags)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		a := attrs[name]
		if first := n.Attrs[name]; first != nil {
			g.report.Add(diag.Diagnostic{
				Type:    "config/duplicate",
				Message: "local " + diag.Quote(name) + " is defined twice",
				Range:   g.at(a.NameRange),
				Path:    []string{"locals", name},
				Related: []diag.Related{{Range: g.at(first.NameRange), Message: "is the first one"}},
				Hint:    "keep one of the two",
			})
			continue
		}
		n.Attrs[name] = &Attribute{Name: name, Expr: g.native(a.Expr), NameRange: a.NameRange, Source: g.source}
	}
}

func (g *grower) block(parent *Node, b *hcl.Block) {
	spec, _ := parent.Spec.Block(b.Type)
	n := &Node{Spec: spec, Labels: b.Labels, Header: b.DefRange, Source: g.source}
	n.Path = append(slices.Clone(parent.Path), b.Type)
	n.Path = append(n.Path, b.Labels...)
	if !g.allowed(parent, b.Type, b.TypeRange) || !g.label(n, b) {
		return
	}
	if !g.vary(n, b) {
		return
	}
	first := parent.twins[n.Identity()]
	if first != nil && n.Spec.Open { // several locals blocks are allowed
		g.open(first, b.Body)
		return
	}
	if first != nil {
		hint := "merge the two blocks"
		if n.Spec.Label != language.LabelNone {
			hint += ", or give one another label"
		}
		if len(n.Path) == 2 {
			g.report.Poison(n.Spec.Name, diag.AnyName) // the label that is missing is unknown
		}
		g.report.Add(diag.Diagnostic{
			Type:    "config/duplicate",
			Message: n.Title() + " is declared twice",
			Range:   g.at(b.DefRange),
			Path:    n.Path,
			Related: []diag.Related{{Range: first.Source.Range(first.Header), Message: "is the first one"}},
			Hint:    hint,
		})
		return
	}
	parent.Blocks = append(parent.Blocks, n)
	if parent.twins == nil {
		parent.twins = map[string]*Node{}
	}
	parent.twins[n.Identity()] = n
	g.grow(n, b.Body)
}

// vary selects the variant of the block for its label; false for an unknown label, which is
// reported.
func (g *grower) vary(n *Node, b *hcl.Block) bool {
	if len(n.Spec.Variants) == 0 {
		return true
	}
	var ok bool
	if n.Spec, ok = n.Spec.Variant(n.Labels[0]); ok {
		return true
	}
	known := make([]string, len(n.Spec.Variants))
	for i := range n.Spec.Variants {
		known[i] = n.Spec.Variants[i].Only
	}
	g.report.Add(diag.Diagnostic{
		Type:     "config/unknown-name",
		Message:  fmt.Sprintf("there is no %s %s", n.Spec.Name, diag.Quote(n.Labels[0])),
		Range:    g.at(b.LabelRanges[0]),
		Path:     n.Path,
		Expected: diag.Words(known),
		Found:    edn.Text(n.Labels[0]),
		Nearest:  diag.Nearest(n.Labels[0], known),
	})
	return false
}

// Identity returns the type and labels of the block, which are unique in its parent.
func (n *Node) Identity() string { return n.Spec.Name + " " + strings.Join(n.Labels, " ") }

// allowed reports whether a name is not reserved. A reserved name is reported as a diagnostic.
func (g *grower) allowed(n *Node, name string, at hcl.Range) bool {
	r, ok := language.ReservedAt(language.Join(n.SpecPath(), name))
	if !ok || r.Partly() {
		return true
	}
	g.report.Add(ReservedDiagnostic(r, diag.Quote(name)+Within(n), g.at(at), append(slices.Clone(n.Path), name)))
	return false
}

// ReservedDiagnostic returns the diagnostic of a reserved name.
func ReservedDiagnostic(r language.Reserved, subject string, at *diag.Range, path []string) diag.Diagnostic {
	d := diag.Diagnostic{
		Type:    "config/reserved",
		Message: fmt.Sprintf("%s is not supported: %s is not part of this build", subject, r.What),
		Range:   at,
		Path:    path,
		Hint:    "remove it",
	}
	if r.Instead != "" {
		d.Message, d.Hint = fmt.Sprintf("%s is not supported: %s", subject, r.What), r.Instead
	}
	return d
}

// Within returns the words that follow a name in a message: " in " and the title of the block;
// empty for the root.
func Within(n *Node) string {
	if len(n.Path) == 0 {
		return ""
	}
	return " in " + n.Title()
}

func (g *grower) label(n *Node, b *hcl.Block) bool {
	if n.Spec.Label == language.LabelNone {
		return true
	}
	label := n.Labels[0]
	d := diag.Diagnostic{Type: "config/syntax", Range: g.at(b.LabelRanges[0]), Path: n.Path, Found: edn.Text(label)}
	switch n.Spec.Label {
	case language.LabelIdent:
		if language.IsIdentLabel(label) {
			return true
		}
		d.Expected = edn.Text("a lower-case letter or digit, then at most 63 of a-z 0-9 . _ + -")
	case language.LabelPattern:
		if label != "" {
			return true
		}
		d.Expected = edn.Text("a path or a pattern such as extra/*.hcl")
	case language.LabelImplied:
		space := n.Spec.Name + "/"
		if language.IsIdentLabel(strings.TrimPrefix(label, space)) {
			return true
		}
		example := map[string]string{"role": "clerk", "rubric": "answer"}[n.Spec.Name]
		d.Expected = edn.Text("a name such as " + example + ", or " + space + example)
	case language.LabelQualified:
		if language.IsQualifiedLabel(label) {
			space, _, _ := strings.Cut(label, "/")
			if n.Spec.Refers || !language.ReservedNamespace(space) {
				return true
			}
			d.Message = fmt.Sprintf("the namespace %s of the %s label %s is reserved", diag.Quote(space), n.Spec.Name,
				diag.Quote(label))
			d.Hint = "choose another namespace: Ferment defines the names in " + strings.Join(language.ReservedNamespaces, ", ")
			g.report.Add(d)
			return false
		}
		d.Expected = edn.Text("namespace/name in lower case, at most 128 bytes")
	}
	d.Message = fmt.Sprintf("%s is not a valid label for %s block", diag.Quote(label), diag.Article(n.Spec.Name))
	d.Nearest = n.Spec.LabelLike(label)
	g.report.Add(d)
	g.report.Poison(n.Spec.Name, diag.AnyName)
	return false
}

// strangers reports unknown attributes and blocks, and attributes written as blocks or blocks
// written as attributes.
func (g *grower) strangers(n *Node, body, rest hcl.Body) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		g.jsonStrangers(n, rest)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(native.Attributes)) {
		if _, known := n.Spec.Attr(name); known {
			continue
		}
		at := native.Attributes[name].NameRange
		if block, isBlock := n.Spec.Block(name); isBlock && g.allowed(n, name, at) {
			g.lost(n, name, diag.AnyName)
			g.report.Add(diag.Diagnostic{
				Type:    "config/type",
				Message: fmt.Sprintf("%s%s is a block, not an attribute", diag.Quote(name), Within(n)),
				Range:   g.at(at),
				Path:    append(slices.Clone(n.Path), name),
				Hint:    "write " + block.Shape() + " without the equals sign",
			})
			continue
		} else if !isBlock {
			g.stranger(n, "attribute", name, nil, at)
		}
	}
	for _, b := range native.Blocks {
		if _, known := n.Spec.Block(b.Type); known {
			continue
		}
		if _, isAttr := n.Spec.Attr(b.Type); isAttr && g.allowed(n, b.Type, b.TypeRange) {
			g.report.Add(diag.Diagnostic{
				Type:    "config/type",
				Message: fmt.Sprintf("%s%s is an attribute, not a block", diag.Quote(b.Type), Within(n)),
				Range:   g.at(b.TypeRange),
				Path:    append(slices.Clone(n.Path), b.Type),
				Hint:    "write " + b.Type + " = ...",
			})
			continue
		} else if !isAttr {
			g.stranger(n, "block", b.Type, b.Labels, b.TypeRange)
		}
	}
}

// stranger reports an unknown name in a block. At the top level it may be a misspelled block type,
// whose label may have references.
func (g *grower) stranger(n *Node, kind, name string, labels []string, at hcl.Range) {
	if _, ok := language.ReservedAt(language.Join(n.SpecPath(), name)); ok && !g.allowed(n, name, at) {
		return
	}
	names := n.Spec.Names(n.SpecPath())
	near, label, hint := diag.Nearest(name, names), diag.AnyName, n.Spec.Home(name)
	if elsewhere := language.BlockElsewhere(name); kind == "block" && elsewhere != "" {
		near, hint = "", cmp.Or(hint, elsewhere) // it is spelled correctly
	}
	switch {
	case kind == "block" && near != "":
		hint = ""
	case hint != "":
		near = ""
	case near == "":
		hint = cmp.Or(n.Spec.Settings(kind), language.Elsewhere(name))
	}
	if len(labels) == 1 {
		label = labels[0]
	}
	g.lost(n, cmp.Or(near, diag.AnyName), label)
	g.report.Add(diag.Diagnostic{
		Type:     "config/unknown-name",
		Message:  fmt.Sprintf("unknown %s %s%s", kind, diag.Quote(name), Within(n)),
		Range:    g.at(at),
		Path:     append(slices.Clone(n.Path), name),
		Expected: diag.Words(slices.Compact(names)), // an attribute and a block may share a name
		Found:    edn.Text(name),
		Nearest:  near,
		Hint:     hint,
		Context:  true,
	})
}

// Misnamed adds to a diagnostic about a top-level block the block of another file with a similar
// label, which the block may be meant to override.
func (n *Node) Misnamed(block *Node, d diag.Diagnostic) diag.Diagnostic {
	const most = 1000 // maximum number of compared labels
	if n == nil || len(n.Also) == 0 || len(n.Blocks) > most ||
		len(block.Path) != 2 || len(block.Labels) == 0 || len(block.Also) > 0 {
		return d
	}
	others := map[string]*Node{}
	for _, b := range n.Children(block.Spec.Name) {
		if b.Source != block.Source {
			others[b.Labels[0]] = b
		}
	}
	label := block.Labels[0]
	if d.Nearest = diag.Nearest(label, slices.Sorted(maps.Keys(others))); d.Nearest == "" {
		return d
	}
	near := others[d.Nearest]
	d.Hint = ""
	d.Related = append(d.Related,
		diag.Related{Range: near.Source.Range(near.Header), Message: "declares " + near.Title()})
	return d
}
