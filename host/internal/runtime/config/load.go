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

// Options of a load. The zero value is usable; plugins are then not described.
type Options struct {
	// Describer returns the descriptions of plugins. If it is nil, their
	// configuration is parsed but not checked, and their advertised names are
	// unknown.
	Describer Describer
	// DescribeTimeout is the time limit of one description; 0: 10 s.
	DescribeTimeout time.Duration
	// Dir is the base of a relative path and the directory of the default
	// configuration. Reports name files relative to it. If it is empty, it is the
	// working directory, and reports name files relative to the root.
	Dir string
	// Env looks up environment variables; nil is the process environment.
	Env func(string) (string, bool)
	// Profile overrides the environment variable FERMENT_PROFILE and
	// ferment.profile; empty: not set.
	Profile string
	// Key is the key of the secret hashes with which a Diff detects a changed
	// secret. Compared loads need the same key; without one a changed secret is
	// not detected.
	Key []byte
	// Locking is the treatment of the lock file.
	Locking Locking
	// OnlyLocked prevents the start of programs without an entry in the lock file
	// in every profile.
	OnlyLocked bool
	// MayStart reports whether a plugin may be started regardless of the lock file
	// because its entry is being written; nil: none may.
	MayStart func(plugin string) bool
	// Attached maps labels of plugin blocks to running plugins, usually under a
	// debugger. It is allowed in the profiles dev and test.
	Attached map[string]Attachment
	// HostVersion is compared with ferment.requires. A text that is not a version
	// number, such as that of a development build, satisfies every constraint.
	HostVersion string
	// Advise adds warnings for ferment validate: files of a configuration directory that are not read, and a data
	// directory in which the daemon cannot create its socket.
	Advise bool
	// HostOnly reads only the settings of the host itself, such as its data
	// directory and listeners. Programs are not checked.
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
	DrainTimeout  time.Duration // for running runs at shutdown
	ReloadTimeout time.Duration // for plugins that a reload starts
	AutoReload    bool          // reload when a file changes
	MaxRuns       int           // concurrent runs
	MemoryLimit   int64         // bytes; 0: derived from machine and cgroup
	GOGC          int           // percent; 0: chosen by the host
}

// Config is the result of a load. It is immutable.
type Config struct {
	// Root is the directory of the configuration; file names are printed relative to it.
	Root string
	// Profile is one of Profiles.
	Profile string
	Files   []*Source
	Host    Host
	HTTP    HTTP
	// LogFormat is one of LogFormats; empty if no file could be read.
	LogFormat string
	Plugins   []Plugin
	// Lock is the lock file; empty if it was not read.
	Lock        lock.File
	Inputs      []Input
	Diagnostics Diagnostics
	// Hash identifies the values of the configuration, independent of files and
	// formatting. Inputs count through the values that depend on them.
	Hash string
	// Generation is the configuration for acts; nil if there are errors.
	Generation *Generation

	tree   *section          // decoded; nil if no file could be read
	prints map[string]string // keyed hashes of secrets, by handle
	// variables are the set environment variables that were read, with their place
	// if an .env file sets them.
	variables map[string]*Range
	dropped   int
	// ahead is the relative path from the working directory to Root.
	ahead string
}

// Load reads the configuration at path, a file or a directory; an empty path is
// that of Find. It reports every problem that it finds. The Config is never nil;
// its Generation is nil if a diagnostic is an error.
func Load(ctx context.Context, path string, opts Options) (*Config, Diagnostics) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	if opts.DescribeTimeout == 0 {
		opts.DescribeTimeout = 10 * time.Second
	}
	l := loader{
		ctx:       ctx,
		opts:      opts,
		files:     sources{},
		config:    &Config{prints: map[string]string{}},
		hashes:    map[string]string{},
		variables: map[string]envVar{},
	}
	l.report = newCollector(l.files)
	l.run(path)
	l.config.Diagnostics, l.config.dropped = l.report.result(), l.report.dropped
	if l.config.Diagnostics.HasErrors() || l.report.dropped > 0 {
		l.config.Generation = nil
	}
	return l.config, l.config.Diagnostics
}

