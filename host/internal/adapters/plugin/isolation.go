package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Isolation holds the rights that an operator grants to the processes of a plugin. A process gets
// their intersection with the needs and effects that the plugin declares; only ReadPaths, which
// include the files of a language runtime, apply in full.
type Isolation struct {
	// Level is empty if none is configured; then the strongest level that the machine supports
	// applies.
	Level      confine.Level
	BestEffort bool
	Network    confine.Network
	Ports      []uint16
	// Absolute paths. Exec has programs and directories of programs; Programs reports whether any
	// were configured, even if they do not exist.
	ReadPaths, WritePaths, Exec []string
	Programs                    bool
	Limits                      confine.ResourceLimits
	// Unheld is set if the operator requires enforcement that this machine cannot provide. The
	// plugin is then not started. See [Settings.Unheld].
	Unheld Unheld
}

// Unheld lists the needs and effects of a plugin that are not enforced. The zero value means that
// all are enforced.
type Unheld struct {
	What []string // needs and effects, sorted
	Why  string
	Hint string
}

// Any reports whether anything is not enforced.
func (u Unheld) Any() bool { return len(u.What) > 0 }

// Error returns the error for a plugin that is not started because of u.
func (u Unheld) Error() *contract.Error {
	return contract.Errorf("runtime/not-ready", "%s", u.Text()).WithDetail("unheld", edn.Keywords(u.What...)).
		WithHint(u.Hint)
}

// Text describes u in one sentence.
func (u Unheld) Text() string {
	return fmt.Sprintf("nothing would confine its use of %s, but effects.enforcement = \"strict\" requires it: %s",
		strings.Join(u.What, ", "), u.Why)
}

// DefaultIsolation is the isolation of a plugin block without an isolation
// block.
func DefaultIsolation() Isolation {
	return Isolation{Network: confine.Offline, Limits: confine.ResourceLimits{OpenFiles: 1024}}
}

// httpsPort is the port granted with a network if neither the operator nor the
// plugin names one.
const httpsPort = 443

// Ungranted is a need of a plugin that its isolation does not grant.
type Ungranted struct {
	Need string
	// Line is the configuration attribute that grants it.
	Line string
}

// grants lists the configuration attribute that grants each need.
var grants = []struct {
	need, line string
	given      func(Isolation) bool
}{
	{"fs/read", `read_paths = ["DIRECTORY"]`, func(i Isolation) bool { return len(i.ReadPaths)+len(i.WritePaths) > 0 }},
	{"fs/write", `write_paths = ["DIRECTORY"]`, func(i Isolation) bool { return len(i.WritePaths) > 0 }},
	{"net/connect", `network = "ports"`, func(i Isolation) bool { return i.Network == confine.Ports }},
	{"net/loopback", `network = "loopback"`,
		func(i Isolation) bool { return i.Network == confine.Loopback || i.Network == confine.Ports }},
	{"process/run", `exec = ["PROGRAM"]`, func(i Isolation) bool { return i.Programs || len(i.Exec) > 0 }},
}

// Ungranted returns the needs that the isolation does not grant; nil if it grants all. process/self
// and fs/watch need no attribute.
func (i Isolation) Ungranted(needs []string) []Ungranted {
	var missing []Ungranted
	for _, g := range grants {
		if slices.Contains(needs, g.need) && !g.given(i) {
			missing = append(missing, Ungranted{Need: g.need, Line: g.line})
		}
	}
	return missing
}

// UngrantedError returns the error for a plugin that is not started because its isolation does not
// grant the needs in missing.
func UngrantedError(missing []Ungranted) *contract.Error {
	needs, lines := make([]string, len(missing)), make([]string, len(missing))
	for i, m := range missing {
		needs[i], lines[i] = m.Need, m.Line
	}
	return contract.Errorf("runtime/not-ready", "it needs %s, which its isolation does not grant",
		strings.Join(needs, ", ")).
		WithDetail("needs", edn.Keywords(needs...)).WithHint(GrantHint(missing))
}

// GrantHint returns a hint with the configuration that grants the needs in missing.
func GrantHint(missing []Ungranted) string {
	lines := make([]string, len(missing))
	for i, m := range missing {
		lines[i] = m.Line
	}
	if len(lines) == 1 {
		return "add isolation { " + lines[0] + " } to the plugin block, or write needs = [...] without this need"
	}
	return "add to the plugin block isolation { with the lines " + strings.Join(lines, ", ") +
		" }, or write needs = [...] without these needs"
}

// Narrowed returns the described needs that left contains. If left is nil, it returns all of them.
func Narrowed(described, left []string) []string {
	if left == nil {
		return described
	}
	return slices.DeleteFunc(slices.Clone(described), func(n string) bool { return !slices.Contains(left, n) })
}

