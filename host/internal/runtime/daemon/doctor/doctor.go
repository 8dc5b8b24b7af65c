package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/confine"
)

// reachLimit is the time limit for connecting to a port.
const reachLimit = 2 * time.Second

// States of a part.
const (
	OK    = "ok"
	Weak  = "weak"
	Fails = "fails"
)

// Part is one examined item.
type Part struct{ Area, Name, State, Text string }

// Examination collects parts.
type Examination struct{ Parts []Part }

// Add appends a part. state is OK, Weak or Fails; format and args give its text.
func (e *Examination) Add(area, name, state, format string, args ...any) {
	e.Parts = append(e.Parts, Part{area, name, state, fmt.Sprintf(format, args...)})
}

// held adds a part of the area isolation: OK with the text is, or Weak with the text isNot if ok is
// false.
func (e *Examination) held(name string, ok bool, is, isNot string) {
	state, text := OK, is
	if !ok {
		state, text = Weak, isNot
	}
	e.Add("isolation", name, state, "%s", text)
}

// Failed reports whether the state of any part is Fails.
func (e *Examination) Failed() bool {
	for _, p := range e.Parts {
		if p.State == Fails {
			return true
		}
	}
	return false
}

// Languages adds the languages in which texts can be judged (TXT-006).
func (e *Examination) Languages(loaded *setup.Loaded) {
	e.Add("configuration", "languages", OK, "texts are judged in %s",
		strings.Join(loaded.Generation.Checks.Languages().Languages(), ", "))
	for _, p := range loaded.Generation.Packs {
		instead := ""
		if p.Instead {
			instead = ", instead of the shipped one"
		}
		e.Add("configuration", "language "+p.Language, OK, "from %s%s", p.File, instead)
	}
}

// Isolation adds one part per layer of isolation that the kernel can enforce (ISO-003, FX-005,
// SUP-008).
func (e *Examination) Isolation(s confine.Support) {
	e.held("level", s.Best() == confine.Strict, "plugins run at level strict unless their block sets another",
		fmt.Sprintf("level strict is not available: plugins run at level %s", s.Best()))
	abi := "Landlock revision " + strconv.Itoa(s.LandlockABI)
	e.held("limits", s.Rlimits, "memory, descriptors and file sizes of a process are limited",
		"no process limits are enforced on "+s.System)
	e.held("no-new-privileges", s.NoNewPrivs, "held", "a program may gain privileges that its parent does not have")
	e.held("files", s.LandlockABI >= 3, abi,
		"Landlock revision 3 is needed, this kernel has "+strconv.Itoa(s.LandlockABI))
	e.held("tcp", s.LandlockABI >= 4, "confined to ports, not to addresses",
		"not confined to ports (needs Landlock revision 4)")
	e.held("system-calls", s.Seccomp, "plugins without the need cannot create sockets, programs or processes",
		"no filter on this kernel and architecture")
	e.held("signals", s.Signals(), "held", "open (needs Landlock revision 6)")
	e.held("abstract-sockets", s.AbstractSockets(), "held", "open (needs Landlock revision 6)")
	e.held("unix-sockets", s.UnixSockets(), "held",
		"open: a plugin can connect to any socket that the user of the host may open, including those of container engines and session buses, which start programs for any client; other plugins reject it by mutual TLS (needs Landlock revision 9)")
	e.held("udp", s.UDP(), "confined to ports", "refused to plugins without network = \"ports\", open to those (needs Landlock revision 10)")
	e.held("processes", s.Processes, "their number can be limited",
		"the number of processes and threads is not limited for root: run the host as another user")
	e.held("descendants", s.Marks,
		"processes that leave the session of their plugin end with it, and with a host that is killed",
		"processes that leave the session of their plugin outlive it: the host cannot mark what it starts")
	e.held("cpu-shares", false, "", "not enforced: this build sets no limits of control groups")
}

// Sockets examines the directory of plugin sockets. xdg is the value of XDG_RUNTIME_DIR.
func (e *Examination) Sockets(xdg string) {
	base := rundir.Base(xdg, os.Getuid())
	longest, err := rundir.LongestSocketPath(base)
	if err != nil {
		e.Add("sockets", "length", Fails, "%s", err)
		return
	}
	e.Add("sockets", "length", OK, "%d of at most %d bytes", len(longest), rundir.MaxSocketPath)
	dir, err := rundir.Open(base)
	if err != nil {
		e.Add("sockets", "directory", Fails, "%s", err)
		return
	}
	_ = dir.Close()
	e.Add("sockets", "directory", OK, "private and writable")
}

