package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Limit is a limit on the input of a load (HCL-010, HCL-042).
type Limit struct {
	Name  string
	Value string
}

// Limits returns the limits on the input of a load.
func Limits() []Limit {
	n := func(i int) string { return fmt.Sprint(i) }
	size := func(i int64) string { return formatBytes(i) }
	return []Limit{
		{"size of a file", size(MaxFileBytes)},
		{"size of all files", size(MaxTotalBytes)},
		{"files", n(MaxFiles)},
		{"tokens of a file", n(MaxTokens)},
		{"nesting of brackets, braces, parentheses, templates", n(MaxNesting)},
		{"consecutive unary operators", n(MaxUnaryRun)},
		{"conditionals in one expression", n(MaxConditionals)},
		{"operators and index steps in one expression", n(MaxOperators)},
		{"digits of a number", n(MaxNumberDigits)},
		{"exponent of a number", "+-" + n(MaxExponent)},
		{"size of a text", size(MaxString)},
		{"depth of includes", n(MaxIncludeDepth)},
		{"size of a file of variables", size(MaxEnvBytes)},
		{"variables in a file", n(MaxEnvKeys)},
		{"size of a file that file() reads", size(MaxInputFile)},
		{"size of all files that file() reads", size(MaxInputTotal)},
		{"size of a file with a secret", size(MaxSecretFile)},
		{"size of a layer of a prompt", size(prompt.MaxLayer)},
		{"plugin blocks", n(MaxPlugins)},
		{"capability blocks", n(MaxCapabilities)},
		{"intent blocks", n(MaxIntents)},
		{"check blocks", n(MaxNamed)},
		{"schema blocks", n(MaxNamed)},
		{"size of a plugin description", size(MaxDescription)},
		{"labels of a block in a plugin's configuration", n(MaxSchemaLabels)},
		{"depth of a plugin's configuration", n(MaxSchemaDepth)},
		{"entries of a plugin's configuration", n(MaxSchemaEntries)},
		{"size of a gate expression", size(MaxGateSource)},
		{"operators of a gate expression", n(MaxGateOperators)},
		{"size of a value that a gate expression reads", size(MaxGateBytes)},
		{"elements of a value that a gate expression reads", n(MaxGateElements)},
		{"size of the result of a gate expression", size(MaxGateResult)},
		{"steps of a gate expression", n(MaxGateSteps)},
		{"diagnostics of one load", n(MaxKept)},
		{"diagnostics shown per file", n(MaxShownPerFile)},
	}
}

// LimitsText returns the limits as Markdown.
func LimitsText() string {
	var b strings.Builder
	b.WriteString("# limits\n\n")
	for _, l := range Limits() {
		fmt.Fprintf(&b, "- %s: %s\n", l.Name, l.Value)
	}
	return b.String()
}

// Reference returns the reference of the language as Markdown, or of one block
// given by its block types, such as plugin.restart. It returns an
// UnknownPathError if the block does not exist.
func Reference(block string) (string, error) {
	at, path, err := findBlock(block)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if path == "" {
		referenceHead(&b)
		for i := range at.Blocks {
			referenceBlock(&b, &at.Blocks[i], at.Blocks[i].Name, "##")
		}
		return b.String(), nil
	}
	referenceBlock(&b, at, path, "#")
	return b.String(), nil
}

func findBlock(path string) (*Block, string, error) {
	at := Specification()
	if path == "" {
		return at, "", nil
	}
	here := ""
	for _, name := range strings.Split(path, ".") {
		next, ok := at.Block(name)
		if !ok {
			return nil, "", &UnknownPathError{Path: path, Nearest: nearest(path, blockPaths(Specification(), ""))}
		}
		at, here = next, join(here, name)
	}
	return at, here, nil
}

// BlockPaths returns the paths of all blocks, such as plugin.restart.
func BlockPaths() []string { return blockPaths(Specification(), "") }

