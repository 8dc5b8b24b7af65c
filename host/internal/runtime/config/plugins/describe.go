package plugins

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
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
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
	Operations                     []string // permitted to its calls and plans
	Isolation                      plugin.Isolation

	// Config is the resolved configuration, with nil for every secret; nil if
	// the plugin has no configuration or was not described.
	Config  edn.Value
	Secrets []decode.SecretAt
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
	Lock      lock.State
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

	env     func(string) (string, bool)
	places  func(path []edn.Value) *diag.Range
	Lowered *decode.Lowering  // how Config was decoded
	priced  bool              // its models have prices
	key     string            // see Key
	hashes  map[string]string // of Reads
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
func (p Plugin) Place(path []edn.Value) *diag.Range {
	if p.places == nil {
		return nil
	}
	return p.places(path)
}

// Reader reads the plugin blocks of a configuration. It is not safe for concurrent use.
type Reader struct {
	*decode.Document
	Plugins []Plugin // in the order of the blocks
	ctx     context.Context
	Options Options
	Set     *files.Set
	hashes  map[string]string // of programs
	Prints  map[string]string // keyed hashes of secrets, by handle
	locked  locked
	prices  *pricelist.List // nil: not read yet
}

// Read reads the lock file and describes the plugins.
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

// Names returns the capabilities that the configuration names in settings with
// the unit :capability.
func (p *Plugin) Names() []string {
	if p.Lowered == nil {
		return nil
	}
	var names []string
	for _, c := range p.Lowered.Capabilities {
		names = append(names, c.Name)
	}
	return names
}

func (r *Reader) printer() decode.Printer { return decode.Printer{Root: r.Dir} }

// plugin returns the settings of one plugin block.
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

// describe obtains the description of a plugin and decodes its config block with
// the advertised schema. Without a description only the names in the block are
// checked.
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
			Hint:    "this is a defect of the plugin",
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

// usual sets the description of a plugin whose config block is invalid: the names that do not depend on the
// configuration are still used to check references.
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

// Starts reports whether the host starts processes of the plugin.
func (p *Plugin) Starts() bool { return p.Enabled && p.Described && p.Unusable == nil }

// Defect reports a problem with the description of a plugin. An optional plugin
// with a defect is not started; the configuration remains usable.
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

// names reports unknown functions, locals and variables in a config block that is not decoded because its plugin is
// disabled or was not described. Nothing is evaluated, so environment variables and secrets may be missing.
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
	ctx, cancel := context.WithTimeout(r.ctx, r.describeTimeout(p))
	defer cancel()
	d, err := r.Options.Describer.Describe(ctx, p, config)
	switch {
	case err != nil && ctx.Err() != nil && r.ctx.Err() == nil:
		return d, fmt.Errorf("it gave no answer within %s", r.Options.DescribeTimeout)
	case err != nil:
		return d, err
	}
	if n := len(d.Value().Canonical()); n > MaxDescription {
		return d, contract.Errorf("capability/invalid-metadata", "its description has %d bytes, over the limit of %s",
			n, language.FormatBytes(MaxDescription))
	}
	return d, nil
}

// present checks that the program and its files exist and hashes them. All missing
// files are reported before anything is hashed.
func (r *Reader) present(s *decode.Section, p *Plugin) bool {
	good := r.fileOf(s, p, "command", p.Command[0], 0)
	for i, name := range p.Files {
		good = r.fileOf(s, p, "files", name, i) && good
	}
	if info, err := os.Stat(p.Workdir); p.Workdir != "" && (err != nil || !info.IsDir()) {
		r.lacks(s, p, "workdir", 0, diag.Diagnostic{Message: disk.PrintedName(r.Dir, p.Workdir) + " is not a directory"})
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
		r.lacks(s, p, "command", 0, diag.Diagnostic{Message: disk.Cause(err)})
		return false
	}
	p.Binary = hash
	return true
}

// fileOf reports an item of an attribute that does not name a regular file.
func (r *Reader) fileOf(s *decode.Section, p *Plugin, attr, name string, item int) bool {
	_, err := disk.Regular(os.Stat(name))
	if err == nil {
		return true
	}
	what := "cannot be used: " + disk.Cause(err)
	if errors.As(err, new(disk.IrregularError)) {
		what = err.Error()
	}
	d := diag.Diagnostic{Message: disk.PrintedName(r.Dir, name) + " " + what}
	if program, args, ok := strings.Cut(name, " "); ok && item == 0 && attr == "command" && disk.IsFile(program) {
		d.Hint = "write one member per argument: [" + decode.SpellText(disk.PrintedName(r.Dir, program))
		for _, arg := range strings.Fields(args) {
			d.Hint += ", " + decode.SpellText(arg)
		}
		d.Hint += "]"
	} else if near := disk.Neighbour(name, err); near != "" {
		d.Message += "; did you mean " + disk.PrintedName(r.Dir, near) + "?"
	} else if base := filepath.Base(name); filepath.Join(r.Dir, base) == name && attr == "command" {
		if found := r.executable(base); len(found) > 0 {
			d.Hint = fmt.Sprintf("PATH is not searched: name the program by its path, such as %s", diag.Quote(found[0]))
		}
	}
	r.lacks(s, p, attr, item, d)
	return false
}

