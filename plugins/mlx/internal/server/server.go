package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// Server is the process of a model server.
type Server struct {
	plan *Plan
	port uint16
	proc *launch.Process
	tail launch.Tail
	// drained is closed when all output of the process was read.
	drained chan struct{}
	client  *http.Client
	// killed is the system's count of out-of-memory kills when this process
	// started.
	killed    uint64
	killsTold bool
}

// PID returns the process id.
func (s *Server) PID() int { return s.proc.PID() }

// Port returns the port passed to the server.
func (s *Server) Port() uint16 { return s.port }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.proc.Done() }

// Gone waits until all processes of the server have ended and their output was
// read.
func (s *Server) Gone() {
	<-s.proc.Done()
	<-s.proc.Settled()
	<-s.drained
}

// once starts the server on a port and waits until it is ready. On error no process is left.
func (p *Plan) once(
	ctx context.Context, program string, port uint16, spawned func(int, uint16),
) (*Server, *contract.Error) {
	s := &Server{plan: p, port: port, drained: make(chan struct{}), client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	s.killed, s.killsTold = launch.KilledForMemory()
	command := p.Command(port)
	proc, err := launch.Start(launch.Command{Path: program, Args: command[1:], Env: p.Env, Dir: p.Dir, Reaper: p.Reaper})
	if err != nil {
		return nil, p.notStarted(err)
	}
	s.proc = proc
	var readers sync.WaitGroup
	readers.Go(func() { s.read(launch.Stdout, proc.Stdout()) })
	readers.Go(func() { s.read(launch.Stderr, proc.Stderr()) })
	go func() {
		readers.Wait()
		close(s.drained)
	}()
	spawned(proc.PID(), port)
	if why := s.await(ctx); why != nil {
		_ = proc.Kill()
		s.Gone()
		return nil, why
	}
	return s, nil
}

// notStarted returns the error of a program that the system could not start.
func (p *Plan) notStarted(err error) *contract.Error {
	var why error = err
	var path *fs.PathError
	if errors.As(err, &path) {
		why = path.Err
	}
	for _, here := range []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ENOTDIR, syscall.ELOOP} {
		if errors.Is(err, here) {
			e := p.unavailable("%s: %w", p.Command(0)[0], why)
			if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
				e = e.WithHint("if the program runs outside of the plugin, grant it: " +
					"isolation { exec = [\"PROGRAM\"] }")
			}
			return e
		}
	}
	if errors.Is(err, syscall.ENOMEM) {
		return contract.Errorf("model/out-of-memory", "start the model server %s: %w", p.Command(0)[0], why)
	}
	return contract.Errorf("model/start-failed", "start the model server %s: %w", p.Command(0)[0], why).
		WithHint("check command in the config block of the plugin")
}

func (s *Server) read(stream launch.Stream, from io.ReadCloser) {
	w := launch.NewLineWriter(stream, func(l launch.Line) {
		s.tail.Add(l.Text)
		if s.plan.Log != nil {
			s.plan.Log(l)
		}
	})
	_, _ = io.Copy(w, from)
	_ = w.Close()
	_ = from.Close()
}

// Died returns the error that describes the end of the process:
// model/out-of-memory or model/died. It is never nil, also for an ordered stop,
// which the caller must tell apart. Call it after Gone.
func (s *Server) Died() *contract.Error {
	exit := s.proc.Exit()
	if s.memory(exit, s.last(20)) {
		return s.facts(contract.Errorf("model/out-of-memory", "the model server ran out of memory (%s)", exit))
	}
	return s.facts(contract.Errorf("model/died", "the model server died: %s", exit))
}

// facts returns e with the known details of the end of the process.
func (s *Server) facts(e *contract.Error) *contract.Error {
	exit := s.proc.Exit()
	e = e.WithDetail("pid", edn.Int(int64(s.PID())))
	if exit.Signal != 0 {
		e = e.WithDetail("exit/signal", edn.Int(int64(exit.Signal)))
	} else {
		e = e.WithDetail("exit/status", edn.Int(int64(exit.Code)))
	}
	return e.WithDetail("output", s.output())
}

// lines is the number of lines of output that an error contains.
const lines = 50

func (s *Server) output() edn.Value {
	var all []edn.Value
	for _, line := range s.last(lines) {
		all = append(all, edn.Text(printable(launch.Clip(line, 300))))
	}
	return edn.Vector(all...)
}

func (s *Server) last(n int) []string {
	all := s.tail.Lines()
	return all[max(0, len(all)-n):]
}

// Stop ends the server: it first waits for the calls in flight (until idle is
// closed), then sends the quit request, then signals; each step has a time
// limit. When ctx ends, the process is killed. Stop returns when the process
// has ended or cannot be ended.
func (s *Server) Stop(ctx context.Context, idle <-chan struct{}) []launch.StepResult {
	p := s.plan
	var steps []launch.Step
	if p.Drain > 0 && idle != nil {
		steps = append(steps, launch.Step{Name: "drain", Limit: p.Drain, Do: func(ctx context.Context) error {
			select {
			case <-idle:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
	}
	if p.QuitPath != "" || p.QuitLine != "" {
		steps = append(steps, launch.Step{Name: "quit", Limit: p.Rungs.Quit, Do: s.quit, Await: true})
	}
	steps = append(steps,
		s.proc.SignalStep("interrupt", syscall.SIGINT, p.Rungs.Interrupt),
		s.proc.SignalStep("terminate", syscall.SIGTERM, p.Rungs.Terminate),
		s.proc.SignalStep("kill", syscall.SIGKILL, p.Rungs.Kill))
	return launch.Stop(ctx, s.proc.Done(), steps)
}

// Kill kills all processes of the server. It does not wait for their end.
func (s *Server) Kill() {
	_ = s.proc.Kill()
}

func (s *Server) quit(ctx context.Context) error {
	if s.plan.QuitLine != "" {
		if deadline, ok := ctx.Deadline(); ok {
			_ = s.proc.Stdin().SetWriteDeadline(deadline)
		}
		if _, err := io.WriteString(s.proc.Stdin(), s.plan.QuitLine+"\n"); err != nil {
			return fmt.Errorf("ask the model server to end: %w", err)
		}
	}
	if s.plan.QuitPath == "" {
		return nil
	}
	a := s.ask(ctx, http.MethodPost, s.plan.QuitPath, nil)
	if a.err != nil && !errors.Is(a.err, io.EOF) {
		return fmt.Errorf("ask the model server to end: %w", bare(a.err))
	}
	return nil
}

// Responds reports whether the server responds to any request within
// probeLimit.
func (s *Server) Responds(ctx context.Context) bool { return s.look(ctx, s.plan.ReadyPath).err == nil }
