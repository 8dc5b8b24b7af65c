package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Limits of the configuration schema of a plugin (HCL-035).
const (
	MaxSchemaLabels  = 2
	MaxSchemaDepth   = 8
	MaxSchemaEntries = 512
)

// pluginSchema is the checked configuration schema of a plugin.
type pluginSchema struct {
	root *schema.Schema
	by   string // "chess 1.0.0, binary b3:77aa0c1e"
}

// readPluginSchema compiles the :config/schema of a description. It fails if the
// schema is invalid or exceeds a limit.
func readPluginSchema(form edn.Value, by string) (*pluginSchema, error) {
	if form.Kind() == edn.KindMap {
		if v, _ := form.Key("config/v").AsInt(); v > 1 {
			return nil, fmt.Errorf("its configuration schema has version %d, this host knows 1", v)
		}
		form = form.Key("config/schema")
	}
	root, err := schema.Compile(form)
	if err != nil {
		return nil, err
	}
	if root.Kind() != schema.KindMap {
		return nil, fmt.Errorf("its configuration schema is not a :map")
	}
	entries := 0
	if err := checkEntries(root, 1, &entries); err != nil {
		return nil, err
	}
	return &pluginSchema{root: root, by: by}, nil
}

// hasDefaults reports whether a plugin can be described without configuration. A labelled block may add names to the
// description.
func (p *pluginSchema) hasDefaults() bool {
	return !slices.ContainsFunc(p.root.Entries(), func(e schema.Entry) bool {
		return e.Props.Labels > 0 || !e.Optional && !e.Props.HasDefault
	})
}

func checkEntries(s *schema.Schema, depth int, entries *int) error {
	if depth > MaxSchemaDepth {
		return fmt.Errorf("its configuration schema is nested more than %d deep", MaxSchemaDepth)
	}
	names := map[string]edn.Value{}
	for _, e := range s.Entries() {
		if *entries++; *entries > MaxSchemaEntries {
			return fmt.Errorf("its configuration schema has more than %d entries", MaxSchemaEntries)
		}
		name := hclName(scalarText(e.Key))
		if other, twice := names[name]; twice {
			return fmt.Errorf("its configuration schema has %s and %s, which are both %s here", other, e.Key, name)
		}
		names[name] = e.Key
		if e.Props.Labels > MaxSchemaLabels {
			return fmt.Errorf("entry %s of its configuration schema has more than %d labels", e.Key, MaxSchemaLabels)
		}
		inner := e.Schema.Deref()
		for range e.Props.Labels {
			if inner.Kind() != schema.KindMapOf {
				return fmt.Errorf("entry %s of its configuration schema has labels, but is not a :map-of", e.Key)
			}
			inner = inner.Children()[1].Deref()
		}
		if e.Props.Block && !e.Props.Free && inner.Kind() != schema.KindMap {
			return fmt.Errorf("entry %s of its configuration schema is a block, but no :map", e.Key)
		}
		if inner.Kind() == schema.KindMap {
			if err := checkEntries(inner, depth+1, entries); err != nil {
				return err
			}
		}
	}
	return nil
}

// SecretAt is a secret of a plugin's configuration and its path in the map.
type SecretAt struct {
	Path   []edn.Value
	Secret Secret
	At     *Range
	needed bool
}

// lowering decodes one config block with the schema of its plugin (HCL-036).
type lowering struct {
	*decoder
	plugin  string
	schema  *pluginSchema
	secrets []SecretAt
	files   []string // values of :path entries
	good    bool
	// written holds the attributes by path, for their origins.
	written map[string]*attribute
	// inputsOf holds the environment variables of each attribute by path.
	inputsOf map[string][]string
}

// lower decodes the layers of the block, which may be empty. The value has nil for
// every secret.
func (l *lowering) lower(layers []layer, header *Range) edn.Value {
	l.good = true
	return l.block(layers, l.schema.root, []string{"plugin", l.plugin, "config"}, nil, header)
}

func (l *lowering) fail(d Diagnostic) {
	l.good = false
	l.report.add(d)
}

