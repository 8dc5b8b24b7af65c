package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Isolation is what an operator lets the process of a plugin do. Nothing of it
// goes beyond what the plugin needs and the effects that it declares, but for
// ReadPaths, which also hold what a language runtime loads.
type Isolation struct {
	// Level is empty if nobody wrote one: then the machine decides.
	Level      confine.Level
	BestEffort bool
	Network    confine.Network
	Ports      []uint16
	// Absolute paths. Exec holds programs and directories of programs; Programs
	// tells that some were named, found or not.
	ReadPaths, WritePaths, Exec []string
	Programs                    bool
	Limits                      confine.ResourceLimits
	// Unheld keeps the plugin from being started: what nothing would hold it to,
	// where the operator wants everything held. See [Settings.Unheld].
	Unheld Unheld
}

// Unheld are needs and effects of a plugin that nothing holds it to. The zero
// value means that all are held.
type Unheld struct {
	What []string // needs and effects, sorted
	Why  string
	Hint string
}

// Any tells whether there are some.
func (u Unheld) Any() bool { return len(u.What) > 0 }

// Error is the error of a plugin that is not started because of them.
func (u Unheld) Error() *contract.Error {
	return contract.Errorf("runtime/not-ready", "%s", u.Text()).WithDetail("unheld", edn.Keywords(u.What...)).WithHint(u.Hint)
}

// Text is one sentence about them.
func (u Unheld) Text() string {
	return fmt.Sprintf("nothing would hold it to %s, which effects.enforcement = \"strict\" demands: %s", strings.Join(u.What, ", "), u.Why)
}

// DefaultIsolation is that of a block that says nothing.
func DefaultIsolation() Isolation {
	return Isolation{Network: confine.Offline, Limits: confine.ResourceLimits{OpenFiles: 1024}}
}

// httpsPort is where a plugin with a network goes if neither the operator nor
// the plugin names a port.
const httpsPort = 443

// Ungranted is a need that the isolation of a plugin does not meet.
type Ungranted struct {
	Need string
	// Line grants it, in the language of the configuration.
	Line string
}

// grants are the attributes that grant a need.
var grants = []struct {
	need, line string
	given      func(Isolation) bool
}{
	{"fs/read", `read_paths = ["DIRECTORY"]`, func(i Isolation) bool { return len(i.ReadPaths)+len(i.WritePaths) > 0 }},
	{"fs/write", `write_paths = ["DIRECTORY"]`, func(i Isolation) bool { return len(i.WritePaths) > 0 }},
	{"net/connect", `network = "ports"`, func(i Isolation) bool { return i.Network == confine.Ports }},
	{"net/loopback", `network = "loopback"`, func(i Isolation) bool { return i.Network == confine.Loopback || i.Network == confine.Ports }},
	{"process/run", `exec = ["PROGRAM"]`, func(i Isolation) bool { return i.Programs || len(i.Exec) > 0 }},
}

// Ungranted lists the needs that the isolation does not meet. Nothing has to be
// written for process/self.
func (i Isolation) Ungranted(needs []string) []Ungranted {
	var missing []Ungranted
	for _, g := range grants {
		if slices.Contains(needs, g.need) && !g.given(i) {
			missing = append(missing, Ungranted{Need: g.need, Line: g.line})
		}
	}
	return missing
}

// UngrantedError is the error of a plugin that is not started because of them.
func UngrantedError(missing []Ungranted) *contract.Error {
	needs, lines := make([]string, len(missing)), make([]string, len(missing))
	for i, m := range missing {
		needs[i], lines[i] = m.Need, m.Line
	}
	return contract.Errorf("runtime/not-ready", "it needs %s, which its isolation does not grant", strings.Join(needs, ", ")).
		WithDetail("needs", edn.Keywords(needs...)).WithHint(GrantHint(missing))
}

// GrantHint is what to write so that the needs are granted.
func GrantHint(missing []Ungranted) string {
	lines := make([]string, len(missing))
	for i, m := range missing {
		lines[i] = m.Line
	}
	if len(lines) == 1 {
		return "add isolation { " + lines[0] + " } to the plugin block, or take the need away with needs = [...]"
	}
	return "add to the plugin block isolation { with the lines " + strings.Join(lines, ", ") + " }, or take needs away with needs = [...]"
}

// Narrowed are the described needs that an operator leaves to a plugin; nil
// leaves all.
func Narrowed(described, left []string) []string {
	if left == nil {
		return described
	}
	return slices.DeleteFunc(slices.Clone(described), func(n string) bool { return !slices.Contains(left, n) })
}

