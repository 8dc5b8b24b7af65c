package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Options selects what to load.
type Options struct {
	// Config is a configuration file or directory; empty selects the one that files.Find returns.
	Config string
	// Profile overrides FERMENT_PROFILE and the configuration; empty overrides nothing.
	Profile string
	// Key is the key of the hashes of secrets. Loads with the same key show a rotated secret in
	// their diff.
	Key []byte
	// Dir is the base of a relative Config.
	Dir string
	// Version is the version of the host.
	Version string
	// Env looks up environment variables; nil: os.LookupEnv.
	Env func(string) (string, bool)
	// NoStart prevents Load from starting plugins that have no cached description; OnlyLocked
	// prevents it for plugins that are not in the lock file.
	NoStart    bool
	OnlyLocked bool
	// Advise is config.Options.Advise.
	Advise bool
	// Lockfile selects how the lock file is applied.
	Lockfile Lockfile
	// mayStart reports whether a plugin may be started because its lock file entry is being
	// written.
	mayStart func(plugin string) bool
	// Attached maps the names of plugins that are already running to the files that they wrote
	// because of FERMENT_ATTACH.
	Attached map[string]string
	// Asking, if set, is called with the name of each plugin before Load describes it, and with ""
	// afterwards, always from one goroutine.
	Asking func(plugin string)
}

// Loaded is a loaded configuration, with counts of how its plugins were described.
type Loaded struct {
	*config.Config
	cached, started, unchecked int
	recorded                   bool // loaded by LoadRecorded

	protocol sync.Once
	packaged edn.Value // the protocol package, created on first use
}