func (l *lowering) subject(path []string) string {
	return fmt.Sprintf("config of plugin %s: %s", quote(l.plugin), strings.Join(path[3:], "."))
}

func (l *lowering) block(layers []layer, s *schema.Schema, path []string, at []edn.Value, header *Range) edn.Value {
	p := partsOf(layers, s, l.report)
	l.ranges[rangeKey(path)] = header
	var b edn.MapBuilder
	names := make([]string, 0, len(s.Entries()))
	for _, e := range s.Entries() {
		names = append(names, hclName(scalarText(e.Key)))
	}
	damaged := l.strangers(p, names, path)
	for _, e := range s.Entries() {
		name := hclName(scalarText(e.Key))
		if damaged && p.attrs[name] == nil && len(p.blocks[name]) == 0 {
			continue // an invalid name may be the missing one
		}
		here, where := append(slices.Clone(path), name), append(slices.Clone(at), e.Key)
		if e.Props.Block {
			if a, ok := p.attrs[name]; ok {
				l.fail(Diagnostic{
					Type:    "config/type",
					Message: l.subject(here) + " is a block, not an attribute",
					Range:   a.at(),
					Path:    here,
					Hint:    "write " + name + " { ... } without the equals sign",
				})
				continue
			}
			if v, ok := l.nested(p.blocks[name], e, here, where, header); ok {
				b.Set(e.Key, v)
			}
			continue
		}
		if blocks := p.blocks[name]; len(blocks) > 0 {
			l.fail(Diagnostic{
				Type:    "config/type",
				Message: l.subject(here) + " is an attribute, not a block",
				Range:   blocks[0].at(),
				Path:    here,
				Hint:    "write " + name + " = ...",
			})
			continue
		}
		if v, ok := l.entry(p.attrs[name], e, here, where, header); ok {
			b.Set(e.Key, v)
		}
	}
	if damaged {
		return b.Map()
	}
	return l.conditional(s, p, b.Map(), path, header)
}

// strangers reports names that are not in the schema, and returns whether there are any.
func (l *lowering) strangers(p parts, names []string, path []string) (damaged bool) {
	slices.Sort(names)
	report := func(kind, name string, at *Range) {
		if slices.Contains(names, name) {
			return
		}
		damaged = true
		l.fail(Diagnostic{
			Type:     "config/unknown-name",
			Message:  fmt.Sprintf("unknown %s %s in %s", kind, quote(name), title(path)),
			Range:    at,
			Path:     append(slices.Clone(path), name),
			Expected: words(names),
			Found:    edn.Text(name),
			Nearest:  nearest(name, names),
			context:  true,
		})
	}
	for name, a := range p.attrs {
		report("attribute", name, a.at())
	}
	for name, blocks := range p.blocks {
		report("block", name, blocks[0].at())
	}
	return damaged
}

// entry decodes a scalar entry, or returns its default.
func (l *lowering) entry(a *attribute, e schema.Entry, path []string, at []edn.Value, header *Range) (edn.Value, bool) {
	if a == nil {
		return l.absent(e, path, header)
	}
	if e.Props.Deprecated {
		hint := ""
		if e.Props.Replacement != "" {
			hint = "use " + hclName(e.Props.Replacement)
		}
		l.report.add(Diagnostic{
			Type:     "config/deprecated",
			Severity: SeverityWarning,
			Message:  l.subject(path) + " is deprecated",
			Range:    a.at(),
			Path:     path,
			Hint:     hint,
		})
	}
	l.rivals(a, path)
	l.written[rangeKey(path)] = a
	l.touched = nil
	defer func() { l.inputsOf[rangeKey(path)] = slices.Sorted(slices.Values(l.touched)) }()
	if e.Props.Secret {
		return l.secretEntry(a, e, path, at)
	}
	if t, ok := unitType(e); ok {
		l.ranges[rangeKey(path)] = a.source.hclRange(a.expr.Range())
		v, ok := l.decode(t, a.expr, a.source, path)
		l.good = l.good && ok
		if !ok {
			return edn.Nil(), false
		}
		if v.v.IsNil() {
			return l.absent(e, path, header)
		}
		for i, x := range v.items {
			l.ranges[rangeKey(append(slices.Clone(path), strconv.Itoa(i)))] = x.rng
		}
		for _, x := range append(slices.Clone(v.items), v) {
			if file, ok := x.v.AsString(); ok && x.file {
				l.files = append(l.files, file)
			}
		}
		return v.v, l.validate(e, v.v, path)
	}
	layers := []exprIn{{a.expr, a.source}}
	if isMap(e.Schema) {
		layers = a.objects()
	}
	v, ok := l.dataOf(layers, path, e.Schema)
	l.good = l.good && ok
	if !ok {
		return edn.Nil(), false
	}
	if v.IsNil() && !e.Schema.Valid(v) {
		return l.absent(e, path, header)
	}
	v = fit(e.Schema, v)
	return v, l.validate(e, v, path)
}

