package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Options of a load. The zero value is usable; it describes no plugin.
type Options struct {
	// Describer asks plugins what they are. Without one their configuration is
	// parsed but not checked, and names that they advertise are not known.
	Describer Describer
	// DescribeTimeout bounds one description; 0 is 10 s.
	DescribeTimeout time.Duration
	// Dir is what a relative path starts at, and an empty one is looked for in.
	// Reports name files as seen from there. Empty is the working directory of
	// the process, and files are named as seen from the root.
	Dir string
	// Env looks up environment variables; nil is the process environment.
	Env func(string) (string, bool)
	// Profile goes before what the environment variable FERMENT_PROFILE and
	// the file say; empty leaves it to them.
	Profile string
	// Key keys the hashes by which a Diff sees that a secret has another value.
	// Loads that are compared need the same; without one rotation is not seen.
	Key []byte
	// Locking says what is made of the lock file.
	Locking Locking
	// OnlyLocked keeps programs from being started that the lock file does not
	// know, also in a profile that allows it.
	OnlyLocked bool
	// MayStart names plugins that may be started whatever the lock file says,
	// because their entries are being written; nil: none.
	MayStart func(plugin string) bool
	// Attached are plugins that run already, under a debugger as a rule, by the
	// label of their block; see Attachment. The profiles dev and test allow it.
	Attached map[string]Attachment
	// HostVersion is compared with ferment.requires; one that is no version
	// number, such as that of a build from a working tree, fits any.
	HostVersion string
	// Advise adds what concerns neither a run nor a daemon that already started, but whoever checks the files: files of
	// a directory of configuration that nothing reads, and a data directory in which no daemon can have its socket.
	Advise bool
	// HostOnly reads what the files say of the host itself: where its data
	// directory is and how it is reached. No program is looked at.
	HostOnly bool
}

// Host holds the settings of the ferment block.
type Host struct {
	DataDir      string // absolute
	LockFile     string // absolute
	Root         string // absolute; relative paths in inputs start there
	MaxDepth     int
	MaxNodes     int
	MaxParallel  int
	Mode         string
	MinStability string
	Seed         int64 // 0: random

	// The daemon.
	DrainTimeout  time.Duration // for runs in flight when it goes down
	ReloadTimeout time.Duration // for what a reload starts
	AutoReload    bool          // reload when a file changes
	MaxRuns       int           // at the same time
	MemoryLimit   int64         // bytes; 0: chosen from the machine
	GOGC          int           // percent; 0: chosen by the host
}

// Config is what a load found. It is immutable.
type Config struct {
	// Root is the directory against which names are printed.
	Root string
	// Profile is one of Profiles.
	Profile string
	Files   []*Source
	Host    Host
	HTTP    HTTP
	// LogFormat is one of LogFormats; empty if nothing could be read.
	LogFormat string
	Plugins   []Plugin
	// Lock is the lock file, empty if it was not read.
	Lock        lock.File
	Inputs      []Input
	Diagnostics Diagnostics
	// Hash identifies the values of the configuration, wherever and however
	// they are written. Inputs count by what was made of them.
	Hash string
	// Generation is what acts run under; nil if there are errors.
	Generation *Generation

	tree   *section          // decoded; nil if nothing could be read
	prints map[string]string // keyed hashes of secrets, by handle
	// variables are the environment variables that were read and set, with
	// the place of those that a file sets.
	variables map[string]*Range
	dropped   int
	// ahead is the way from the working directory to Root.
	ahead string
}

// Load reads the configuration at path, a file or a directory; for an empty
// path see Find. It reports every problem that it finds. The configuration is never nil, but has
// a Generation only if no diagnostic is an error.
func Load(ctx context.Context, path string, opts Options) (*Config, Diagnostics) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	if opts.DescribeTimeout == 0 {
		opts.DescribeTimeout = 10 * time.Second
	}
	l := loader{ctx: ctx, opts: opts, files: sources{}, config: &Config{prints: map[string]string{}}, hashes: map[string]string{}, variables: map[string]envVar{}}
	l.report = newCollector(l.files)
	l.run(path)
	l.config.Diagnostics, l.config.dropped = l.report.result(), l.report.dropped
	if l.config.Diagnostics.HasErrors() || l.report.dropped > 0 {
		l.config.Generation = nil
	}
	return l.config, l.config.Diagnostics
}

