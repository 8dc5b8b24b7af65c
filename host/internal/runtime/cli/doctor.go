package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// reachLimit is the time limit for connecting to a port.
const reachLimit = 2 * time.Second

func (c *command) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "examine the machine and the configuration: isolation, programs, sockets, disk space",
		Long: "doctor reports which isolation of plugins this machine supports, layer by layer, and\n" +
			"whether everything that the configuration needs exists. It asks plugins of models\n" +
			"whether they have a key and reach their server, which sends no request to a model and costs\n" +
			"nothing. It exits with 1 if a required part fails; weak parts do not matter.",
		Example: "  ferment doctor\n  ferment doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.doctor(cmd.Context())
		},
	}
}

// The states of a part.
const (
	stateOK    = "ok"
	stateWeak  = "weak"
	stateFails = "fails"
)

// part is one examined item.
type part struct {
	area, name, state, text string
}

// examination collects parts.
type examination struct{ parts []part }

func (e *examination) add(area, name, state, format string, args ...any) {
	e.parts = append(e.parts, part{area, name, state, fmt.Sprintf(format, args...)})
}

// held adds a layer, which is weak if ok is false.
func (e *examination) held(name string, ok bool, is, isNot string) {
	state, text := stateOK, is
	if !ok {
		state, text = stateWeak, isNot
	}
	e.add("isolation", name, state, "%s", text)
}

func (e *examination) failed() bool {
	for _, p := range e.parts {
		if p.state == stateFails {
			return true
		}
	}
	return false
}

func (c *command) doctor(ctx context.Context) error {
	e := &examination{}
	e.add("versions", "ferment", stateOK, "%s, %s on %s/%s", c.env.Version, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	e.add("versions", "contracts", stateOK, "envelope %d, plugin protocol ferment.plugin.v%d", contract.Proto,
		wire.Protocol)
	e.isolation(confine.Probe())
	c.examineSockets(e)
	loaded, err := daemon.Load(ctx, c.options())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e.add("configuration", "files", stateFails, "%s", err)
	case loaded.Generation == nil:
		e.add("configuration", "files", stateFails, "%s; \"ferment validate\" shows what is wrong",
			diag.Counted(loaded.Diagnostics.Count(diag.SeverityError), "error"))
	default:
		e.add("configuration", "files", stateOK, "profile %s, %s", loaded.Profile,
			diag.Counted(len(loaded.Plugins), "plugin"))
		for _, w := range view.Weaker(loaded.Config) {
			e.add("configuration", strings.Join(w.Path, "."), stateWeak, "%s, where prod has %s", w.Written,
				w.ProdWritten)
		}
		e.languages(loaded)
		c.examineSpace(e, loaded.Host.DataDir)
		if n := len(loaded.HTTP.AdminSocket); n > config.MaxSocketPath {
			e.add("data", "admin socket", stateWeak,
				"its path has %d of at most %d bytes, so no daemon can start: set http.admin_socket", n, config.MaxSocketPath)
		}
		for _, p := range loaded.Plugins {
			e.plugin(loaded, p)
		}
		e.optional(ctx, loaded)
		e.judges(loaded)
		e.prices(loaded)
		c.examineModels(ctx, e, loaded)
	}
	e.clock()
	if err := c.printExamination(e); err != nil {
		return err
	}
	if e.failed() {
		return quietError{code: 1}
	}
	return nil
}

// languages reports the languages in which texts are judged (TXT-006).
func (e *examination) languages(loaded *daemon.Loaded) {
	e.add("configuration", "languages", stateOK, "texts are judged in %s",
		strings.Join(loaded.Generation.Checks.Languages().Languages(), ", "))
	for _, p := range loaded.Generation.Packs {
		instead := ""
		if p.Instead {
			instead = ", instead of the shipped one"
		}
		e.add("configuration", "language "+p.Language, stateOK, "from %s%s", p.File, instead)
	}
}

// isolation reports per layer what the kernel can enforce (ISO-003, FX-005,
// SUP-008).
func (e *examination) isolation(s confine.Support) {
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
		"their number is not limited for root: run the host as another user")
	e.held("descendants", s.Marks,
		"processes that leave the session of their plugin end with it, and with a host that is killed",
		"processes that leave the session of their plugin outlive it: the host cannot mark what it starts")
	e.held("cpu-shares", false, "", "not held: this build sets no limits of control groups")
}

// examineSockets examines the directory of plugin sockets.
func (c *command) examineSockets(e *examination) {
	xdg, _ := c.env.Getenv("XDG_RUNTIME_DIR")
	base := rundir.Base(xdg, os.Getuid())
	longest, err := rundir.LongestSocketPath(base)
	if err != nil {
		e.add("sockets", "length", stateFails, "%s", err)
		return
	}
	e.add("sockets", "length", stateOK, "%d of at most %d bytes", len(longest), rundir.MaxSocketPath)
	dir, err := rundir.Open(base)
	if err != nil {
		e.add("sockets", "directory", stateFails, "%s", err)
		return
	}
	_ = dir.Close()
	e.add("sockets", "directory", stateOK, "private and writable")
}

