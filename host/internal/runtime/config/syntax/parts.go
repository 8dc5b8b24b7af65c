package syntax

import (
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Parts are the merged attributes and blocks of a block with the schema of a plugin (HCL-014).
type Parts struct {
	Attrs  map[string]*Attribute
	Blocks map[string][]*Piece // by type, in the order of first appearance
}

// Piece is a nested block in Parts, merged from all layers.
type Piece struct {
	spot
	Labels []string
	Layers []Layer
	Twice  []spot // duplicates in one file
}

// At returns the place of the block.
func (p spot) At() *diag.Range { return p.Source.Range(p.header) }

// At returns the place of the name.
func (a *Attribute) At() *diag.Range { return a.Source.Range(a.NameRange) }

// PartsOf merges the layers of a block. The schema determines which JSON names are blocks; without
// a schema all are attributes.
func PartsOf(layers []Layer, s *schema.Schema, report *diag.Collector) Parts {
	p := Parts{Attrs: map[string]*Attribute{}, Blocks: map[string][]*Piece{}}
	for _, l := range layers {
		if native, ok := l.Body.(*hclsyntax.Body); ok {
			p.native(l, native)
		} else if l.Body != nil {
			p.json(l, s, report)
		}
	}
	return p
}

func (p Parts) native(l Layer, body *hclsyntax.Body) {
	for name, a := range body.Attributes {
		p.set(&Attribute{Name: name, Expr: a.Expr, NameRange: a.NameRange, Source: l.Source})
	}
	seen := map[string]bool{}
	for _, b := range body.Blocks {
		p.add(b.Type, b.Labels, Layer{spot{b.DefRange(), l.Source}, b.Body}, seen)
	}
}

func (p Parts) set(a *Attribute) {
	if earlier, ok := p.Attrs[a.Name]; ok {
		a = a.over(earlier)
	}
	p.Attrs[a.Name] = a
}

// add adds a block. seen has the blocks of the same layer.
func (p Parts) add(name string, labels []string, l Layer, seen map[string]bool) {
	id := name + "\x00" + strings.Join(labels, "\x00")
	i := slices.IndexFunc(p.Blocks[name], func(b *Piece) bool { return slices.Equal(b.Labels, labels) })
	switch {
	case i < 0:
		p.Blocks[name] = append(p.Blocks[name], &Piece{spot: l.spot, Labels: labels, Layers: []Layer{l}})
	case seen[id]:
		p.Blocks[name][i].Twice = append(p.Blocks[name][i].Twice, l.spot)
	default:
		p.Blocks[name][i].Layers = append(p.Blocks[name][i].Layers, l)
	}
	seen[id] = true
}

// json reads a JSON layer with the schema, because a JSON object may be a block or a value
// (HCL-036).
func (p Parts) json(l Layer, s *schema.Schema, report *diag.Collector) {
	wanted := &hcl.BodySchema{}
	for _, e := range EntriesOf(s) {
		if e.Props.Block {
			wanted.Blocks = append(wanted.Blocks,
				hcl.BlockHeaderSchema{Type: language.HCLName(language.ScalarText(e.Key)), LabelNames: LabelNames[:e.Props.Labels]})
		}
	}
	g := &grower{source: l.Source, report: report}
	content, rest, diags := l.Body.PartialContent(wanted)
	reportSyntax(report, l.Source, nil, diags)
	seen := map[string]bool{}
	for _, b := range content.Blocks {
		p.add(b.Type, b.Labels, Layer{spot{b.DefRange, l.Source}, b.Body}, seen)
	}
	attrs, diags := rest.JustAttributes()
	reportSyntax(report, l.Source, nil, diags)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		a := attrs[name]
		p.set(&Attribute{Name: name, Expr: g.native(a.Expr), NameRange: a.NameRange, Source: l.Source})
	}
}

// LabelNames are the names of the labels of a block in the reference.
var LabelNames = []string{"name", "name 2"}

// EntriesOf returns the entries of a map schema; s may be nil.
func EntriesOf(s *schema.Schema) []schema.Entry {
	if s == nil {
		return nil
	}
	return s.Deref().Entries()
}

// IsMap reports whether s is a map schema, possibly an optional one. Layers of such a value are
// merged by key.
func IsMap(s *schema.Schema) bool {
	s = s.Deref()
	if s.Kind() == schema.KindMaybe {
		return IsMap(s.Children()[0])
	}
	return s.Kind() == schema.KindMap || s.Kind() == schema.KindMapOf
}
