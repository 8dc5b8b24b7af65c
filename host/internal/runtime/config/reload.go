package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ChangeKind is the kind of a change of a value.
type ChangeKind string

// The kinds of change.
const (
	ChangeAdded   ChangeKind = "added"
	ChangeRemoved ChangeKind = "removed"
	ChangeChanged ChangeKind = "changed"
)

// Action is the action of a reload for a change (HTTP-009).
type Action string

// The actions.
const (
	ActionUpdate  Action = "update"  // used from the next request, call or state transition on
	ActionSwap    Action = "swap"    // a new version of the plugin starts and replaces the running one
	ActionRestart Action = "restart" // the reload is rejected: the host must be restarted
	ActionAdd     Action = "add"     // a whole block
	ActionRemove  Action = "remove"
)

// Change is one difference between two configurations.
type Change struct {
	// Path holds block types, labels and the attribute; after the config of a
	// plugin, the path in it. The program of a plugin is its attribute binary.
	Path   []string
	Change ChangeKind
	Action Action
	// Reload is the class of the attribute; a whole block has class U, a plugin
	// block class P.
	Reload Reload
	// Before and After are nil for an absent value. Paths are relative to the
	// root; a secret is represented by its handle.
	Before, After edn.Value
	// BeforeAt and AfterAt are nil for a default.
	BeforeAt, AfterAt *Range

	before, after string // as HCL
}

// PluginActions holds the plugins by reload action, sorted by name; each plugin is
// in one list.
type PluginActions struct {
	Start   []string // new, now enabled, or its program now exists
	Replace []string // its program, config or a class P attribute changed
	Update  []string // only class U attributes changed: the process is kept
	Remove  []string // removed, now disabled, or its program is missing
	Keep    []string // unchanged
}

// Diff is the effect of a reload.
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
func Compare(before, after *Config) Diff {
	c := comparison{before: before, after: after}
	if before.tree == nil || after.tree == nil {
		return Diff{}
	}
	c.section(nil, before.tree, after.tree)
	c.certificate()
	c.plugins()
	return c.diff
}

type comparison struct {
	before, after *Config
	diff          Diff
}

// section compares two blocks with the same identity.
func (c *comparison) section(path []string, a, b *section) {
	for i := range b.node.spec.Attrs {
		c.attribute(path, &b.node.spec.Attrs[i], a, b)
	}
	for i := range b.node.spec.Blocks {
		spec := &b.node.spec.Blocks[i]
		if spec.Open || spec.Foreign {
			continue
		}
		for _, x := range a.all(spec.Name) {
			here := x.below(path)
			if y := b.twin(x); y != nil {
				c.section(here, x, y)
			} else {
				c.add(Change{
					Path:     here,
					Change:   ChangeRemoved,
					Action:   ActionRemove,
					Reload:   ofBlock(spec),
					Before:   c.before.value(x),
					BeforeAt: c.before.seen(x.at()),
				})
			}
			if spec.Name == "plugin" {
				c.plugin(here)
			}
		}
		for _, y := range b.all(spec.Name) {
			if a.twin(y) == nil {
				c.add(Change{
					Path:    y.below(path),
					Change:  ChangeAdded,
					Action:  ActionAdd,
					Reload:  ofBlock(spec),
					After:   c.after.value(y),
					AfterAt: c.after.seen(y.at()),
				})
			}
		}
	}
}

func ofBlock(spec *Block) Reload {
	if spec.Name == "plugin" {
		return ReloadPlugin
	}
	return ReloadUse
}

func (c *comparison) attribute(path []string, spec *Attr, a, b *section) {
	x, hadX := a.attrs[spec.Name]
	y, hasY := b.attrs[spec.Name]
	before, after := c.before.printer().portable(x), c.after.printer().portable(y)
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
		BeforeAt: c.before.seen(x.rng),
		AfterAt:  c.after.seen(y.rng),
		before:   c.before.printer().spell(spec.Type, x),
		after:    c.after.printer().spell(spec.Type, y),
	}
	switch {
	case rotated && edn.Equal(before, after):
		ch.markNew()
	case ch.before == ch.after: // a file with an unchanged name
		ch.after += ", with another content"
	}
	ch.Action = map[Reload]Action{ReloadNothing: ActionUpdate, ReloadUse: ActionUpdate, ReloadPlugin: ActionSwap,
		ReloadHost: ActionRestart}[spec.Reload]
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

// markNew marks the new value if both have the same text.
func (ch *Change) markNew() {
	ch.After = edn.Text(plain(ch.After) + ", another value")
	ch.after += ", another value"
}

func (c *comparison) add(ch Change) { c.diff.Changes = append(c.diff.Changes, ch) }

// plugin compares the resolved config and the program of a plugin.
func (c *comparison) plugin(path []string) {
	a, b := c.before.plugin(path[1]), c.after.plugin(path[1])
	if a == nil || b == nil {
		return
	}
	here := append(slices.Clone(path), "config")
	if a.low != nil && b.low != nil {
		c.config(here, nil, a, b, a.Config, b.Config)
	} else if x, y := configText(c.before, a.Name), configText(c.after, b.Name); x != y {
		c.add(Change{
			Path:   here,
			Change: changed(x != "", y != ""),
			Action: ActionSwap,
			Reload: ReloadPlugin,
			Before: textOrNil(short(x)),
			After:  textOrNil(short(y)),
			before: short(x),
			after:  short(y),
		})
	}
	if a.Binary != b.Binary {
		c.add(Change{
			Path:   append(slices.Clone(path), "binary"),
			Change: changed(a.Binary != "", b.Binary != ""),
			Action: ActionSwap,
			Reload: ReloadPlugin,
			Before: textOrNil(a.Binary),
			After:  textOrNil(b.Binary),
			before: a.Binary,
			after:  b.Binary,
		})
	}
}

