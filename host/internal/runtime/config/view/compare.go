package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ChangeKind is the kind of a change of a value.
type ChangeKind string

// Values of ChangeKind.
const (
	ChangeAdded   ChangeKind = "added"
	ChangeRemoved ChangeKind = "removed"
	ChangeChanged ChangeKind = "changed"
)

// Action is the action of a reload for a change (HTTP-009).
type Action string

// Values of Action.
const (
	ActionUpdate  Action = "update"  // used from the next request, call or state transition on
	ActionSwap    Action = "swap"    // a new version of the plugin starts and replaces the running one
	ActionRestart Action = "restart" // the reload is rejected: the host must be restarted
	ActionAdd     Action = "add"     // a whole block
	ActionRemove  Action = "remove"
)

// Change is one difference between two configurations.
type Change struct {
	// Path holds block types, labels and the attribute. Below the config of a plugin it holds the
	// path in its value. The program of a plugin is the attribute binary.
	Path   []string
	Change ChangeKind
	Action Action
	// Reload is the reload class of the attribute; a whole block has class U, a plugin block class
	// P.
	Reload language.Reload
	// Before and After are nil for a missing value. Paths in them are relative to the root, and
	// secrets are replaced by their handles.
	Before, After edn.Value
	// BeforeAt and AfterAt are nil for a default.
	BeforeAt, AfterAt *diag.Range

	before, after string // the values as HCL
}

// PluginActions lists the plugins by reload action, sorted by name. Each plugin is in one list.
type PluginActions struct {
	Start   []string // new, now enabled, or its program now exists
	Replace []string // its program, config or a class P attribute changed
	Update  []string // only class U attributes changed: the process is kept
	Remove  []string // removed, now disabled, or its program is missing
	Keep    []string // unchanged
}

// Diff describes the effect of a reload.
type Diff struct {
	Changes []Change // in the order of the specification, then of the files
	Plugins PluginActions
}

// Empty reports whether a reload has no effect.
func (d Diff) Empty() bool {
	p := d.Plugins
	return len(d.Changes)+len(p.Start)+len(p.Replace)+len(p.Update)+len(p.Remove) == 0
}

// Restart returns the changes that require a restart of the host (OPS-003).
func (d Diff) Restart() []Change {
	var out []Change
	for _, c := range d.Changes {
		if c.Action == ActionRestart {
			out = append(out, c)
		}
	}
	return out
}

// Compare returns the effect of a reload from one configuration to another. It
// compares values, not their place and formatting. The Diff is empty if one of the
// configurations could not be read. Compare reads no files.
func Compare(before, after *config.Config) Diff {
	c := comparison{before: before, after: after}
	if before.Tree == nil || after.Tree == nil {
		return Diff{}
	}
	c.section(nil, before.Tree, after.Tree)
	c.certificate()
	c.plugins()
	return c.diff
}

type comparison struct {
	before, after *config.Config
	diff          Diff
}

// section compares two blocks with the same identity.
func (c *comparison) section(path []string, a, b *decode.Section) {
	for i := range b.Node.Spec.Attrs {
		c.attribute(path, &b.Node.Spec.Attrs[i], a, b)
	}
	for i := range b.Node.Spec.Blocks {
		spec := &b.Node.Spec.Blocks[i]
		if spec.Open || spec.Foreign {
			continue
		}
		for _, x := range a.All(spec.Name) {
			here := x.Below(path)
			if y := b.Twin(x); y != nil {
				c.section(here, x, y)
			} else {
				c.add(Change{
					Path:     here,
					Change:   ChangeRemoved,
					Action:   ActionRemove,
					Reload:   ofBlock(spec),
					Before:   c.before.BlockValue(x),
					BeforeAt: c.before.Place(x.At()),
				})
			}
			if spec.Name == "plugin" {
				c.plugin(here)
			}
		}
		for _, y := range b.All(spec.Name) {
			if a.Twin(y) == nil {
				c.add(Change{
					Path:    y.Below(path),
					Change:  ChangeAdded,
					Action:  ActionAdd,
					Reload:  ofBlock(spec),
					After:   c.after.BlockValue(y),
					AfterAt: c.after.Place(y.At()),
				})
			}
		}
	}
}

func ofBlock(spec *language.Block) language.Reload {
	if spec.Name == "plugin" {
		return language.ReloadPlugin
	}
	return language.ReloadUse
}