func blockPaths(b *Block, at string) []string {
	var out []string
	for i := range b.Blocks {
		path := join(at, b.Blocks[i].Name)
		out = append(append(out, path), blockPaths(&b.Blocks[i], path)...)
	}
	return out
}

func referenceHead(b *strings.Builder) {
	b.WriteString(`# Reference of the configuration

Written by "ferment config docs" from the table that decodes the files.

An attribute has a type with its range, a default, and the effect of a reload that changes it:
N: nothing that runs changes; U: used from the next request, call or state transition on;
P: a new version of the plugin starts and replaces the running one; H: requires a restart of the host.

`)
}

func referenceBlock(b *strings.Builder, block *Block, path, heading string) {
	title := path
	switch {
	case block.Only != "":
		title += ` "` + block.Only + `"`
	case block.Label == LabelIdent, block.Label == LabelPattern:
		title += ` "` + strings.ToUpper(string(block.Label)) + `"`
	case block.Label == LabelQualified:
		title += ` "NS/NAME"`
	}
	if r, ok := reservedAt(path); ok && !r.partly() {
		fmt.Fprintf(b, "%s `%s`\n\nNot in this build: %s.\n\n", heading, title, r.what)
		return
	}
	fmt.Fprintf(b, "%s `%s`\n\n", heading, title)
	if block.Doc != "" {
		fmt.Fprintf(b, "%s.\n\n", upperFirst(block.Doc))
	}
	for i := range block.Attrs {
		b.WriteString("- " + referenceAttr(&block.Attrs[i], path) + "\n")
	}
	if len(block.Attrs) > 0 {
		b.WriteByte('\n')
	}
	for i := range block.Variants {
		referenceBlock(b, &block.Variants[i], path, "###")
	}
	for i := range block.Blocks {
		referenceBlock(b, &block.Blocks[i], join(path, block.Blocks[i].Name), "###")
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func referenceAttr(a *Attr, block string) string {
	r, reserved := reservedAt(join(block, a.Name))
	if reserved && !r.partly() {
		return fmt.Sprintf("`%s`: not in this build: %s", a.Name, r.what)
	}
	text := fmt.Sprintf("`%s`: %s", a.Name, a.Type)
	switch {
	case a.Required:
		text += "; required"
	case a.Default != "":
		text += "; default `" + a.Default + "`"
	}
	for _, p := range Profiles() {
		if d, ok := a.Profiles[p]; ok {
			text += fmt.Sprintf(", in %s `%s`", p, orNone(d))
		}
	}
	text += fmt.Sprintf("; %c", a.Reload)
	if a.Doc != "" {
		text += "; " + a.Doc
	}
	if len(r.only) > 0 {
		text += fmt.Sprintf("; this build supports only `%s` (not in it: %s)", strings.Join(r.only, "`, `"), r.what)
	}
	return text + " [" + a.Serves + "]"
}

// ReferenceValue returns the reference as data: one map per attribute.
func ReferenceValue(block string) (edn.Value, error) {
	at, path, err := findBlock(block)
	if err != nil {
		return edn.Nil(), err
	}
	var rows []edn.Value
	referenceRows(at, path, &rows)
	return edn.Vector(rows...), nil
}

func referenceRows(block *Block, path string, rows *[]edn.Value) {
	for i := range block.Attrs {
		a := &block.Attrs[i]
		var b, profiles edn.MapBuilder
		for p, d := range a.Profiles {
			profiles.Set(edn.Text(p), edn.Text(d))
		}
		r, reserved := reservedAt(join(path, a.Name))
		b.Key("path", edn.Text(join(path, a.Name)))
		b.Key("type", edn.Text(a.Type.String()))
		b.Key("required?", edn.Bool(a.Required))
		b.Key("default", textOrNil(a.Default))
		b.Key("profiles", profiles.Map())
		b.Key("reload", edn.K(string(a.Reload)))
		b.Key("serves", edn.Text(a.Serves))
		b.Key("doc", textOrNil(a.Doc))
		b.Key("supported?", edn.Bool(!reserved || r.partly()))
		*rows = append(*rows, b.Map())
	}
	for i := range block.Variants {
		v := &block.Variants[i]
		referenceRows(v, path+" "+v.Only, rows)
	}
	for i := range block.Blocks {
		inner := join(path, block.Blocks[i].Name)
		if r, ok := reservedAt(inner); !ok || r.partly() {
			referenceRows(&block.Blocks[i], inner, rows)
		}
	}
}

// LimitsValue returns the limits as data.
func LimitsValue() edn.Value {
	var b edn.MapBuilder
	for _, l := range Limits() {
		b.Set(edn.Text(l.Name), edn.Text(l.Value))
	}
	return b.Map()
}

// PluginReference returns the reference of the config block of a plugin, as
// Markdown and as data, from its advertised schema. It fails if the plugin is
// unknown, disabled or not described.
func PluginReference(c *Config, name string) (string, edn.Value, error) {
	p := c.plugin(name)
	switch {
	case p == nil:
		var names []string
		for _, p := range c.Plugins {
			names = append(names, p.Name)
		}
		return "", edn.Nil(), &UnknownPathError{Path: "plugin." + name, Nearest: nearest(name, names)}
	case !p.Enabled:
		return "", edn.Nil(), contract.Errorf("config/plugin-unknown",
			"plugin %s is disabled: its configuration schema is not known", quote(name)).
			WithHint("set enabled = true in its block")
	case !p.Described:
		return "", edn.Nil(), contract.Errorf("config/plugin-unknown",
			"plugin %s was not described: its configuration schema is not known", quote(name)).
			WithHint("run ferment validate to see why")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# config of plugin %s (%s %s)\n\n", quote(name), p.Description.Name, p.Description.Version)
	if p.low == nil {
		b.WriteString("The plugin accepts no configuration.\n")
		return b.String(), edn.Nil(), nil
	}
	pluginEntries(&b, p.low, p.low.schema.root, "")
	return b.String(), p.Description.ConfigSchema, nil
}

func pluginEntries(b *strings.Builder, l *lowering, s *schema.Schema, at string) {
	var blocks []schema.Entry
	for _, e := range s.Entries() {
		if e.Props.Block {
			blocks = append(blocks, e)
			continue
		}
		fmt.Fprintf(b, "- `%s`: %s\n", hclName(scalarText(e.Key)), pluginEntry(l, e))
	}
	for _, e := range blocks {
		name := join(at, hclName(scalarText(e.Key)))
		inner := e.Schema.Deref()
		title := name
		for i := range e.Props.Labels {
			title += fmt.Sprintf(" %q", strings.ToUpper(labelNames[i]))
			inner = inner.Children()[1].Deref()
		}
		fmt.Fprintf(b, "\n## `%s`\n\n", title)
		if e.Props.Doc != "" {
			fmt.Fprintf(b, "%s.\n\n", upperFirst(e.Props.Doc))
		}
		if inner.Kind() == schema.KindMap {
			pluginEntries(b, l, inner, name)
		} else {
			b.WriteString("Accepts attributes of any name.\n")
		}
	}
}

func pluginEntry(l *lowering, e schema.Entry) string {
	text, _, _ := strings.Cut(l.describe(e), " ("+l.schema.by)
	if t, ok := unitType(e); ok {
		text = string(t.Kind)
		if e.Props.Doc != "" {
			text += ", " + e.Props.Doc
		}
	}
	if e.Props.Secret {
		text = "secret" + strings.TrimPrefix(text, "string")
	}
	switch {
	case e.Props.HasDefault:
		text += "; default `" + e.Props.Default.String() + "`"
	case !e.Optional && e.Props.When.IsNil():
		text += "; required"
	}
	if !e.Props.When.IsNil() {
		var conds []string
		for k, v := range e.Props.When.Entries() {
			conds = append(conds, hclName(scalarText(k))+" = "+v.String())
		}
		slices.Sort(conds)
		text += "; only with " + strings.Join(conds, ", ")
	}
	if e.Props.Deprecated {
		text += "; deprecated"
	}
	return text
}