// Space examines the data directory, or its nearest existing parent. relative shortens a path for
// display.
func (e *Examination) Space(dir string, relative func(string) string) {
	at := dir
	for {
		if info, err := os.Stat(at); err == nil {
			if !info.IsDir() {
				e.Add("data", "directory", Fails, "%s is not a directory", relative(at))
				return
			}
			break
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	probe, err := os.CreateTemp(at, ".doctor-*")
	if err != nil {
		e.Add("data", "directory", Fails, "%s cannot be written: %s", relative(dir), reason(err))
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	e.Add("data", "directory", OK, "%s is writable", relative(dir))
	free, err := daemon.FreeSpace(at)
	switch {
	case err != nil:
		e.Add("data", "space", Weak, "unknown: %s", err)
	case free < daemon.LittleSpace:
		e.Add("data", "space", Weak, "only %d MiB free", free>>20)
	default:
		e.Add("data", "space", OK, "more than %d MiB free", daemon.LittleSpace>>20)
	}
}

func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Plugin examines one plugin block: its program and its confinement.
func (e *Examination) Plugin(loaded *setup.Loaded, p plugins.Plugin) {
	bad := Fails
	if p.Optional {
		bad = Weak
	}
	switch {
	case !p.Enabled:
		e.Add("plugin", p.Name, OK, "%s; %s", p.Disabled.Message, p.Disabled.Hint)
		return
	case p.Binary == "":
		e.Add("plugin", p.Name, bad, "its program is missing")
		return
	case !p.Described:
		e.Add("plugin", p.Name, bad, "%s; it has no description (program %s)", loaded.Condition(p), p.Binary)
		return
	}
	if p.Unusable != nil {
		e.Add("plugin", p.Name, bad, "not started: %s", p.Unusable.Message)
		return
	}
	held := loaded.Confinement(p)
	for _, u := range held.Ungranted {
		e.Add("plugin", p.Name, bad, "not started: it needs %s; write isolation { %s }", u.Need, u.Line)
	}
	if !held.BestEffort {
		for _, g := range held.Gaps {
			e.Add("plugin", p.Name, bad, "not started: %s", g.Text)
		}
	}
	if held.Unheld.Any() {
		e.Add("plugin", p.Name, bad, "not started: %s", held.Unheld.Text())
	}
	if len(held.Unmade) > 0 {
		e.Add("plugin", p.Name, bad, "not started: %s", held.UnmadeText())
	}
	needs := "no needs"
	if len(held.Needs) > 0 {
		needs = "needs " + strings.Join(held.Needs, " ")
	}
	e.Add("plugin", p.Name, OK, "%s %s, lock %s, level %s, enforcement %s, %s, program %s", p.Description.Name,
		p.Description.Version, setup.Locked(p), held.Level, held.Enforcement, needs, p.Binary)
	for _, w := range held.Weaknesses {
		if w.Name == "unix-sockets-open" || w.Name == "processes-open" || w.Name == "threads-open" {
			continue // reported once, by Isolation
		}
		e.Add("plugin", p.Name, Weak, "%s", w.Text)
	}
}

// Reach examines the programs that plugins may run, and their ports on this machine. It connects to
// each port.
func (e *Examination) Reach(ctx context.Context, loaded *setup.Loaded) {
	for _, p := range loaded.Plugins {
		if !p.Enabled {
			continue
		}
		if p.Isolation.Programs && !anyProgram(p.Isolation.Exec) {
			e.Add("reach", p.Name, Weak, "none of the programs that it may run exists")
		}
		if p.Isolation.Network != confine.Loopback {
			continue
		}
		for _, port := range p.Isolation.Ports {
			state, text := OK, "answers"
			if err := dial(ctx, port); err != nil {
				state, text = Weak, "does not accept connections"
			}
			e.Add("reach", p.Name, state, "port %d of this machine %s", port, text)
		}
	}
}

func anyProgram(paths []string) bool {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

func dial(ctx context.Context, port uint16) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// Clock detects a clock that was never set, because certificates and budgets depend on it.
func (e *Examination) Clock() {
	const builtAfter = 2026
	if year := time.Now().UTC().Year(); year < builtAfter {
		e.Add("time", "clock", Fails, "its year is %d, before the first release of this program", year)
		return
	}
	e.Add("time", "clock", OK, "plausible")
}
