package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// attribute is an attribute of a file before evaluation. Its source is the base of
// relative paths.
type attribute struct {
	spec   *Attr // nil in an open block
	name   string
	expr   hcl.Expression
	rng    hcl.Range // of the name
	source *Source
	// under holds the overridden attributes, weakest first.
	under []*attribute
}

// node is a block of the configuration before evaluation. Files are merged as
// trees because a local of one file is visible in all.
type node struct {
	spec   *Block
	path   []string // block types and labels from the root
	labels []string
	header hcl.Range
	source *Source
	attrs  map[string]*attribute
	blocks []*node
	twins  map[string]*node // blocks by identity while a file is read
	layers []layer          // of a foreign block, weakest first
	also   []spot           // other places of the block
	// damaged is true if the block has an invalid name, which may be a misspelt required one.
	damaged bool
}

// spot is one place of a block.
type spot struct {
	header hcl.Range
	source *Source
}

// layer is the body in one file of a block with the schema of a plugin.
type layer struct {
	spot
	body hcl.Body
}

// title returns the block in the form of diagnostics: plugin "chess", instances.
func (n *node) title() string { return title(n.path) }

// specPath returns the path of a block in the specification: types without labels.
func (n *node) specPath() string {
	var parts []string
	block := Specification()
	for i := 0; i < len(n.path); i++ {
		next, ok := block.Block(n.path[i])
		if !ok {
			break
		}
		parts = append(parts, n.path[i])
		if next.Label != LabelNone {
			i++
		}
		block = next
	}
	return strings.Join(parts, ".")
}

// children returns the nested blocks of one type.
func (n *node) children(name string) []*node {
	var out []*node
	for _, b := range n.blocks {
		if b.spec.Name == name {
			out = append(out, b)
		}
	}
	return out
}

// growTree returns the tree of a parsed file.
func growTree(s *Source, body hcl.Body, report *collector) *node {
	root := &node{
		spec:   Specification(),
		source: s,
		header: hcl.Range{Filename: s.Name, Start: hcl.InitialPos, End: hcl.InitialPos},
	}
	(&grower{source: s, report: report}).grow(root, body)
	return root
}

// grower builds the tree of one file.
type grower struct {
	source *Source
	report *collector
}

func (g *grower) at(r hcl.Range) *Range { return g.source.hclRange(r) }

// grow adds the attributes and blocks of a body to the block n.
func (g *grower) grow(n *node, body hcl.Body) {
	n.attrs = map[string]*attribute{}
	if !g.object(n, body) {
		return
	}
	switch {
	case n.spec.Foreign:
		n.layers = []layer{{spot{n.header, g.source}, body}}
		return
	case n.spec.Open:
		g.open(n, body)
		return
	}
	// strangers reports unknown names with better messages than the library.
	content, rest, diags := body.PartialContent(g.wanted(n.spec))
	if native, ok := body.(*hclsyntax.Body); ok {
		g.labels(n, native)
	} else {
		reportSyntax(g.report, g.source, nil, diags)
	}
	for name, a := range content.Attributes {
		spec, _ := n.spec.Attr(name)
		if g.allowed(n, name, a.NameRange) {
			n.attrs[name] = &attribute{
				spec:   spec,
				name:   name,
				expr:   g.native(a.Expr),
				rng:    a.NameRange,
				source: g.source,
			}
		}
	}
	for _, b := range content.Blocks {
		g.block(n, b)
	}
	g.strangers(n, body, rest)
}

// object rejects a JSON body that is not an object.
func (g *grower) object(n *node, body hcl.Body) bool {
	if _, ok := body.(*hclsyntax.Body); ok {
		return true
	}
	_, diags := body.JustAttributes()
	if diags.HasErrors() {
		reportSyntax(g.report, g.source, nil, diags)
		g.report.poison(cmp.Or(n.spec.Name, anyName), anyName)
		n.damaged = true
	}
	return !diags.HasErrors()
}

