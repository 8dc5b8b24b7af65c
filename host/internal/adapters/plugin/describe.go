package plugin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Described is what a program says it is with one configuration.
type Described struct {
	contract.Description
	// Value is the description as the plugin gave it.
	Value edn.Value
	// Binary and Config are the hashes that the description belongs to; that of
	// the configuration includes the arguments of the command.
	Binary, Config string
	// Encoding is how the plugin wants to be called.
	Encoding wire.Encoding
	// Findings are the problems of the configuration. With any, Description is
	// empty.
	Findings []schema.Finding
	// Cached says that no process was needed.
	Cached bool
}

// Describer asks programs what they are, and remembers the answers: one file
// per pair of program and configuration. It is safe for many goroutines.
type Describer struct {
	dir     string // of the cache; empty: memory only
	runtime *launch.RuntimeDir
	reaper  *launch.Reaper
	host    wire.HostInfo
	hash    *hasher

	mu     sync.Mutex
	memory map[string]Described
	fresh  bool // answers come from programs
}

// Distrust makes the describer ask programs also where it knows an answer: what
// an operator approves is what a program says, not what a file does that anybody
// may have written. It must be called before the describer is used.
func (d *Describer) Distrust() { d.fresh = true }

// NewDescriber keeps its cache in dir ("" for none). reaper may be nil.
func NewDescriber(dir string, runtime *launch.RuntimeDir, reaper *launch.Reaper, host wire.HostInfo) *Describer {
	return &Describer{dir: dir, runtime: runtime, reaper: reaper, host: host, hash: newHasher(), memory: map[string]Described{}}
}

// Inquiry asks one program several times and starts it once at most. Close it.
type Inquiry struct {
	d        *Describer
	settings Settings
	p        *process
	readable []string // files that p may read because the configuration names them
}

// Ask begins an inquiry. Nothing is started before an answer is not known.
func (d *Describer) Ask(s Settings) *Inquiry { return &Inquiry{d: d, settings: s} }

// Describe gives the description of the program with the configuration and the
// files that it names; nil asks without one. The process runs without the
// environment and the secrets of the block. Errors are typed.
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
		q.Close() // it died over an earlier question, or may not read what this one is about
	}
	if q.p == nil {
		if err := q.start(ctx, files); err != nil {
			return Described{}, err
		}
	}
	d, err := q.d.ask(ctx, q.p, q.settings, binary, cfg, config)
	if err != nil {
		return d, contract.AsError(inTime(ctx, err, "describe itself", q.settings.StartTimeout))
	}
	return d, nil
}

// start starts the program, if it may run, with the files that it may read.
func (q *Inquiry) start(ctx context.Context, files []string) error {
	exe, _, err := q.d.approve(q.settings)
	if err != nil {
		return startFailure(q.settings.Name, 0, err, launch.Report{}).err
	}
	defer exe.close()
	p, rep, err := spawn(ctx, launching{
		settings: q.settings, exe: exe.file, runtime: q.d.runtime, reaper: q.d.reaper, workdir: q.settings.Workdir, bare: true,
		policy: func(sockets string) confine.Policy { return q.settings.describing(sockets, files) },
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

// Known tells whether the answer of Describe to the same question is kept, so
// that nothing would be started for it.
func (q *Inquiry) Known(config edn.Value, files []string) bool {
	binary, cfg, err := q.d.key(q.settings, config, files)
	if err != nil {
		return false
	}
	_, ok := q.d.recall(binary, cfg)
	return ok
}

// Close ends the process of the inquiry, if there is one.
func (q *Inquiry) Close() {
	if q.p != nil {
		q.p.discard(context.Canceled)
		q.p = nil
	}
}

// key names a description.
func (d *Describer) key(s Settings, config edn.Value, files []string) (binary, cfg string, err error) {
	if binary, err = d.HashProgram(s.Command[0], s.Files); err != nil {
		return "", "", contract.Errorf("runtime/start-failed", "plugin %s: %w", s.Name, err)
	}
	cfg, err = d.configKey(s, config, files)
	return binary, cfg, err
}

// configKey names all that a description depends on besides the program: the
// configuration, the content of the files that it names, and the arguments with
// the directory that they are read in.
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

// ask describes by a running process and keeps the answer, in the files only if
// the program is its own: one that somebody attached is gone with its socket.
func (d *Describer) ask(ctx context.Context, p *process, s Settings, binary, cfg string, config edn.Value) (Described, error) {
	answer, err := p.wire.Describe(ctx, config, d.host)
	if err != nil {
		return Described{}, contract.AsError(err).WithOp("describe", "plugin "+p.name)
	}
	full := Described{Value: answer.Value, Binary: binary, Config: cfg, Encoding: answer.Encoding, Findings: answer.Findings}
	if len(answer.Findings) > 0 {
		return full, nil // what is wrong with a configuration is not kept
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

// attached tells that the command leads to a process that somebody else started.
func (s Settings) attached() bool { return len(s.Command) > 1 && s.Command[1] == launch.BridgeCommand }

// recall looks in memory, then on disk.
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

// remember keeps a description as long as the describer.
func (d *Describer) remember(full Described) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[full.Binary+"-"+full.Config] = full
}

// write keeps a description for later programs. A cache that cannot be written
// costs a start the next time, no more.
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

// replaceFile writes a file so that a reader finds the old one or the new one.
// It does not wait for the disk: an entry that a power cut breaks is no answer.
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

// read takes an entry of the cache only if it is whole, belongs to the pair and
// has the content that it was written with.
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
