package setup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Lockfile selects how a host applies the lock file.
type Lockfile string

// Values of Lockfile.
const (
	// LockfileChecked starts the programs that the file approves, and in
	// non-strict profiles also programs that it does not list.
	LockfileChecked Lockfile = ""
	// LockfileReadonly starts only programs that match the file exactly.
	LockfileReadonly Lockfile = "readonly"
	// LockfileShown reports all differences as warnings; it is for commands that only read.
	LockfileShown Lockfile = "shown"
)

func (l Lockfile) locking() lock.Mode {
	switch l {
	case LockfileReadonly:
		return lock.Readonly
	case LockfileShown:
		return lock.Shown
	}
	return lock.Checked
}

// LockWish selects what Lock writes.
type LockWish struct {
	// Check computes the outcome without writing.
	Check bool
	// Approve is the name of the only plugin whose entry is written, even if it requests more than
	// its old entry has. Empty: all plugins, unless one requests more than its entry has.
	Approve string
}

// LockChange is the change of one plugin's entry.
type LockChange struct {
	Plugin  string
	Change  string // "added", "updated", "unchanged", "kept", "removed" or "refused"
	Version string
	// Differences between the entry and the plugin.
	Differences []lock.Difference
	Note        string // why an entry was kept, or which parts were left out
}

// LockOutcome is the result of Lock.
type LockOutcome struct {
	Path    string // path of the lock file
	Name    string // the path for display
	Changed bool   // the content of the file changed, or would change
	Plugins []LockChange
}

// Refused returns the changes that require an approval.
func (o *LockOutcome) Refused() []LockChange {
	return slices.DeleteFunc(slices.Clone(o.Plugins), func(c LockChange) bool { return c.Change != "refused" })
}

// Lock describes the plugins without the cache, and writes the lock file. If a plugin requests more
// than its entry has, nothing is written, the error is nil, and Refused of the outcome is not
// empty. The error is an *InvalidConfigError, an *EnvironmentError, or that of an unknown plugin or
// an invalid lock file.
func Lock(ctx context.Context, o Options, wish LockWish) (*LockOutcome, error) {
	env, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	env.Describer.Distrust()
	return LockIn(ctx, o, env, wish)
}

// LockIn is Lock with an environment whose describer ignores the cache.
func LockIn(ctx context.Context, o Options, env *Environment, wish LockWish) (*LockOutcome, error) {
	o.Lockfile = LockfileShown
	o.mayStart = func(name string) bool { return wish.Approve == "" || wish.Approve == name }
	loaded, err := LoadIn(ctx, o, env)
	if err != nil {
		return nil, err
	}
	if loaded.Generation == nil {
		return nil, &InvalidConfigError{Config: loaded.Config}
	}
	if wish.Approve != "" {
		if err := loaded.named(wish.Approve); err != nil {
			return nil, err
		}
	}
	path := loaded.Host.LockFile
	out := &LockOutcome{Path: path, Name: shownPath(o.Dir, path)}
	change := func(old lock.File, _ bool, err error) (lock.File, error) {
		if err != nil {
			return lock.File{}, lockReadError(err)
		}
		return out.merge(loaded.Config, old, wish)
	}
	if wish.Check {
		return out, out.check(change)
	}
	before, _ := os.ReadFile(path)
	err = lock.Update(out.Name, path, change)
	if len(out.Refused()) > 0 {
		return out, nil
	}
	if err != nil {
		return nil, lockWriteError(err)
	}
	after, _ := os.ReadFile(path)
	out.Changed = !bytes.Equal(before, after)
	return out, nil
}

// errRefused prevents the write; the outcome has the reasons.
var errRefused = fmt.Errorf("a plugin asks for more than was approved")

// check computes the outcome without writing.
func (o *LockOutcome) check(change func(lock.File, bool, error) (lock.File, error)) error {
	f, err := change(lock.Read(o.Name, o.Path))
	if err == errRefused {
		o.Changed = true
		return nil
	}
	if err != nil {
		return err
	}
	want, err := f.Encode()
	if err != nil {
		return err
	}
	have, _ := os.ReadFile(o.Path) // a missing file differs from any content
	o.Changed = !bytes.Equal(want, have)
	return nil
}

