package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/program"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// Plan describes the server to start.
type Plan struct {
	// Command returns the program and its arguments for a port. A bare name is
	// looked up in the PATH of Env.
	Command func(port uint16) []string
	Env     []string
	Dir     string
	// Ports are tried in order. If Fixed is set, they come from the
	// configuration, and a port in use is an error at once.
	Ports []uint16
	Fixed bool
	// ReadyPath returns 200 when the server has loaded. Path takes Question; an
	// answer of one token shows that the server is ready.
	ReadyPath, Path string
	Question        []byte
	Startup         time.Duration
	Drain           time.Duration
	QuitPath        string
	QuitLine        string
	Rungs           Rungs
	Reaper          *launch.Reaper
	Clock           transport.Clock
	// Log gets each line of output. It must not block. May be nil.
	Log func(launch.Line)
	// Hint is the hint of the error if the program is missing.
	Hint string

	listen func(port uint16) []launch.Listener // replaces launch.Listeners if not nil
}

func (p *Plan) listeners(port uint16) []launch.Listener {
	if p.listen != nil {
		return p.listen(port)
	}
	return launch.Listeners(port)
}

// Rungs are the time limits of the steps that stop a server, in the order of
// the steps.
type Rungs struct{ Quit, Interrupt, Terminate, Kill time.Duration }

// DefaultRungs returns the default time limits.
func DefaultRungs() Rungs {
	return Rungs{Quit: 2 * time.Second, Interrupt: 2 * time.Second, Terminate: 2 * time.Second, Kill: 2 * time.Second}
}

// races is the number of retries after another process took the chosen port.
const races = 3

// errLost means that the port was taken between check and start.
var errLost = errors.New("the port was taken meanwhile")

// Start starts a server and waits until it is ready. taken reports ports used
// by other servers of this process; spawned is called for each started process.
// When ctx ends, the start is canceled. After an error no process is left.
func (p *Plan) Start(
	ctx context.Context, taken func(uint16) bool, spawned func(pid int, port uint16),
) (*Server, *contract.Error) {
	path, missing := p.Locate()
	if missing != nil {
		return nil, missing
	}
	tried := map[uint16]bool{}
	for n := 1; ; n++ {
		port, err := p.choose(ctx, func(port uint16) bool { return taken(port) || tried[port] })
		if err != nil {
			return nil, err
		}
		tried[port] = true
		s, err := p.once(ctx, path, port, spawned)
		if err == nil || p.Fixed || n == races || !errors.Is(err.Err, errLost) {
			return s, err
		}
	}
}

// Locate returns the path of the program, without starting a process. The error is
// model/unavailable.
func (p *Plan) Locate() (string, *contract.Error) {
	name := p.Command(0)[0]
	found, err := program.Find(name, p.Dir, p.Env)
	var why *fs.PathError
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(name, filepath.Separator):
		return "", p.unavailable("%s is not in PATH", name)
	case errors.As(err, &why):
		err = why.Err
	}
	return "", p.unavailable("%s: %w", name, err)
}

func (p *Plan) unavailable(format string, args ...any) *contract.Error {
	e := contract.Errorf("model/unavailable", "the model server cannot run here: "+format, args...).
		WithDetail("command", edn.Text(p.Command(0)[0]))
	if p.Hint != "" {
		e = e.WithHint(p.Hint)
	}
	return e
}

// choose returns the first port that is free. The error is model/port-in-use if there is none,
// model/unavailable if the system does not permit a port, or model/start-failed.
func (p *Plan) choose(ctx context.Context, taken func(uint16) bool) (uint16, *contract.Error) {
	var busy []uint16
	var why error
	for _, port := range p.Ports {
		if taken(port) {
			continue
		}
		err := p.free(ctx, port)
		if err == nil {
			return port, nil
		}
		if busy, why = append(busy, port), err; !errors.Is(err, syscall.EADDRINUSE) && !denied(err) {
			break
		}
	}
	switch {
	case len(busy) == 0:
		return 0, contract.Errorf("model/port-in-use", "all %d ports are used by other model servers of this plugin",
			len(p.Ports)).WithHint("stop one of them with :model/quit, or lower max_workers")
	case denied(why):
		return 0, p.unavailable("the system does not permit it to listen on port %d of 127.0.0.1", busy[0]).
			WithHint("grant it with isolation { network = \"loopback\" }, without ports or with those of this server")
	case !errors.Is(why, syscall.EADDRINUSE):
		return 0, contract.Errorf("model/start-failed", "listen on port %d of 127.0.0.1 for the model server: %w",
			busy[len(busy)-1], bare(why)).WithHint("set another port in the config block of the plugin")
	}
	return 0, inUse(busy...)
}

// free returns an error if a port is in use. A process that is just being started may briefly hold
// a socket of an earlier check; nothing answers there, so the check is repeated.
func (p *Plan) free(ctx context.Context, port uint16) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	for n := 1; ; n++ {
		l, err := net.Listen("tcp4", address)
		if err == nil {
			return l.Close()
		}
		if n == looks || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		if answers(ctx, p.Clock, address, between) || !transport.Sleep(ctx, p.Clock, between) {
			return err
		}
	}
}

// answers reports whether a connection to the address succeeds.
func answers(ctx context.Context, clock transport.Clock, address string, limit time.Duration) bool {
	ctx, cancel := transport.Within(ctx, clock, limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// looks is the number of checks of a used port on which nothing answers.
const (
	looks   = 4
	between = 5 * time.Millisecond
)

func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}

// bare returns the cause of a network error without its addresses.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// inUse returns the error of used ports, with the processes that use them if the system reports
// them.
func inUse(ports ...uint16) *contract.Error {
	var pids, numbers []edn.Value
	for _, port := range ports {
		numbers = append(numbers, edn.Int(int64(port)))
		for _, l := range launch.Listeners(port) {
			for _, pid := range l.PIDs {
				pids = append(pids, edn.Int(int64(pid)))
			}
		}
	}
	e := contract.Errorf("model/port-in-use", "port %d of 127.0.0.1 is taken", ports[0])
	if len(ports) > 1 {
		e = contract.Errorf("model/port-in-use", "all ports %d to %d of 127.0.0.1 are taken", ports[0], ports[len(ports)-1])
	}
	e = e.WithDetail("ports", edn.Vector(numbers...))
	if len(pids) > 0 {
		e = e.WithDetail("pids", edn.Vector(pids...))
	}
	return e
}