// Confinement is what holds for the processes of a plugin.
type Confinement struct {
	Level confine.Level // in force
	// Written tells that an operator chose the level, BestEffort that less than
	// it is accepted.
	Written, BestEffort bool
	// Needs are those that the plugin has and the operator leaves to it.
	Needs []string
	// Enforcement is "kernel" if files, programs and network are held, "port-only"
	// if the network is, but to ports alone, and "none" if nothing is.
	Enforcement string
	Weaknesses  []confine.Weakness
	// Gaps are what the operator wrote and the machine cannot hold.
	Gaps []confine.Gap
	// Ungranted needs keep the plugin from being started, and so does what is
	// Unheld.
	Ungranted []Ungranted
	Unheld    Unheld
}

// enforcedPorts is the enforcement of a network that is held to ports alone.
const enforcedPorts = "port-only"

// weaknessBestEffort is the weakness of a plugin whose isolation is not held and
// need not be.
const weaknessBestEffort = "best-effort"

// UDPOpen tells whether nothing keeps the processes from sending datagrams.
func (c Confinement) UDPOpen() bool {
	return c.Level != confine.Strict || slices.ContainsFunc(c.Weaknesses, func(w confine.Weakness) bool { return w.Name == "udp-open" })
}

// Confinement tells what holds for a plugin that is what it described.
func (s Settings) Confinement(d contract.Description) Confinement {
	return s.confinement(d, confine.Probe())
}

func (s Settings) confinement(d contract.Description, support confine.Support) Confinement {
	p := s.policy(d, grounds{})
	if s.Isolation.Level == "" {
		p.Level = support.Best()
	}
	c := Confinement{
		Level: p.Level, Written: s.Isolation.Level != "", BestEffort: s.Isolation.BestEffort, Needs: Narrowed(d.Needs, s.Needs),
		Enforcement: "none", Weaknesses: p.Weaknesses(support), Gaps: p.Check(support),
	}
	c.Ungranted, c.Unheld = s.Isolation.Ungranted(c.Needs), s.Isolation.Unheld
	if p.Level.Rank() > support.Best().Rank() {
		c.Level = support.Best()
	}
	switch {
	case c.Level != confine.Strict:
	case p.Network == confine.Offline:
		c.Enforcement = "kernel"
	default:
		c.Enforcement = enforcedPorts
	}
	if !c.Written && c.Level != confine.Strict {
		c.Weaknesses = append(c.Weaknesses, confine.Weakness{Name: "stepped-down", Text: fmt.Sprintf("the machine cannot hold level strict, so %s is in force", c.Level)})
	}
	if len(c.Gaps) > 0 && c.BestEffort {
		text := "what the machine cannot hold is left open: " + c.Gaps[0].Text
		c.Weaknesses = append(c.Weaknesses, confine.Weakness{Name: weaknessBestEffort, Text: text})
	}
	return c
}

// Unheld lists what of the needs that a plugin has, and of the given effects,
// the kernel of this machine would not hold it to under its isolation (FX-005).
// That the network is held to ports and not to addresses counts as held: the
// operator granted ports. Who wrote best_effort accepts less.
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
	p := s.policy(d, grounds{})
	if l := s.Isolation.Level; l != "" && l != confine.Strict {
		u.Why, u.Hint = fmt.Sprintf("its isolation has level %s", l), "remove the level, or write best_effort = true in isolation to accept less for this plugin"
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
	u.Hint = "run the host on a newer kernel, or write best_effort = true in isolation to accept less for this plugin, or effects { enforcement = \"best-effort\" } for all; \"ferment doctor\" shows what the machine can hold"
	return u
}

// accepted returns the weakness that best_effort accepts, empty if nothing is left
// open for its sake.
func (c Confinement) accepted() string {
	for _, w := range c.Weaknesses {
		if w.Name == weaknessBestEffort {
			return w.Text
		}
	}
	return ""
}

// refusal is why a plugin may not be started under its isolation, or nil.
func (c Confinement) refusal() *contract.Error {
	switch {
	case len(c.Ungranted) > 0:
		return UngrantedError(c.Ungranted)
	case c.Unheld.Any():
		return c.Unheld.Error()
	case len(c.Gaps) > 0 && !c.BestEffort:
		texts := make([]string, len(c.Gaps))
		for i, g := range c.Gaps {
			texts[i] = g.Text
		}
		return contract.Errorf("runtime/not-ready", "this machine cannot hold its isolation: %s", strings.Join(texts, "; ")).
			WithHint("write another level or limit, or best_effort = true to accept less; \"ferment doctor\" shows what the machine can hold")
	}
	return nil
}