// merge returns the new content of the lock file, and sets Plugins.
func (o *LockOutcome) merge(c *config.Config, old lock.File, wish LockWish) (lock.File, error) {
	o.Plugins = nil
	next := lock.File{}
	if wish.Approve != "" {
		next = old
	}
	configured := map[string]bool{}
	for _, p := range c.Plugins {
		configured[p.Name] = true
		if wish.Approve != "" && wish.Approve != p.Name {
			continue
		}
		entry, had := old.Plugin(p.Name)
		change := LockChange{Plugin: p.Name, Version: p.Description.Version}
		switch {
		case !p.Described:
			change.Change, change.Version, change.Note = "kept", entry.Version, absence(p)
			if had {
				next = next.With(entry)
			} else {
				change.Change = "skipped"
			}
		case !had:
			change.Change = "added"
			next = next.With(p.LockEntry())
		default:
			next = o.renew(p, entry, &change, next, wish)
		}
		o.Plugins = append(o.Plugins, change)
	}
	for _, p := range old.Plugins {
		if !configured[p.Name] && wish.Approve == "" {
			o.Plugins = append(o.Plugins, LockChange{
				Plugin:  p.Name,
				Version: p.Version,
				Change:  "removed",
				Note:    "no plugin block has this name",
			})
		}
	}
	if len(o.Refused()) > 0 {
		return old, errRefused
	}
	return next, nil
}

// renew updates the entry of a plugin in next, and sets the change.
func (o *LockOutcome) renew(
	p plugins.Plugin, entry lock.Plugin, change *LockChange, next lock.File, wish LockWish,
) lock.File {
	now := p.LockEntry()
	change.Differences = append(entry.CompareProgram(lock.Platform(), p.Command[0], p.Hashes.Program, p.Hashes.Files),
		entry.CompareDescription(now)...)
	escalates := slices.ContainsFunc(change.Differences,
		func(d lock.Difference) bool { return d.Level == lock.Escalation })
	switch {
	case len(change.Differences) == 0:
		change.Change = "unchanged"
	case escalates && wish.Approve == "":
		change.Change = "refused"
	default:
		change.Change = "updated"
	}
	for _, b := range entry.Binaries {
		switch {
		case b.Platform == lock.Platform():
		case entry.Version == now.Version:
			now = now.WithBinary(b.Platform, b.Hash)
		default:
			change.Note = fmt.Sprintf("the hashes of other platforms were of version %s and were removed",
				entry.Version)
		}
	}
	return next.With(now)
}

// absence returns the reason why a plugin has no description.
func absence(p plugins.Plugin) string {
	switch {
	case !p.Enabled:
		return "it is disabled"
	case p.Binary == "":
		return "its program does not exist"
	}
	return "it has no description"
}

// LockPlatform adds the hashes of programs for another platform to existing entries. A target
// without a plugin applies to every plugin whose program has the same file name. No program is
// started. The error is invalid-request for a platform that is not valid, not-found for a target
// without a plugin, and config/lock for a plugin without an entry.
func LockPlatform(ctx context.Context, o Options, platform string, targets []Target) (*LockOutcome, error) {
	if !lock.ValidPlatform(platform) {
		return nil, contract.Errorf("invalid-request", "%q is not a platform: expected OS/ARCH, such as linux/arm64",
			platform)
	}
	env, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	o.Lockfile, o.NoStart = LockfileShown, true
	loaded, err := LoadIn(ctx, o, env)
	if err != nil {
		return nil, err
	}
	if loaded.Generation == nil {
		return nil, &InvalidConfigError{Config: loaded.Config}
	}
	path := loaded.Host.LockFile
	out := &LockOutcome{Path: path, Name: shownPath(o.Dir, path)}
	err = lock.Update(out.Name, path, func(old lock.File, _ bool, err error) (lock.File, error) {
		if err != nil {
			return lock.File{}, lockReadError(err)
		}
		for _, t := range targets {
			hash, err := plugin.HashProgram(t.File, nil)
			if err != nil {
				return lock.File{}, &EnvironmentError{"hash the program for " + platform, err}
			}
			names := loaded.runs(t)
			if len(names) == 0 {
				return lock.File{}, contract.Errorf("not-found",
					"no plugin of the configuration runs a program named %s", programName(t.File)).
					WithHint("name the plugin too: PLUGIN=" + t.File)
			}
			for _, name := range names {
				entry, ok := old.Plugin(name)
				if !ok {
					return lock.File{}, lock.NotLocked(name).Err()
				}
				change := LockChange{
					Plugin:  name,
					Version: entry.Version,
					Change:  "updated",
					Note:    platform + " " + hash,
				}
				if before, _ := entry.Binary(platform); before == hash {
					change.Change = "unchanged"
				} else {
					out.Changed = true
				}
				out.Plugins = append(out.Plugins, change)
				old = old.With(entry.WithBinary(platform, hash))
			}
		}
		return old, nil
	})
	if err != nil {
		return nil, lockWriteError(err)
	}
	return out, nil
}