// Unreadable tells whether the load failed because a file could not be read.
func (c *Config) Unreadable() bool {
	return slices.ContainsFunc(c.Diagnostics, func(d Diagnostic) bool {
		return d.Severity == SeverityError && d.Type == "config/include" && len(d.Path) == 0
	})
}

type loader struct {
	ctx     context.Context
	opts    Options
	files   sources
	report  *collector
	config  *Config
	inputs  *inputs
	decoder *decoder
	root    *section // the decoded tree
	byType  map[string][]*section
	hashes  map[string]string // of programs
	// variables are those of the files beside the configuration.
	variables map[string]envVar
	locked    locked
	prices    *pricelist.List // nil: not read yet
}

func (l *loader) run(path string) {
	dir := l.opts.Dir
	if path == "" {
		path = Find(dir)
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		l.report.add(Diagnostic{Type: "config/include", Message: fmt.Sprintf("file %s has no absolute path: %s", quote(path), cause(err))})
		return
	}
	tree := l.gather(full)
	l.config.ahead = l.wayTo(l.config.Root)
	if tree == nil {
		return
	}
	l.decode(tree)
	if l.opts.HostOnly {
		return
	}
	if l.config.Root == full {
		l.unreadFiles()
	}
	l.readLock()
	l.build()
	l.decoder.unused()
	l.config.tree = l.root
	l.config.Inputs = l.inputs.list()
	l.sources()
	l.hash()
}

// wayTo is the path from the working directory, with slashes; empty if there is
// none to speak of.
func (l *loader) wayTo(root string) string {
	if l.opts.Dir == "" {
		return ""
	}
	if way := printedName(l.opts.Dir, root); way != "." {
		return way
	}
	return ""
}

// decode evaluates and checks every attribute.
func (l *loader) decode(tree *node) {
	l.inputs = newInputs(l.config.Root, l.lookup)
	l.inputs.names = slices.Sorted(maps.Keys(l.variables))
	eval := newEvaluator(l.report, l.inputs)
	eval.declare(tree)
	eval.addLocals(tree)
	l.decoder = newDecoder(eval)
	l.decoder.profile, l.decoder.root = l.config.Profile, tree
	l.decoder.base = newSource("default", filepath.Join(l.config.Root, DefaultFile), 0, nil)
	l.root = l.decoder.section(tree)
	l.decoder.rivalLocals(tree)
	l.chosenProfile()
	l.byType = map[string][]*section{}
	for _, b := range l.root.blocks {
		l.byType[b.node.spec.Name] = append(l.byType[b.node.spec.Name], b)
	}
	eval.forceAll()
	l.host()
}

// all returns the decoded blocks of one type, in the order of the file.
func (l *loader) all(name string) []*section { return l.byType[name] }

func (l *loader) host() {
	f := l.root.block("ferment")
	h := Host{DataDir: f.text("data_dir"), LockFile: f.text("lock_file"), Root: f.text("root"), MaxDepth: f.integer("max_depth"), MaxNodes: f.integer("max_nodes"), MaxParallel: f.integer("max_parallel"),
		Mode: f.text("mode"), MinStability: f.text("min_stability"), Seed: int64(f.integer("seed")),
		DrainTimeout: f.duration("drain_timeout"), ReloadTimeout: f.duration("reload_timeout"), AutoReload: f.flag("auto_reload"),
		MaxRuns: f.integer("max_runs"), MemoryLimit: int64(f.integer("memory_limit")), GOGC: f.integer("gogc")}
	if h.Root == "" {
		h.Root = l.config.Root
	}
	l.kindOf(f, "data_dir", aFolder)
	l.kindOf(f, "root", aFolder)
	l.kindOf(f, "lock_file", plainFile)
	l.there(f, "root")
	l.config.Host = h
	l.config.LogFormat = l.root.block("log").text("format")
	l.http()
	if !f.written("requires") {
		return
	}
	wanted, err := parseConstraint(f.text("requires"))
	have, ok := parseVersion(l.opts.HostVersion)
	if err == nil && !ok {
		l.report.add(Diagnostic{Type: "config/range", Severity: SeverityWarning, Message: "requires is not held against this build of ferment, which has no version", Range: f.attrs["requires"].rng,
			Path: []string{"ferment", "requires"}, Expected: edn.Text(f.text("requires")), Found: edn.Text(l.opts.HostVersion), Hint: "use a release of ferment where the version matters"})
	}
	if err != nil || !ok || wanted.allows(have) {
		return
	}
	l.report.add(Diagnostic{Type: "config/range", Message: fmt.Sprintf("this host has version %s, which the configuration does not accept", l.opts.HostVersion), Range: f.attrs["requires"].rng,
		Path: []string{"ferment", "requires"}, Expected: edn.Text(f.text("requires")), Found: edn.Text(l.opts.HostVersion), Hint: "use another version of ferment"})
}