func (c *comparison) attribute(path []string, spec *language.Attr, a, b *decode.Section) {
	x, hadX := a.Attrs[spec.Name]
	y, hasY := b.Attrs[spec.Name]
	before, after := c.before.Printer().Portable(x), c.after.Printer().Portable(y)
	rotated := printsOf(c.before, x) != printsOf(c.after, y)
	if hadX == hasY && edn.Equal(before, after) && !rotated {
		return
	}
	ch := Change{
		Path:     append(slices.Clone(path), spec.Name),
		Change:   changed(hadX, hasY),
		Reload:   spec.Reload,
		Before:   before,
		After:    after,
		BeforeAt: c.before.Place(x.At),
		AfterAt:  c.after.Place(y.At),
		before:   c.before.Printer().Spell(spec.Type, x),
		after:    c.after.Printer().Spell(spec.Type, y),
	}
	switch {
	case rotated && edn.Equal(before, after):
		ch.markNew()
	case ch.before == ch.after: // a file with an unchanged name
		ch.after += ", with another content"
	}
	ch.Action = map[language.Reload]Action{language.ReloadNothing: ActionUpdate, language.ReloadUse: ActionUpdate,
		language.ReloadPlugin: ActionSwap,
		language.ReloadHost:   ActionRestart}[spec.Reload]
	c.add(ch)
}

func changed(had, has bool) ChangeKind {
	switch {
	case !had:
		return ChangeAdded
	case !has:
		return ChangeRemoved
	}
	return ChangeChanged
}

// markNew marks the new value as different if both have the same text.
func (ch *Change) markNew() {
	ch.After = edn.Text(diag.Plain(ch.After) + ", another value")
	ch.after += ", another value"
}

func (c *comparison) add(ch Change) { c.diff.Changes = append(c.diff.Changes, ch) }

// plugin compares the resolved config and the program of a plugin.
func (c *comparison) plugin(path []string) {
	a, b := c.before.Plugin(path[1]), c.after.Plugin(path[1])
	if a == nil || b == nil {
		return
	}
	here := append(slices.Clone(path), "config")
	if a.Lowered != nil && b.Lowered != nil {
		c.config(here, nil, a, b, a.Config, b.Config)
	} else if x, y := configText(c.before, a.Name), configText(c.after, b.Name); x != y {
		c.add(Change{
			Path:   here,
			Change: changed(x != "", y != ""),
			Action: ActionSwap,
			Reload: language.ReloadPlugin,
			Before: diag.TextOrNil(diag.Short(x)),
			After:  diag.TextOrNil(diag.Short(y)),
			before: diag.Short(x),
			after:  diag.Short(y),
		})
	}
	if a.Binary != b.Binary {
		c.add(Change{
			Path:   append(slices.Clone(path), "binary"),
			Change: changed(a.Binary != "", b.Binary != ""),
			Action: ActionSwap,
			Reload: language.ReloadPlugin,
			Before: diag.TextOrNil(a.Binary),
			After:  diag.TextOrNil(b.Binary),
			before: a.Binary,
			after:  b.Binary,
		})
	}
}

// config compares two parts of a resolved config.
func (c *comparison) config(path []string, at []edn.Value, a, b *plugins.Plugin, x, y edn.Value) {
	if x.Kind() == edn.KindMap && y.Kind() == edn.KindMap {
		for k, v := range x.Entries() {
			w, _ := y.Get(k)
			c.config(append(slices.Clone(path), language.HCLName(language.ScalarText(k))), append(slices.Clone(at), k),
				a, b, v, w)
		}
		for k, w := range y.Entries() {
			if _, had := x.Get(k); !had {
				c.config(append(slices.Clone(path), language.HCLName(language.ScalarText(k))), append(slices.Clone(at), k), a, b,
					edn.Nil(), w)
			}
		}
		return
	}
	s, t := a.SecretAt(at), b.SecretAt(at)
	ch := Change{
		Path:     path,
		Action:   ActionSwap,
		Reload:   language.ReloadPlugin,
		Before:   a.Shown(c.before.Printer(), x, s),
		After:    b.Shown(c.after.Printer(), y, t),
		BeforeAt: c.before.Place(a.Place(at)),
		AfterAt:  c.after.Place(b.Place(at)),
	}
	same := edn.Equal(ch.Before, ch.After)
	inside := inside(c.before, a, x, s) == inside(c.after, b, y, t)
	if same && inside {
		return
	}
	ch.Change = changed(!ch.Before.IsNil(), !ch.After.IsNil())
	ch.before, ch.after = decode.HCLText(ch.Before), decode.HCLText(ch.After)
	if same {
		ch.markNew()
	}
	c.add(ch)
}

// inside returns a hash of the secret or of the file content that a value refers to.
func inside(c *config.Config, p *plugins.Plugin, v edn.Value, s *expression.Secret) string {
	if s != nil {
		return c.Prints[s.Handle()]
	}
	if v.IsVector() {
		var all strings.Builder
		for x := range v.Elems() {
			all.WriteString(inside(c, p, x, nil))
		}
		return all.String()
	}
	text, _ := v.AsString()
	return p.ReadHash(text)
}

// configText returns the config text of a plugin that was not described.
func configText(c *config.Config, plugin string) string {
	for _, s := range c.Tree.All("plugin") {
		if s.Label() == plugin {
			if n := plugins.ConfigBlock(s); n != nil {
				return plugins.BodyText(n)
			}
		}
	}
	return ""
}

