package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Limit is a limit of a load (HCL-010, HCL-042).
type Limit struct {
	Name  string
	Value string
}

// Limits returns the limits of a load.
func Limits() []Limit {
	n := func(i int) string { return fmt.Sprint(i) }
	size := func(i int64) string { return language.FormatBytes(i) }
	return []Limit{
		{"size of a file", size(syntax.MaxFileBytes)},
		{"size of all files", size(syntax.MaxTotalBytes)},
		{"files", n(syntax.MaxFiles)},
		{"tokens of a file", n(syntax.MaxTokens)},
		{"nesting of brackets, braces, parentheses, templates", n(syntax.MaxNesting)},
		{"consecutive unary operators", n(syntax.MaxUnaryRun)},
		{"conditionals in one expression", n(syntax.MaxConditionals)},
		{"operators and index steps in one expression", n(syntax.MaxOperators)},
		{"digits of a number", n(syntax.MaxNumberDigits)},
		{"exponent of a number", "+-" + n(syntax.MaxExponent)},
		{"size of a text", size(decode.MaxString)},
		{"depth of includes", n(files.MaxIncludeDepth)},
		{"size of a file of variables", size(files.MaxEnvBytes)},
		{"variables in a file", n(files.MaxEnvKeys)},
		{"size of a file that file() reads", size(expression.MaxInputFile)},
		{"size of all files that file() reads", size(expression.MaxInputTotal)},
		{"size of a file with a secret", size(expression.MaxSecretFile)},
		{"size of a layer of a prompt", size(prompt.MaxLayer)},
		{"plugin blocks", n(build.MaxPlugins)},
		{"capability blocks", n(build.MaxCapabilities)},
		{"intent blocks", n(build.MaxIntents)},
		{"check blocks", n(build.MaxNamed)},
		{"schema blocks", n(build.MaxNamed)},
		{"size of a plugin description", size(contract.MaxDescription)},
		{"labels of a block in a plugin's configuration", n(decode.MaxSchemaLabels)},
		{"depth of a plugin's configuration", n(decode.MaxSchemaDepth)},
		{"entries of a plugin's configuration", n(decode.MaxSchemaEntries)},
		{"size of a gate expression", size(expression.MaxGateSource)},
		{"operators of a gate expression", n(expression.MaxGateOperators)},
		{"size of a value that a gate expression reads", size(expression.MaxGateBytes)},
		{"elements of a value that a gate expression reads", n(expression.MaxGateElements)},
		{"size of the result of a gate expression", size(expression.MaxGateResult)},
		{"steps of a gate expression", n(expression.MaxGateSteps)},
		{"diagnostics of one load", n(diag.MaxKept)},
		{"diagnostics shown per file", n(diag.MaxShownPerFile)},
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

// Reference returns the reference of the language as Markdown. block limits it to one block, given
// by block types such as plugin.restart; empty: the whole reference. The error is an
// *UnknownPathError.
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

func findBlock(path string) (*language.Block, string, error) {
	at := language.Specification()
	if path == "" {
		return at, "", nil
	}
	here := ""
	for _, name := range strings.Split(path, ".") {
		next, ok := at.Block(name)
		if !ok {
			return nil, "", &UnknownPathError{Path: path, Nearest: diag.Nearest(path, blockPaths(language.Specification(), ""))}
		}
		at, here = next, language.Join(here, name)
	}
	return at, here, nil
}

// BlockPaths returns the paths of all blocks, such as plugin.restart.
func BlockPaths() []string { return blockPaths(language.Specification(), "") }

func blockPaths(b *language.Block, at string) []string {
	var out []string
	for i := range b.Blocks {
		path := language.Join(at, b.Blocks[i].Name)
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

func referenceBlock(b *strings.Builder, block *language.Block, path, heading string) {
	title := path
	switch {
	case block.Only != "":
		title += ` "` + block.Only + `"`
	case block.Label == language.LabelIdent, block.Label == language.LabelPattern:
		title += ` "` + strings.ToUpper(string(block.Label)) + `"`
	case block.Label == language.LabelQualified:
		title += ` "NS/NAME"`
	}
	if r, ok := language.ReservedAt(path); ok && !r.Partly() {
		fmt.Fprintf(b, "%s `%s`\n\nNot in this build: %s.\n\n", heading, title, r.What)
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
		referenceBlock(b, &block.Blocks[i], language.Join(path, block.Blocks[i].Name), "###")
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func referenceAttr(a *language.Attr, block string) string {
	r, reserved := language.ReservedAt(language.Join(block, a.Name))
	if reserved && !r.Partly() {
		return fmt.Sprintf("`%s`: not in this build: %s", a.Name, r.What)
	}
	text := fmt.Sprintf("`%s`: %s", a.Name, a.Type)
	switch {
	case a.Required:
		text += "; required"
	case a.Default != "":
		text += "; default `" + a.Default + "`"
	}
	for _, p := range language.Profiles() {
		if d, ok := a.Profiles[p]; ok {
			text += fmt.Sprintf(", in %s `%s`", p, orNone(d))
		}
	}
	text += fmt.Sprintf("; %c", a.Reload)
	if a.Doc != "" {
		text += "; " + a.Doc
	}
	if len(r.Only) > 0 {
		text += fmt.Sprintf("; this build supports only `%s` (not in it: %s)", strings.Join(r.Only, "`, `"), r.What)
	}
	return text + " [" + a.Serves + "]"
}

// ReferenceValue returns the reference as EDN, with one map per attribute. block and the error are
// those of Reference.
func ReferenceValue(block string) (edn.Value, error) {
	at, path, err := findBlock(block)
	if err != nil {
		return edn.Nil(), err
	}
	var rows []edn.Value
	referenceRows(at, path, &rows)
	return edn.Vector(rows...), nil
}

func referenceRows(block *language.Block, path string, rows *[]edn.Value) {
	for i := range block.Attrs {
		a := &block.Attrs[i]
		var b, profiles edn.MapBuilder
		for p, d := range a.Profiles {
			profiles.Set(edn.Text(p), edn.Text(d))
		}
		r, reserved := language.ReservedAt(language.Join(path, a.Name))
		b.Key("path", edn.Text(language.Join(path, a.Name)))
		b.Key("type", edn.Text(a.Type.String()))
		b.Key("required?", edn.Bool(a.Required))
		b.Key("default", diag.TextOrNil(a.Default))
		b.Key("profiles", profiles.Map())
		b.Key("reload", edn.K(string(a.Reload)))
		b.Key("serves", edn.Text(a.Serves))
		b.Key("doc", diag.TextOrNil(a.Doc))
		b.Key("supported?", edn.Bool(!reserved || r.Partly()))
		*rows = append(*rows, b.Map())
	}
	for i := range block.Variants {
		v := &block.Variants[i]
		referenceRows(v, path+" "+v.Only, rows)
	}
	for i := range block.Blocks {
		inner := language.Join(path, block.Blocks[i].Name)
		if r, ok := language.ReservedAt(inner); !ok || r.Partly() {
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

// PluginReference returns the reference of the config block of a plugin from its advertised schema,
// as Markdown and as EDN. The error is an *UnknownPathError for an unknown plugin, and
// config/plugin-unknown for one that is disabled or was not described.
func PluginReference(c *config.Config, name string) (string, edn.Value, error) {
	p := c.Plugin(name)
	switch {
	case p == nil:
		var names []string
		for _, p := range c.Plugins {
			names = append(names, p.Name)
		}
		return "", edn.Nil(), &UnknownPathError{Path: "plugin." + name, Nearest: diag.Nearest(name, names)}
	case !p.Enabled:
		return "", edn.Nil(), contract.Errorf("config/plugin-unknown",
			"plugin %s is disabled: its configuration schema is not known", diag.Quote(name)).
			WithHint("set enabled = true in its block")
	case !p.Described:
		return "", edn.Nil(), contract.Errorf("config/plugin-unknown",
			"plugin %s was not described: its configuration schema is not known", diag.Quote(name)).
			WithHint("run ferment validate to see why")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# config of plugin %s (%s %s)\n\n", diag.Quote(name), p.Description.Name, p.Description.Version)
	if p.Lowered == nil {
		b.WriteString("The plugin accepts no configuration.\n")
		return b.String(), edn.Nil(), nil
	}
	pluginEntries(&b, p.Lowered, p.Lowered.Schema.Root, "")
	return b.String(), p.Description.ConfigSchema, nil
}

func pluginEntries(b *strings.Builder, l *decode.Lowering, s *schema.Schema, at string) {
	var blocks []schema.Entry
	for _, e := range s.Entries() {
		if e.Props.Block {
			blocks = append(blocks, e)
			continue
		}
		fmt.Fprintf(b, "- `%s`: %s\n", language.HCLName(language.ScalarText(e.Key)), pluginEntry(l, e))
	}
	for _, e := range blocks {
		name := language.Join(at, language.HCLName(language.ScalarText(e.Key)))
		inner := e.Schema.Deref()
		title := name
		for i := range e.Props.Labels {
			title += fmt.Sprintf(" %q", strings.ToUpper(syntax.LabelNames[i]))
			inner = inner.Children()[1].Deref()
		}
		fmt.Fprintf(b, "\n## `%s`\n\n", title)
		if e.Props.Doc != "" {
			fmt.Fprintf(b, "%s.\n\n", upperFirst(e.Props.Doc))
		}
		if inner.Kind() == schema.KindMap {
			pluginEntries(b, l, inner, name)
		} else {
			b.WriteString("The block accepts attributes of any name.\n")
		}
	}
}

func pluginEntry(l *decode.Lowering, e schema.Entry) string {
	text, _, _ := strings.Cut(l.Describe(e), " ("+l.Schema.By)
	if t, ok := decode.UnitType(e); ok {
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
			conds = append(conds, language.HCLName(language.ScalarText(k))+" = "+v.String())
		}
		slices.Sort(conds)
		text += "; only with " + strings.Join(conds, ", ")
	}
	if e.Props.Deprecated {
		text += "; deprecated"
	}
	return text
}