// Confinement describes what is enforced for the processes of a plugin.
type Confinement struct {
	Level confine.Level // level in force
	// Written is set if the operator configured the level, BestEffort if weaker
	// enforcement is accepted.
	Written, BestEffort bool
	// Needs are the needs of the plugin, without those that the operator has removed.
	Needs []string
	// Enforcement is "kernel" if files, programs and network are enforced,
	// "port-only" if the network is restricted by port only, and "none" if
	// nothing is enforced.
	Enforcement string
	Weaknesses  []confine.Weakness
	// Gaps are the configured restrictions that the machine cannot enforce.
	Gaps []confine.Gap
	// The plugin is not started if Ungranted, Unheld or Unmade is not empty.
	Ungranted []Ungranted
	Unheld    Unheld
	// Unmade has an error for each write path that does not exist and that this process cannot
	// create.
	Unmade []error
}

// enforcedPorts is the enforcement of a network that is restricted only by port.
const enforcedPorts = "port-only"

// weaknessBestEffort is the name of the weakness of a plugin with best_effort whose isolation is
// not fully enforced.
const weaknessBestEffort = "best-effort"

// UDPOpen reports whether the processes can send UDP datagrams, because the level is not strict or
// the kernel cannot restrict UDP.
func (c Confinement) UDPOpen() bool {
	return c.Level != confine.Strict ||
		slices.ContainsFunc(c.Weaknesses, func(w confine.Weakness) bool { return w.Name == "udp-open" })
}

// Confinement returns what is enforced on this machine for a plugin with
// description d.
func (s Settings) Confinement(d contract.Description) Confinement {
	return s.confinement(d, confine.Probe())
}

func (s Settings) confinement(d contract.Description, support confine.Support) Confinement {
	p := s.policy(d, hostDirs{})
	if s.Isolation.Level == "" {
		p.Level = support.Best()
	}
	c := Confinement{
		Level:       p.Level,
		Written:     s.Isolation.Level != "",
		BestEffort:  s.Isolation.BestEffort,
		Needs:       Narrowed(d.Needs, s.Needs),
		Enforcement: "none",
		Weaknesses:  p.Weaknesses(support),
		Gaps:        p.Check(support),
	}
	c.Ungranted, c.Unheld = s.Isolation.Ungranted(c.Needs), s.Isolation.Unheld
	if p.Level.Rank() > support.Best().Rank() {
		c.Level = support.Best()
	}
	if c.Level == confine.Strict { // the others do not confine files
		c.Unmade = unmade(p.WritePaths)
	}
	switch {
	case c.Level != confine.Strict:
	case p.Network == confine.Offline:
		c.Enforcement = "kernel"
	default:
		c.Enforcement = enforcedPorts
	}
	if !c.Written && c.Level != confine.Strict {
		c.Weaknesses = append(c.Weaknesses, confine.Weakness{
			Name: "stepped-down",
			Text: fmt.Sprintf("this machine cannot enforce level strict, so level %s is in force", c.Level),
		})
	}
	if len(c.Gaps) > 0 && c.BestEffort {
		text := "best_effort = true leaves open what this machine cannot enforce: " + c.Gaps[0].Text
		c.Weaknesses = append(c.Weaknesses, confine.Weakness{Name: weaknessBestEffort, Text: text})
	}
	return c
}

// Unheld returns the needs of the plugin and the given effects that the kernel of this machine
// cannot enforce under its isolation (FX-005). A network restricted by port counts as enforced,
// because the operator granted ports. With best_effort the result is zero.
func (s Settings) Unheld(d contract.Description, effects []string) Unheld {
	return s.unheld(d, effects, confine.Probe())
}

func (s Settings) unheld(d contract.Description, effects []string, machine confine.Support) Unheld {
	what := slices.Concat(Narrowed(d.Needs, s.Needs), effects)
	slices.Sort(what)
	u := Unheld{What: slices.Compact(what)}
	if len(what) == 0 || s.Isolation.BestEffort {
		return Unheld{}
	}
	p := s.policy(d, hostDirs{})
	if l := s.Isolation.Level; l != "" && l != confine.Strict {
		u.Why = fmt.Sprintf("its isolation has level %s", l)
		u.Hint = "remove the level, or write best_effort = true in isolation to accept less for this plugin"
		return u
	}
	p.Level, p.Limits = confine.Strict, confine.ResourceLimits{}
	gaps := p.Check(machine)
	if len(gaps) == 0 {
		return Unheld{}
	}
	texts := make([]string, len(gaps))
	for i, g := range gaps {
		texts[i] = g.Text
	}
	u.Why = strings.Join(texts, "; ")
	u.Hint = "run the host on a newer kernel, or write best_effort = true in isolation to accept less for this plugin, " +
		"or effects { enforcement = \"best-effort\" } for all; \"ferment doctor\" shows what the machine can enforce"
	return u
}

