package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Describer returns the description of a plugin. With a nil config the
// description is that of the unconfigured plugin, which includes its configuration
// schema. A load calls it once per plugin and configuration.
type Describer interface {
	Describe(ctx context.Context, p Plugin, config edn.Value) (contract.Description, error)
}

// Hasher is a Describer that also hashes programs and caches the hashes, which are
// those of plugin.HashProgram.
type Hasher interface {
	Hash(program string, files []string) (string, error)
}

// Findings is returned by a Describer if the plugin rejects a configuration that
// fits its schema. The loader adds the places.
type Findings []schema.Finding

// Error implements error.
func (f Findings) Error() string {
	if len(f) == 0 {
		return "the plugin refuses its configuration"
	}
	return "the plugin refuses its configuration: " + f[0].Message
}

// MaxDescription is the maximum size of a plugin description in bytes.
const MaxDescription = 1 << 20

// ErrNotStarted is returned by a Describer that has no cached description and may
// not start the plugin. The plugin is then not checked, with a warning.
var ErrNotStarted = errors.New("the plugin was not started")

// Plugin is one plugin block with its defaults and the description of the plugin.
// It is immutable.
type Plugin struct {
	Name    string
	Where   string // "file:line:column" of the block
	Command []string
	Files   []string // absolute
	Enabled bool
	// Disabled is the reason why the plugin is disabled; nil if it is enabled.
	Disabled *contract.Error
	Optional bool
	Env      map[string]string
	EnvPass  []string
	Workdir  string // absolute; empty: a private scratch directory

	StartTimeout, ConfigureTimeout time.Duration
	StopGrace, DrainTimeout        time.Duration
	MaxInFlight                    int // 0: the advertised limit
	Queue                          int
	MaxMessage                     int    // bytes; 0: the limit of the wire contract
	Encoding                       string // "edn", "json" or empty
	Mux                            bool   // multiplex calls over one stream
	CallDepth                      int
	LogLevel                       string
	Restart                        Restart
	Health                         Health
	Instances                      Instances
	Swap                           Swap
	Needs                          []string // needs that the block allows; nil: all
	Isolation                      plugin.Isolation

	// Config is the resolved configuration, with nil for every secret; nil if
	// the plugin has no configuration or was not described.
	Config  edn.Value
	Secrets []SecretAt
	// Reads are the files that Config names.
	Reads []string
	// Binary is the hash of the program and of Files, "b3:..", empty if they
	// cannot be read.
	Binary string
	Hashes Hashes
	// Wanted is the version constraint; empty: any version.
	Wanted string
	// Lock compares the program with the lock file. Startable reports whether the
	// program may be started.
	Lock      LockState
	Startable bool
	// Description is the answer of Describe with Config; Described is false if
	// Describe was not called or failed.
	Description contract.Description
	Described   bool
	// Unusable is the defect that keeps an optional plugin from being started;
	// its capabilities are registered but not ready. Nil: no defect.
	Unusable *contract.Error

	// Attached is the file that describes the running process of an attached
	// plugin; empty: the host starts the plugin.
	Attached string

	env    func(string) (string, bool)
	places func(path []edn.Value) *Range
	low    *lowering         // how Config was decoded
	priced bool              // its models have prices
	key    string            // see Key
	hashes map[string]string // of Reads
}

// Restart holds the restart settings of a plugin (SUP-005).
type Restart struct {
	Policy                      string
	Max                         int
	Window, Backoff, MaxBackoff time.Duration
	Jitter                      float64
	ResetAfter                  time.Duration
}

// Instances holds the process pool settings of a plugin (SUP-007).
type Instances struct {
	Min, Max, Standby int
	IdleTTL           time.Duration // 0: never stopped
	MaxCalls          int           // 0: no limit
	Pin               string        // "none" or "session"
}

// Swap holds the settings for replacing a plugin by a new version (SUP-006).
type Swap struct {
	Mode       string // "direct", "shadow" or "canary"
	Share      float64
	MinSamples int
	Timeout    time.Duration
}

// Health holds the health probe settings of a plugin (SUP-003).
type Health struct {
	Interval, Timeout time.Duration
	Misses            int
	ReadyTimeout      time.Duration
}

