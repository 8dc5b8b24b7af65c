package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	rules "github.com/fermenthq/ferment/sdk/text"
)

// ShowOptions selects the output of Show.
type ShowOptions struct {
	Defaults bool   // include defaults
	Origins  bool   // include the origin of each value
	Flat     bool   // the output loads to the same values as a file in Root
	Only     string // a block or an attribute, such as plugin.chess or ferment.seed; empty: all
}

// UnknownPathError is the error for a path that the configuration or the language does not have.
type UnknownPathError struct {
	Path, Nearest string
}

// Error implements error.
func (e *UnknownPathError) Error() string {
	return fmt.Sprintf("the configuration has no %s", diag.Quote(e.Path))
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

// Show returns the merged configuration as HCL, without secrets. The error is an *UnknownPathError.
func Show(c *config.Config, o ShowOptions) (string, error) {
	top, err := selected(c, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	top.body(&b, o)
	return string(Format("show", []byte(b.String())).After), nil
}

// ShowValue returns the output of Show as EDN: block types and labels are keys. With Origins, an
// attribute is a map with its value and its origin. The error is an *UnknownPathError.
func ShowValue(c *config.Config, o ShowOptions) (edn.Value, error) {
	top, err := selected(c, o)
	if err != nil {
		return edn.Nil(), err
	}
	return top.data(o), nil
}

func selected(c *config.Config, o ShowOptions) (*shownBlock, error) {
	s := shower{Config: c, Printer: c.Printer(), ShowOptions: o}
	top := &shownBlock{}
	if c.Tree != nil {
		top = s.block(c.Tree)
	}
	if o.Only == "" {
		return top, nil
	}
	out := &shownBlock{}
	if !top.only(o.Only, out) {
		return nil, &UnknownPathError{Path: o.Only, Nearest: diag.Nearest(o.Only, top.paths(""))}
	}
	return out, nil
}

// only copies the part of b at path to out, and reports whether it exists.
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
		out = append(out, language.Join(at, a.name))
	}
	for _, inner := range b.blocks {
		here := language.Join(at, inner.dotted())
		out = append(append(out, here), inner.paths(here)...)
	}
	return out
}

