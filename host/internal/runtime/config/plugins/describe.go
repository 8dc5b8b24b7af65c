package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Describer returns the description of a plugin. With a nil config it returns that of the
// unconfigured plugin, which includes its configuration schema. A load calls it once per plugin and
// configuration.
type Describer interface {
	Describe(ctx context.Context, p Plugin, config edn.Value) (contract.Description, error)
}

// Hasher is implemented by a Describer that also hashes programs and caches the hashes, which are
// those of plugin.HashProgram.
type Hasher interface {
	Hash(program string, files []string) (string, error)
}

// Findings is the error of a Describer if the plugin rejects a configuration that fits its schema.
// The loader adds the places.
type Findings []schema.Finding

// Error implements error.
func (f Findings) Error() string {
	if len(f) == 0 {
		return "the plugin refuses its configuration"
	}
	return "the plugin refuses its configuration: " + f[0].Message
}

// ErrNotStarted is the error of a Describer that has no cached description and may not start the
// plugin. The plugin is then not checked, with a warning.
var ErrNotStarted = errors.New("the plugin was not started")

// Reader reads the plugin blocks of a configuration. It is not safe for concurrent use.
type Reader struct {
	*decode.Document
	Plugins []Plugin // in the order of the blocks
	ctx     context.Context
	Options Options
	Set     *files.Set
	hashes  map[string]string // of programs and their files
	Prints  map[string]string // keyed hashes of secrets, by handle
	locked  locked
	prices  *pricelist.List // nil: not read yet
}

// Read reads the lock file and describes the plugins. Problems are reported to the Document.
func Read(ctx context.Context, d *decode.Document, set *files.Set, opts Options) *Reader {
	r := &Reader{
		Document: d,
		ctx:      ctx,
		Options:  opts,
		Set:      set,
		hashes:   map[string]string{},
		Prints:   map[string]string{},
	}
	r.readLock()
	for _, s := range r.All("plugin") {
		p := r.plugin(s)
		if r.Options.Recorded != nil {
			r.recorded(s, &p)
			r.Plugins = append(r.Plugins, p)
			continue
		}
		if p.Enabled && !p.Optional {
			r.OnDisk(s.Block("isolation"), "exec", decode.Anything)
		}
		r.describe(s, &p)
		r.descriptionLocked(s, &p)
		r.identify(s, &p)
		r.Plugins = append(r.Plugins, p)
	}
	return r
}

func (r *Reader) printer() decode.Printer { return decode.Printer{Root: r.Dir} }

// plugin returns the settings of a plugin block.
func (r *Reader) plugin(s *decode.Section) Plugin {
	restart, health := s.Block("restart"), s.Block("health")
	instances, swap := s.Block("instances"), s.Block("swap")
	p := Plugin{
		Name:             s.Label(),
		Where:            s.Where(),
		Enabled:          s.Flag("enabled"),
		Optional:         s.Flag("optional"),
		Env:              s.Mapping("env"),
		Workdir:          s.Text("workdir"),
		StartTimeout:     s.Duration("start_timeout"),
		ConfigureTimeout: s.Duration("configure_timeout"),
		StopGrace:        s.Duration("stop_grace"),
		DrainTimeout:     s.Duration("drain_timeout"),
		MaxInFlight:      s.Integer("max_in_flight"),
		Queue:            s.Integer("queue"),
		MaxMessage:       s.Integer("max_message"),
		Encoding:         s.Text("encoding"),
		Mux:              s.Flag("mux"),
		CallDepth:        s.Integer("call_depth"),
		LogLevel:         s.Text("log_level"),
		env:              r.Set.Lookup,
		Restart: Restart{
			Policy:     restart.Text("policy"),
			Max:        restart.Integer("max"),
			Window:     restart.Duration("window"),
			Backoff:    restart.Duration("backoff"),
			MaxBackoff: restart.Duration("max_backoff"),
			Jitter:     restart.Number("jitter"),
			ResetAfter: restart.Duration("reset_after"),
		},
		Health: Health{
			Interval:     health.Duration("interval"),
			Timeout:      health.Duration("timeout"),
			Misses:       health.Integer("misses"),
			ReadyTimeout: health.Duration("ready_timeout"),
		},
		Instances: Instances{
			Min:      instances.Integer("min"),
			Max:      instances.Integer("max"),
			Standby:  instances.Integer("standby"),
			IdleTTL:  instances.Duration("idle_ttl"),
			MaxCalls: instances.Integer("max_calls"),
			Pin:      instances.Text("pin"),
		},
		Swap: Swap{
			Mode:       swap.Text("mode"),
			Share:      swap.Number("share"),
			MinSamples: swap.Integer("min_samples"),
			Timeout:    swap.Duration("timeout"),
		},
	}
	p.Disabled = r.whyDisabled(s)
	p.Wanted = s.Text("version")
	p.Needs, _ = s.Texts("needs")
	p.Isolation = r.isolation(s.Block("isolation"))
	p.Command, _ = s.Texts("command")
	p.Files, _ = s.Texts("files")
	p.EnvPass, _ = s.Texts("env_pass")
	p.Operations, _ = s.Texts("operations")
	return p
}