// Place returns the place of a part of the plugin's configuration, for problems
// that the plugin itself reports; nil if it is unknown.
func (p Plugin) Place(path []edn.Value) *Range {
	if p.places == nil {
		return nil
	}
	return p.places(path)
}

// reader reads the plugin blocks of a configuration. It is not safe for concurrent use.
type reader struct {
	*document
	Plugins []Plugin // in the order of the blocks
	ctx     context.Context
	opts    readerOptions
	set     *fileSet
	hashes  map[string]string // of programs
	prints  map[string]string // keyed hashes of secrets, by handle
	locked  locked
	prices  *pricelist.List // nil: not read yet
}

// readPlugins reads the lock file and describes the plugins.
func readPlugins(ctx context.Context, d *document, set *fileSet, opts readerOptions) *reader {
	r := &reader{
		document: d,
		ctx:      ctx,
		opts:     opts,
		set:      set,
		hashes:   map[string]string{},
		prints:   map[string]string{},
	}
	r.readLock()
	for _, s := range r.all("plugin") {
		p := r.plugin(s)
		if p.Enabled && !p.Optional {
			r.onDisk(s.block("isolation"), "exec", anything)
		}
		r.describe(s, &p)
		r.descriptionLocked(s, &p)
		r.identify(s, &p)
		r.Plugins = append(r.Plugins, p)
	}
	return r
}

// printer returns the printer of values of the configuration.
func (r *reader) printer() printer { return printer{root: r.dir} }

// plugin returns the settings of one plugin block.
func (r *reader) plugin(s *section) Plugin {
	restart, health := s.block("restart"), s.block("health")
	instances, swap := s.block("instances"), s.block("swap")
	p := Plugin{
		Name:             s.label(),
		Where:            s.where(),
		Enabled:          s.flag("enabled"),
		Optional:         s.flag("optional"),
		Env:              s.mapping("env"),
		Workdir:          s.text("workdir"),
		StartTimeout:     s.duration("start_timeout"),
		ConfigureTimeout: s.duration("configure_timeout"),
		StopGrace:        s.duration("stop_grace"),
		DrainTimeout:     s.duration("drain_timeout"),
		MaxInFlight:      s.integer("max_in_flight"),
		Queue:            s.integer("queue"),
		MaxMessage:       s.integer("max_message"),
		Encoding:         s.text("encoding"),
		Mux:              s.flag("mux"),
		CallDepth:        s.integer("call_depth"),
		LogLevel:         s.text("log_level"),
		env:              r.set.Lookup,
		Restart: Restart{
			Policy:     restart.text("policy"),
			Max:        restart.integer("max"),
			Window:     restart.duration("window"),
			Backoff:    restart.duration("backoff"),
			MaxBackoff: restart.duration("max_backoff"),
			Jitter:     restart.number("jitter"),
			ResetAfter: restart.duration("reset_after"),
		},
		Health: Health{
			Interval:     health.duration("interval"),
			Timeout:      health.duration("timeout"),
			Misses:       health.integer("misses"),
			ReadyTimeout: health.duration("ready_timeout"),
		},
		Instances: Instances{
			Min:      instances.integer("min"),
			Max:      instances.integer("max"),
			Standby:  instances.integer("standby"),
			IdleTTL:  instances.duration("idle_ttl"),
			MaxCalls: instances.integer("max_calls"),
			Pin:      instances.text("pin"),
		},
		Swap: Swap{
			Mode:       swap.text("mode"),
			Share:      swap.number("share"),
			MinSamples: swap.integer("min_samples"),
			Timeout:    swap.duration("timeout"),
		},
	}
	p.Disabled = r.whyDisabled(s)
	p.Wanted = s.text("version")
	p.Needs, _ = s.texts("needs")
	p.Isolation = r.isolation(s.block("isolation"))
	p.Command, _ = s.texts("command")
	p.Files, _ = s.texts("files")
	p.EnvPass, _ = s.texts("env_pass")
	return p
}