// examineSpace examines the data directory, or its future parent.
func (c *command) examineSpace(e *examination, dir string) {
	at := dir
	for {
		if info, err := os.Stat(at); err == nil {
			if !info.IsDir() {
				e.add("data", "directory", stateFails, "%s is not a directory", c.relative(at))
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
		e.add("data", "directory", stateFails, "%s cannot be written: %s", c.relative(dir), reason(err))
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	e.add("data", "directory", stateOK, "%s is writable", c.relative(dir))
	free, err := daemon.FreeSpace(at)
	switch {
	case err != nil:
		e.add("data", "space", stateWeak, "unknown: %s", err)
	case free < daemon.LittleSpace:
		e.add("data", "space", stateWeak, "only %d MiB free", free>>20)
	default:
		e.add("data", "space", stateOK, "more than %d MiB free", daemon.LittleSpace>>20)
	}
}

func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// plugin examines one plugin block: its program and its confinement.
func (e *examination) plugin(loaded *daemon.Loaded, p plugins.Plugin) {
	bad := stateFails
	if p.Optional {
		bad = stateWeak
	}
	switch {
	case !p.Enabled:
		e.add("plugin", p.Name, stateOK, "%s; %s", p.Disabled.Message, p.Disabled.Hint)
		return
	case p.Binary == "":
		e.add("plugin", p.Name, bad, "its program is missing")
		return
	case !p.Described:
		e.add("plugin", p.Name, bad, "%s; it has no description (program %s)", loaded.Condition(p), p.Binary)
		return
	}
	if p.Unusable != nil {
		e.add("plugin", p.Name, bad, "not started: %s", p.Unusable.Message)
		return
	}
	held := loaded.Confinement(p)
	for _, u := range held.Ungranted {
		e.add("plugin", p.Name, bad, "not started: it needs %s; write isolation { %s }", u.Need, u.Line)
	}
	if !held.BestEffort {
		for _, g := range held.Gaps {
			e.add("plugin", p.Name, bad, "not started: %s", g.Text)
		}
	}
	if held.Unheld.Any() {
		e.add("plugin", p.Name, bad, "not started: %s", held.Unheld.Text())
	}
	needs := "no needs"
	if len(held.Needs) > 0 {
		needs = "needs " + strings.Join(held.Needs, " ")
	}
	e.add("plugin", p.Name, stateOK, "%s %s, lock %s, level %s, enforcement %s, %s, program %s", p.Description.Name,
		p.Description.Version, loaded.Locked(p), held.Level, held.Enforcement, needs, p.Binary)
	for _, w := range held.Weaknesses {
		if w.Name == "unix-sockets-open" || w.Name == "processes-open" {
			continue // reported once for the machine
		}
		e.add("plugin", p.Name, stateWeak, "%s", w.Text)
	}
}

// judges reports the calibration of the judges in use (JDG-011).
func (e *examination) judges(loaded *daemon.Loaded) {
	for _, s := range loaded.JudgeStates(time.Now()) {
		if !s.Used {
			continue
		}
		state := stateOK
		if s.Doubtful() {
			state = stateWeak
		}
		v := s.Value(false)
		text := stateSentences[judgeState(v)]
		if s.Err != nil {
			text += ": " + s.Err.Error()
		} else if r := s.Record; r != nil {
			text += fmt.Sprintf(", kappa %s of %s", written(v.Key("kappa")), day(v.Key("at")))
		}
		e.add("judge", s.Judge.Name, state, "%s", text)
	}
}

// optional examines what a plugin may use beside its program: the programs
// that it may run, and its ports on this machine.
func (e *examination) optional(ctx context.Context, loaded *daemon.Loaded) {
	for _, p := range loaded.Plugins {
		if !p.Enabled {
			continue
		}
		if p.Isolation.Programs && !anyProgram(p.Isolation.Exec) {
			e.add("reach", p.Name, stateWeak, "none of the programs that it may run exists")
		}
		if p.Isolation.Network != confine.Loopback {
			continue
		}
		for _, port := range p.Isolation.Ports {
			state, text := stateOK, "answers"
			if err := dial(ctx, port); err != nil {
				state, text = stateWeak, "does not accept connections"
			}
			e.add("reach", p.Name, state, "port %d of this machine %s", port, text)
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

// clock detects a machine whose clock was never set: certificates and budgets
// depend on it.
func (e *examination) clock() {
	const builtAfter = 2026
	if year := time.Now().UTC().Year(); year < builtAfter {
		e.add("time", "clock", stateFails, "its year is %d, before the first release of this program", year)
		return
	}
	e.add("time", "clock", stateOK, "plausible")
}

var wholeHash = regexp.MustCompile(`\b(b3:[0-9a-f]{12})[0-9a-f]{52}\b`)

// shortHashes shortens hashes to a distinctive prefix: a whole one is wider
// than its column.
func shortHashes(text string) string { return wholeHash.ReplaceAllString(text, "$1…") }

func (c *command) printExamination(e *examination) error {
	if c.format != formatText {
		parts := make([]edn.Value, len(e.parts))
		for i, p := range e.parts {
			parts[i] = edn.MustMap(
				edn.K("area"), edn.K(p.area),
				edn.K("name"), edn.Text(p.name),
				edn.K("state"), edn.K(p.state),
				edn.K("text"), edn.Text(p.text),
			)
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("ok?"), edn.Bool(!e.failed()),
			edn.K("isolation"), edn.K(string(confine.Probe().Best())),
			edn.K("parts"), edn.Vector(parts...),
		))
	}
	rows := make([][]string, len(e.parts))
	area := ""
	for i, p := range e.parts {
		rows[i] = []string{"", p.name, p.state, shortHashes(p.text)}
		if p.area != area {
			rows[i][0], area = p.area, p.area
		}
	}
	if err := table(c.env.Stdout, []string{"area", "part", "state", "what was found"}, rows); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, p := range e.parts {
		counts[p.state]++
	}
	_, err := io.WriteString(c.env.Stdout,
		fmt.Sprintf("\n%d ok, %d weak, %d fail\n", counts[stateOK], counts[stateWeak], counts[stateFails]))
	return err
}