// accepted returns the text of the best-effort weakness, empty without one.
func (c Confinement) accepted() string {
	for _, w := range c.Weaknesses {
		if w.Name == weaknessBestEffort {
			return w.Text
		}
	}
	return ""
}

// refusal returns the error for a plugin that must not be started under its isolation; nil if it
// may be started.
func (c Confinement) refusal() *contract.Error {
	switch {
	case len(c.Ungranted) > 0:
		return UngrantedError(c.Ungranted)
	case c.Unheld.Any():
		return c.Unheld.Error()
	case len(c.Unmade) > 0:
		return contract.Errorf("runtime/not-ready", "%s", c.UnmadeText()).WithHint(UnmadeHint)
	case len(c.Gaps) > 0 && !c.BestEffort:
		texts := make([]string, len(c.Gaps))
		for i, g := range c.Gaps {
			texts[i] = g.Text
		}
		return contract.Errorf("runtime/not-ready", "this machine cannot enforce its isolation: %s", strings.Join(texts, "; ")).
			WithHint("write another level or limit, or best_effort = true to accept less; " +
				"\"ferment doctor\" shows what the machine can enforce")
	}
	return nil
}

// UnmadeText describes Unmade in one sentence.
func (c Confinement) UnmadeText() string {
	return "a write path does not exist and cannot be created: " + errors.Join(c.Unmade...).Error()
}

// UnmadeHint is the hint for a plugin that is not started because of Confinement.Unmade.
const UnmadeHint = "create it for the user of the daemon, or name another directory in isolation.write_paths"

// unmade returns an error for each path that is missing and cannot be created.
func unmade(paths []string) []error {
	var errs []error
	for _, path := range paths {
		if err := makeable(path); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// makeable returns nil if path exists, if its nearest existing ancestor is a directory that this
// process may write, or if this process may not look there, because the host can run as another
// user. It creates nothing.
func makeable(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch _, missing := os.Lstat(at); {
		case errors.Is(err, fs.ErrNotExist) && missing == nil:
			return &fs.PathError{Op: "create", Path: path, Err: fmt.Errorf("%s is a dangling link", at)}
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue
		case errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil:
			return err
		case at == path:
			return nil
		case !info.IsDir():
			return &fs.PathError{Op: "create", Path: path, Err: unix.ENOTDIR}
		}
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			return &fs.PathError{Op: "create", Path: path, Err: err}
		}
		return nil
	}
}

// hostDirs are the paths that the host grants to a process.
type hostDirs struct {
	sockets string // directory of the sockets
	scratch string // scratch directory of the instance
	reads   []string
}

// ports returns the ports that the network is granted for: those of the operator, else those of the
// description.
func (i Isolation) ports(d contract.Description) []uint16 {
	switch {
	case len(i.Ports) > 0:
		return i.Ports
	case len(d.Ports) > 0:
		return d.Ports
	case i.Network == confine.Ports:
		return []uint16{httpsPort}
	}
	return nil
}

// policy derives the policy of a process from the needs that the operator has not removed and from
// the effects of its capabilities.
func (s Settings) policy(d contract.Description, g hostDirs) confine.Policy {
	has := func(words ...string) bool {
		for _, w := range words {
			if slices.Contains(Narrowed(d.Needs, s.Needs), w) {
				return true
			}
			for _, c := range d.Capabilities {
				if slices.Contains(c.Effects, w) {
					return true
				}
			}
		}
		return false
	}
	i := s.Isolation
	p := confine.Policy{
		Level:      i.Level,
		BestEffort: i.BestEffort,
		Network:    confine.Offline,
		SelfExec:   has("process/self"),
		Watch:      has("fs/watch"),
		Limits:     i.Limits,
		ReadPaths:  slices.Concat(i.ReadPaths, s.reads(), g.reads),
		ListPaths:  s.lists(),
		WritePaths: g.own(),
	}
	if p.Level == "" {
		p.Level = confine.Probe().Best()
	}
	if has("fs/write", "db/read", "db/write") { // engines of databases also write to read
		p.WritePaths = append(p.WritePaths, i.WritePaths...)
		p.Attributes = has("fs/write")
	}
	if has("process/run") {
		p.ExecPaths = slices.Clone(i.Exec)
		p.Attributes = true
		if has("fs/write") && len(p.ExecPaths) > 0 {
			p.ExecPaths = append(p.ExecPaths, p.WritePaths...) // it may run programs that it builds
		}
	}
	if p.SelfExec || len(p.ExecPaths) > 0 {
		p.ReadPaths = append(p.ReadPaths, "/proc") // to find its child processes
	}
	if has("net/connect", "net/loopback", "net/http", "db/read", "db/write") {
		s.network(&p, d, has)
	}
	return p
}