// plugins sets the plugin actions of the diff.
func (c *comparison) plugins() {
	touched := map[string]bool{}
	for _, ch := range c.diff.Changes {
		if ch.Path[0] == "plugin" {
			touched[ch.Path[1]] = true
		}
	}
	var out PluginActions
	for i := range c.before.Plugins {
		p := &c.before.Plugins[i]
		if q := c.after.Plugin(p.Name); p.Runs() && (q == nil || !q.Runs()) {
			out.Remove = append(out.Remove, p.Name)
		}
	}
	for i := range c.after.Plugins {
		q := &c.after.Plugins[i]
		p := c.before.Plugin(q.Name)
		to := &out.Keep
		switch {
		case !q.Runs():
			continue
		case p == nil || !p.Runs():
			to = &out.Start
		case p.Key() != q.Key():
			to = &out.Replace
		case touched[q.Name]:
			to = &out.Update
		}
		*to = append(*to, q.Name)
	}
	for _, names := range []*[]string{&out.Start, &out.Replace, &out.Update, &out.Remove, &out.Keep} {
		slices.Sort(*names)
	}
	c.diff.Plugins = out
}

// printsOf returns the hashes of the secrets in a value.
func printsOf(c *config.Config, v decode.Value) string {
	if v.Secret != nil {
		return c.Prints[v.Secret.Handle()]
	}
	var b strings.Builder
	for _, x := range v.Items {
		b.WriteString(printsOf(c, x))
	}
	return b.String()
}

// Value returns the change as an EDN map with the keys that HTTP-009 defines.
func (ch Change) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("path", diag.Words(ch.Path))
	b.Key("change", edn.K(string(ch.Change)))
	b.Key("action", edn.K(string(ch.Action)))
	b.Key("reload", edn.K(string(ch.Reload)))
	b.Key("before", ch.Before)
	b.Key("after", ch.After)
	b.Key("before-range", diag.RangeValue(ch.BeforeAt))
	b.Key("range", diag.RangeValue(ch.AfterAt))
	return b.Map()
}

// Value returns the changes as an EDN vector with the value of each Change.
func (d Diff) Value() edn.Value {
	rows := make([]edn.Value, len(d.Changes))
	for i, c := range d.Changes {
		rows[i] = c.Value()
	}
	return edn.Vector(rows...)
}

// Value returns the plugins as an EDN map with a vector of names per action.
func (p PluginActions) Value() edn.Value {
	var b edn.MapBuilder
	for _, x := range p.lists() {
		b.Key(x.name, diag.Words(x.names))
	}
	return b.Map()
}

type pluginList struct {
	name  string
	names []string
}

func (p PluginActions) lists() []pluginList {
	return []pluginList{{"start", p.Start}, {"replace", p.Replace}, {"update", p.Update}, {"remove", p.Remove},
		{"keep", p.Keep}}
}

// Text returns the difference as text for people; empty if a reload has no effect.
func (d Diff) Text() string {
	if d.Empty() {
		return ""
	}
	var b strings.Builder
	for _, c := range d.Changes {
		c.text(&b)
	}
	b.WriteString("\nplugins:")
	any := false
	for _, x := range d.Plugins.lists() {
		if len(x.names) > 0 {
			if any {
				b.WriteByte(';')
			}
			any = true
			fmt.Fprintf(&b, " %s %s", x.name, strings.Join(x.names, ", "))
		}
	}
	if !any {
		b.WriteString(" none")
	}
	b.WriteByte('\n')
	return b.String()
}

func (ch Change) text(b *strings.Builder) {
	sign := map[Action]string{ActionAdd: "+", ActionRemove: "-", ActionRestart: "!"}[ch.Action]
	if sign == "" {
		sign = "~"
	}
	at := ch.AfterAt
	if at == nil {
		at = ch.BeforeAt
	}
	place := ""
	if at != nil {
		place = "  " + at.String()
	}
	if ch.Action == ActionAdd || ch.Action == ActionRemove {
		fmt.Fprintf(b, "%s %s%s\n", sign, diag.Printable(language.Title(ch.Path)), diag.Printable(place))
		return
	}
	note := map[Action]string{ActionSwap: "  (new process)",
		ActionRestart: "  (needs a restart of the host)"}[ch.Action]
	fmt.Fprintf(b, "%s %s: %s -> %s%s%s\n", sign, diag.Printable(language.Title(ch.Path)),
		diag.Printable(orNone(ch.before)),
		diag.Printable(orNone(ch.after)), note, diag.Printable(place))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return diag.Short(s)
}

// certificate compares the certificates of the listeners by their content, because a renewed
// certificate has the same file name.
func (c *comparison) certificate() {
	a, b := c.before.HTTP.TLS, c.after.HTTP.TLS
	if a == nil || b == nil || a.Print == b.Print {
		return
	}
	const shown = 16
	before, after := a.Print[:shown], b.Print[:shown]
	c.add(Change{
		Path:   []string{"http", "tls", "certificate"},
		Change: ChangeChanged,
		Action: ActionUpdate,
		Reload: language.ReloadUse,
		Before: edn.Text(before),
		After:  edn.Text(after),
		before: decode.SpellText(before),
		after:  decode.SpellText(after),
	})
}