func (b *shownBlock) body(w *strings.Builder, o ShowOptions) {
	for _, a := range b.attrs {
		fmt.Fprintf(w, "%s = %s", a.name, a.text)
		if o.Origins && !o.Flat && a.origin != "" {
			w.WriteString(" # " + diag.Printable(a.origin))
		}
		w.WriteByte('\n')
	}
	for i, inner := range b.blocks {
		if i > 0 || len(b.attrs) > 0 {
			w.WriteByte('\n')
		}
		w.WriteString(inner.name)
		for _, label := range inner.labels {
			w.WriteString(" " + decode.SpellText(label))
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
			v = edn.MustMap(edn.K("value"), a.value, edn.K("origin"), diag.TextOrNil(a.origin))
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
	*config.Config
	decode.Printer
	ShowOptions
}

// block converts a block, with its defaults if requested. Reserved parts of the
// specification are omitted.
func (s shower) block(from *decode.Section) *shownBlock {
	out := &shownBlock{name: from.Node.Spec.Name, labels: from.Node.Labels}
	path := from.Node.SpecPath()
	for i := range from.Node.Spec.Attrs {
		spec := &from.Node.Spec.Attrs[i]
		v, ok := from.Attrs[spec.Name]
		if !ok || !s.wanted(v) {
			continue
		}
		if r, reserved := language.ReservedAt(language.Join(path, spec.Name)); reserved && !v.Written && !r.Partly() {
			continue
		}
		if a := s.attr(spec, v); a.text != "" {
			out.attrs = append(out.attrs, a)
		}
	}
	if from.Node.Spec.Name == "plugin" {
		if c := s.config(from); c != nil {
			out.blocks = append(out.blocks, c)
		}
	}
	for i := range from.Node.Spec.Blocks {
		spec := &from.Node.Spec.Blocks[i]
		if spec.Open || spec.Foreign {
			continue
		}
		for _, inner := range from.All(spec.Name) {
			b := s.block(inner)
			if len(inner.Node.Labels) > 0 || len(b.attrs)+len(b.blocks) > 0 {
				out.blocks = append(out.blocks, b)
			}
		}
	}
	return out
}

// wanted reports whether a value is shown. A null in an overlay is shown as the
// default that it restores.
func (s shower) wanted(v decode.Value) bool { return v.Written || s.Defaults || v.Reset && !s.Flat }

func (s shower) attr(spec *language.Attr, v decode.Value) shownAttr {
	a := shownAttr{name: spec.Name, text: s.Spell(spec.Type, v), value: s.Portable(v), origin: s.origin(v)}
	if v.Secret != nil && !s.Flat {
		a.text = decode.SpellText(s.Handle(*v.Secret))
	}
	return a
}

// origin describes the origin of a value: its file and line, or the default, and the values that it
// overrides.
func (s shower) origin(v decode.Value) string {
	was := make([]string, 0, len(v.Under))
	for _, u := range slices.Backward(v.Under) {
		was = append(was, fmt.Sprintf("%s from %s", diag.Short(oneLine(u.Text)), line(u.At)))
	}
	before := ""
	if len(was) > 0 {
		before = " (was " + strings.Join(was, ", ") + ")"
	}
	switch {
	case v.Reset:
		return "default, reset by " + line(v.At) + before
	case !v.Written && v.At == nil:
		return "default"
	case v.At == nil:
		return ""
	}
	if keys := s.originOfKeys(v); keys != "" {
		return keys
	}
	return line(v.At) + s.through(v.Inputs) + before
}

// originOfKeys returns the origin of each key of a map that is written in several files; empty for
// other maps.
func (s shower) originOfKeys(v decode.Value) string {
	places := map[string]bool{}
	var parts []string
	for i, k := range v.Keys {
		if v.Items[i].Key == nil {
			return ""
		}
		places[v.Items[i].Key.File] = true
		parts = append(parts, k+" "+line(v.Items[i].Key)+s.through(v.Items[i].Inputs))
	}
	if len(places) < 2 {
		return ""
	}
	return strings.Join(parts, ", ")
}

// through describes the environment variables that a value depends on.
func (s shower) through(inputs []string) string {
	out := ""
	for _, name := range slices.Compact(slices.Clone(inputs)) {
		from := "unset"
		switch at, set := s.Variables[name]; {
		case at != nil:
			from = "from " + line(at)
		case set:
			from = "from the environment"
		}
		out += ", " + name + " " + from
	}
	return out
}

func line(r *diag.Range) string {
	if r.Start.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Start.Line)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// config converts the config block of a plugin by its schema. If the plugin was not described, it
// converts the source text. It returns nil if there is nothing to show.
func (s shower) config(plugin *decode.Section) *shownBlock {
	n := plugins.ConfigBlock(plugin)
	p := s.Plugin(plugin.Label())
	if p == nil || p.Lowered == nil {
		if n == nil {
			return nil
		}
		return rawBlock(n)
	}
	b := &shownBlock{name: "config"}
	s.entries(b, p, p.Lowered.Schema.Root, p.Config, []string{"plugin", p.Name, "config"}, nil)
	if n == nil && len(b.attrs)+len(b.blocks) == 0 {
		return nil
	}
	return b
}

func (s shower) entries(b *shownBlock, p *plugins.Plugin, m *schema.Schema, v edn.Value, path []string,
	at []edn.Value) {
	for _, e := range syntax.EntriesOf(m) {
		x, there := v.Get(e.Key)
		if !there {
			continue
		}
		name := language.HCLName(language.ScalarText(e.Key))
		here, where := append(slices.Clone(path), name), append(slices.Clone(at), e.Key)
		if e.Props.Block {
			s.blocksOf(b, p, e, e.Schema, x, here, where, nil)
			continue
		}
		s.entry(b, p, &e, name, x, here, where)
	}
}

// blocksOf converts the blocks of an entry, one level of labels at a time.
func (s shower) blocksOf(b *shownBlock, p *plugins.Plugin, e schema.Entry, m *schema.Schema, v edn.Value, path []string,
	at []edn.Value, labels []string) {
	if len(labels) < e.Props.Labels {
		inner := m.Deref().Children()[1]
		for k, x := range v.Entries() {
			label := language.ScalarText(k)
			s.blocksOf(b, p, e, inner, x, append(slices.Clone(path), label), append(slices.Clone(at), k),
				append(slices.Clone(labels), label))
		}
		return
	}
	out := &shownBlock{name: language.HCLName(language.ScalarText(e.Key)), labels: labels}
	if m.Deref().Kind() == schema.KindMap {
		s.entries(out, p, m, v, path, at)
	} else {
		for k, x := range v.Entries() {
			name := language.HCLName(language.ScalarText(k))
			s.entry(out, p, nil, name, x, append(slices.Clone(path), name), append(slices.Clone(at), k))
		}
	}
	b.blocks = append(b.blocks, out)
}

// entry converts one value of a plugin's config; e is nil for an attribute of a block that accepts
// any name.
func (s shower) entry(b *shownBlock, p *plugins.Plugin, e *schema.Entry, name string, v edn.Value, path []string,
	at []edn.Value) {
	w := p.Lowered.Written[decode.RangeKey(path)]
	if w == nil && !s.Defaults {
		return
	}
	a := shownAttr{name: name, value: p.Shown(s.Printer, v, p.SecretAt(at)), origin: "default"}
	if w != nil {
		a.origin = s.origin(decode.Value{
			Written: true,
			At:      w.Source.Range(w.Expr.Range()),
			Under:   w.Places(),
			Inputs:  p.Lowered.InputsOf[decode.RangeKey(path)],
		})
	}
	if a.text = s.spellEntry(p, e, v, p.SecretAt(at)); a.text != "" {
		b.attrs = append(b.attrs, a)
	}
}

func (s shower) spellEntry(p *plugins.Plugin, e *schema.Entry, v edn.Value, secret *expression.Secret) string {
	switch {
	case secret != nil && s.Flat:
		return s.SpellSecret(*secret)
	case secret != nil:
		return decode.SpellText(s.Handle(*secret))
	case v.IsNil():
		return "null"
	case e == nil:
		return decode.HCLText(v)
	}
	if t, ok := decode.UnitType(*e); ok {
		if t.Kind == language.KindPath || t.Kind == language.KindList {
			return decode.HCLText(p.Shown(s.Printer, v, nil))
		}
		if t.Kind == language.KindDec {
			return decode.SpellText(strings.TrimSuffix(v.String(), "M"))
		}
		return s.Spell(t, decode.Value{EDN: v})
	}
	if name, ok := v.AsKeyword(); ok && edn.Equal(decode.Fit(e.Schema, edn.Text(name)), v) {
		return decode.SpellText(name)
	}
	if v.Kind() == edn.KindMap {
		return decode.SpellEDN(v)
	}
	return decode.HCLText(v)
}

// rawBlock returns the source text of a block with an unknown schema.
func rawBlock(n *syntax.Node) *shownBlock {
	b := &shownBlock{name: n.Spec.Name}
	rawInto(b, n.Layers)
	return b
}

func rawInto(b *shownBlock, layers []syntax.Layer) {
	p := syntax.PartsOf(layers, nil, diag.NewCollector(diag.Sources{}))
	for _, name := range slices.Sorted(maps.Keys(p.Attrs)) {
		a := p.Attrs[name]
		text := syntax.SourceText(a.Source, a.Expr)
		// Without the schema it is unknown which keys have secrets.
		if len(rules.CheckSecrets(name+" = "+text)) > 0 {
			text = decode.SpellText("(secret)")
		}
		b.attrs = append(b.attrs, shownAttr{
			name:   name,
			text:   text,
			value:  edn.Text(text),
			origin: line(a.At()) + ", not checked",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Blocks)) {
		for _, blk := range p.Blocks[name] {
			inner := &shownBlock{name: name, labels: blk.Labels}
			rawInto(inner, blk.Layers)
			b.blocks = append(b.blocks, inner)
		}
	}
}

// Weakness is a value that is or may be weaker than the default of profile prod (OPS-009).
type Weakness struct {
	Path        []string
	Value, Prod edn.Value
	// Written and ProdWritten are the values as HCL expressions.
	Written, ProdWritten string
	At                   *diag.Range // nil: the default of the profile
}

// Weaker returns, for the attributes with profile-specific defaults and for limits (see
// language.Block.Limits), the values that may be weaker
// than the default of prod, in the order of the specification. These are all values that differ
// from that default, except a lower limit, a limit that prod does not have, a subset of the names
// in prod, and a value that the specification lists in AsStrict.
func Weaker(c *config.Config) []Weakness {
	if c.Tree == nil {
		return nil
	}
	d := decode.NewDecoder(expression.NewEvaluator(diag.NewCollector(diag.Sources{}),
		expression.NewInputs(c.Root, func(string) (string, bool) { return "", false })))
	d.Profile, d.Base = language.ProfileProd, diag.NewSource("default", c.Root+"/"+files.DefaultFile, 0, nil)
	var out []Weakness
	weaker(c, d, c.Tree, &out)
	return out
}

// isAddresses reports whether the type is a list of listen addresses. Its values are never weaker,
// because every profile rejects addresses that are open to other machines.
func isAddresses(t language.Type) bool { return t.Elem != nil && t.Elem.Kind == language.KindListen }

func weaker(c *config.Config, d *decode.Decoder, s *decode.Section, out *[]Weakness) {
	for i := range s.Node.Spec.Attrs {
		spec := &s.Node.Spec.Attrs[i]
		v, ok := s.Attrs[spec.Name]
		if len(spec.Profiles) == 0 && !s.Node.Spec.Limits || !ok || isAddresses(spec.Type) {
			continue
		}
		strict, _ := d.Fallback(s.Node, spec)
		now, prod := c.Printer().Portable(v), c.Printer().Portable(strict)
		subset := spec.Type.Elem != nil && within(v.EDN, strict.EDN) // a rate is a vector too
		if !edn.Equal(now, prod) && !atMost(v.EDN, strict.EDN) && !subset && !asStrict(spec, v.EDN) {
			*out = append(*out, Weakness{
				Path:        append(slices.Clone(s.Node.Path), spec.Name),
				Value:       now,
				Prod:        prod,
				Written:     orNone(c.Printer().Spell(spec.Type, v)),
				ProdWritten: orNone(c.Printer().Spell(spec.Type, strict)),
				At:          c.Place(v.At),
			})
		}
	}
	for _, inner := range s.Blocks {
		if !inner.Node.Spec.Foreign && !inner.Node.Spec.Open {
			weaker(c, d, inner, out)
		}
	}
}

// asStrict reports whether a value is as strict as the default of prod according to the
// specification.
func asStrict(spec *language.Attr, v edn.Value) bool {
	word, ok := v.AsString()
	return ok && slices.Contains(spec.AsStrict, word)
}

// within reports whether all elements of some are in all.
func within(some, all edn.Value) bool {
	if !some.IsVector() || !all.IsVector() {
		return false
	}
	for v := range some.Elems() {
		if !slices.ContainsFunc(slices.Collect(all.Elems()), func(o edn.Value) bool { return edn.Equal(v, o) }) {
			return false
		}
	}
	return true
}

// atMost reports whether limit a, a number or a rate, is at most b. A nil b means unlimited.
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
