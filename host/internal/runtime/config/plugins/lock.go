package plugins

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Options are the options for reading plugin blocks.
type Options struct {
	Describer       Describer // nil: plugins are not described
	DescribeTimeout time.Duration
	Env             func(string) (string, bool)
	Key             []byte // of the secret hashes; empty: no hashes
	Locking         lock.Mode
	OnlyLocked      bool
	MayStart        func(plugin string) bool // nil: none may
	Attached        map[string]Attachment
	Recorded        map[string]contract.Description // nil: programs are started
	DataDir         string
	LockFile        string
}

// locked is the lock file of a load.
type locked struct {
	name   string // as printed
	file   lock.File
	there  bool
	broken bool
}

// lockPolicy returns what the lock file permits in this load.
func (r *Reader) lockPolicy() lock.Policy {
	return lock.Policy{Mode: r.Options.Locking, Strict: strictProfile(r.Profile), Listed: r.Options.OnlyLocked}
}

// strictProfile reports whether only approved programs are started in a profile; in dev and test
// others are, too.
func strictProfile(profile string) bool {
	return profile != language.ProfileDev && profile != language.ProfileTest
}

// lockUnknown reports whether the settings that select the lock file or the profile are invalid.
func (r *Reader) lockUnknown() bool {
	return r.Report.Doubts("ferment", "profile") || r.Report.Doubts("ferment", "lock_file")
}

// readLock reads the lock file and reports errors in it.
func (r *Reader) readLock() {
	path := r.Options.LockFile
	if r.Options.Locking == lock.Ignored || path == "" || r.lockUnknown() {
		return
	}
	r.locked.name = disk.PrintedName(r.Dir, path)
	var err error
	r.locked.file, r.locked.there, err = lock.Read(r.locked.name, path)
	if err == nil {
		return
	}
	r.locked.broken = true
	var wrong *lock.DecodeError
	if !errors.As(err, &wrong) {
		r.Report.Add(diag.Diagnostic{
			Type:    "config/lock",
			Message: fmt.Sprintf("the lock file %s cannot be read: %s", diag.Quote(r.locked.name), disk.Cause(err)),
			Range:   r.Root.Block("ferment").Attrs["lock_file"].At,
			Path:    []string{"ferment", "lock_file"},
			Hint:    "make it readable for the user of the host, or write it again: ferment plugin lock",
		})
		return
	}
	source := r.lockSource(path)
	for _, p := range wrong.Problems {
		d := diag.Diagnostic{
			Type:    p.Type,
			Message: p.Message,
			Range:   &diag.Range{File: r.locked.name},
			Nearest: p.Nearest,
			Hint:    p.Hint,
		}
		if source != nil {
			d.Range = source.Span(p.From, p.To)
		}
		if p.Expected != "" {
			d.Expected = edn.Text(p.Expected)
		}
		if p.Found != "" {
			d.Found = edn.Text(p.Found)
		}
		r.Report.Add(d)
	}
}

// LockFile returns the lock file; empty if it was not read.
func (r *Reader) LockFile() lock.File { return r.locked.file }

// lockSource returns the lock file for excerpts; nil if it cannot be read.
func (r *Reader) lockSource(path string) *diag.Source {
	raw, err := disk.ReadConfig(r.locked.name, path, syntax.MaxFileBytes)
	if err != nil {
		return nil
	}
	s := diag.NewSource(r.locked.name, path, len(r.Set.Files), raw)
	r.Set.Sources[r.locked.name] = s
	return s
}

// programLocked compares the program of a plugin with the lock file before it is executed, and
// decides whether it may be started.
func (r *Reader) programLocked(s *decode.Section, p *Plugin) {
	p.Startable = true
	if r.Options.Locking == lock.Ignored || p.Attached != "" {
		return
	}
	p.Startable = r.Options.MayStart != nil && r.Options.MayStart(p.Name)
	if r.locked.broken || r.lockUnknown() {
		return // reported once, at the file
	}
	entry, ok := r.locked.file.Plugin(p.Name)
	if !ok {
		p.Lock = lock.StateAbsent
		p.Startable = p.Startable || r.lockPolicy().MayStart(p.Lock)
		r.unlocked(s, p)
		return
	}
	p.Lock = lock.StateMatches
	for _, d := range entry.CompareProgram(lock.Platform(), disk.PrintedName(r.Dir, p.Command[0]), p.Hashes.Program,
		p.Hashes.Files) {
		p.Lock = p.Lock.With(d)
		if _, known := entry.Binary(lock.Platform()); !known && d.Level == lock.Absent {
			r.Report.Fold("not locked for this platform", r.lockProblem(s, d)) // often the whole file
			continue
		}
		r.differs(s, d)
	}
	p.Startable = p.Startable || r.lockPolicy().MayStart(p.Lock)
}

