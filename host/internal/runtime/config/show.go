package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	rules "github.com/fermenthq/ferment/sdk/text"
)

// ShowOptions select the output of Show.
type ShowOptions struct {
	Defaults bool   // include defaults
	Origins  bool   // include the origin of each value
	Flat     bool   // a file that loads to the same values if it is in Root
	Only     string // a block or an attribute: plugin.chess, ferment.seed
}

// UnknownPathError is an unknown path of a block or attribute.
type UnknownPathError struct {
	Path, Nearest string
}

// Error implements error.
func (e *UnknownPathError) Error() string {
	return fmt.Sprintf("the configuration has no %s", quote(e.Path))
}

// shownAttr is the printed form of an attribute.
type shownAttr struct {
	name, text, origin string
	value              edn.Value
}

// shownBlock is the printed form of a block.
type shownBlock struct {
	name   string
	labels []string
	attrs  []shownAttr
	blocks []*shownBlock
}

// Show returns the merged configuration as HCL, without secrets. The error is an
// UnknownPathError.
func Show(c *Config, o ShowOptions) (string, error) {
	top, err := selected(c, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	top.body(&b, o)
	return string(Format("show", []byte(b.String())).After), nil
}

// ShowValue returns the output of Show as data: block types and labels are keys.
// With Origins an attribute is a map of its value and its origin.
func ShowValue(c *Config, o ShowOptions) (edn.Value, error) {
	top, err := selected(c, o)
	if err != nil {
		return edn.Nil(), err
	}
	return top.data(o), nil
}

func selected(c *Config, o ShowOptions) (*shownBlock, error) {
	s := shower{Config: c, printer: c.printer(), ShowOptions: o}
	top := &shownBlock{}
	if c.tree != nil {
		top = s.block(c.tree)
	}
	if o.Only == "" {
		return top, nil
	}
	out := &shownBlock{}
	if !top.only(o.Only, out) {
		return nil, &UnknownPathError{Path: o.Only, Nearest: nearest(o.Only, top.paths(""))}
	}
	return out, nil
}

// only copies the part at a path to out, and reports whether it exists.
func (b *shownBlock) only(path string, out *shownBlock) bool {
	for _, a := range b.attrs {
		if a.name == path {
			out.attrs = append(out.attrs, a)
			return true
		}
	}
	found := false
	for _, inner := range b.blocks {
		name := inner.dotted()
		switch rest, below := strings.CutPrefix(path, name+"."); {
		case path == name, path == inner.name:
			out.blocks = append(out.blocks, inner)
			found = true
		case below:
			part := &shownBlock{name: inner.name, labels: inner.labels}
			if inner.only(rest, part) {
				out.blocks = append(out.blocks, part)
				return true
			}
		}
	}
	return found
}

func (b *shownBlock) dotted() string {
	return strings.Join(append([]string{b.name}, b.labels...), ".")
}

// paths returns all paths below the block.
func (b *shownBlock) paths(at string) []string {
	var out []string
	for _, a := range b.attrs {
		out = append(out, join(at, a.name))
	}
	for _, inner := range b.blocks {
		here := join(at, inner.dotted())
		out = append(append(out, here), inner.paths(here)...)
	}
	return out
}

func (b *shownBlock) body(w *strings.Builder, o ShowOptions) {
	for _, a := range b.attrs {
		fmt.Fprintf(w, "%s = %s", a.name, a.text)
		if o.Origins && !o.Flat && a.origin != "" {
			w.WriteString(" # " + printable(a.origin))
		}
		w.WriteByte('\n')
	}
	for i, inner := range b.blocks {
		if i > 0 || len(b.attrs) > 0 {
			w.WriteByte('\n')
		}
		w.WriteString(inner.name)
		for _, label := range inner.labels {
			w.WriteString(" " + spellText(label))
		}
		w.WriteString(" {\n")
		inner.body(w, o)
		w.WriteString("}\n")
	}
}

func (b *shownBlock) data(o ShowOptions) edn.Value {
	var out edn.MapBuilder
	for _, a := range b.attrs {
		v := a.value
		if o.Origins {
			v = edn.MustMap(edn.K("value"), a.value, edn.K("origin"), textOrNil(a.origin))
		}
		out.Set(edn.Text(a.name), v)
	}
	nested := map[string]*edn.MapBuilder{}
	for _, inner := range b.blocks {
		if len(inner.labels) == 0 {
			out.Set(edn.Text(inner.name), inner.data(o))
			continue
		}
		if nested[inner.name] == nil {
			nested[inner.name] = &edn.MapBuilder{}
		}
		nested[inner.name].Set(edn.Text(strings.Join(inner.labels, " ")), inner.data(o))
	}
	for name, m := range nested {
		out.Set(edn.Text(name), m.Map())
	}
	return out.Map()
}

// shower converts decoded blocks to shown blocks.
type shower struct {
	*Config
	printer
	ShowOptions
}

// block converts a block, with its defaults if requested. Reserved parts of the
// specification are omitted.
func (s shower) block(from *section) *shownBlock {
	out := &shownBlock{name: from.node.spec.Name, labels: from.node.labels}
	path := from.node.specPath()
	for i := range from.node.spec.Attrs {
		spec := &from.node.spec.Attrs[i]
		v, ok := from.attrs[spec.Name]
		if !ok || !s.wanted(v) {
			continue
		}
		if r, reserved := reservedAt(join(path, spec.Name)); reserved && !v.written && !r.partly() {
			continue
		}
		if a := s.attr(spec, v); a.text != "" {
			out.attrs = append(out.attrs, a)
		}
	}
	if from.node.spec.Name == "plugin" {
		if c := s.config(from); c != nil {
			out.blocks = append(out.blocks, c)
		}
	}
	for i := range from.node.spec.Blocks {
		spec := &from.node.spec.Blocks[i]
		if spec.Open || spec.Foreign {
			continue
		}
		for _, inner := range from.all(spec.Name) {
			b := s.block(inner)
			if len(inner.node.labels) > 0 || len(b.attrs)+len(b.blocks) > 0 {
				out.blocks = append(out.blocks, b)
			}
		}
	}
	return out
}

// wanted reports whether a value is shown. A null in an overlay is shown as the
// default that it restores.
func (s shower) wanted(v value) bool { return v.written || s.Defaults || v.reset && !s.Flat }

func (s shower) attr(spec *Attr, v value) shownAttr {
	a := shownAttr{name: spec.Name, text: s.spell(spec.Type, v), value: s.portable(v), origin: s.origin(v)}
	if v.secret != nil && !s.Flat {
		a.text = spellText(s.masked(*v.secret))
	}
	return a
}

// origin returns the origin of a value.
func (s shower) origin(v value) string {
	was := make([]string, 0, len(v.under))
	for _, u := range slices.Backward(v.under) {
		was = append(was, fmt.Sprintf("%s from %s", short(oneLine(u.text)), line(u.at)))
	}
	before := ""
	if len(was) > 0 {
		before = " (was " + strings.Join(was, ", ") + ")"
	}
	switch {
	case v.reset:
		return "default, reset by " + line(v.rng) + before
	case !v.written && v.rng == nil:
		return "default"
	case v.rng == nil:
		return ""
	}
	if keys := s.originOfKeys(v); keys != "" {
		return keys
	}
	return line(v.rng) + s.through(v.inputs) + before
}

// originOfKeys returns the origins of the keys of a map from several places.
func (s shower) originOfKeys(v value) string {
	places := map[string]bool{}
	var parts []string
	for i, k := range v.keys {
		if v.items[i].key == nil {
			return ""
		}
		places[v.items[i].key.File] = true
		parts = append(parts, k+" "+line(v.items[i].key)+s.through(v.items[i].inputs))
	}
	if len(places) < 2 {
		return ""
	}
	return strings.Join(parts, ", ")
}

// through returns the environment variables that a value depends on.
func (s shower) through(inputs []string) string {
	out := ""
	for _, name := range slices.Compact(slices.Clone(inputs)) {
		from := "unset"
		switch at, set := s.variables[name]; {
		case at != nil:
			from = "from " + line(at)
		case set:
			from = "from the environment"
		}
		out += ", " + name + " " + from
	}
	return out
}

func line(r *Range) string {
	if r.Start.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Start.Line)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// config converts the configuration of a plugin with its schema, or its source text
// if the plugin was not described.
func (s shower) config(plugin *section) *shownBlock {
	n := configBlock(plugin)
	p := s.plugin(plugin.label())
	if p == nil || p.low == nil {
		if n == nil {
			return nil
		}
		return rawBlock(n)
	}
	b := &shownBlock{name: "config"}
	s.entries(b, p, p.low.schema.root, p.Config, []string{"plugin", p.Name, "config"}, nil)
	if n == nil && len(b.attrs)+len(b.blocks) == 0 {
		return nil
	}
	return b
}

func (s shower) entries(b *shownBlock, p *Plugin, m *schema.Schema, v edn.Value, path []string, at []edn.Value) {
	for _, e := range entriesOf(m) {
		x, there := v.Get(e.Key)
		if !there {
			continue
		}
		name := hclName(scalarText(e.Key))
		here, where := append(slices.Clone(path), name), append(slices.Clone(at), e.Key)
		if e.Props.Block {
			s.blocksOf(b, p, e, e.Schema, x, here, where, nil)
			continue
		}
		s.entry(b, p, &e, name, x, here, where)
	}
}

// blocksOf converts the blocks of an entry, one level of labels at a time.
func (s shower) blocksOf(b *shownBlock, p *Plugin, e schema.Entry, m *schema.Schema, v edn.Value, path []string,
	at []edn.Value, labels []string) {
	if len(labels) < e.Props.Labels {
		inner := m.Deref().Children()[1]
		for k, x := range v.Entries() {
			label := scalarText(k)
			s.blocksOf(b, p, e, inner, x, append(slices.Clone(path), label), append(slices.Clone(at), k),
				append(slices.Clone(labels), label))
		}
		return
	}
	out := &shownBlock{name: hclName(scalarText(e.Key)), labels: labels}
	if m.Deref().Kind() == schema.KindMap {
		s.entries(out, p, m, v, path, at)
	} else {
		for k, x := range v.Entries() {
			name := hclName(scalarText(k))
			s.entry(out, p, nil, name, x, append(slices.Clone(path), name), append(slices.Clone(at), k))
		}
	}
	b.blocks = append(b.blocks, out)
}

// entry converts one value of a plugin's config; e is nil for an attribute of any
// name.
func (s shower) entry(b *shownBlock, p *Plugin, e *schema.Entry, name string, v edn.Value, path []string,
	at []edn.Value) {
	w := p.low.written[rangeKey(path)]
	if w == nil && !s.Defaults {
		return
	}
	a := shownAttr{name: name, value: p.shown(s.printer, v, p.secretAt(at)), origin: "default"}
	if w != nil {
		a.origin = s.origin(value{
			written: true,
			rng:     w.source.hclRange(w.expr.Range()),
			under:   w.places(),
			inputs:  p.low.inputsOf[rangeKey(path)],
		})
	}
	if a.text = s.spellEntry(p, e, v, p.secretAt(at)); a.text != "" {
		b.attrs = append(b.attrs, a)
	}
}

func (s shower) spellEntry(p *Plugin, e *schema.Entry, v edn.Value, secret *Secret) string {
	switch {
	case secret != nil && s.Flat:
		return s.spellSecret(*secret)
	case secret != nil:
		return spellText(s.masked(*secret))
	case v.IsNil():
		return "null"
	case e == nil:
		return hclText(v)
	}
	if t, ok := unitType(*e); ok {
		if t.Kind == KindPath || t.Kind == KindList {
			return hclText(p.shown(s.printer, v, nil))
		}
		if t.Kind == KindDec {
			return spellText(strings.TrimSuffix(v.String(), "M"))
		}
		return s.spell(t, value{v: v})
	}
	if name, ok := v.AsKeyword(); ok && edn.Equal(fit(e.Schema, edn.Text(name)), v) {
		return spellText(name)
	}
	if v.Kind() == edn.KindMap {
		return spellEDN(v)
	}
	return hclText(v)
}

// rawBlock returns the source text of a block with an unknown schema.
func rawBlock(n *node) *shownBlock {
	b := &shownBlock{name: n.spec.Name}
	rawInto(b, n.layers)
	return b
}

func rawInto(b *shownBlock, layers []layer) {
	p := partsOf(layers, nil, newCollector(sources{}))
	for _, name := range slices.Sorted(maps.Keys(p.attrs)) {
		a := p.attrs[name]
		text := sourceText(a.source, a.expr)
		// Without the schema it is unknown which keys hold secrets.
		if len(rules.CheckSecrets(name+" = "+text)) > 0 {
			text = spellText("(secret)")
		}
		b.attrs = append(b.attrs, shownAttr{
			name:   name,
			text:   text,
			value:  edn.Text(text),
			origin: line(a.at()) + ", not checked",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.blocks)) {
		for _, blk := range p.blocks[name] {
			inner := &shownBlock{name: name, labels: blk.labels}
			rawInto(inner, blk.layers)
			b.blocks = append(b.blocks, inner)
		}
	}
}

// Weakness is a value that is, or may be, weaker than the default of prod
// (OPS-009).
type Weakness struct {
	Path        []string
	Value, Prod edn.Value
	// Written and ProdWritten are the values as HCL expressions.
	Written, ProdWritten string
	At                   *Range // nil: a default of the profile
}

// Weaker returns, for the attributes with profile-specific defaults, the values that
// differ from the default of prod, in the order of the specification. A limit that
// is lower than in prod, or that prod does not have, is not weaker.
func Weaker(c *Config) []Weakness {
	if c.tree == nil {
		return nil
	}
	d := newDecoder(newEvaluator(newCollector(sources{}),
		newInputs(c.Root, func(string) (string, bool) { return "", false })))
	d.profile, d.base = ProfileProd, newSource("default", c.Root+"/"+DefaultFile, 0, nil)
	var out []Weakness
	weaker(c, d, c.tree, &out)
	return out
}

// isAddresses reports whether the type is a list of listen addresses. None is
// weaker than another: every profile rejects addresses that are open to other
// machines.
func isAddresses(t Type) bool { return t.Elem != nil && t.Elem.Kind == KindListen }

func weaker(c *Config, d *decoder, s *section, out *[]Weakness) {
	for i := range s.node.spec.Attrs {
		spec := &s.node.spec.Attrs[i]
		v, ok := s.attrs[spec.Name]
		if len(spec.Profiles) == 0 || !ok || isAddresses(spec.Type) {
			continue
		}
		strict, _ := d.fallback(s.node, spec)
		if now, prod := c.printer().portable(v), c.printer().portable(strict); !edn.Equal(now, prod) && !atMost(v.v, strict.v) {
			*out = append(*out, Weakness{
				Path:        append(slices.Clone(s.node.path), spec.Name),
				Value:       now,
				Prod:        prod,
				Written:     orNone(c.printer().spell(spec.Type, v)),
				ProdWritten: orNone(c.printer().spell(spec.Type, strict)),
				At:          c.seen(v.rng),
			})
		}
	}
	for _, inner := range s.blocks {
		if !inner.node.spec.Foreign && !inner.node.spec.Open {
			weaker(c, d, inner, out)
		}
	}
}

// atMost reports whether limit a, a number or a rate, does not exceed limit b. Every
// limit is at most no limit.
func atMost(a, b edn.Value) bool {
	if b.IsNil() {
		return true
	}
	amount := func(v edn.Value) (n float64, ok bool) {
		if i, isInt := v.AsInt(); isInt {
			return float64(i), true
		}
		events, _ := v.Nth(0)
		per, _ := v.Nth(1)
		count, isRate := events.AsInt()
		ms, _ := per.AsInt()
		return float64(count) / float64(max(ms, 1)), isRate
	}
	x, first := amount(a)
	y, second := amount(b)
	return first && second && x <= y
}