// describe gets the description of a plugin and decodes its config block with the schema in it.
// Without a description only the names in the block are checked.
func (r *Reader) describe(s *decode.Section, p *Plugin) {
	decoded := false
	config := ConfigBlock(s)
	if config != nil {
		defer func() {
			if !decoded {
				r.names(config.Layers, config.Path)
			}
		}()
	}
	if !p.Enabled || len(p.Command) == 0 {
		return
	}
	if !r.installed(s, p) || !r.attach(s, p) || !r.present(s, p) {
		return
	}
	r.programLocked(s, p)
	if r.Options.Describer == nil {
		r.unchecked(s, p, "it was not described")
		return
	}
	bare, err := r.ask(*p, edn.Nil())
	if err != nil {
		r.undescribed(s, p, err)
		return
	}
	if s.Node.Damaged && config == nil || s.Unread("enabled") {
		r.usual(p, bare, s.At())
		return
	}
	by := fmt.Sprintf("%s %s, binary %s", bare.Name, bare.Version, p.Binary[:min(len(p.Binary), len("b3:")+8)])
	if bare.ConfigSchema.IsNil() {
		r.noConfig(config, p)
		p.Description, p.Described = bare, true
		r.accepts(s, p)
		r.granted(s, p)
		return
	}
	own, err := decode.ReadPluginSchema(bare.ConfigSchema, by)
	if err != nil {
		r.Defect(p, diag.Diagnostic{
			Message: fmt.Sprintf("plugin %s cannot be used: %s", diag.Quote(p.Name), err),
			Range:   s.At(),
			Path:    s.Node.Path,
			Hint:    "this is a defect of the plugin: use another version of it, or set enabled = false in its block",
		})
		if p.Unusable != nil {
			r.usual(p, bare, s.At())
		}
		return
	}
	low := &decode.Lowering{Decoder: r.Decoder, Plugin: p.Name, Schema: own, Written: map[string]*syntax.Attribute{},
		InputsOf: map[string][]string{}}
	var layers []syntax.Layer
	header := s.At()
	if config != nil {
		layers, header = config.Layers, config.Source.Range(config.Header)
	}
	value := low.Lower(layers, header)
	decoded = true
	if !low.Good {
		r.usual(p, bare, header)
		return
	}
	p.Config, p.Secrets, p.Reads, p.Lowered = value, low.Secrets, low.Files, low
	r.equip(bare, p)
	r.price(own, p)
	value = p.Config
	p.places = func(path []edn.Value) *diag.Range { return low.Place([]string{"plugin", p.Name, "config"}, path) }
	r.secretsOf(p)
	full, err := r.ask(*p, value)
	var refused Findings
	if errors.As(err, &refused) {
		r.refused(p, refused)
		r.usual(p, bare, header)
		return
	}
	if err != nil {
		r.undescribed(s, p, err)
		return
	}
	p.Description, p.Described = full, true
	r.accepts(s, p)
	r.granted(s, p)
}

