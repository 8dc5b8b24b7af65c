package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// parts are the merged attributes and blocks of a block with the schema of a
// plugin (HCL-014).
type parts struct {
	attrs  map[string]*attribute
	blocks map[string][]*piece // by type, in the order of first appearance
}

// piece is one nested block of parts.
type piece struct {
	spot
	labels []string
	layers []layer
	twice  []spot // duplicates in one file
}

func (p spot) at() *Range { return p.source.hclRange(p.header) }

func (a *attribute) at() *Range { return a.source.hclRange(a.rng) }

// partsOf merges the layers of a block. The schema determines which JSON names are
// blocks; without a schema all are attributes.
func partsOf(layers []layer, s *schema.Schema, report *collector) parts {
	p := parts{attrs: map[string]*attribute{}, blocks: map[string][]*piece{}}
	for _, l := range layers {
		if native, ok := l.body.(*hclsyntax.Body); ok {
			p.native(l, native)
		} else if l.body != nil {
			p.json(l, s, report)
		}
	}
	return p
}

func (p parts) native(l layer, body *hclsyntax.Body) {
	for name, a := range body.Attributes {
		p.set(&attribute{name: name, expr: a.Expr, rng: a.NameRange, source: l.source})
	}
	seen := map[string]bool{}
	for _, b := range body.Blocks {
		p.add(b.Type, b.Labels, layer{spot{b.DefRange(), l.source}, b.Body}, seen)
	}
}

func (p parts) set(a *attribute) {
	if earlier, ok := p.attrs[a.name]; ok {
		a = a.over(earlier)
	}
	p.attrs[a.name] = a
}

// add adds a block; seen holds the blocks of the same layer.
func (p parts) add(name string, labels []string, l layer, seen map[string]bool) {
	id := name + "\x00" + strings.Join(labels, "\x00")
	i := slices.IndexFunc(p.blocks[name], func(b *piece) bool { return slices.Equal(b.labels, labels) })
	switch {
	case i < 0:
		p.blocks[name] = append(p.blocks[name], &piece{spot: l.spot, labels: labels, layers: []layer{l}})
	case seen[id]:
		p.blocks[name][i].twice = append(p.blocks[name][i].twice, l.spot)
	default:
		p.blocks[name][i].layers = append(p.blocks[name][i].layers, l)
	}
	seen[id] = true
}

// json reads a JSON layer with the schema, because a JSON object may be a block or
// a value (HCL-036).
func (p parts) json(l layer, s *schema.Schema, report *collector) {
	wanted := &hcl.BodySchema{}
	for _, e := range entriesOf(s) {
		if e.Props.Block {
			wanted.Blocks = append(wanted.Blocks,
				hcl.BlockHeaderSchema{Type: hclName(scalarText(e.Key)), LabelNames: labelNames[:e.Props.Labels]})
		}
	}
	g := &grower{source: l.source, report: report}
	content, rest, diags := l.body.PartialContent(wanted)
	reportSyntax(report, l.source, nil, diags)
	seen := map[string]bool{}
	for _, b := range content.Blocks {
		p.add(b.Type, b.Labels, layer{spot{b.DefRange, l.source}, b.Body}, seen)
	}
	attrs, diags := rest.JustAttributes()
	reportSyntax(report, l.source, nil, diags)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		a := attrs[name]
		p.set(&attribute{name: name, expr: g.native(a.Expr), rng: a.NameRange, source: l.source})
	}
}

var labelNames = []string{"name", "name 2"}

// entriesOf returns the entries of a map schema, which may be optional.
func entriesOf(s *schema.Schema) []schema.Entry {
	if s == nil {
		return nil
	}
	return s.Deref().Entries()
}

// isMap reports whether an object is a map in the schema, whose keys merge.
func isMap(s *schema.Schema) bool {
	s = s.Deref()
	if s.Kind() == schema.KindMaybe {
		return isMap(s.Children()[0])
	}
	return s.Kind() == schema.KindMap || s.Kind() == schema.KindMapOf
}