// labels reports blocks with too few or too many labels, which the library omits from the content.
func (g *grower) labels(n *node, body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		spec, known := n.spec.Block(b.Type)
		want := 0
		if known && spec.Label != LabelNone {
			want = 1
		}
		if !known || len(b.Labels) == want {
			continue
		}
		shape := b.Type + " { ... }"
		if want == 1 {
			shape = b.Type + ` "NAME" { ... }`
		}
		path, at := append(slices.Clone(n.path), b.Type), b.DefRange()
		if len(b.Labels) > want {
			at = b.LabelRanges[want]
		}
		g.report.add(Diagnostic{
			Type:     "config/syntax",
			Message:  fmt.Sprintf("%s takes %s, not %d", title(path), Counted(want, "label"), len(b.Labels)),
			Range:    g.at(at),
			Path:     path,
			Expected: edn.Text(shape),
			Found:    edn.Text(strings.TrimSpace(string(b.DefRange().SliceBytes(g.source.text)))),
		})
		g.lost(n, b.Type, anyName)
	}
}

// lost records an invalid block inside n.
func (g *grower) lost(n *node, block, label string) {
	if n.damaged = true; len(n.path) == 0 {
		g.report.poison(block, label)
	}
}

func (g *grower) wanted(spec *Block) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range spec.Attrs {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, b := range spec.Blocks {
		h := hcl.BlockHeaderSchema{Type: b.Name}
		if b.Label != LabelNone {
			h.LabelNames = []string{string(b.Label)}
		}
		s.Blocks = append(s.Blocks, h)
	}
	return s
}

func (g *grower) open(n *node, body hcl.Body) {
	attrs, diags := body.JustAttributes()
	if native, ok := body.(*hclsyntax.Body); ok {
		diags = nil // they concern only blocks
		for _, b := range native.Blocks {
			g.lost(n, n.spec.Name, b.Type)
			g.report.poison(n.spec.Name, b.Type)
			g.report.add(Diagnostic{
				Type:     "config/type",
				Message:  fmt.Sprintf("%s in %s is an attribute, not a block", quote(b.Type), n.title()),
				Range:    g.at(b.TypeRange),
				Path:     append(slices.Clone(n.path), b.Type),
				Expected: edn.Text("NAME = VALUE"),
				Hint:     "write " + b.Type + " = { ... }",
			})
		}
	}
	reportSyntax(g.report, g.source, nil, diags)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		a := attrs[name]
		if first := n.attrs[name]; first != nil {
			g.report.add(Diagnostic{
				Type:    "config/duplicate",
				Message: "local " + quote(name) + " is defined twice",
				Range:   g.at(a.NameRange),
				Path:    []string{"locals", name},
				Related: []Related{{Range: g.at(first.rng), Message: "is the first one"}},
				Hint:    "keep one of the two",
			})
			continue
		}
		n.attrs[name] = &attribute{name: name, expr: g.native(a.Expr), rng: a.NameRange, source: g.source}
	}
}

func (g *grower) block(parent *node, b *hcl.Block) {
	spec, _ := parent.spec.Block(b.Type)
	n := &node{spec: spec, labels: b.Labels, header: b.DefRange, source: g.source}
	n.path = append(slices.Clone(parent.path), b.Type)
	n.path = append(n.path, b.Labels...)
	if !g.allowed(parent, b.Type, b.TypeRange) || !g.label(n, b) {
		return
	}
	if !g.vary(n, b) {
		return
	}
	first := parent.twins[n.identity()]
	if first != nil && n.spec.Open { // several locals blocks are allowed
		g.open(first, b.Body)
		return
	}
	if first != nil {
		hint := "merge the two blocks"
		if n.spec.Label != LabelNone {
			hint += ", or give one another label"
		}
		g.report.add(Diagnostic{
			Type:    "config/duplicate",
			Message: n.title() + " is declared twice",
			Range:   g.at(b.DefRange),
			Path:    n.path,
			Related: []Related{{Range: first.source.hclRange(first.header), Message: "is the first one"}},
			Hint:    hint,
		})
		return
	}
	parent.blocks = append(parent.blocks, n)
	if parent.twins == nil {
		parent.twins = map[string]*node{}
	}
	parent.twins[n.identity()] = n
	g.grow(n, b.Body)
}