// unitType returns the type of an entry with a unit.
func unitType(e schema.Entry) (Type, bool) {
	unit := e.Props.Unit
	if unit == "" {
		unit = e.Schema.Props().Unit
	}
	switch unit {
	case "ms":
		return Type{Kind: KindDur}, true
	case "bytes":
		return Type{Kind: KindBytes}, true
	case "decimal":
		return Type{Kind: KindDec}, true
	case "path":
		switch present(e.Schema).Kind() {
		case schema.KindString:
			return Type{Kind: KindPath}, true
		case schema.KindVector, schema.KindSequential:
			return Type{Kind: KindList, Elem: &Type{Kind: KindPath}}, true
		}
	}
	return Type{}, false
}

// present returns the schema of the non-nil value.
func present(s *schema.Schema) *schema.Schema {
	s = s.Deref()
	for s.Kind() == schema.KindMaybe && len(s.Children()) == 1 {
		s = s.Children()[0].Deref()
	}
	return s
}

// absent returns the default of a missing entry.
func (l *lowering) absent(e schema.Entry, path []string, header *Range) (edn.Value, bool) {
	if e.Props.HasDefault {
		return e.Props.Default, true
	}
	if !e.Optional && e.Props.When.IsNil() {
		l.fail(Diagnostic{
			Type:     "config/plugin-schema",
			Message:  l.subject(path) + " is missing",
			Range:    header,
			Path:     path,
			Expected: edn.Text(l.describe(e)),
		})
	}
	return edn.Nil(), false
}

func (l *lowering) secretEntry(a *attribute, e schema.Entry, path []string, at []edn.Value) (edn.Value, bool) {
	l.ranges[rangeKey(path)] = a.source.hclRange(a.expr.Range())
	v, ok := l.decode(Type{Kind: KindSecret}, a.expr, a.source, path)
	l.good = l.good && ok
	if ok && v.secret != nil {
		l.secrets = append(l.secrets, SecretAt{Path: at, Secret: *v.secret, At: v.rng, needed: !e.Optional})
		return edn.Nil(), true
	}
	return edn.Nil(), false
}

// validate checks a value against the schema of its entry.
func (l *lowering) validate(e schema.Entry, v edn.Value, path []string) bool {
	found := e.Schema.Validate(v)
	for _, f := range found {
		at := l.place(path, f.Path)
		what, expected := f.Message, l.describe(e)
		if len(f.Path) == 0 {
			what = boundary(e.Schema, v, what)
		} else {
			what, expected = f.Message, inWords(f.Expected)
		}
		subject := l.subject(path) + partName(f.Path)
		near := ""
		if word, ok := f.Got.AsString(); ok && len(f.Path) == 0 && e.Schema.Deref().Kind() == schema.KindEnum {
			near = nearest(word, enumWords(e.Schema))
		}
		got := f.Got
		if got.Len() > 0 && got.Kind() != edn.KindString {
			got = edn.Text(short(got.String()))
		}
		hint := cmp.Or(meant(near), "ferment plugin inspect "+l.plugin)
		if text, ok := got.AsString(); ok && numeric(e.Schema) && len(f.Path) == 0 {
			got, hint = edn.Text(quote(short(text))), textForNumber
		}
		l.fail(Diagnostic{
			Type:     "config/plugin-schema",
			Message:  subject + " " + what,
			Range:    at,
			Path:     path,
			Expected: edn.Text(expected),
			Found:    got,
			Nearest:  near,
			Hint:     hint,
		})
	}
	return len(found) == 0
}