// lacks reports a missing file of a program at the item of the attribute that
// names it.
func (r *Reader) lacks(s *decode.Section, p *Plugin, attr string, item int, d diag.Diagnostic) {
	v := s.Attrs[attr]
	d.Type, d.Message = "config/plugin-unknown", fmt.Sprintf("plugin %s: %s", diag.Quote(p.Name), d.Message)
	d.Range, d.Path = v.At, append(slices.Clone(s.Node.Path), attr)
	if item < len(v.Items) && v.Items[item].At != nil {
		d.Range = v.Items[item].At
	}
	hints := map[string]string{
		"command": "build or install it, or set enabled = false",
		"files":   "add the file, or remove it from files",
		"workdir": "make the directory, or correct the path",
	}
	d.Hint = cmp.Or(d.Hint, hints[attr])
	if p.Optional {
		d.Severity = diag.SeverityWarning
	}
	r.Report.Add(d)
}

// binaryHash hashes a program once per load, also if several plugins run it.
func (r *Reader) binaryHash(program string, files []string) (string, error) {
	key := strings.Join(append([]string{program}, files...), "\x00")
	if hash, ok := r.hashes[key]; ok {
		return hash, nil
	}
	hash, err := "", error(nil)
	if h, ok := r.Options.Describer.(Hasher); ok {
		hash, err = h.Hash(program, files)
	} else {
		hash, err = plugin.HashProgram(program, files)
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be used: %s", disk.PrintedName(r.Dir, program), disk.Cause(err))
	}
	r.hashes[key] = hash
	return hash, nil
}

func (r *Reader) unchecked(s *decode.Section, p *Plugin, why string) {
	r.Report.Add(diag.Diagnostic{
		Type:     "config/plugin-unknown",
		Severity: diag.SeverityWarning,
		Message:  fmt.Sprintf("plugin %s is not checked: %s", diag.Quote(p.Name), why),
		Range:    s.At(),
		Path:     s.Node.Path,
	})
}

// runnable returns the printed name of a program as a word that a shell does not look up in PATH.
func (r *Reader) runnable(program string) string {
	name := disk.PrintedName(r.Dir, program)
	if !strings.ContainsRune(name, filepath.Separator) && filepath.IsAbs(program) {
		return "./" + name
	}
	return name
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
	if e := contract.AsError(err); e != nil && e.Type == "capability/invalid-metadata" {
		d.Type, d.Message, d.Hint = e.Type,
			fmt.Sprintf("plugin %s cannot be used: %s", diag.Quote(p.Name), diag.Sentence(e.Message)),
			"this is a defect of the plugin"
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
	r.Report.Add(d)
}

// refused reports the findings of the plugin itself at the values that they are about.
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
		r.Report.Add(r.absentPath(p, f.Path, d))
	}
}

// absentPath rewords a plugin's diagnostic about a missing path: the plugin knows neither the original spelling nor
// similar files nearby.
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

// secretsOf checks that the secrets of a plugin exist, without keeping their values.
func (r *Reader) secretsOf(p *Plugin) {
	for _, s := range p.Secrets {
		r.SecretThere(s, "config of plugin "+diag.Quote(p.Name), []string{"plugin", p.Name, "config"})
	}
}

// SecretThere reports a missing secret; subject is the attribute that refers to it.
func (r *Reader) SecretThere(s decode.SecretAt, subject string, path []string) {
	r.exposed(s.Secret, path, s.At)
	text, err := s.Secret.Read(r.Set.Lookup)
	if err == nil {
		r.fingerprint(s.Secret, text)
		return
	}
	d := diag.Diagnostic{Type: "config/secret-missing", Message: subject + ": " + err.Error(), Range: s.At, Path: path}
	if errors.Is(err, expression.ErrNoSecret) {
		if s.Secret.Kind == "file" {
			d.Nearest, d.Hint = r.Neighbour(s.Secret.Path)
		} else {
			d.Nearest = diag.Nearest(s.Secret.Name, slices.Sorted(maps.Keys(r.Set.Variables)))
			d.Hint = cmp.Or(diag.DidYouMean(d.Nearest),
				"set it where the host starts, or in a file .env beside the configuration")
		}
		if !s.Needed {
			d.Severity = diag.SeverityWarning
		}
	}
	r.Report.Add(d)
}

// BodyText returns the text of a foreign block, which is decoded only if its
// plugin is described.
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
		if errors.Is(err, expression.ErrNoSecret) {
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
func (r *Reader) exposed(s expression.Secret, path []string, at *diag.Range) {
	if s.Kind != "env" {
		return
	}
	if _, ok := r.Options.Env(s.Name); ok {
		return
	}
	if v, ok := r.Set.Variables[s.Name]; ok && v.Open {
		r.Report.Add(diag.Diagnostic{
			Type:     "config/secret-missing",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("secret env:%s comes from a file that other users may read", s.Name),
			Range:    at,
			Path:     path,
			Related:  []diag.Related{{Range: v.At, Message: "sets it"}},
			Hint:     "chmod 600 " + v.At.File,
		})
	}
}

// Runs reports whether the plugin is enabled and its program exists.
func (p *Plugin) Runs() bool { return p.Enabled && p.Binary != "" }
