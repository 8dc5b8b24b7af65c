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
	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Options configures a load. With the zero value, plugins are not described.
type Options struct {
	// Describer returns the descriptions of plugins. If it is nil, the config blocks of plugins are
	// parsed but not checked, and their advertised names are unknown.
	Describer plugins.Describer
	// DescribeTimeout is the time limit of one description; 0: 10 s.
	DescribeTimeout time.Duration
	// Dir is the base of a relative path, and the directory of the default configuration. Reports
	// name files relative to it. If it is empty, the base is the working directory, and reports
	// name files relative to the root.
	Dir string
	// Env looks up environment variables; nil: os.LookupEnv.
	Env func(string) (string, bool)
	// Profile overrides the environment variable FERMENT_PROFILE and
	// ferment.profile; empty: not set.
	Profile string
	// Key is the key of the hashes of secrets, by which a Diff detects a changed secret. Compared
	// loads need the same key; without a key, changed secrets are not detected.
	Key []byte
	// Locking selects how the lock file is applied.
	Locking lock.Mode
	// OnlyLocked prevents programs without an entry in the lock file from being started, in every
	// profile.
	OnlyLocked bool
	// MayStart reports whether a plugin may be started regardless of the lock file because its
	// entry is being written; nil: never.
	MayStart func(plugin string) bool
	// Attached maps labels of plugin blocks to running plugins, usually under a
	// debugger. It is allowed in the profiles dev and test.
	Attached map[string]plugins.Attachment
	// Recorded, if not nil, holds the descriptions of all plugins, by their labels. The programs,
	// and the secrets and files that the configuration names, need not exist then. It is used for a
	// replay of records.
	Recorded map[string]contract.Description
	// HostVersion is compared with ferment.requires. A text that is not a version number, such as
	// that of a development build, satisfies every constraint.
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
	DataDir      string // absolute path
	LockFile     string // absolute path
	Root         string // absolute path; base of relative paths in inputs
	MaxDepth     int
	MaxNodes     int
	MaxParallel  int
	Mode         string
	MinStability string
	Seed         int64 // 0: random

	// Settings of the daemon.
	DrainTimeout  time.Duration // time for running runs to end at shutdown
	ReloadTimeout time.Duration // time for plugins that a reload starts
	AutoReload    bool          // reload when a file changes
	MaxRuns       int           // maximum number of concurrent runs
	MemoryLimit   int64         // bytes; 0: derived from the machine and its cgroup
	GOGC          int           // percent; 0: the default of the host
}

// Limits returns the limits of plans.
func (h *Host) Limits() plan.Limits {
	limits := plan.DefaultLimits()
	if h.MaxDepth > 0 {
		limits.Levels, limits.RunNodes = h.MaxDepth, h.MaxNodes
	}
	return limits
}

// Config is the result of a load. It is immutable.
type Config struct {
	// Root is the absolute path of the directory of the configuration.
	Root string
	// Profile is one of language.Profiles.
	Profile   string
	Files     []*diag.Source
	Host      Host
	HTTP      HTTP
	Store     Store
	Queue     Queue
	Cache     Cache
	Telemetry Telemetry
	Session   Session
	// LogFormat is one of language.LogFormats; empty if no file could be read.
	LogFormat string
	Plugins   []plugins.Plugin
	// Lock is the lock file; empty if it was not read.
	Lock        lock.File
	Inputs      []expression.Input
	Diagnostics diag.Diagnostics
	// Hash identifies the values of the configuration, independent of files and formatting. Inputs
	// affect it through the values that depend on them.
	Hash string
	// Answers identifies the part of the configuration that affects answers (RUN-030).
	Answers string
	// Generation is the configuration for acts; nil if there are errors.
	Generation *build.Generation

	Tree   *decode.Section   // decoded tree; nil if no file could be read
	Prints map[string]string // keyed hashes of secrets, by handle
	// Variables holds the environment variables that were read and are set, with their position if
	// an .env file sets them, else nil.
	Variables map[string]*diag.Range
	dropped   int
	lookup    func(variable string) (string, bool)
	// ahead is the path of Root relative to the working directory; empty if they are the same.
	ahead string
}

// Load loads the configuration at path, a file or a directory; an empty path selects files.Find. It
// reports every problem that it finds. The Config is never nil; its Generation is nil if a
// diagnostic is an error.
func Load(ctx context.Context, path string, opts Options) (*Config, diag.Diagnostics) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	if opts.DescribeTimeout == 0 {
		opts.DescribeTimeout = plugins.UsualStart
	}
	known := diag.Sources{}
	l := loader{opts: opts, files: known, report: diag.NewCollector(known), config: &Config{}}
	l.run(ctx, path)
	l.config.Diagnostics, l.config.dropped = l.report.Result(), l.report.Dropped
	if l.config.Diagnostics.HasErrors() || l.report.Dropped > 0 {
		l.config.Generation = nil
	}
	return l.config, l.config.Diagnostics
}