func (s Settings) network(p *confine.Policy, d contract.Description, has func(...string) bool) {
	i := s.Isolation
	switch i.Network {
	case confine.Ports, confine.Loopback:
		p.Network, p.ConnectPorts = i.Network, i.ports(d)
		if has("net/loopback") {
			p.BindPorts = i.Ports // it may listen on these
			if len(i.Ports) == 0 {
				p.BindPorts = d.Ports
			}
		}
	}
}

// describePolicy is the policy of a process that only describes itself: no
// needs are known yet, and it may read the files of its configuration. The
// level of the operator applies only to an approved program.
func (s Settings) describePolicy(sockets string, files []string) confine.Policy {
	level := confine.Probe().Best()
	if s.Approved != "" && s.Isolation.Level != "" {
		level = s.Isolation.Level
	}
	return confine.Policy{
		Level:      level,
		BestEffort: true,
		Network:    confine.Offline,
		Limits:     confine.ResourceLimits{OpenFiles: 1024},
		ReadPaths:  slices.Concat(s.Isolation.ReadPaths, s.reads(), files),
		ListPaths:  s.lists(),
		WritePaths: []string{sockets},
	}
}

// own returns the directories that a process may always write.
func (g hostDirs) own() []string {
	return slices.DeleteFunc([]string{g.sockets, g.scratch}, func(dir string) bool { return dir == "" })
}

// reads returns the paths that the configuration of a plugin names: interpreted files, arguments
// that are files, and the working directory. If the lock file approves Files, the working directory
// is not readable: an interpreter could load other files in it, such as a planted bytecode cache.
func (s Settings) reads() []string {
	paths := slices.Concat(s.Files, s.ConfigFiles)
	for _, arg := range s.Command[1:] {
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(s.Workdir, arg)
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() && filepath.IsAbs(arg) {
			paths = append(paths, arg)
		}
	}
	if s.Workdir != "" && len(s.Files) == 0 {
		paths = append(paths, s.Workdir)
	}
	return absolute(paths)
}

// lists returns the directories that an interpreter may list in order to find Files.
func (s Settings) lists() []string {
	if len(s.Files) == 0 {
		return nil
	}
	dirs := []string{s.Workdir}
	for _, path := range s.Files {
		dirs = append(dirs, filepath.Dir(path))
	}
	slices.Sort(dirs)
	return absolute(slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool { return dir == "" }))
}

func absolute(paths []string) []string {
	for n, path := range paths {
		if abs, err := filepath.Abs(path); err == nil {
			paths[n] = abs
		}
	}
	return paths
}

// create creates the missing directories among the write paths. If that fails, the error occurs
// when the policy is applied.
func create(paths []string) {
	for _, path := range paths {
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			_ = os.MkdirAll(path, 0o700)
		}
	}
}

// needsMore reports whether a program with description d may do more than a program without a
// description.
func (s Settings) needsMore(d contract.Description) bool {
	if len(Narrowed(d.Needs, s.Needs)) > 0 {
		return true
	}
	return slices.ContainsFunc(d.Capabilities, func(c contract.Capability) bool {
		return slices.ContainsFunc(c.Effects, func(e string) bool { return e != "none" })
	})
}

// errRefused marks the error for a plugin that must not be started under its isolation.
// errNeedsMore is the cause for stopping a process that was started with too few permissions.
var (
	errRefused   = errors.New("not started")
	errNeedsMore = errors.New("it is started again with what it needs")
)

// refusedError is a *contract.Error that also matches errRefused.
type refusedError struct{ why *contract.Error }

// Error implements error.
func (e refusedError) Error() string { return e.why.Error() }

// Unwrap returns the *contract.Error and errRefused.
func (e refusedError) Unwrap() []error { return []error{e.why, errRefused} }

// confine sets the policy of the process that is about to be started.
func (l *launching) confine(d contract.Description, root string) error {
	if err := l.settings.Confinement(d).refusal(); err != nil {
		return refusedError{err}
	}
	l.policy = func(sockets string) confine.Policy {
		p := l.settings.policy(d, hostDirs{sockets: sockets, scratch: root})
		create(p.WritePaths)
		return p
	}
	return nil
}