// Find returns the plugin with a name. The error is not-found and suggests the most similar name.
func (l *Loaded) Find(name string) (plugins.Plugin, *contract.Error) {
	var names []string
	for _, p := range l.Plugins {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	e := contract.Errorf("not-found", "there is no plugin %q in the configuration", name).
		WithHint("\"ferment plugin list\" shows the plugins")
	return plugins.Plugin{}, e.DidYouMean(contract.Nearest(name, names))
}

// Load loads the configuration and everything that it refers to. Problems of the configuration are
// in its diagnostics; Generation is nil if there are errors. The error is an *EnvironmentError, the
// cause of ctx, or that of an attached plugin.
func Load(ctx context.Context, o Options) (*Loaded, error) {
	env, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	return LoadIn(ctx, o, env)
}

// LoadIn is Load with an existing environment.
func LoadIn(ctx context.Context, o Options, env *Environment) (*Loaded, error) {
	d := &describer{
		noStart:   o.NoStart,
		asks:      env.Describer,
		asking:    o.Asking,
		inquiries: map[string]*plugin.Inquiry{},
		seen:      map[string]how{},
	}
	defer d.close()
	attached, err := attachments(o)
	if err != nil {
		return nil, err
	}
	cfg, _ := config.Load(ctx, o.Config, config.Options{
		Attached:  attached,
		Describer: d, Dir: o.Dir, Env: o.Env, Profile: o.Profile, Key: o.Key, HostVersion: o.Version,
		Locking: o.Lockfile.locking(), OnlyLocked: o.OnlyLocked, MayStart: o.mayStart,
		Advise: o.Advise,
	})
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	loaded := &Loaded{
		Config:    cfg,
		cached:    d.total(howCached),
		started:   d.total(howStarted),
		unchecked: d.total(howUnchecked),
	}
	for name := range attached {
		if _, missing := loaded.Find(name); missing != nil && loaded.Generation != nil {
			return nil, missing
		}
	}
	return loaded, nil
}

// LoadRecorded loads the configuration for a replay. recorded holds the recorded descriptions by
// plugin name. No plugin is started, and the programs need not exist. The error is import/invalid
// for a description that is not valid, or the cause of ctx.
func LoadRecorded(ctx context.Context, o Options, recorded map[string]edn.Value) (*Loaded, error) {
	all := make(map[string]contract.Description, len(recorded))
	for name, v := range recorded {
		d, err := contract.ParseDescription(v)
		if err != nil {
			return nil, contract.Errorf("import/invalid", "the description of plugin %q: %w", name, err)
		}
		all[name] = d
	}
	cfg, _ := config.Load(ctx, o.Config, config.Options{
		Recorded: all, Dir: o.Dir, Env: o.Env, Profile: o.Profile, HostVersion: o.Version,
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &Loaded{Config: cfg, recorded: true}, nil
}

// Unasked returns the enabled plugins that have a program but were not described. After
// LoadRecorded it returns those without a recorded description.
func (l *Loaded) Unasked() (names []string) {
	for _, p := range l.Plugins {
		if p.Enabled && !p.Described && (l.recorded || p.Binary != "") {
			names = append(names, p.Name)
		}
	}
	return names
}

// Descriptions returns the descriptions of the described plugins by name, in the form that
// LoadRecorded reads.
func (l *Loaded) Descriptions() map[string]edn.Value {
	all := map[string]edn.Value{}
	for _, p := range l.Plugins {
		if p.Enabled && p.Described {
			all[p.Name] = p.Description.Value()
		}
	}
	return all
}

// Summary returns one line of text about a configuration without errors.
func (l *Loaded) Summary() string {
	var plugins []string
	for _, part := range []struct {
		n    int
		what string
	}{{l.cached, "from cache"}, {l.started, "started"}, {l.unchecked, "unchecked"}} {
		if part.n > 0 {
			plugins = append(plugins, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	how := ""
	if len(plugins) > 0 {
		how = " (" + strings.Join(plugins, ", ") + ")"
	}
	files := diag.Counted(len(l.Files), "file")
	if names := fileNames(l.Files); len(names) <= 4 {
		files = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s ok: %s%s, %s, hash %s",
		files, diag.Counted(len(l.Plugins), "plugin"), how,
		diag.Counted(len(l.Generation.Registry.Intents()), "intent"), l.Hash)
}

func fileNames(files []*diag.Source) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return names
}

// describer implements plugins.Describer with the description cache, and starts programs that are
// not in it. It is not safe for concurrent use.
type describer struct {
	noStart   bool
	asks      *plugin.Describer
	asking    func(plugin string) // may be nil
	inquiries map[string]*plugin.Inquiry
	seen      map[string]how
}

var (
	_ plugins.Describer = (*describer)(nil)
	_ plugins.Hasher    = (*describer)(nil)
)

// Hash implements plugins.Hasher. The loader and the supervisor share one cache, so a program is
// read once.
func (d *describer) Hash(program string, files []string) (string, error) {
	return d.asks.HashProgram(program, files)
}

// Describe implements plugins.Describer.
func (d *describer) Describe(ctx context.Context, p plugins.Plugin, cfg edn.Value) (contract.Description, error) {
	q := d.inquiries[p.Name]
	if q == nil {
		q = d.asks.Ask(Settings(p))
		d.inquiries[p.Name] = q
	}
	if (d.noStart || !p.Startable) && !q.Known(cfg, p.Reads) {
		d.count(p.Name, howUnchecked)
		return contract.Description{}, plugins.ErrNotStarted
	}
	if d.asking != nil {
		d.asking(p.Name)
		defer d.asking("")
	}
	got, err := q.Describe(ctx, cfg, p.Reads)
	if killed(err) {
		q.Close()
		got, err = q.Describe(ctx, cfg, p.Reads)
	}
	if err != nil {
		return contract.Description{}, err
	}
	if len(got.Findings) > 0 {
		return contract.Description{}, plugins.Findings(got.Findings)
	}
	if got.Cached {
		d.count(p.Name, howCached)
	} else {
		d.count(p.Name, howStarted)
	}
	if p.Attached != "" {
		return withoutLimits(got.Description), nil
	}
	return got.Description, nil
}

// killed reports whether a process was killed by a signal while it was described. Such a
// description is retried once.
func killed(err error) bool {
	if errors.Is(err, contract.OfType("runtime/crashed")) {
		return true
	}
	var e *contract.Error
	return errors.As(err, &e) && e.Type == "runtime/start-failed" && e.Details.HasKey("signal")
}

// how is the way in which a plugin was described. If there are several, the highest value counts.
type how int

const (
	howCached how = iota + 1
	howUnchecked
	howStarted
)

func (d *describer) count(name string, h how) { d.seen[name] = max(d.seen[name], h) }

func (d *describer) total(h how) int {
	n := 0
	for _, got := range d.seen {
		if got == h {
			n++
		}
	}
	return n
}

func (d *describer) close() {
	for _, q := range d.inquiries {
		q.Close()
	}
}