// vary selects the variant of the block for its label, and reports an unknown label.
func (g *grower) vary(n *node, b *hcl.Block) bool {
	if len(n.spec.Variants) == 0 {
		return true
	}
	var ok bool
	if n.spec, ok = n.spec.variant(n.labels[0]); ok {
		return true
	}
	known := make([]string, len(n.spec.Variants))
	for i := range n.spec.Variants {
		known[i] = n.spec.Variants[i].Only
	}
	g.report.add(Diagnostic{
		Type:     "config/unknown-name",
		Message:  fmt.Sprintf("there is no %s %s", n.spec.Name, quote(n.labels[0])),
		Range:    g.at(b.LabelRanges[0]),
		Path:     n.path,
		Expected: words(known),
		Found:    edn.Text(n.labels[0]),
		Nearest:  nearest(n.labels[0], known),
	})
	return false
}

// identity returns the type and labels of the block, which are unique in its parent.
func (n *node) identity() string { return n.spec.Name + " " + strings.Join(n.labels, " ") }

// allowed rejects reserved names.
func (g *grower) allowed(n *node, name string, at hcl.Range) bool {
	r, ok := reservedAt(join(n.specPath(), name))
	if !ok || r.partly() {
		return true
	}
	g.report.add(reservedDiagnostic(r, quote(name)+within(n), g.at(at), append(slices.Clone(n.path), name)))
	return false
}

func reservedDiagnostic(r reserved, subject string, at *Range, path []string) Diagnostic {
	return Diagnostic{
		Type:    "config/reserved",
		Message: fmt.Sprintf("%s is not supported: %s is not part of this build", subject, r.what),
		Range:   at,
		Path:    path,
		Hint:    "remove it",
	}
}

func within(n *node) string {
	if len(n.path) == 0 {
		return ""
	}
	return " in " + n.title()
}

// reservedNamespaces must not be used in labels.
var reservedNamespaces = []string{"ferment", "session", "conversation"}

func (g *grower) label(n *node, b *hcl.Block) bool {
	if n.spec.Label == LabelNone {
		return true
	}
	label := n.labels[0]
	d := Diagnostic{Type: "config/syntax", Range: g.at(b.LabelRanges[0]), Path: n.path, Found: edn.Text(label)}
	switch n.spec.Label {
	case LabelIdent:
		if isIdentLabel(label) {
			return true
		}
		d.Expected = edn.Text("a lower-case letter or digit, then at most 63 of a-z 0-9 . _ + -")
	case LabelPattern:
		if label != "" {
			return true
		}
		d.Expected = edn.Text("a path or a pattern such as extra/*.hcl")
	case LabelImplied:
		space := n.spec.Name + "/"
		if isIdentLabel(strings.TrimPrefix(label, space)) {
			return true
		}
		example := map[string]string{"role": "clerk", "rubric": "answer"}[n.spec.Name]
		d.Expected = edn.Text("a name such as " + example + ", or " + space + example)
	case LabelQualified:
		if isQualifiedLabel(label) {
			space, _, _ := strings.Cut(label, "/")
			if !slices.Contains(reservedNamespaces, space) {
				return true
			}
			d.Message = fmt.Sprintf("the namespace %s of the %s label %s is reserved", quote(space), n.spec.Name,
				quote(label))
			g.report.add(d)
			return false
		}
		d.Expected = edn.Text("namespace/name in lower case, at most 128 bytes")
	}
	d.Message = fmt.Sprintf("%s is not a valid label for %s block", quote(label), article(n.spec.Name))
	d.Nearest = n.spec.labelLike(label)
	g.report.add(d)
	g.report.poison(n.spec.Name, anyName)
	return false
}