// recorded sets the description that was recorded with a run. Nothing else of the plugin is needed,
// so keys may be missing: it is enabled even if their variables are not set.
func (r *Reader) recorded(s *decode.Section, p *Plugin) {
	if config := ConfigBlock(s); config != nil {
		r.names(config.Layers, config.Path)
	}
	description, known := r.Options.Recorded[p.Name]
	switch {
	case !p.Enabled && !errors.Is(p.Disabled, contract.OfType("provider/not-configured")):
	case known:
		p.Description, p.Described = description, true
		p.Enabled, p.Disabled = true, nil
		r.accepts(s, p)
	case p.Enabled:
		r.unchecked(s, p, "its description was not recorded")
	}
}

// usual sets the description of a plugin whose config block is invalid. Names that do not depend on
// the configuration are then still checked in references.
func (r *Reader) usual(p *Plugin, bare contract.Description, at *diag.Range) {
	p.Description = bare
	own, err := decode.ReadPluginSchema(bare.ConfigSchema, "")
	if len(bare.Capabilities) == 0 && err == nil && own.HasDefaults() {
		low := &decode.Lowering{
			Decoder:  r.Decoder,
			Plugin:   p.Name,
			Schema:   own,
			Written:  map[string]*syntax.Attribute{},
			InputsOf: map[string][]string{},
		}
		if d, err := r.ask(*p, low.Lower(nil, at)); err == nil {
			p.Description = d
		}
	}
	p.Described = len(p.Description.Capabilities) > 0
}

// Defect reports an error in the description of a plugin. For an optional plugin it is a warning,
// and the plugin is not started.
func (r *Reader) Defect(p *Plugin, d diag.Diagnostic) {
	d.Type = "capability/invalid-metadata"
	if p.Optional {
		d.Severity = diag.SeverityWarning
		p.Unusable = contract.Errorf(d.Type, "%s", d.Message)
		if d.Hint != "" {
			p.Unusable = p.Unusable.WithHint(d.Hint)
		}
	}
	r.Report.Add(d)
}

// names reports unknown functions, locals and variables in a config block that is not decoded
// because its plugin is disabled or was not described. Nothing is evaluated, so environment
// variables and secrets may be missing.
func (r *Reader) names(layers []syntax.Layer, path []string) {
	p := syntax.PartsOf(layers, nil, diag.NewCollector(diag.Sources{}))
	for _, name := range slices.Sorted(maps.Keys(p.Attrs)) {
		a := p.Attrs[name]
		r.Decoder.Context(a.Expr, a.Source, append(slices.Clone(path), name))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Blocks)) {
		for _, b := range p.Blocks[name] {
			r.names(b.Layers, append(append(slices.Clone(path), name), b.Labels...))
		}
	}
}

// ConfigBlock returns the config block of a plugin block; nil if there is none.
func ConfigBlock(s *decode.Section) *syntax.Node {
	if blocks := s.Node.Children("config"); len(blocks) > 0 {
		return blocks[0]
	}
	return nil
}

func (r *Reader) ask(p Plugin, config edn.Value) (contract.Description, error) {
	limit := r.describeTimeout(p)
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	d, err := r.Options.Describer.Describe(ctx, p, config)
	switch {
	case err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
		return d, fmt.Errorf("the plugin did not describe itself within %s", limit)
	case err != nil:
		return d, err
	}
	if n := len(d.Value().Canonical()); n > contract.MaxDescription {
		return d, contract.Errorf("capability/invalid-metadata", "its description has %d bytes, over the limit of %s",
			n, language.FormatBytes(contract.MaxDescription))
	}
	if n := schema.PatternInstructions(d.Schemas); n > schema.MaxPatterns {
		return d, contract.Errorf("capability/invalid-metadata",
			"the patterns of its schemas have more than %d instructions", schema.MaxPatterns)
	}
	return d, nil
}

