package config

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
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
	known := sources{}
	l := loader{opts: opts, files: known, report: newCollector(known), config: &Config{}}
	l.run(ctx, path)
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
	*document
	opts   Options
	files  sources
	report *collector
	config *Config
	set    *fileSet
}

func (l *loader) run(ctx context.Context, path string) {
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
	l.set = readSet(full, fileOptions{Profile: l.opts.Profile, Env: l.opts.Env}, l.files, l.report)
	l.config.Root, l.config.Profile, l.config.Files = l.set.Root, l.set.Profile, l.set.Files
	l.config.ahead = l.wayTo(l.config.Root)
	if l.set.Tree == nil {
		return
	}
	in := newInputs(l.set.Root, l.set.Lookup, slices.Sorted(maps.Keys(l.set.Variables))...)
	l.document = decodeDocument(l.set.Tree, l.set.Root, l.set.Profile, in, l.report)
	l.host()
	if l.opts.HostOnly {
		return
	}
	if l.config.Root == full {
		l.set.WarnUnread(l.config.Host.LockFile, l.opts.Advise, in.read)
	}
	r := readPlugins(ctx, l.document, l.set, l.plugins())
	l.config.Generation = build(r, buildSettings{MinStability: l.config.Host.MinStability, Kept: l.kept()})
	l.config.Plugins, l.config.Lock, l.config.prints = r.Plugins, r.lockFile(), r.prints
	l.decoder.unused()
	l.config.tree = l.root
	l.config.Inputs = in.list()
	l.sources()
	l.hash()
}

// plugins returns the options of the descriptions.
func (l *loader) plugins() readerOptions {
	return readerOptions{
		Describer:       l.opts.Describer,
		DescribeTimeout: l.opts.DescribeTimeout,
		Env:             l.opts.Env,
		Key:             l.opts.Key,
		Locking:         l.opts.Locking,
		OnlyLocked:      l.opts.OnlyLocked,
		MayStart:        l.opts.MayStart,
		Attached:        l.opts.Attached,
		DataDir:         l.config.Host.DataDir,
		LockFile:        l.config.Host.LockFile,
	}
}

// kept returns the files of the listeners that no effect may access.
func (l *loader) kept() []string {
	var out []string
	if socket := l.config.HTTP.AdminSocket; socket != "" {
		out = append(out, socket)
	}
	if t := l.config.HTTP.TLS; t != nil {
		out = append(out, t.KeyFile)
	}
	return out
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

// printer returns the printer of values of the configuration.
func (c *Config) printer() printer { return printer{root: c.Root} }

// hash sets the hash of the decoded configuration.
func (l *loader) hash() { l.config.Hash = edn.Hash(l.config.value(l.root)) }

// value returns a decoded block as data that is independent of the machine: paths
// are relative to the root and secrets are handles.
func (c *Config) value(s *section) edn.Value {
	var b edn.MapBuilder
	for name, v := range s.attrs {
		b.Key(strings.ReplaceAll(name, "_", "-"), c.printer().portable(v))
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
			b.Set(words([]string{"config"}), p.finished(c.printer()))
		}
	}
	return b.Map()
}

// Labels returns the labels of the top-level blocks of one type, in the order of
// the files.
func (c *Config) Labels(block string) []string {
	if c.tree == nil {
		return nil
	}
	var out []string
	for _, s := range c.tree.all(block) {
		if label := s.label(); label != "" {
			out = append(out, label)
		}
	}
	return out
}

func (c *Config) plugin(name string) *Plugin {
	for i := range c.Plugins {
		if c.Plugins[i].Name == name {
			return &c.Plugins[i]
		}
	}
	return nil
}

// sources records the origins of the variables that were read.
func (l *loader) sources() {
	l.config.variables = map[string]*Range{}
	for _, in := range l.config.Inputs {
		if in.Kind != "env" || in.Hash == "" {
			continue
		}
		l.config.variables[in.Name] = nil
		if _, outer := l.opts.Env(in.Name); !outer {
			l.config.variables[in.Name] = l.set.Variables[in.Name].at
		}
	}
}

// Writable returns the sorted directories that enabled effects and grants of
// plugins allow to write. Paths that cannot be read are omitted.
func (c *Config) Writable() []string {
	var all []string
	if c.tree == nil {
		return nil
	}
	for _, scoped := range writtenScopes(c.tree.block("effects")) {
		scope := scoped.Scope
		if !scope.Enabled.V {
			continue
		}
		switch scoped.Effect {
		case "fs/write":
			for _, root := range scope.Roots.V {
				for _, below := range scope.Allow.V {
					all = append(all, filepath.Join(root, below))
				}
			}
		case "process/run":
			all = append(all, scope.AllowCWD.V...)
		}
	}
	for _, p := range c.Plugins {
		all = append(all, p.Isolation.WritePaths...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ModelPrices returns the prices of the models of all plugins with priced models,
// in the order of the plugins and by label.
func (c *Config) ModelPrices() []ModelPrice {
	var all []ModelPrice
	for i := range c.Plugins {
		all = append(all, c.Plugins[i].modelPrices()...)
	}
	return all
}