// Target is a program for another platform.
type Target struct {
	Plugin string // empty: plugins whose program has the same file name
	File   string // absolute path
}

// runs returns the names of the plugins that a target applies to.
func (l *Loaded) runs(t Target) []string {
	var names []string
	for _, p := range l.Plugins {
		if t.Plugin == p.Name || t.Plugin == "" && len(p.Command) > 0 &&
			programName(p.Command[0]) == programName(t.File) {
			names = append(names, p.Name)
		}
	}
	return names
}

// programName returns the file name of a program without .exe.
func programName(path string) string {
	name := filepath.Base(path)
	if filepath.Ext(name) == ".exe" {
		return name[:len(name)-len(".exe")]
	}
	return name
}

// named returns an error unless the configuration has a described plugin with the name.
func (l *Loaded) named(name string) error {
	p, err := l.Find(name)
	switch {
	case err != nil:
		return err
	case !p.Described:
		return contract.Errorf("config/lock", "plugin %s cannot be approved: %s", name, absence(p))
	}
	return nil
}

func shownPath(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// lockReadError returns the error for a lock file that cannot be read.
func lockReadError(err error) error {
	if wrong, ok := err.(*lock.DecodeError); ok {
		return wrong.Typed().WithHint("correct the file, or remove it and run \"ferment plugin lock\"")
	}
	return &EnvironmentError{"change the lock file", err}
}

// lockWriteError returns the error for a failed write; the old file is intact.
func lockWriteError(err error) error {
	switch err.(type) {
	case *contract.Error, *EnvironmentError:
		return err
	}
	return &EnvironmentError{"write the lock file", err}
}

// Value returns the outcome as an EDN map.
func (o *LockOutcome) Value() edn.Value {
	plugins := make([]edn.Value, len(o.Plugins))
	for i, c := range o.Plugins {
		var b edn.MapBuilder
		b.Key("plugin", edn.Text(c.Plugin))
		b.Key("change", edn.K(c.Change))
		b.Key("version", edn.Text(c.Version))
		b.OptText("note", c.Note)
		differences := make([]edn.Value, len(c.Differences))
		for i, d := range c.Differences {
			differences[i] = edn.MustMap(
				edn.K("what"), edn.Text(d.Subject),
				edn.K("expected"), edn.Text(d.Locked),
				edn.K("found"), edn.Text(d.Found),
				edn.K("escalates?"), edn.Bool(d.Level == lock.Escalation),
			)
		}
		b.Key("differences", edn.Vector(differences...))
		plugins[i] = b.Map()
	}
	return edn.MustMap(
		edn.K("lock-file"), edn.Text(o.Name),
		edn.K("changed?"), edn.Bool(o.Changed),
		edn.K("plugins"), edn.Vector(plugins...),
	)
}

// LockedVersion returns the version of a plugin in the lock file; empty if it has no entry.
func (l *Loaded) LockedVersion(name string) string {
	entry, _ := l.Lock.Plugin(name)
	return entry.Version
}

// Locked returns the lock state of a plugin as the name of an EDN keyword.
func Locked(p plugins.Plugin) string {
	if p.Lock == lock.StateUnknown {
		return "unknown"
	}
	return string(p.Lock)
}