// Unreadable reports whether a file or directory of the configuration could not be read, the path
// of Load is a file that ends neither in .hcl nor in .hcl.json, or the directory has no
// configuration. Files above a size limit, and includes that match no file, do not count.
func (c *Config) Unreadable() bool {
	return slices.ContainsFunc(c.Diagnostics, func(d diag.Diagnostic) bool {
		return d.Severity == diag.SeverityError && d.Type == "config/include" && len(d.Path) == 0
	})
}

type loader struct {
	*decode.Document
	opts   Options
	files  diag.Sources
	report *diag.Collector
	config *Config
	set    *files.Set
}

func (l *loader) run(ctx context.Context, path string) {
	dir := l.opts.Dir
	if path == "" {
		path = files.Find(dir)
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		l.report.Add(diag.Diagnostic{
			Type:    "config/include",
			Message: fmt.Sprintf("file %s has no absolute path: %s", diag.Quote(path), disk.Cause(err)),
		})
		return
	}
	l.set = files.Read(full, files.Options{Profile: l.opts.Profile, Env: l.opts.Env}, l.files, l.report)
	l.config.Root, l.config.Profile, l.config.Files, l.config.lookup = l.set.Root, l.set.Profile, l.set.Files, l.set.Lookup
	l.config.ahead = l.wayTo(l.config.Root)
	if l.set.Tree == nil {
		return
	}
	in := expression.NewInputs(l.set.Root, l.set.Lookup, slices.Sorted(maps.Keys(l.set.Variables))...)
	l.Document = decode.NewDocument(l.set.Tree, l.set.Root, l.set.Profile, in, l.report)
	l.Elsewhere = l.opts.Recorded != nil
	l.host()
	if l.opts.HostOnly {
		return
	}
	if l.config.Root == full {
		l.set.WarnUnread(l.config.Host.LockFile, l.opts.Advise, in.Read)
	}
	r := plugins.Read(ctx, l.Document, l.set, l.plugins())
	l.storeSecret(r)
	l.otelSecrets(r)
	l.config.Generation = build.New(r, build.Settings{
		MinStability: l.config.Host.MinStability,
		Kept:         l.kept(),
		Limits:       l.config.Host.Limits(),
	})
	l.config.Plugins, l.config.Lock, l.config.Prints = r.Plugins, r.LockFile(), r.Prints
	l.Decoder.Unused()
	l.config.Tree = l.Root
	l.config.Inputs = in.List()
	l.sources()
	l.hash()
	l.answers()
}

// plugins returns the options for describing plugins.
func (l *loader) plugins() plugins.Options {
	return plugins.Options{
		Describer:       l.opts.Describer,
		DescribeTimeout: l.opts.DescribeTimeout,
		Env:             l.opts.Env,
		Key:             l.opts.Key,
		Locking:         l.opts.Locking,
		OnlyLocked:      l.opts.OnlyLocked,
		MayStart:        l.opts.MayStart,
		Attached:        l.opts.Attached,
		Recorded:        l.opts.Recorded,
		DataDir:         l.config.Host.DataDir,
		LockFile:        l.config.Host.LockFile,
	}
}

// kept returns the files of the listeners that effects must not access.
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

// wayTo returns the path from Options.Dir to root, with slashes; empty if they are the same or
// Options.Dir is empty.
func (l *loader) wayTo(root string) string {
	if l.opts.Dir == "" {
		return ""
	}
	if way := disk.PrintedName(l.opts.Dir, root); way != "." {
		return way
	}
	return ""
}