// Unreadable reports whether the load failed because a file could not be read.
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
	// variables are the variables of .env files.
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
		l.report.add(Diagnostic{
			Type:    "config/include",
			Message: fmt.Sprintf("file %s has no absolute path: %s", quote(path), cause(err)),
		})
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

// wayTo returns the path from the working directory to root, with slashes; empty
// if they are equal or Options.Dir is empty.
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
	h := Host{
		DataDir:       f.text("data_dir"),
		LockFile:      f.text("lock_file"),
		Root:          f.text("root"),
		MaxDepth:      f.integer("max_depth"),
		MaxNodes:      f.integer("max_nodes"),
		MaxParallel:   f.integer("max_parallel"),
		Mode:          f.text("mode"),
		MinStability:  f.text("min_stability"),
		Seed:          int64(f.integer("seed")),
		DrainTimeout:  f.duration("drain_timeout"),
		ReloadTimeout: f.duration("reload_timeout"),
		AutoReload:    f.flag("auto_reload"),
		MaxRuns:       f.integer("max_runs"),
		MemoryLimit:   int64(f.integer("memory_limit")),
		GOGC:          f.integer("gogc"),
	}
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
		l.report.add(Diagnostic{
			Type:     "config/range",
			Severity: SeverityWarning,
			Message:  "requires is not checked: this build of ferment has no version",
			Range:    f.attrs["requires"].rng,
			Path:     []string{"ferment", "requires"},
			Expected: edn.Text(f.text("requires")),
			Found:    edn.Text(l.opts.HostVersion),
			Hint:     "use a release of ferment where the version matters",
		})
	}
	if err != nil || !ok || wanted.allows(have) {
		return
	}
	l.report.add(Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("this host has version %s, which the configuration does not accept", l.opts.HostVersion),
		Range:    f.attrs["requires"].rng,
		Path:     []string{"ferment", "requires"},
		Expected: edn.Text(f.text("requires")),
		Found:    edn.Text(l.opts.HostVersion),
		Hint:     "use another version of ferment",
	})
}

// kindOf rejects a file in place of a directory, and a directory in place of a file.
func (l *loader) kindOf(s *section, attr, wanted string) {
	name := s.text(attr)
	info, err := os.Stat(name)
	for errors.Is(err, syscall.ENOTDIR) { // a parent is a file
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

// there rejects a configured path that does not exist.
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
		Type: "config/include",
		Message: fmt.Sprintf("%s names %s, which is not there", subject(s.pathOf(attr)),
			quote(printedName(l.config.Root, name))),
		Range:   v.rng,
		Path:    s.pathOf(attr),
		Nearest: near,
		Hint:    hint,
	})
}

// hash sets the hash of the decoded configuration.
func (l *loader) hash() { l.config.Hash = edn.Hash(l.config.value(l.root)) }

// value returns a decoded block as data that is independent of the machine: paths
// are relative to the root and secrets are handles.
func (c *Config) value(s *section) edn.Value {
	var b edn.MapBuilder
	for name, v := range s.attrs {
		b.Key(strings.ReplaceAll(name, "_", "-"), c.portable(v))
	}
	for _, inner := range s.blocks {
		if inner.node.spec.Open {
			continue // locals are included where they are used
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

// finished returns the config of a plugin as data: secrets are handles, and paths
// are relative to the root.
func (c *Config) finished(p *Plugin) edn.Value {
	var secrets []edn.Value
	for _, s := range p.Secrets {
		secrets = append(secrets, edn.Vector(edn.Vector(s.Path...), edn.Text(c.masked(s.Secret))))
	}
	v, err := p.Config.Walk(nil, func(v edn.Value) edn.Value { return c.shown(p, v, nil) })
	if err != nil {
		v = p.Config // nested too deeply to be walked
	}
	return edn.Vector(v, edn.Vector(secrets...))
}

// masked returns the handle of a secret, with a file path relative to the root.
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