// kindOf refuses a file where a directory belongs, and a directory where a file belongs.
func (l *loader) kindOf(s *section, attr, wanted string) {
	name := s.text(attr)
	info, err := os.Stat(name)
	for errors.Is(err, syscall.ENOTDIR) { // it is to lie below a file
		name, wanted = filepath.Dir(name), aFolder
		info, err = os.Stat(name)
	}
	if name == "" || err != nil || kindOf(info) == wanted {
		return
	}
	l.report.add(Diagnostic{
		Type:     "config/type",
		Message:  fmt.Sprintf("%s names %s, which is %s", attr, quote(printedName(l.config.Root, name)), kindOf(info)),
		Range:    s.attrs[attr].rng,
		Path:     append(slices.Clone(s.node.path), attr),
		Expected: edn.Text("the name of " + wanted),
		Found:    edn.Text(kindOf(info)),
		Hint:     "name another one, or move that one away",
	})
}

// there refuses a written path at which nothing is, where ferment only reads.
func (l *loader) there(s *section, attr string) {
	v, name := s.attrs[attr], s.text(attr)
	if !v.written {
		return
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	near, hint := l.neighbour(name)
	l.report.add(Diagnostic{
		Type:    "config/include",
		Message: fmt.Sprintf("%s names %s, which is not there", subject(s.pathOf(attr)), quote(printedName(l.config.Root, name))),
		Range:   v.rng,
		Path:    s.pathOf(attr),
		Nearest: near,
		Hint:    hint,
	})
}

// hash identifies the decoded configuration.
func (l *loader) hash() { l.config.Hash = edn.Hash(l.config.value(l.root)) }

// value is a decoded block as data, the same on every machine: paths are
// relative to the root and secrets are handles.
func (c *Config) value(s *section) edn.Value {
	var b edn.MapBuilder
	for name, v := range s.attrs {
		b.Key(strings.ReplaceAll(name, "_", "-"), c.portable(v))
	}
	for _, inner := range s.blocks {
		if inner.node.spec.Open {
			continue // it shows where it is used
		}
		key := append([]string{inner.node.spec.Name}, inner.node.labels...)
		b.Set(words(key), c.value(inner))
	}
	switch {
	case s.node.spec.Foreign:
		b.Key("text", edn.Text(bodyText(s.node)))
	case s.node.spec.Name == "plugin":
		if p := c.plugin(s.label()); p != nil && p.low != nil {
			b.Set(words([]string{"config"}), c.finished(p))
		}
	}
	return b.Map()
}

// finished is the config of a plugin as data: secrets are handles, and files
// are named from the root.
func (c *Config) finished(p *Plugin) edn.Value {
	var secrets []edn.Value
	for _, s := range p.Secrets {
		secrets = append(secrets, edn.Vector(edn.Vector(s.Path...), edn.Text(c.masked(s.Secret))))
	}
	v, err := p.Config.Walk(nil, func(v edn.Value) edn.Value { return c.shown(p, v, nil) })
	if err != nil {
		v = p.Config // it nests too deep to be walked
	}
	return edn.Vector(v, edn.Vector(secrets...))
}

// masked is the handle of a secret, with a file as seen from the root.
func (c *Config) masked(s Secret) string {
	if s.Kind == "file" {
		s.Name = printedName(c.Root, s.path)
	}
	return s.String()
}

func (c *Config) portable(v value) edn.Value {
	switch {
	case v.secret != nil:
		return edn.Text(c.masked(*v.secret))
	case v.file && v.content != nil:
		p, _ := v.v.AsString()
		return c.portableFile(p, *v.content)
	case v.file:
		p, _ := v.v.AsString()
		return edn.Text(printedName(c.Root, p))
	case v.content != nil:
		return c.portableLayer(v)
	case len(v.keys) > 0 && len(v.keys) == len(v.items):
		var b edn.MapBuilder
		for i, key := range v.keys {
			b.Set(edn.Text(key), c.portable(v.items[i]))
		}
		return b.Map()
	case len(v.items) > 0 && len(v.keys) == 0:
		items := make([]edn.Value, len(v.items))
		for i, x := range v.items {
			items[i] = c.portable(x)
		}
		return edn.Vector(items...)
	}
	return v.v
}