func (r *Reader) undescribed(s *decode.Section, p *Plugin, err error) {
	if errors.Is(err, ErrNotStarted) {
		r.notStarted(s, p)
		return
	}
	why := strings.TrimPrefix(err.Error(), ":"+contract.AsError(err).Type+": ")
	d := diag.Diagnostic{
		Type:    "config/plugin-unknown",
		Message: fmt.Sprintf("plugin %s cannot be described: %s", diag.Quote(p.Name), diag.Sentence(why)),
		Range:   s.At(),
		Path:    s.Node.Path,
		Hint: fmt.Sprintf("`ferment conform -- %s` shows what it does wrong; enabled = false leaves it out",
			launch.ShellLine(append([]string{r.runnable(p.Command[0])}, p.Command[1:]...)...)),
	}
	if hint := r.denied(p, why); hint != "" {
		d.Hint = hint
	}
	if e := contract.AsError(err); e != nil && e.Type == "capability/invalid-metadata" {
		d.Type, d.Message, d.Hint = e.Type,
			fmt.Sprintf("plugin %s cannot be used: %s", diag.Quote(p.Name), diag.Sentence(e.Message)),
			"this is a defect of the plugin: use another version of it, or set enabled = false in its block"
	}
	if p.Optional {
		d.Severity = diag.SeverityWarning
	}
	if e := contract.AsError(err); e != nil && e.Type == "config/plugin-schema" {
		d.Type, d.Message = e.Type, fmt.Sprintf("config of plugin %s: %s", diag.Quote(p.Name), diag.Sentence(e.Message))
		if config := ConfigBlock(s); config != nil {
			d.Range, d.Path = config.Source.Range(config.Header), config.Path
		}
	}
	r.leaveOut(p, d)
}

// accessDenied matches a message about an access that the system denied.
var accessDenied = regexp.MustCompile(`(?i)permission denied|operation not permitted|EACCES|EPERM`)

// quotedPath matches an absolute path, in quotes or up to a blank, a colon or a comma.
var quotedPath = regexp.MustCompile(`'(/[^']+)'|"(/[^"]+)"|(/[^\s'":,]+)`)

// denied returns the hint for a plugin that ended because its isolation does not permit reading a
// file; empty for other reasons. Without isolation, as in conform, such a plugin works.
func (r *Reader) denied(p *Plugin, why string) string {
	if !accessDenied.MatchString(why) || p.Isolation.Level != "" && p.Isolation.Level != confine.Strict {
		return ""
	}
	for _, m := range quotedPath.FindAllStringSubmatch(why, -1) {
		path := cmp.Or(m[1:]...)
		info, err := os.Stat(path)
		if err != nil || path == p.Command[0] || slices.Contains(p.Files, path) {
			continue
		}
		name := diag.Quote(disk.PrintedName(r.Dir, path))
		if info.Mode().IsRegular() {
			return fmt.Sprintf("isolated, it reads only its command, files and read_paths: add %s to files, or its directory"+
				" to read_paths of isolation", name)
		}
		return fmt.Sprintf("isolated, it reads only its command, files and read_paths: add %s to read_paths of isolation",
			name)
	}
	return ""
}