// describe obtains the description of a plugin and decodes its config block with
// the advertised schema. Without a description only the names in the block are
// checked.
func (r *reader) describe(s *section, p *Plugin) {
	decoded := false
	config := configBlock(s)
	if config != nil {
		defer func() {
			if !decoded {
				r.names(config.layers, config.path)
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
	if r.opts.Describer == nil {
		r.unchecked(s, p, "it was not described")
		return
	}
	bare, err := r.ask(*p, edn.Nil())
	if err != nil {
		r.undescribed(s, p, err)
		return
	}
	if s.node.damaged && config == nil || s.unread("enabled") {
		r.usual(p, bare, s.at())
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
	own, err := readPluginSchema(bare.ConfigSchema, by)
	if err != nil {
		r.defect(p, Diagnostic{
			Message: fmt.Sprintf("plugin %s cannot be used: %s", quote(p.Name), err),
			Range:   s.at(),
			Path:    s.node.path,
			Hint:    "this is a defect of the plugin",
		})
		if p.Unusable != nil {
			r.usual(p, bare, s.at())
		}
		return
	}
	low := &lowering{decoder: r.decoder, plugin: p.Name, schema: own, written: map[string]*attribute{},
		inputsOf: map[string][]string{}}
	var layers []layer
	header := s.at()
	if config != nil {
		layers, header = config.layers, config.source.hclRange(config.header)
	}
	value := low.lower(layers, header)
	decoded = true
	if !low.good {
		r.usual(p, bare, header)
		return
	}
	p.Config, p.Secrets, p.Reads, p.low = value, low.secrets, low.files, low
	r.equip(bare, p)
	r.price(own, p)
	value = p.Config
	p.places = func(path []edn.Value) *Range { return low.place([]string{"plugin", p.Name, "config"}, path) }
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

// usual sets the description of a plugin whose config block is invalid: the names that do not depend on the
// configuration are still used to check references.
func (r *reader) usual(p *Plugin, bare contract.Description, at *Range) {
	p.Description = bare
	own, err := readPluginSchema(bare.ConfigSchema, "")
	if len(bare.Capabilities) == 0 && err == nil && own.hasDefaults() {
		low := &lowering{
			decoder:  r.decoder,
			plugin:   p.Name,
			schema:   own,
			written:  map[string]*attribute{},
			inputsOf: map[string][]string{},
		}
		if d, err := r.ask(*p, low.lower(nil, at)); err == nil {
			p.Description = d
		}
	}
	p.Described = len(p.Description.Capabilities) > 0
}

// Starts reports whether the host starts processes of the plugin.
func (p *Plugin) Starts() bool { return p.Enabled && p.Described && p.Unusable == nil }

// defect reports a problem with the description of a plugin. An optional plugin
// with a defect is not started; the configuration remains usable.
func (r *reader) defect(p *Plugin, d Diagnostic) {
	d.Type = "capability/invalid-metadata"
	if p.Optional {
		d.Severity = SeverityWarning
		p.Unusable = contract.Errorf(d.Type, "%s", d.Message)
		if d.Hint != "" {
			p.Unusable = p.Unusable.WithHint(d.Hint)
		}
	}
	r.report.add(d)
}

// names reports unknown functions, locals and variables in a config block that is not decoded because its plugin is
// disabled or was not described. Nothing is evaluated, so environment variables and secrets may be missing.
func (r *reader) names(layers []layer, path []string) {
	p := partsOf(layers, nil, newCollector(sources{}))
	for _, name := range slices.Sorted(maps.Keys(p.attrs)) {
		a := p.attrs[name]
		r.decoder.context(a.expr, a.source, append(slices.Clone(path), name))
	}
	for _, name := range slices.Sorted(maps.Keys(p.blocks)) {
		for _, b := range p.blocks[name] {
			r.names(b.layers, append(append(slices.Clone(path), name), b.labels...))
		}
	}
}

func configBlock(s *section) *node {
	if blocks := s.node.children("config"); len(blocks) > 0 {
		return blocks[0]
	}
	return nil
}

func (r *reader) ask(p Plugin, config edn.Value) (contract.Description, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.describeTimeout(p))
	defer cancel()
	d, err := r.opts.Describer.Describe(ctx, p, config)
	switch {
	case err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
		return d, fmt.Errorf("it gave no answer within %s", r.opts.DescribeTimeout)
	case err != nil:
		return d, err
	}
	if n := len(d.Value().Canonical()); n > MaxDescription {
		return d, contract.Errorf("capability/invalid-metadata", "its description has %d bytes, over the limit of %s",
			n, formatBytes(MaxDescription))
	}
	return d, nil
}

// present checks that the program and its files exist and hashes them. All missing
// files are reported before anything is hashed.
func (r *reader) present(s *section, p *Plugin) bool {
	good := r.fileOf(s, p, "command", p.Command[0], 0)
	for i, name := range p.Files {
		good = r.fileOf(s, p, "files", name, i) && good
	}
	if info, err := os.Stat(p.Workdir); p.Workdir != "" && (err != nil || !info.IsDir()) {
		r.lacks(s, p, "workdir", 0, Diagnostic{Message: printedName(r.dir, p.Workdir) + " is not a directory"})
		good = false
	}
	if !good {
		return false
	}
	hash, err := r.binaryHash(p.Command[0], p.Files)
	if err == nil {
		err = r.hashesOf(p)
	}
	if err != nil {
		r.lacks(s, p, "command", 0, Diagnostic{Message: cause(err)})
		return false
	}
	p.Binary = hash
	return true
}

// fileOf reports an item of an attribute that does not name a regular file.
func (r *reader) fileOf(s *section, p *Plugin, attr, name string, item int) bool {
	_, err := regular(os.Stat(name))
	if err == nil {
		return true
	}
	what := "cannot be used: " + cause(err)
	if errors.As(err, new(irregularError)) {
		what = err.Error()
	}
	d := Diagnostic{Message: printedName(r.dir, name) + " " + what}
	if program, args, ok := strings.Cut(name, " "); ok && item == 0 && attr == "command" && isFile(program) {
		d.Hint = "write one member per argument: [" + spellText(printedName(r.dir, program))
		for _, arg := range strings.Fields(args) {
			d.Hint += ", " + spellText(arg)
		}
		d.Hint += "]"
	} else if near := Neighbour(name, err); near != "" {
		d.Message += "; did you mean " + printedName(r.dir, near) + "?"
	} else if base := filepath.Base(name); filepath.Join(r.dir, base) == name && attr == "command" {
		if found := r.executable(base); len(found) > 0 {
			d.Hint = fmt.Sprintf("PATH is not searched: name the program by its path, such as %s", quote(found[0]))
		}
	}
	r.lacks(s, p, attr, item, d)
	return false
}

// lacks reports a missing file of a program at the item of the attribute that
// names it.
func (r *reader) lacks(s *section, p *Plugin, attr string, item int, d Diagnostic) {
	v := s.attrs[attr]
	d.Type, d.Message = "config/plugin-unknown", fmt.Sprintf("plugin %s: %s", quote(p.Name), d.Message)
	d.Range, d.Path = v.rng, append(slices.Clone(s.node.path), attr)
	if item < len(v.items) && v.items[item].rng != nil {
		d.Range = v.items[item].rng
	}
	hints := map[string]string{
		"command": "build or install it, or set enabled = false",
		"files":   "add the file, or remove it from files",
		"workdir": "make the directory, or correct the path",
	}
	d.Hint = cmp.Or(d.Hint, hints[attr])
	if p.Optional {
		d.Severity = SeverityWarning
	}
	r.report.add(d)
}

// binaryHash hashes a program once per load, also if several plugins run it.
func (r *reader) binaryHash(program string, files []string) (string, error) {
	key := strings.Join(append([]string{program}, files...), "\x00")
	if hash, ok := r.hashes[key]; ok {
		return hash, nil
	}
	hash, err := "", error(nil)
	if h, ok := r.opts.Describer.(Hasher); ok {
		hash, err = h.Hash(program, files)
	} else {
		hash, err = plugin.HashProgram(program, files)
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be used: %s", printedName(r.dir, program), cause(err))
	}
	r.hashes[key] = hash
	return hash, nil
}

func (r *reader) unchecked(s *section, p *Plugin, why string) {
	r.report.add(Diagnostic{
		Type:     "config/plugin-unknown",
		Severity: SeverityWarning,
		Message:  fmt.Sprintf("plugin %s is not checked: %s", quote(p.Name), why),
		Range:    s.at(),
		Path:     s.node.path,
	})
}

// whole returns an error in one line, not shortened: the reason why a program does not start must be complete.
func whole(err error) string {
	const most = 400
	text := strings.Join(strings.Fields(err.Error()), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}

func (r *reader) undescribed(s *section, p *Plugin, err error) {
	if errors.Is(err, ErrNotStarted) {
		r.notStarted(s, p)
		return
	}
	d := Diagnostic{
		Type:    "config/plugin-unknown",
		Message: fmt.Sprintf("plugin %s cannot be described: %s", quote(p.Name), whole(err)),
		Range:   s.at(),
		Path:    s.node.path,
		Hint: fmt.Sprintf("\"ferment conform -- %s\" shows what it does wrong; enabled = false leaves it out",
			printedName(r.dir, p.Command[0])),
	}
	if e := contract.AsError(err); e != nil && e.Type == "capability/invalid-metadata" {
		d.Type, d.Message, d.Hint = e.Type,
			fmt.Sprintf("plugin %s cannot be used: %s", quote(p.Name), short(e.Message)),
			"this is a defect of the plugin"
	}
	if p.Optional {
		d.Severity = SeverityWarning
	}
	if e := contract.AsError(err); e != nil && e.Type == "config/plugin-schema" {
		d.Type, d.Message = e.Type, fmt.Sprintf("config of plugin %s: %s", quote(p.Name), short(e.Message))
		if config := configBlock(s); config != nil {
			d.Range, d.Path = config.source.hclRange(config.header), config.path
		}
	}
	r.report.add(d)
}

// refused reports the findings of the plugin itself at the values that they are about.
func (r *reader) refused(p *Plugin, found Findings) {
	for _, f := range found {
		path := []string{"plugin", p.Name, "config"}
		for _, k := range f.Path {
			path = append(path, hclName(scalarText(k)))
		}
		name := cmp.Or(strings.TrimPrefix(partName(f.Path), "."), "it")
		d := Diagnostic{
			Type:    "config/plugin-schema",
			Message: fmt.Sprintf("config of plugin %s: %s %s", quote(p.Name), name, f.Message),
			Range:   p.Place(f.Path),
			Path:    path,
			Hint:    "ferment plugin inspect " + p.Name,
		}
		if !f.Expected.IsNil() {
			d.Expected, d.Found = edn.Text(inWords(f.Expected)), f.Got
		}
		r.report.add(r.absentPath(p, f.Path, d))
	}
}

// absentPath rewords a plugin's diagnostic about a missing path: the plugin knows neither the original spelling nor
// similar files nearby.
func (r *reader) absentPath(p *Plugin, path []edn.Value, d Diagnostic) Diagnostic {
	at, _ := p.Config.GetIn(path...)
	name, isText := at.AsString()
	if !isText || !slices.Contains(p.Reads, name) {
		return d
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return d
	}
	d.Message = fmt.Sprintf("%s names %s, which is not there", subject(d.Path), quote(printedName(r.dir, name)))
	d.Nearest, d.Hint = r.neighbour(name)
	return d
}

func (r *reader) noConfig(config *node, p *Plugin) {
	if config == nil {
		return
	}
	parts := partsOf(config.layers, nil, r.report)
	if len(parts.attrs)+len(parts.blocks) == 0 {
		return
	}
	r.report.add(Diagnostic{
		Type:    "config/plugin-schema",
		Message: fmt.Sprintf("plugin %s accepts no configuration", quote(p.Name)),
		Range:   config.source.hclRange(config.header),
		Path:    config.path,
		Hint:    "remove the block",
	})
}

// accepts compares the version of the plugin with the constraint of the block.
func (r *reader) accepts(s *section, p *Plugin) {
	if !s.written("version") {
		return
	}
	wanted, err := parseConstraint(s.text("version"))
	have, ok := parseVersion(p.Description.Version)
	if err == nil && (!ok || !wanted.allows(have)) {
		r.report.add(Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("plugin %s has version %s", quote(p.Name), p.Description.Version),
			Range:    s.attrs["version"].rng,
			Path:     append(slices.Clone(s.node.path), "version"),
			Expected: edn.Text(s.text("version")),
			Found:    edn.Text(p.Description.Version),
		})
	}
}

// secretsOf checks that the secrets of a plugin exist, without keeping their values.
func (r *reader) secretsOf(p *Plugin) {
	for _, s := range p.Secrets {
		r.secretThere(s, "config of plugin "+quote(p.Name), []string{"plugin", p.Name, "config"})
	}
}

// secretThere reports a missing secret; subject is the attribute that refers to it.
func (r *reader) secretThere(s SecretAt, subject string, path []string) {
	r.exposed(s.Secret, path, s.At)
	text, err := s.Secret.Read(r.set.Lookup)
	if err == nil {
		r.fingerprint(s.Secret, text)
		return
	}
	d := Diagnostic{Type: "config/secret-missing", Message: subject + ": " + err.Error(), Range: s.At, Path: path}
	if errors.Is(err, errNoSecret) {
		if s.Secret.Kind == "file" {
			d.Nearest, d.Hint = r.neighbour(s.Secret.path)
		} else {
			d.Nearest = nearest(s.Secret.Name, slices.Sorted(maps.Keys(r.set.Variables)))
			d.Hint = cmp.Or(meant(d.Nearest),
				"set it where the host starts, or in a file .env beside the configuration")
		}
		if !s.needed {
			d.Severity = SeverityWarning
		}
	}
	r.report.add(d)
}

// bodyText returns the text of a foreign block, which is decoded only if its
// plugin is described.
func bodyText(n *node) string {
	var lines []string
	for _, each := range n.layers {
		p := partsOf([]layer{each}, nil, newCollector(sources{}))
		for name, a := range p.attrs {
			lines = append(lines, name+"="+sameLayout([]byte(sourceText(a.source, a.expr))))
		}
		for name, blocks := range p.blocks {
			for _, b := range blocks {
				native, ok := b.layers[0].body.(*hclsyntax.Body)
				if ok && native.SrcRange.CanSliceBytes(b.source.text) {
					lines = append(lines, strings.Join(append([]string{name}, b.labels...),
						" ")+" { "+sameLayout(native.SrcRange.SliceBytes(b.source.text))+" }")
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sameLayout returns a text without comments and enclosing braces and with one
// space between tokens, so texts that differ only in layout are equal.
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

// SecretTexts reads the secrets of the plugin. It returns a map from the path of
// each secret in the configuration, a vector, to its text. Missing secrets are
// omitted; the plugin reports them.
func (p Plugin) SecretTexts() (edn.Value, error) {
	var b edn.MapBuilder
	for _, at := range p.Secrets {
		text, err := at.Secret.Read(p.env)
		if errors.Is(err, errNoSecret) {
			continue
		}
		if err != nil {
			return edn.Nil(), fmt.Errorf("configuration of plugin %s: %w", p.Name, err)
		}
		b.Set(edn.Vector(at.Path...), edn.Text(text))
	}
	return b.Map(), nil
}

// exposed warns about a secret from an .env file that other users may read.
func (r *reader) exposed(s Secret, path []string, at *Range) {
	if s.Kind != "env" {
		return
	}
	if _, ok := r.opts.Env(s.Name); ok {
		return
	}
	if v, ok := r.set.Variables[s.Name]; ok && v.open {
		r.report.add(Diagnostic{
			Type:     "config/secret-missing",
			Severity: SeverityWarning,
			Message:  fmt.Sprintf("secret env:%s comes from a file that other users may read", s.Name),
			Range:    at,
			Path:     path,
			Related:  []Related{{Range: v.at, Message: "sets it"}},
			Hint:     "chmod 600 " + v.at.File,
		})
	}
}

// runs reports whether the plugin is enabled and its program exists.
func (p *Plugin) runs() bool { return p.Enabled && p.Binary != "" }