// unlocked reports a plugin without an entry. A missing lock file is reported once, not for each
// plugin.
func (r *Reader) unlocked(s *decode.Section, p *Plugin) {
	d := lock.NotLocked(p.Name)
	out := r.lockProblem(s, d)
	out.Nearest = r.lockedLabel(p.Name)
	refers := func(c *decode.Section) bool { return c.Text("plugin") == out.Nearest }
	if out.Nearest != "" && slices.ContainsFunc(r.All("capability"), refers) {
		return // that reference is reported, with the label of this plugin
	}
	if near := diag.DidYouMean(out.Nearest); near != "" {
		out.Hint = near + " If not, " + out.Hint
	}
	if !r.locked.there {
		out.Message = fmt.Sprintf("there is no lock file %s: nothing says which programs may run", diag.Quote(r.locked.name))
		out.Hint = fmt.Sprintf("%q writes it", d.Command())
	}
	if r.Options.OnlyLocked && r.lockPolicy().Lenient() {
		out.Hint += "; until then it is not started to be checked, unless --describe is given"
	}
	if r.locked.there {
		r.Report.Add(out)
		return
	}
	r.Report.Fold("no lock file", out)
}

// lockedLabel returns the label in the lock file that is most similar to a label, among those
// without a block; empty if there is none.
func (r *Reader) lockedLabel(label string) string {
	var left []string
	for _, entry := range r.locked.file.Plugins {
		has := func(s *decode.Section) bool { return s.Label() == entry.Name }
		if !slices.ContainsFunc(r.All("plugin"), has) {
			left = append(left, entry.Name)
		}
	}
	return diag.Nearest(label, left)
}

// descriptionLocked compares the description of a plugin with the lock file.
func (r *Reader) descriptionLocked(s *decode.Section, p *Plugin) {
	if r.Options.Locking == lock.Ignored || !p.Described {
		return
	}
	entry, ok := r.locked.file.Plugin(p.Name)
	if !ok {
		return
	}
	for _, d := range entry.CompareDescription(p.LockEntry()) {
		p.Lock = p.Lock.With(d)
		r.differs(s, d)
	}
}

func (r *Reader) differs(s *decode.Section, d lock.Difference) { r.Report.Add(r.lockProblem(s, d)) }

func (r *Reader) lockProblem(s *decode.Section, d lock.Difference) diag.Diagnostic {
	out := diag.Diagnostic{
		Type:    "config/lock",
		Message: d.Message(),
		Range:   s.Attrs["command"].At,
		Path:    s.Node.Path,
		Hint:    d.Hint(),
	}
	if d.Level != lock.Absent {
		out.Expected, out.Found = edn.Text(d.Locked), edn.Text(d.Found)
	}
	if d.Level == lock.Escalation {
		out.Range = s.At()
	}
	if !r.lockPolicy().Refuses(d.Level) {
		out.Severity = diag.SeverityWarning
	}
	return out
}

// Hashes are the hashes of the files that a plugin block executes.
type Hashes struct {
	Program string        // of the first element of command, as "b3:..."
	Files   []lock.Hashed // by path relative to the root
}

// All returns the hash of the program and those of its files.
func (h Hashes) All() []string {
	all := []string{h.Program}
	for _, f := range h.Files {
		all = append(all, f.Hash)
	}
	return all
}

// LockEntry returns the lock file entry for the current state of the plugin, with the hash of this
// platform only.
func (p Plugin) LockEntry() lock.Plugin {
	e := lock.Plugin{
		Name:     p.Name,
		Version:  p.Description.Version,
		Protocol: fmt.Sprintf("ferment.plugin.v%d", wire.Protocol),
		Needs:    lockedNeeds(p),
		Ports:    lockedPorts(p),
		Binaries: []lock.Binary{{Platform: lock.Platform(), Hash: p.Hashes.Program}},
		Files:    slices.Clone(p.Hashes.Files),
	}
	for _, c := range p.Description.Capabilities {
		e.Capabilities = append(e.Capabilities, lock.Capability{ID: c.ID, Effects: c.Effects, Intents: c.Intents})
	}
	f := lock.NewFile(e)
	return f.Plugins[0]
}

// lockedNeeds returns the needs of a plugin that require approval.
func lockedNeeds(p Plugin) []string { return plugin.Narrowed(p.Description.Needs, p.Needs) }

// lockedPorts returns the ports of a plugin; nil if the block permits no need of the network.
func lockedPorts(p Plugin) []uint16 {
	needs := lockedNeeds(p)
	if slices.Contains(needs, "net/connect") || slices.Contains(needs, "net/loopback") {
		return p.Description.Ports
	}
	return nil
}

// hashesOf sets the hashes of the program of a plugin and of its files.
func (r *Reader) hashesOf(p *Plugin) error {
	program, err := r.binaryHash(p.Command[0], nil)
	if err != nil {
		return err
	}
	p.Hashes.Program = program
	for _, path := range p.Files {
		hash, err := r.binaryHash(path, nil)
		if err != nil {
			return err
		}
		p.Hashes.Files = append(p.Hashes.Files, lock.Hashed{
			Path: filepath.ToSlash(disk.PrintedName(r.Dir, path)),
			Hash: hash,
		})
	}
	return nil
}

// notStarted warns that a plugin is not checked, unless the reason is the lock file, which is
// reported elsewhere.
func (r *Reader) notStarted(s *decode.Section, p *Plugin) {
	if p.Startable {
		r.unchecked(s, p, "it was not started")
		return
	}
	p.Undescribed = contract.Errorf("config/lock", "plugin %s was not described: the lock file does not approve its program",
		diag.Quote(p.Name)).WithHint(fmt.Sprintf("\"ferment plugin lock %s\" approves it", p.Name))
}