// refused reports the findings of the plugin at the values that they are about.
func (r *Reader) refused(p *Plugin, found Findings) {
	for _, f := range found {
		path := []string{"plugin", p.Name, "config"}
		for _, k := range f.Path {
			path = append(path, language.HCLName(language.ScalarText(k)))
		}
		name := cmp.Or(strings.TrimPrefix(language.PartName(f.Path), "."), "it")
		d := diag.Diagnostic{
			Type:    "config/plugin-schema",
			Message: fmt.Sprintf("config of plugin %s: %s %s", diag.Quote(p.Name), name, f.Message),
			Range:   p.Place(f.Path),
			Path:    path,
			Hint:    "ferment plugin inspect " + p.Name,
		}
		if !f.Expected.IsNil() {
			d.Expected, d.Found = edn.Text(decode.InWords(f.Expected)), f.Got
		}
		r.leaveOut(p, r.absentPath(p, f.Path, d))
	}
}

// absentPath changes the diagnostic of a plugin about a missing path, because the plugin knows
// neither the original spelling nor similar files.
func (r *Reader) absentPath(p *Plugin, path []edn.Value, d diag.Diagnostic) diag.Diagnostic {
	at, _ := p.Config.GetIn(path...)
	name, isText := at.AsString()
	if !isText || !slices.Contains(p.Reads, name) {
		return d
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return d
	}
	d.Message = fmt.Sprintf("%s names %s, which is not there", language.Subject(d.Path),
		diag.Quote(disk.PrintedName(r.Dir, name)))
	d.Nearest, d.Hint = r.Neighbour(name)
	return d
}

func (r *Reader) noConfig(config *syntax.Node, p *Plugin) {
	if config == nil {
		return
	}
	parts := syntax.PartsOf(config.Layers, nil, r.Report)
	if len(parts.Attrs)+len(parts.Blocks) == 0 {
		return
	}
	r.Report.Add(diag.Diagnostic{
		Type:    "config/plugin-schema",
		Message: fmt.Sprintf("plugin %s accepts no configuration", diag.Quote(p.Name)),
		Range:   config.Source.Range(config.Header),
		Path:    config.Path,
		Hint:    "remove the block",
	})
}

// accepts compares the version of the plugin with the constraint of the block.
func (r *Reader) accepts(s *decode.Section, p *Plugin) {
	if !s.Written("version") {
		return
	}
	wanted, err := decode.ParseConstraint(s.Text("version"))
	have, ok := decode.ParseVersion(p.Description.Version)
	if err == nil && (!ok || !wanted.Allows(have)) {
		r.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("plugin %s has version %s", diag.Quote(p.Name), p.Description.Version),
			Range:    s.Attrs["version"].At,
			Path:     append(slices.Clone(s.Node.Path), "version"),
			Expected: edn.Text(s.Text("version")),
			Found:    edn.Text(p.Description.Version),
		})
	}
}

// BodyText returns a normal form of a foreign block for comparisons where the schema of its plugin
// is not known: its attributes and blocks, one per line, sorted, without comments and layout.
func BodyText(n *syntax.Node) string {
	var lines []string
	for _, each := range n.Layers {
		p := syntax.PartsOf([]syntax.Layer{each}, nil, diag.NewCollector(diag.Sources{}))
		for name, a := range p.Attrs {
			lines = append(lines, name+"="+sameLayout([]byte(syntax.SourceText(a.Source, a.Expr))))
		}
		for name, blocks := range p.Blocks {
			for _, b := range blocks {
				native, ok := b.Layers[0].Body.(*hclsyntax.Body)
				if ok && native.SrcRange.CanSliceBytes(b.Source.Text) {
					lines = append(lines, strings.Join(append([]string{name}, b.Labels...),
						" ")+" { "+sameLayout(native.SrcRange.SliceBytes(b.Source.Text))+" }")
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sameLayout returns a text without comments and enclosing braces and with one space between
// tokens, so that texts that differ only in layout are equal.
func sameLayout(text []byte) string {
	tokens, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos) // it has been parsed before
	var words []string
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenEOF:
		default:
			words = append(words, string(t.Bytes))
		}
	}
	if n := len(words); n > 1 && words[0] == "{" && words[n-1] == "}" {
		words = words[1 : n-1] // a single-line body has no braces
	}
	return strings.Join(words, " ")
}
