package plugin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Described is the description of a program for one configuration.
type Described struct {
	contract.Description
	// Value is the description as the plugin sent it.
	Value edn.Value
	// Binary and Config are the hashes that identify the program and the
	// configuration; Config includes the arguments of the command.
	Binary, Config string
	// Encoding is the encoding that the plugin requests.
	Encoding wire.Encoding
	// Findings are the problems of the configuration. If there are any,
	// Description is empty.
	Findings []schema.Finding
	// Cached reports that no process was started for the description.
	Cached bool
}

// Describer asks programs for their description and caches the answers: one
// file per program and configuration. It is safe for concurrent use.
type Describer struct {
	dir     string // directory of the cache; empty: memory only
	runtime *rundir.Dir
	reaper  *launch.Reaper
	host    wire.HostInfo
	hash    *hasher

	mu     sync.Mutex
	memory map[string]Described
	fresh  bool // ignore the file cache
}

// Distrust makes the describer ignore its file cache, which any process of the user may have
// written. It is for the approval of a program by an operator, and must be called before the
// describer is used.
func (d *Describer) Distrust() { d.fresh = true }

// NewDescriber returns a describer with its cache in dir ("": memory only).
// reaper may be nil.
func NewDescriber(dir string, runtime *rundir.Dir, reaper *launch.Reaper, host wire.HostInfo) *Describer {
	return &Describer{
		dir:     dir,
		runtime: runtime,
		reaper:  reaper,
		host:    host,
		hash:    newHasher(),
		memory:  map[string]Described{},
	}
}

// Inquiry asks one program for descriptions with several configurations. The process is reused
// between questions where possible. An Inquiry must be closed; it is not safe for concurrent use.
type Inquiry struct {
	d        *Describer
	settings Settings
	p        *process
	readable []string // configuration files that p may read
}

// Ask returns an inquiry for the program in s. The program is started when a description is not
// cached. The caller must close the inquiry.
func (d *Describer) Ask(s Settings) *Inquiry { return &Inquiry{d: d, settings: s} }

// Describe returns the description of the program for config and the files that it names; with a
// nil config it asks without a configuration. The process runs without the environment and the
// secrets of the plugin block. Errors are of type *contract.Error. It blocks for at most
// StartTimeout.
func (q *Inquiry) Describe(ctx context.Context, config edn.Value, files []string) (Described, error) {
	binary, cfg, err := q.d.key(q.settings, config, files)
	if err != nil {
		return Described{}, err
	}
	if known, ok := q.d.recall(binary, cfg); ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.settings.StartTimeout)
	defer cancel()
	if q.p != nil && (waitFor(q.p.done(), 0) || !subset(files, q.readable)) {
		q.Close() // p has ended, or may not read files
	}
	if q.p == nil {
		if err := q.start(ctx, files); err != nil {
			return Described{}, err
		}
	}
	d, err := q.d.ask(ctx, q.p, q.settings, binary, cfg, config)
	if err != nil && wire.Transport(err) && waitFor(q.p.done(), exitWait(err)) {
		p := q.p
		q.Close()
		return d, startFailure(q.settings.Name, 0, errEnded(err, p.runner.Report()), p.runner.Report()).err
	}
	if err != nil {
		return d, contract.AsError(explainTimeout(ctx, err, "describe itself", q.settings.StartTimeout))
	}
	return d, nil
}

// start starts the program, if it is approved, with access to files.
func (q *Inquiry) start(ctx context.Context, files []string) error {
	exe, _, err := q.d.approve(q.settings)
	if err != nil {
		return startFailure(q.settings.Name, 0, err, launch.Report{}).err
	}
	defer exe.close()
	p, rep, err := spawn(ctx, launching{
		settings: q.settings,
		exe:      exe.file,
		runtime:  q.d.runtime,
		reaper:   q.d.reaper,
		workdir:  q.settings.Workdir,
		bare:     true,
		policy:   func(sockets string) confine.Policy { return q.settings.describePolicy(sockets, files) },
	})
	if err != nil {
		return startFailure(q.settings.Name, 0, err, rep).err
	}
	if err := q.d.same(q.settings, exe, p.pid()); err != nil {
		p.discard(err)
		return startFailure(q.settings.Name, 0, err, p.runner.Report()).err
	}
	q.p, q.readable = p, files
	return nil
}

func subset(files, of []string) bool {
	return !slices.ContainsFunc(files, func(f string) bool { return !slices.Contains(of, f) })
}

// Known reports whether the answer of Describe is cached, so that no process is
// started for it.
func (q *Inquiry) Known(config edn.Value, files []string) bool {
	binary, cfg, err := q.d.key(q.settings, config, files)
	if err != nil {
		return false
	}
	_, ok := q.d.recall(binary, cfg)
	return ok
}

// Close stops the process of the inquiry, if it was started. Describe may be called again
// afterwards.
func (q *Inquiry) Close() {
	if q.p != nil {
		q.p.discard(context.Canceled)
		q.p = nil
	}
}

