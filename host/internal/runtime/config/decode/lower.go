package decode

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Limits of the configuration schema of a plugin (HCL-035).
const (
	MaxSchemaLabels  = 2
	MaxSchemaDepth   = 8
	MaxSchemaEntries = 512
)

// PluginSchema is the checked configuration schema of a plugin.
type PluginSchema struct {
	Root *schema.Schema
	By   string // name of the plugin in messages, such as "chess 1.0.0, binary b3:77aa0c1e"
}

// ReadPluginSchema compiles the :config/schema of a description. by names the plugin in messages.
// The error means that the schema is invalid or exceeds a limit.
func ReadPluginSchema(form edn.Value, by string) (*PluginSchema, error) {
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
	return &PluginSchema{Root: root, By: by}, nil
}

// HasDefaults reports whether a plugin can be described without a configuration: all entries have
// defaults, and none is a labelled block, which may add names to the description.
func (p *PluginSchema) HasDefaults() bool {
	return !slices.ContainsFunc(p.Root.Entries(), func(e schema.Entry) bool {
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
		name := language.HCLName(language.ScalarText(e.Key))
		if other, twice := names[name]; twice {
			return fmt.Errorf("its configuration schema has %s and %s, which are both written %s in HCL", other, e.Key, name)
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

// SecretAt is a secret in a plugin's configuration: its path in the map and its position in the
// file. Needed is set if the plugin requires it.
type SecretAt struct {
	Path   []edn.Value
	Secret expression.Secret
	At     *diag.Range
	Needed bool
}

// NameAt is the name of a capability in a plugin's configuration, with its position.
type NameAt struct {
	Name string
	At   *diag.Range
}

// Lowering decodes one config block with the schema of its plugin (HCL-036).
type Lowering struct {
	*Decoder
	Plugin  string
	Schema  *PluginSchema
	Secrets []SecretAt
	Files   []string // values of :path entries
	// Capabilities are the values of entries with the unit :capability.
	Capabilities []NameAt
	Good         bool
	// Written holds the attributes that are written, by RangeKey.
	Written map[string]*syntax.Attribute
	// InputsOf holds the environment variables of each attribute, by RangeKey.
	InputsOf map[string][]string
}

// Lower decodes the layers of a config block, of which there may be none, and returns its value
// with nil in place of every secret. Errors are added to Report and set Good to false. header is
// the range for errors about missing entries.
func (l *Lowering) Lower(layers []syntax.Layer, header *diag.Range) edn.Value {
	l.Good = true
	return l.block(layers, l.Schema.Root, []string{"plugin", l.Plugin, "config"}, nil, header)
}

func (l *Lowering) fail(d diag.Diagnostic) {
	l.Good = false
	l.Report.Add(d)
}

func (l *Lowering) subject(path []string) string {
	return fmt.Sprintf("config of plugin %s: %s", diag.Quote(l.Plugin), strings.Join(path[3:], "."))
}

func (l *Lowering) block(layers []syntax.Layer, s *schema.Schema, path []string, at []edn.Value,
	header *diag.Range) edn.Value {
	p := syntax.PartsOf(layers, s, l.Report)
	l.ranges[RangeKey(path)] = header
	var b edn.MapBuilder
	names := make([]string, 0, len(s.Entries()))
	for _, e := range s.Entries() {
		names = append(names, language.HCLName(language.ScalarText(e.Key)))
	}
	damaged := l.strangers(p, names, path)
	for _, e := range s.Entries() {
		name := language.HCLName(language.ScalarText(e.Key))
		if damaged && p.Attrs[name] == nil && len(p.Blocks[name]) == 0 {
			continue // an invalid name may be the missing one
		}
		here, where := append(slices.Clone(path), name), append(slices.Clone(at), e.Key)
		if e.Props.Block {
			if a, ok := p.Attrs[name]; ok {
				l.fail(diag.Diagnostic{
					Type:    "config/type",
					Message: l.subject(here) + " is a block, not an attribute",
					Range:   a.At(),
					Path:    here,
					Hint:    "write " + name + " { ... } without the equals sign",
				})
				continue
			}
			if v, ok := l.nested(p.Blocks[name], e, here, where, header); ok {
				b.Set(e.Key, v)
			}
			continue
		}
		if blocks := p.Blocks[name]; len(blocks) > 0 {
			l.fail(diag.Diagnostic{
				Type:    "config/type",
				Message: l.subject(here) + " is an attribute, not a block",
				Range:   blocks[0].At(),
				Path:    here,
				Hint:    "write " + name + " = ...",
			})
			continue
		}
		if v, ok := l.entry(p.Attrs[name], e, here, where, header); ok {
			b.Set(e.Key, v)
		}
	}
	if damaged {
		return b.Map()
	}
	return l.conditional(s, p, b.Map(), path, header)
}

// strangers reports names that are not in the schema, and returns whether there are any.
func (l *Lowering) strangers(p syntax.Parts, names []string, path []string) (damaged bool) {
	slices.Sort(names)
	report := func(kind, name string, at *diag.Range) {
		if slices.Contains(names, name) {
			return
		}
		damaged = true
		l.fail(diag.Diagnostic{
			Type:     "config/unknown-name",
			Message:  fmt.Sprintf("unknown %s %s in %s", kind, diag.Quote(name), language.Title(path)),
			Range:    at,
			Path:     append(slices.Clone(path), name),
			Expected: diag.Words(names),
			Found:    edn.Text(name),
			Nearest:  diag.Nearest(name, names),
			Context:  true,
		})
	}
	for name, a := range p.Attrs {
		report("attribute", name, a.At())
	}
	for name, blocks := range p.Blocks {
		report("block", name, blocks[0].At())
	}
	return damaged
}

// entry decodes a scalar entry; if a is nil, it returns the default.
func (l *Lowering) entry(a *syntax.Attribute, e schema.Entry, path []string, at []edn.Value,
	header *diag.Range) (edn.Value, bool) {
	if a == nil {
		return l.absent(e, path, header)
	}
	if e.Props.Deprecated {
		hint := ""
		if e.Props.Replacement != "" {
			hint = "use " + language.HCLName(e.Props.Replacement)
		}
		l.Report.Add(diag.Diagnostic{
			Type:     "config/deprecated",
			Severity: diag.SeverityWarning,
			Message:  l.subject(path) + " is deprecated",
			Range:    a.At(),
			Path:     path,
			Hint:     hint,
		})
	}
	l.rivals(a, path)
	l.Written[RangeKey(path)] = a
	l.Touched = nil
	defer func() { l.InputsOf[RangeKey(path)] = slices.Sorted(slices.Values(l.Touched)) }()
	if e.Props.Secret {
		return l.secretEntry(a, e, path, at)
	}
	if t, ok := UnitType(e); ok {
		l.ranges[RangeKey(path)] = a.Source.Range(a.Expr.Range())
		v, ok := l.decode(t, a.Expr, a.Source, path)
		l.Good = l.Good && ok
		if !ok {
			return edn.Nil(), false
		}
		if v.EDN.IsNil() {
			return l.absent(e, path, header)
		}
		for i, x := range v.Items {
			l.ranges[RangeKey(append(slices.Clone(path), strconv.Itoa(i)))] = x.At
		}
		for _, x := range append(slices.Clone(v.Items), v) {
			if file, ok := x.EDN.AsString(); ok && x.file {
				l.Files = append(l.Files, file)
			}
		}
		return v.EDN, l.validate(e, v.EDN, path)
	}
	layers := []syntax.ExprIn{{Expr: a.Expr, Source: a.Source}}
	if syntax.IsMap(e.Schema) {
		layers = a.Objects()
	}
	v, ok := l.dataOf(layers, path, e.Schema)
	l.Good = l.Good && ok
	if !ok {
		return edn.Nil(), false
	}
	if v.IsNil() && !e.Schema.Valid(v) {
		return l.absent(e, path, header)
	}
	v = Fit(e.Schema, v)
	if unitOf(e) == "capability" {
		l.names(v, a.Source.Range(a.Expr.Range()))
	}
	return v, l.validate(e, v, path)
}

// names adds the capabilities in a value, which is a text or a list of texts.
func (l *Lowering) names(v edn.Value, at *diag.Range) {
	if name, ok := v.AsString(); ok && name != "" {
		l.Capabilities = append(l.Capabilities, NameAt{Name: name, At: at})
	}
	if v.IsVector() {
		for x := range v.Elems() {
			l.names(x, at)
		}
	}
}

func unitOf(e schema.Entry) string { return cmp.Or(e.Props.Unit, e.Schema.Props().Unit) }

// UnitType returns the type of an entry whose unit has a syntax of its own, such as a duration;
// false for other entries.
func UnitType(e schema.Entry) (language.Type, bool) {
	switch unitOf(e) {
	case "ms":
		return language.Type{Kind: language.KindDur}, true
	case "bytes":
		return language.Type{Kind: language.KindBytes}, true
	case "decimal":
		return language.Type{Kind: language.KindDec}, true
	case "path":
		switch present(e.Schema).Kind() {
		case schema.KindString:
			return language.Type{Kind: language.KindPath}, true
		case schema.KindVector, schema.KindSequential:
			return language.Type{Kind: language.KindList, Elem: &language.Type{Kind: language.KindPath}}, true
		}
	}
	return language.Type{}, false
}

// present returns the schema of the non-nil values of s.
func present(s *schema.Schema) *schema.Schema {
	s = s.Deref()
	for s.Kind() == schema.KindMaybe && len(s.Children()) == 1 {
		s = s.Children()[0].Deref()
	}
	return s
}

// absent returns the default of a missing entry; false if it has none. A missing required entry is
// reported.
func (l *Lowering) absent(e schema.Entry, path []string, header *diag.Range) (edn.Value, bool) {
	if e.Props.HasDefault {
		return e.Props.Default, true
	}
	if !e.Optional && e.Props.When.IsNil() {
		l.fail(diag.Diagnostic{
			Type:     "config/plugin-schema",
			Message:  l.subject(path) + " is missing",
			Range:    header,
			Path:     path,
			Expected: edn.Text(l.Describe(e)),
		})
	}
	return edn.Nil(), false
}

func (l *Lowering) secretEntry(a *syntax.Attribute, e schema.Entry, path []string, at []edn.Value) (edn.Value, bool) {
	l.ranges[RangeKey(path)] = a.Source.Range(a.Expr.Range())
	v, ok := l.decode(language.Type{Kind: language.KindSecret}, a.Expr, a.Source, path)
	l.Good = l.Good && ok
	if ok && v.Secret != nil {
		l.Secrets = append(l.Secrets, SecretAt{Path: at, Secret: *v.Secret, At: v.At, Needed: !e.Optional})
		return edn.Nil(), true
	}
	return edn.Nil(), false
}

// validate checks a value against the schema of its entry, and reports problems.
func (l *Lowering) validate(e schema.Entry, v edn.Value, path []string) bool {
	found := e.Schema.Validate(v)
	for _, f := range found {
		at := l.Place(path, f.Path)
		what, expected := f.Message, l.Describe(e)
		if len(f.Path) == 0 {
			what = Boundary(e.Schema, v, what)
		} else {
			what, expected = f.Message, InWords(f.Expected)
		}
		subject := l.subject(path) + language.PartName(f.Path)
		near := ""
		if word, ok := f.Got.AsString(); ok && len(f.Path) == 0 && e.Schema.Deref().Kind() == schema.KindEnum {
			near = diag.Nearest(word, enumWords(e.Schema))
		}
		got := f.Got
		if got.Len() > 0 && got.Kind() != edn.KindString {
			got = edn.Text(diag.Short(got.String()))
		}
		hint := cmp.Or(diag.DidYouMean(near), "ferment plugin inspect "+l.Plugin)
		if text, ok := got.AsString(); ok && numeric(e.Schema) && len(f.Path) == 0 {
			got, hint = edn.Text(diag.Quote(diag.Short(text))), textForNumber
		}
		l.fail(diag.Diagnostic{
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

// Boundary returns a message for a number that is below or above the range of its schema; for other
// values it returns otherwise.
func Boundary(s *schema.Schema, v edn.Value, otherwise string) string {
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
		out = append(out, language.ScalarText(m))
	}
	return out
}

// Describe returns the text of Takes with the source of the schema.
func (l *Lowering) Describe(e schema.Entry) string { return Takes(e) + " (" + l.Schema.By + ")" }

// Takes describes the values that an entry accepts in HCL, such as "int 1..64, search depth in
// plies" or "duration of at least 1ms".
func Takes(e schema.Entry) string {
	s := e.Schema.Deref()
	out, unit := s.Kind().String(), ""
	if t, ok := UnitType(e); ok {
		out = t.String()
		if t.Kind == language.KindDur {
			unit = "ms"
		}
	}
	switch s.Kind() {
	case schema.KindEnum:
		out = "one of " + strings.Join(enumWords(s), ", ")
	default:
		low, high := s.Bounds()
		switch {
		case !low.IsNil() && !high.IsNil():
			out += " " + low.String() + unit + ".." + high.String() + unit
		case !low.IsNil():
			out += " of at least " + low.String() + unit
		case !high.IsNil():
			out += " of at most " + high.String() + unit
		}
	}
	if e.Props.Doc != "" {
		out += ", " + e.Props.Doc
	}
	return out
}

// Place returns the range of the part inner of the value at path, or that of its nearest ancestor
// with a range; nil if there is none.
func (l *Lowering) Place(path []string, inner []edn.Value) *diag.Range {
	key := RangeKey(path)
	at := l.ranges[key]
	for _, p := range inner {
		found := false
		text := language.ScalarText(p)
		if i, ok := p.AsInt(); ok {
			text = strconv.FormatInt(i, 10)
		}
		for _, name := range []string{text, language.HCLName(text)} {
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
func (l *Lowering) nested(blocks []*syntax.Piece, e schema.Entry, path []string, at []edn.Value,
	header *diag.Range) (edn.Value, bool) {
	if len(blocks) == 0 {
		return l.absent(e, path, header)
	}
	var b edn.MapBuilder
	good := l.Good
	l.Good = true
	defer func() { l.Good = l.Good && good }()
	for _, blk := range blocks {
		where := blk.At()
		if len(blk.Labels) != e.Props.Labels {
			l.fail(diag.Diagnostic{
				Type: "config/syntax",
				Message: fmt.Sprintf("%s takes %s, found %d", l.subject(path), diag.Counted(e.Props.Labels, "label"),
					len(blk.Labels)),
				Range:    where,
				Path:     path,
				Expected: edn.Text(path[len(path)-1] + strings.Repeat(` "NAME"`, e.Props.Labels) + " { ... }"),
			})
			continue
		}
		here := append(slices.Clone(path), blk.Labels...)
		for _, again := range blk.Twice {
			l.fail(diag.Diagnostic{
				Type:    "config/duplicate",
				Message: l.subject(here) + " is written twice",
				Range:   again.At(),
				Path:    here,
				Related: []diag.Related{{Range: where, Message: "is the first one"}},
			})
		}
		for i := len(path); i < len(here); i++ {
			if key := RangeKey(here[:i]); l.ranges[key] == nil {
				l.ranges[key] = where
			}
		}
		l.ranges[RangeKey(here)] = where
		inner := e.Schema.Deref()
		place := slices.Clone(at)
		for _, label := range blk.Labels {
			place = append(place, Fit(inner.Children()[0], edn.Text(label)))
			inner = inner.Children()[1].Deref()
		}
		var v edn.Value
		if e.Props.Free && inner.Kind() != schema.KindMap {
			v = l.free(blk, inner, here)
		} else {
			v = l.block(blk.Layers, inner, here, place, where)
		}
		if len(blk.Labels) == 0 {
			return v, l.Good && l.validate(e, v, path)
		}
		setIn(&b, place[len(at):], v)
	}
	v := b.Map()
	return v, l.Good && l.validate(e, v, path) // inner errors are already reported
}

// setIn sets a value under a path of one or two keys.
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
func (l *Lowering) free(blk *syntax.Piece, s *schema.Schema, path []string) edn.Value {
	var b edn.MapBuilder
	p := syntax.PartsOf(blk.Layers, nil, l.Report)
	for _, name := range slices.Sorted(maps.Keys(p.Attrs)) {
		a := p.Attrs[name]
		key, inner := keyOf(s, name, true)
		here := append(slices.Clone(path), name)
		l.rivals(a, here)
		l.Written[RangeKey(here)] = a
		l.Touched = nil
		v, ok := l.data(a.Expr, a.Source, here, inner)
		l.InputsOf[RangeKey(here)] = slices.Sorted(slices.Values(l.Touched))
		l.Good = l.Good && ok
		if !ok || v.IsNil() && len(a.Under) > 0 {
			continue
		}
		if inner != nil {
			v = Fit(inner, v)
		}
		b.Set(key, v)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Blocks)) {
		blk := p.Blocks[name][0]
		l.fail(diag.Diagnostic{
			Type: "config/unknown-name",
			Message: fmt.Sprintf("unknown block %s in %s, which has only attributes", diag.Quote(name),
				language.Title(path)),
			Range: blk.At(),
			Path:  append(slices.Clone(path), name),
		})
	}
	return b.Map()
}

// conditional checks entries with :when. If the condition is true, an entry that is not :optional
// is required; if it is false, the entry is not allowed. It returns the value without the defaults
// of entries whose condition is false.
func (l *Lowering) conditional(s *schema.Schema, p syntax.Parts, v edn.Value, path []string,
	header *diag.Range) edn.Value {
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
			conds = append(conds, language.HCLName(language.ScalarText(k))+" = "+want.String())
		}
		name := language.HCLName(language.ScalarText(e.Key))
		here := append(slices.Clone(path), name)
		a, written := p.Attrs[name]
		switch {
		case written && !holds:
			l.fail(diag.Diagnostic{
				Type:    "config/plugin-schema",
				Message: l.subject(here) + " is used only with " + strings.Join(conds, ", "),
				Range:   a.At(),
				Path:    here,
				Hint:    "remove it, or set " + strings.Join(conds, ", "),
			})
		case !written && holds && !e.Optional && !e.Props.HasDefault && len(p.Blocks[name]) == 0:
			l.fail(diag.Diagnostic{
				Type:     "config/plugin-schema",
				Message:  l.subject(here) + " is missing, it is needed with " + strings.Join(conds, ", "),
				Range:    header,
				Path:     here,
				Expected: edn.Text(l.Describe(e)),
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