// config compares two parts of a resolved config.
func (c *comparison) config(path []string, at []edn.Value, a, b *Plugin, x, y edn.Value) {
	if x.Kind() == edn.KindMap && y.Kind() == edn.KindMap {
		for k, v := range x.Entries() {
			w, _ := y.Get(k)
			c.config(append(slices.Clone(path), hclName(scalarText(k))), append(slices.Clone(at), k), a, b, v, w)
		}
		for k, w := range y.Entries() {
			if _, had := x.Get(k); !had {
				c.config(append(slices.Clone(path), hclName(scalarText(k))), append(slices.Clone(at), k), a, b,
					edn.Nil(), w)
			}
		}
		return
	}
	s, t := a.secretAt(at), b.secretAt(at)
	ch := Change{
		Path:     path,
		Action:   ActionSwap,
		Reload:   ReloadPlugin,
		Before:   a.shown(c.before.printer(), x, s),
		After:    b.shown(c.after.printer(), y, t),
		BeforeAt: c.before.seen(a.Place(at)),
		AfterAt:  c.after.seen(b.Place(at)),
	}
	same := edn.Equal(ch.Before, ch.After)
	inside := inside(c.before, a, x, s) == inside(c.after, b, y, t)
	if same && inside {
		return
	}
	ch.Change = changed(!ch.Before.IsNil(), !ch.After.IsNil())
	ch.before, ch.after = hclText(ch.Before), hclText(ch.After)
	if same {
		ch.markNew()
	}
	c.add(ch)
}

// inside returns a hash of the secret text or file content that a value refers to.
func inside(c *Config, p *Plugin, v edn.Value, s *Secret) string {
	if s != nil {
		return c.prints[s.handle()]
	}
	if v.IsVector() {
		var all strings.Builder
		for x := range v.Elems() {
			all.WriteString(inside(c, p, x, nil))
		}
		return all.String()
	}
	text, _ := v.AsString()
	return p.readHash(text)
}

// configText returns the config text of a plugin that was not described.
func configText(c *Config, plugin string) string {
	for _, s := range c.tree.all("plugin") {
		if s.label() == plugin {
			if n := configBlock(s); n != nil {
				return bodyText(n)
			}
		}
	}
	return ""
}

// plugins assigns the plugins to their actions.
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
		if q := c.after.plugin(p.Name); p.runs() && (q == nil || !q.runs()) {
			out.Remove = append(out.Remove, p.Name)
		}
	}
	for i := range c.after.Plugins {
		q := &c.after.Plugins[i]
		p := c.before.plugin(q.Name)
		to := &out.Keep
		switch {
		case !q.runs():
			continue
		case p == nil || !p.runs():
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
func printsOf(c *Config, v value) string {
	if v.secret != nil {
		return c.prints[v.secret.handle()]
	}
	var b strings.Builder
	for _, x := range v.items {
		b.WriteString(printsOf(c, x))
	}
	return b.String()
}

// Value returns the change as a row of HTTP-009.
func (ch Change) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("path", words(ch.Path))
	b.Key("change", edn.K(string(ch.Change)))
	b.Key("action", edn.K(string(ch.Action)))
	b.Key("reload", edn.K(string(ch.Reload)))
	b.Key("before", ch.Before)
	b.Key("after", ch.After)
	b.Key("before-range", rangeValue(ch.BeforeAt))
	b.Key("range", rangeValue(ch.AfterAt))
	return b.Map()
}

// Value returns the changes as rows of HTTP-009.
func (d Diff) Value() edn.Value {
	rows := make([]edn.Value, len(d.Changes))
	for i, c := range d.Changes {
		rows[i] = c.Value()
	}
	return edn.Vector(rows...)
}

// Value returns the plugins by action.
func (p PluginActions) Value() edn.Value {
	var b edn.MapBuilder
	for _, x := range p.lists() {
		b.Key(x.name, words(x.names))
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

// Text lays the difference out for people; empty if there is none.
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
		fmt.Fprintf(b, "%s %s%s\n", sign, printable(title(ch.Path)), printable(place))
		return
	}
	note := map[Action]string{ActionSwap: "  (new process)",
		ActionRestart: "  (needs a restart of the host)"}[ch.Action]
	fmt.Fprintf(b, "%s %s: %s -> %s%s%s\n", sign, printable(title(ch.Path)), printable(orNone(ch.before)),
		printable(orNone(ch.after)), note, printable(place))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return short(s)
}

// certificate compares the certificates of the listeners: a renewed certificate has
// the same file name as the old one.
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
		Reload: ReloadUse,
		Before: edn.Text(before),
		After:  edn.Text(after),
		before: spellText(before),
		after:  spellText(after),
	})
}