func numeric(s *schema.Schema) bool {
	return slices.Contains([]schema.Kind{schema.KindInt, schema.KindNumber, schema.KindDouble}, present(s).Kind())
}

// boundary returns the message for a number out of range, else otherwise.
func boundary(s *schema.Schema, v edn.Value, otherwise string) string {
	n, ok := v.AsNumber()
	if !ok {
		return otherwise
	}
	low, high := s.Deref().Bounds()
	if m, ok := low.AsNumber(); ok && n.Cmp(m) < 0 {
		return "is below its minimum"
	}
	if m, ok := high.AsNumber(); ok && n.Cmp(m) > 0 {
		return "is above its maximum"
	}
	return otherwise
}

// enumWords returns the members of an enum as written in HCL.
func enumWords(s *schema.Schema) []string {
	var out []string
	for _, m := range s.Deref().Members() {
		out = append(out, scalarText(m))
	}
	return out
}

// describe returns what an entry accepts, with the source of the schema.
func (l *lowering) describe(e schema.Entry) string { return takes(e) + " (" + l.schema.by + ")" }

// takes returns what an entry accepts, such as "int 1..64, search depth in plies".
func takes(e schema.Entry) string {
	s := e.Schema.Deref()
	out := s.Kind().String()
	switch s.Kind() {
	case schema.KindEnum:
		out = "one of " + strings.Join(enumWords(s), ", ")
	default:
		low, high := s.Bounds()
		switch {
		case !low.IsNil() && !high.IsNil():
			out += " " + low.String() + ".." + high.String()
		case !low.IsNil():
			out += " of at least " + low.String()
		case !high.IsNil():
			out += " of at most " + high.String()
		}
	}
	if e.Props.Doc != "" {
		out += ", " + e.Props.Doc
	}
	return out
}

// place returns the range of a part of a value, or that of its nearest ancestor
// with a range.
func (l *lowering) place(path []string, inner []edn.Value) *Range {
	key := rangeKey(path)
	at := l.ranges[key]
	for _, p := range inner {
		found := false
		text := scalarText(p)
		if i, ok := p.AsInt(); ok {
			text = strconv.FormatInt(i, 10)
		}
		for _, name := range []string{text, hclName(text)} {
			if r, ok := l.ranges[key+"\x00"+name]; ok && !found {
				key, at, found = key+"\x00"+name, r, true
			}
		}
		if !found {
			return at
		}
	}
	return at
}

// nested decodes the blocks of one entry.
func (l *lowering) nested(blocks []*piece, e schema.Entry, path []string, at []edn.Value, header *Range) (edn.Value,
	bool) {
	if len(blocks) == 0 {
		return l.absent(e, path, header)
	}
	var b edn.MapBuilder
	good := l.good
	l.good = true
	defer func() { l.good = l.good && good }()
	for _, blk := range blocks {
		where := blk.at()
		if len(blk.labels) != e.Props.Labels {
			l.fail(Diagnostic{
				Type: "config/syntax",
				Message: fmt.Sprintf("%s takes %s, not %d", l.subject(path), Counted(e.Props.Labels, "label"),
					len(blk.labels)),
				Range: where,
				Path:  path,
			})
			continue
		}
		here := append(slices.Clone(path), blk.labels...)
		for _, again := range blk.twice {
			l.fail(Diagnostic{
				Type:    "config/duplicate",
				Message: l.subject(here) + " is written twice",
				Range:   again.at(),
				Path:    here,
				Related: []Related{{Range: where, Message: "is the first one"}},
			})
		}
		for i := len(path); i < len(here); i++ {
			if key := rangeKey(here[:i]); l.ranges[key] == nil {
				l.ranges[key] = where
			}
		}
		l.ranges[rangeKey(here)] = where
		inner := e.Schema.Deref()
		place := slices.Clone(at)
		for _, label := range blk.labels {
			place = append(place, fit(inner.Children()[0], edn.Text(label)))
			inner = inner.Children()[1].Deref()
		}
		var v edn.Value
		if e.Props.Free && inner.Kind() != schema.KindMap {
			v = l.free(blk, inner, here)
		} else {
			v = l.block(blk.layers, inner, here, place, where)
		}
		if len(blk.labels) == 0 {
			return v, l.good && l.validate(e, v, path)
		}
		setIn(&b, place[len(at):], v)
	}
	v := b.Map()
	return v, l.good && l.validate(e, v, path) // inner errors are already reported
}