// grounds are the places that a process gets from its host.
type grounds struct {
	sockets string // directory of its sockets
	scratch string // directory of its own
	reads   []string
}

// ports are those that a network is granted for: what the operator wrote, else
// what the plugin says that it needs.
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

// policy follows from what a program says that it is: from its needs as far as
// the operator leaves them to it, and from the effects of its capabilities.
func (s Settings) policy(d contract.Description, g grounds) confine.Policy {
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
		Level: i.Level, BestEffort: i.BestEffort, Network: confine.Offline, SelfExec: has("process/self"), Limits: i.Limits,
		ReadPaths: slices.Concat(i.ReadPaths, s.reads(), g.reads), ListPaths: s.lists(), WritePaths: g.own(),
	}
	if p.Level == "" {
		p.Level = confine.Probe().Best()
	}
	if has("fs/write") {
		p.WritePaths = append(p.WritePaths, existing(i.WritePaths)...)
		p.Attributes = true
	}
	if has("process/run") {
		p.ExecPaths = slices.Clone(i.Exec)
		p.Attributes = true
		if has("fs/write") && len(p.ExecPaths) > 0 {
			p.ExecPaths = append(p.ExecPaths, p.WritePaths...) // programs that it builds
		}
	}
	if p.SelfExec || len(p.ExecPaths) > 0 {
		p.ReadPaths = append(p.ReadPaths, "/proc") // to find the processes that it started
	}
	if has("net/connect", "net/loopback", "net/http") {
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
			p.BindPorts = i.Ports // a server of its own
			if len(i.Ports) == 0 {
				p.BindPorts = d.Ports
			}
		}
	}
}

// describing is the policy of a process that is only asked what it is: it has
// no needs yet, and reads the files that its configuration names. Only of a
// program that was approved the operator's level is taken.
func (s Settings) describing(sockets string, files []string) confine.Policy {
	level := confine.Probe().Best()
	if s.Approved != "" && s.Isolation.Level != "" {
		level = s.Isolation.Level
	}
	return confine.Policy{
		Level: level, BestEffort: true, Network: confine.Offline, Limits: confine.ResourceLimits{OpenFiles: 1024},
		ReadPaths: slices.Concat(s.Isolation.ReadPaths, s.reads(), files), ListPaths: s.lists(), WritePaths: []string{sockets},
	}
}

// own are the directories that a process may always write.
func (g grounds) own() []string {
	return slices.DeleteFunc([]string{g.sockets, g.scratch}, func(dir string) bool { return dir == "" })
}

// reads are the files that the configuration of a plugin names: those that an
// interpreter runs, those among its arguments, and its working directory. Where
// files are listed, because the lock file approves them, the directory is not
// among them: an interpreter would load what lies beside them, such as a planted
// bytecode cache.
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

// lists are the directories whose names an interpreter goes through to find the
// files that are listed.
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

// existing makes directories that an operator lets a plugin write and that are
// not there yet. One that cannot be made is an error when the policy is applied.
func existing(paths []string) []string {
	for _, path := range paths {
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			_ = os.MkdirAll(path, 0o700)
		}
	}
	return paths
}

// more tells whether a program may do more than one that says nothing of itself.
func (s Settings) more(d contract.Description) bool {
	if len(Narrowed(d.Needs, s.Needs)) > 0 {
		return true
	}
	return slices.ContainsFunc(d.Capabilities, func(c contract.Capability) bool {
		return slices.ContainsFunc(c.Effects, func(e string) bool { return e != "none" })
	})
}

// errRefused marks the error of a plugin that may not be started under its
// isolation, errNeedsMore the end of a process that was started with too little.
var (
	errRefused   = errors.New("not started")
	errNeedsMore = errors.New("it is started again with what it needs")
)

// refusedError is a typed error that is marked.
type refusedError struct{ why *contract.Error }

// Error implements error.
func (e refusedError) Error() string { return e.why.Error() }

// Unwrap gives the typed error and the mark.
func (e refusedError) Unwrap() []error { return []error{e.why, errRefused} }

// confine settles what a process may do that is about to be started.
func (l *launching) confine(d contract.Description, root string) error {
	if err := l.settings.Confinement(d).refusal(); err != nil {
		return refusedError{err}
	}
	l.policy = func(sockets string) confine.Policy {
		return l.settings.policy(d, grounds{sockets: sockets, scratch: root})
	}
	return nil
}