// strangers reports unknown attributes and blocks, and attributes written as blocks
// or blocks written as attributes.
func (g *grower) strangers(n *node, body, rest hcl.Body) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		g.jsonStrangers(n, rest)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(native.Attributes)) {
		if _, known := n.spec.Attr(name); known {
			continue
		}
		at := native.Attributes[name].NameRange
		if block, isBlock := n.spec.Block(name); isBlock && g.allowed(n, name, at) {
			g.lost(n, name, anyName)
			g.report.add(Diagnostic{
				Type:    "config/type",
				Message: fmt.Sprintf("%s%s is a block, not an attribute", quote(name), within(n)),
				Range:   g.at(at),
				Path:    append(slices.Clone(n.path), name),
				Hint:    "write " + block.shape() + " without the equals sign",
			})
			continue
		} else if !isBlock {
			g.stranger(n, "attribute", name, nil, at)
		}
	}
	for _, b := range native.Blocks {
		if _, known := n.spec.Block(b.Type); known {
			continue
		}
		if _, isAttr := n.spec.Attr(b.Type); isAttr && g.allowed(n, b.Type, b.TypeRange) {
			g.report.add(Diagnostic{
				Type:    "config/type",
				Message: fmt.Sprintf("%s%s is an attribute, not a block", quote(b.Type), within(n)),
				Range:   g.at(b.TypeRange),
				Path:    append(slices.Clone(n.path), b.Type),
				Hint:    "write " + b.Type + " = ...",
			})
			continue
		} else if !isAttr {
			g.stranger(n, "block", b.Type, b.Labels, b.TypeRange)
		}
	}
}

// stranger reports an unknown name in a block. At the top level it may be a misspelt block type, whose label may have
// references.
func (g *grower) stranger(n *node, kind, name string, labels []string, at hcl.Range) {
	if _, ok := reservedAt(join(n.specPath(), name)); ok && !g.allowed(n, name, at) {
		return
	}
	names := n.spec.names(n.specPath())
	near, label, hint := nearest(name, names), anyName, n.spec.home(name)
	switch {
	case kind == "block" && near != "":
		hint = ""
	case hint != "":
		near = ""
	case near == "":
		hint = cmp.Or(n.spec.settings(kind), elsewhere(name))
	}
	if len(labels) == 1 {
		label = labels[0]
	}
	g.lost(n, cmp.Or(near, anyName), label)
	g.report.add(Diagnostic{
		Type:     "config/unknown-name",
		Message:  fmt.Sprintf("unknown %s %s%s", kind, quote(name), within(n)),
		Range:    g.at(at),
		Path:     append(slices.Clone(n.path), name),
		Expected: words(names),
		Found:    edn.Text(name),
		Nearest:  near,
		Hint:     hint,
		context:  true,
	})
}

// misnamed adds to a diagnostic about a top-level block the block of another file with a similar label, which it may be
// meant to override.
func (n *node) misnamed(block *node, d Diagnostic) Diagnostic {
	const most = 1000 // compared labels
	if n == nil || len(n.also) == 0 || len(n.blocks) > most ||
		len(block.path) != 2 || len(block.labels) == 0 || len(block.also) > 0 {
		return d
	}
	others := map[string]*node{}
	for _, b := range n.children(block.spec.Name) {
		if b.source != block.source {
			others[b.labels[0]] = b
		}
	}
	label := block.labels[0]
	if d.Nearest = nearest(label, slices.Sorted(maps.Keys(others))); d.Nearest == "" {
		return d
	}
	near := others[d.Nearest]
	d.Hint = ""
	d.Related = append(d.Related,
		Related{Range: near.source.hclRange(near.header), Message: "declares " + near.title()})
	return d
}