// setIn sets a value under one or two keys.
func setIn(b *edn.MapBuilder, keys []edn.Value, v edn.Value) {
	if len(keys) == 1 {
		b.Set(keys[0], v)
		return
	}
	inner, _ := b.Map().Get(keys[0])
	var nb edn.MapBuilder
	for k, x := range inner.Entries() {
		nb.Set(k, x)
	}
	nb.Set(keys[1], v)
	b.Set(keys[0], nb.Map())
}

// free decodes a block that accepts attributes of any name.
func (l *lowering) free(blk *piece, s *schema.Schema, path []string) edn.Value {
	var b edn.MapBuilder
	p := partsOf(blk.layers, nil, l.report)
	for _, name := range slices.Sorted(maps.Keys(p.attrs)) {
		a := p.attrs[name]
		key, inner := keyOf(s, name, true)
		here := append(slices.Clone(path), name)
		l.rivals(a, here)
		l.written[rangeKey(here)] = a
		l.touched = nil
		v, ok := l.data(a.expr, a.source, here, inner)
		l.inputsOf[rangeKey(here)] = slices.Sorted(slices.Values(l.touched))
		l.good = l.good && ok
		if !ok || v.IsNil() && len(a.under) > 0 {
			continue
		}
		if inner != nil {
			v = fit(inner, v)
		}
		b.Set(key, v)
	}
	for _, name := range slices.Sorted(maps.Keys(p.blocks)) {
		blk := p.blocks[name][0]
		l.fail(Diagnostic{
			Type:    "config/unknown-name",
			Message: fmt.Sprintf("unknown block %s in %s: only attributes are allowed here", quote(name), title(path)),
			Range:   blk.at(),
			Path:    append(slices.Clone(path), name),
		})
	}
	return b.Map()
}

// conditional checks entries with :when: an entry that is not :optional is required
// if the condition is true, and no such entry is allowed otherwise. It returns the
// value without the defaults of entries whose condition is false.
func (l *lowering) conditional(s *schema.Schema, p parts, v edn.Value, path []string, header *Range) edn.Value {
	out := v
	for _, e := range s.Entries() {
		if e.Props.When.IsNil() {
			continue
		}
		holds := true
		var conds []string
		for k, want := range e.Props.When.Entries() {
			got, _ := v.Get(k)
			holds = holds && edn.Equal(got, want)
			conds = append(conds, hclName(scalarText(k))+" = "+want.String())
		}
		name := hclName(scalarText(e.Key))
		here := append(slices.Clone(path), name)
		a, written := p.attrs[name]
		switch {
		case written && !holds:
			l.fail(Diagnostic{
				Type:    "config/plugin-schema",
				Message: l.subject(here) + " is used only with " + strings.Join(conds, ", "),
				Range:   a.at(),
				Path:    here,
			})
		case !written && holds && !e.Optional && !e.Props.HasDefault && len(p.blocks[name]) == 0:
			l.fail(Diagnostic{
				Type:     "config/plugin-schema",
				Message:  l.subject(here) + " is missing, it is needed with " + strings.Join(conds, ", "),
				Range:    header,
				Path:     here,
				Expected: edn.Text(l.describe(e)),
			})
		case !holds:
			out = without(out, e.Key)
		}
	}
	return out
}

func without(v, key edn.Value) edn.Value {
	var b edn.MapBuilder
	for k, x := range v.Entries() {
		if !edn.Equal(k, key) {
			b.Set(k, x)
		}
	}
	return b.Map()
}