// key returns the hashes that identify a description.
func (d *Describer) key(s Settings, config edn.Value, files []string) (binary, cfg string, err error) {
	if binary, err = d.HashProgram(s.Command[0], s.Files); err != nil {
		return "", "", contract.Errorf("runtime/start-failed", "plugin %s: %w", s.Name, err)
	}
	cfg, err = d.configKey(s, config, files)
	return binary, cfg, err
}

// configKey returns the hash of everything but the program that a description depends on: the
// configuration, the content of the files that it names, and the arguments with the working
// directory.
func (d *Describer) configKey(s Settings, config edn.Value, files []string) (string, error) {
	cfg, err := d.hash.config(config, files)
	if err != nil {
		return "", contract.Errorf("runtime/start-failed", "configuration of plugin %s: %w", s.Name, err)
	}
	if len(s.Command) < 2 {
		return cfg, nil
	}
	words := []edn.Value{edn.Text(cfg), edn.Text(s.Workdir)}
	for _, arg := range s.Command[1:] {
		words = append(words, edn.Text(arg))
	}
	return edn.Hash(edn.Vector(words...)), nil
}

// ask gets the description from a running process and caches it. Descriptions of attached programs
// are not written to disk, because their command has the path of a socket that is not valid later.
func (d *Describer) ask(ctx context.Context, p *process, s Settings, binary, cfg string,
	config edn.Value,
) (Described, error) {
	answer, err := p.wire.Describe(ctx, config, d.host)
	if err != nil {
		return Described{}, contract.AsError(err).WithOp("describe", "plugin "+p.name)
	}
	full := Described{
		Value:    answer.Value,
		Binary:   binary,
		Config:   cfg,
		Encoding: answer.Encoding,
		Findings: answer.Findings,
	}
	if len(answer.Findings) > 0 {
		return full, nil // findings are not cached
	}
	if full.Description, err = contract.ParseDescription(answer.Value); err != nil {
		return Described{}, contract.AsError(err).WithOp("describe", "plugin "+p.name)
	}
	full.Value = answer.Value.Detach()
	d.remember(full)
	if !s.attached() {
		d.write(full)
	}
	return full, nil
}

// attached reports whether the command connects to a process that is already running.
func (s Settings) attached() bool { return len(s.Command) > 1 && s.Command[1] == launch.BridgeCommand }

// recall returns a cached description, from memory or from disk.
func (d *Describer) recall(binary, cfg string) (Described, bool) {
	key := binary + "-" + cfg
	d.mu.Lock()
	known, ok := d.memory[key]
	d.mu.Unlock()
	if !ok && !d.fresh {
		if known, ok = d.read(binary, cfg); ok {
			d.mu.Lock()
			d.memory[key] = known
			d.mu.Unlock()
		}
	}
	known.Cached = true
	return known, ok
}

// remember caches a description in memory.
func (d *Describer) remember(full Described) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[full.Binary+"-"+full.Config] = full
}

// write caches a description on disk. If that fails, the next host has to start the program.
func (d *Describer) write(full Described) {
	path := d.path(full.Binary, full.Config)
	if path == "" || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	var entry edn.MapBuilder
	entry.Key("describe/v", edn.Int(1))
	entry.Key("binary", edn.Text(full.Binary))
	entry.Key("config", edn.Text(full.Config))
	entry.Key("encoding", edn.Text(string(full.Encoding)))
	entry.Key("hash", edn.Text(edn.Hash(full.Value)))
	entry.Key("description", full.Value)
	_ = replaceFile(path, append(entry.Map().Canonical(), '\n'))
}

// replaceFile replaces a file atomically for readers. It does not sync: read ignores an entry that
// was damaged by a power failure.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// read returns an entry of the cache if it is complete, belongs to the pair and
// matches its hash.
func (d *Describer) read(binary, cfg string) (Described, bool) {
	path := d.path(binary, cfg)
	if path == "" {
		return Described{}, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Described{}, false
	}
	entry, err := edn.Read(text, edn.WithLimits(edn.Stored))
	if err != nil {
		return Described{}, false
	}
	value := entry.Key("description")
	for key, want := range map[string]string{"binary": binary, "config": cfg, "hash": edn.Hash(value)} {
		if got, ok := entry.Key(key).AsString(); !ok || got != want {
			return Described{}, false
		}
	}
	enc, _ := entry.Key("encoding").AsString()
	parsed, err := contract.ParseDescription(value)
	if err != nil {
		return Described{}, false
	}
	return Described{Description: parsed, Value: value, Binary: binary, Config: cfg, Encoding: wire.Encoding(enc)}, true
}

func (d *Describer) path(binary, cfg string) string {
	if d.dir == "" {
		return ""
	}
	short := func(hash string) string { return strings.TrimPrefix(hash, "b3:") }
	return filepath.Join(d.dir, short(binary)+"-"+short(cfg)+".edn")
}