func (l *loader) host() {
	f := l.Root.Block("ferment")
	h := Host{
		DataDir:       f.Text("data_dir"),
		LockFile:      f.Text("lock_file"),
		Root:          f.Text("root"),
		MaxDepth:      f.Integer("max_depth"),
		MaxNodes:      f.Integer("max_nodes"),
		MaxParallel:   f.Integer("max_parallel"),
		Mode:          f.Text("mode"),
		MinStability:  f.Text("min_stability"),
		Seed:          int64(f.Integer("seed")),
		DrainTimeout:  f.Duration("drain_timeout"),
		ReloadTimeout: f.Duration("reload_timeout"),
		AutoReload:    f.Flag("auto_reload"),
		MaxRuns:       f.Integer("max_runs"),
		MemoryLimit:   int64(f.Integer("memory_limit")),
		GOGC:          f.Integer("gogc"),
	}
	if h.Root == "" {
		h.Root = l.config.Root
	}
	l.KindOf(f, "data_dir", decode.Folder)
	l.KindOf(f, "root", decode.Folder)
	l.KindOf(f, "lock_file", decode.File)
	l.There(f, "root")
	l.config.Host = h
	l.config.LogFormat = l.Root.Block("log").Text("format")
	l.http()
	l.store()
	l.queue()
	l.cache()
	l.telemetry()
	l.session()
	if !f.Written("requires") {
		return
	}
	wanted, err := decode.ParseConstraint(f.Text("requires"))
	have, ok := decode.ParseVersion(l.opts.HostVersion)
	if err == nil && !ok {
		l.report.Add(diag.Diagnostic{
			Type:     "config/range",
			Severity: diag.SeverityWarning,
			Message:  "requires is not checked: this build of ferment has no version",
			Range:    f.Attrs["requires"].At,
			Path:     []string{"ferment", "requires"},
			Expected: edn.Text(f.Text("requires")),
			Found:    edn.Text(l.opts.HostVersion),
			Hint:     "use a release of ferment where the version matters",
		})
	}
	if err != nil || !ok || wanted.Allows(have) {
		return
	}
	l.report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("this host has version %s, which the configuration does not accept", l.opts.HostVersion),
		Range:    f.Attrs["requires"].At,
		Path:     []string{"ferment", "requires"},
		Expected: edn.Text(f.Text("requires")),
		Found:    edn.Text(l.opts.HostVersion),
		Hint:     "use another version of ferment",
	})
}

// Printer returns the printer of values of the configuration.
func (c *Config) Printer() decode.Printer { return decode.Printer{Root: c.Root} }

// hash sets the hash of the decoded configuration.
func (l *loader) hash() { l.config.Hash = edn.Hash(l.config.BlockValue(l.Root)) }

// BlockValue returns a decoded block as EDN that is independent of the machine: paths are relative
// to the root, and secrets are handles.
func (c *Config) BlockValue(s *decode.Section) edn.Value {
	var b edn.MapBuilder
	for name, v := range s.Attrs {
		b.Key(strings.ReplaceAll(name, "_", "-"), c.Printer().Portable(v))
	}
	for _, inner := range s.Blocks {
		if inner.Node.Spec.Open {
			continue // the values of locals are part of the attributes that use them
		}
		key := append([]string{inner.Node.Spec.Name}, inner.Node.Labels...)
		b.Set(diag.Words(key), c.BlockValue(inner))
	}
	switch {
	case s.Node.Spec.Foreign:
		b.Key("text", edn.Text(plugins.BodyText(s.Node)))
	case s.Node.Spec.Name == "plugin":
		if p := c.Plugin(s.Label()); p != nil && p.Lowered != nil {
			b.Set(diag.Words([]string{"config"}), p.Resolved(c.Printer()))
		}
	}
	return b.Map()
}

// Labels returns the labels of the top-level blocks of one type, in the order of
// the files.
func (c *Config) Labels(block string) []string {
	if c.Tree == nil {
		return nil
	}
	var out []string
	for _, s := range c.Tree.All(block) {
		if label := s.Label(); label != "" {
			out = append(out, label)
		}
	}
	return out
}

// Plugin returns the plugin with that name; nil if there is none.
func (c *Config) Plugin(name string) *plugins.Plugin {
	for i := range c.Plugins {
		if c.Plugins[i].Name == name {
			return &c.Plugins[i]
		}
	}
	return nil
}

// sources sets Variables.
func (l *loader) sources() {
	l.config.Variables = map[string]*diag.Range{}
	for _, in := range l.config.Inputs {
		if in.Kind != "env" || in.Hash == "" {
			continue
		}
		l.config.Variables[in.Name] = nil
		if _, outer := l.opts.Env(in.Name); !outer {
			l.config.Variables[in.Name] = l.set.Variables[in.Name].At
		}
	}
}

// Writable returns the sorted directories that enabled effects, those of databases too, and the
// isolation of plugins allow to write. Paths that cannot be read are omitted.
func (c *Config) Writable() []string {
	var all []string
	if c.Tree == nil {
		return nil
	}
	for _, scoped := range plugins.WrittenScopes(c.Tree.Block("effects")) {
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
		all = append(all, plugins.DatabaseDirs(c.Tree.Block("effects"), scope.Connections.V)...)
	}
	for _, p := range c.Plugins {
		all = append(all, p.Isolation.WritePaths...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ModelPrices returns the prices of the models of all plugins that have any, in the order of the
// plugins and by label.
func (c *Config) ModelPrices() []plugins.ModelPrice {
	var all []plugins.ModelPrice
	for i := range c.Plugins {
		all = append(all, c.Plugins[i].ModelPrices()...)
	}
	return all
}
