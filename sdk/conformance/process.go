package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Process returns a target that runs command in a separate process with only
// env in its environment.
func Process(command, env []string) Target { return process{command: command, env: env} }

type process struct{ command, env []string }

// Start implements Target.
func (t process) Start(ctx context.Context) (Instance, error) {
	if len(t.command) == 0 {
		return nil, errors.New("start plugin: no command")
	}
	dir, err := os.MkdirTemp("", "ferment-")
	if err != nil {
		return nil, &fault{fmt.Errorf("make a directory for sockets: %w", err)}
	}
	p := &remote{dir: dir}
	limit := startLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	if err := p.start(t, limit); err != nil {
		err = p.explain(err)
		p.Stop()
		return nil, &startFailure{cause: fmt.Errorf("start plugin %s: %w", t.command[0], err), log: p.log.Lines()}
	}
	return p, nil
}

// startLimit bounds the start of a process up to its handshake, independent of
// the caller's limit.
const startLimit = 10 * time.Minute

// startFailure is a failed start with the output of the program.
type startFailure struct {
	cause error
	log   []string
}

func (f *startFailure) Error() string { return f.cause.Error() }

func (f *startFailure) Unwrap() error { return f.cause }

// endWait is the time limit for the exit of a program that closed its output.
const endWait = time.Second

// explain replaces the long error text of a failed start.
func (p *remote) explain(err error) error {
	if p.runner == nil || p.runner.Process() == nil {
		return err
	}
	if !errors.Is(err, launch.ErrNoHandshake) {
		timer := time.NewTimer(endWait)
		defer timer.Stop()
		select {
		case <-p.Done():
			_ = p.Report() // waits for its last lines
		case <-timer.C:
		}
	}
	return wire.ExplainStart(p.runner.StartError(err))
}

var _ Reporter = (*remote)(nil)

// remote is an instance in a separate process.
type remote struct {
	dir    string
	runner *launch.Runner
	plugin *plugin.Client
	conn   grpc.ClientConnInterface
	client *wire.Client
	log    lineBuffer
	// sockets is the socket directory of the plugin, longest the length of the
	// longest line of its log.
	sockets string
	longest atomic.Int64
	offer   launch.Handshake
	stdout  printed // standard output after the handshake
	once    sync.Once
}

// printed counts what is written to it and keeps the first line.
type printed struct {
	mu   sync.Mutex
	head []byte
	n    int
}

// Write implements io.Writer.
func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += len(b)
	if room := 200 - len(p.head); room > 0 {
		p.head = append(p.head, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (p *printed) text() (head string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.head), p.n
}

// Printed returns the beginning and the length of the standard output of the
// plugin without the handshake line, also if it arrived by RPC.
func (p *remote) Printed() (head string, n int) {
	head, n = p.stdout.text()
	r := p.runner.Report()
	return r.Output + head, n + int(r.Noise)
}

func (p *remote) start(t process, limit time.Duration) error {
	cfg := wire.ClientConfig()
	cfg.StartTimeout = limit
	cfg.Logger = hclog.NewNullLogger()
	cfg.SyncStdout, cfg.SyncStderr = &p.stdout, io.Discard
	cfg.UnixSocketConfig = &plugin.UnixSocketConfig{TempDir: p.dir}
	cfg.GRPCDialOptions = append(cfg.GRPCDialOptions,
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return p.runner.Dial(ctx, address)
		}))
	cfg.RunnerFunc = func(_ hclog.Logger, cmd *exec.Cmd, sockets string) (runner.Runner, error) {
		p.sockets = sockets
		p.runner = launch.NewRunner(launch.RunnerConfig{
			Command:   launch.Command{Path: t.command[0], Args: t.command[1:], Env: append(cmd.Env, t.env...)},
			SocketDir: sockets,
			Output: func(l launch.Line) {
				p.log.add(l.Text)
				if n := int64(len(l.Text)) + l.Cut; n > p.longest.Load() { // lines of one instance arrive sequentially
					p.longest.Store(n)
				}
			},
			Accept: func(h launch.Handshake) error {
				p.offer = h
				return wire.Offer{Core: h.Core, Version: h.Version, Protocol: h.Protocol, Certificate: h.Certificate}.Check()
			},
		})
		return p.runner, nil
	}
	if err := wire.Secure(cfg); err != nil {
		return err
	}
	p.plugin = plugin.NewClient(cfg)
	began := time.Now()
	protocol, err := p.plugin.Client()
	if err != nil {
		if time.Since(began) >= limit {
			return fmt.Errorf("%w within %s", launch.ErrNoHandshake, limit.Round(time.Millisecond))
		}
		return err
	}
	raw, err := protocol.Dispense(wire.PluginKey)
	if err != nil {
		return err
	}
	p.client = raw.(*wire.Client)
	p.conn = protocol.(*plugin.GRPCClient).Conn
	return nil
}

// Client implements Instance.
func (p *remote) Client() *wire.Client { return p.client }

// Conn implements Instance.
func (p *remote) Conn() grpc.ClientConnInterface { return p.conn }

// address returns the address at which the plugin listens.
func (p *remote) address() (net.Addr, bool) {
	if c := p.plugin.ReattachConfig(); c != nil && c.Addr != nil {
		return c.Addr, true
	}
	return nil, false
}

// PID implements Instance.
func (p *remote) PID() int { return p.runner.Process().PID() }

// Done implements Instance.
func (p *remote) Done() <-chan struct{} { return p.runner.Process().Done() }

// Log implements Instance.
func (p *remote) Log() []string { return p.log.Lines() }

// Report implements Reporter.
func (p *remote) Report() launch.Report {
	if proc := p.runner.Process(); proc != nil {
		select {
		case <-proc.Done():
			<-proc.Settled()
			<-p.runner.Drained()
		default:
		}
	}
	return p.runner.Report()
}

// Release implements Instance.
func (p *remote) Release() { _ = p.runner.Process().CloseStdin() }

// Stop implements Instance.
func (p *remote) Stop() {
	p.once.Do(func() {
		if p.client != nil {
			p.client.Close()
		}
		if p.runner != nil && p.runner.Process() != nil {
			proc := p.runner.Process()
			launch.Stop(context.Background(), proc.Done(), []launch.Step{
				{Name: "close standard input", Limit: stopGrace, Await: true,
					Do: func(context.Context) error { return proc.CloseStdin() }},
				proc.SignalStep("kill", syscall.SIGKILL, stopGrace),
			})
		}
		if p.plugin != nil {
			p.plugin.Kill()
		}
		_ = os.RemoveAll(p.dir)
	})
}
