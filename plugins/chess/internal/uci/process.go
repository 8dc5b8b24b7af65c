package uci

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// maxLine bounds a line of the engine, in bytes; a longer one ends the process.
const maxLine = 64 << 10

// process is one running engine.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	exited chan struct{}
	once   sync.Once
	err    error // why it ended; set before exited is closed
}

func start(path string, args []string) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"LANG=C"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("uci: start %s: %w", path, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("uci: start %s: %w", path, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("uci: start %s: %w", path, err)
	}
	p := &process{cmd: cmd, stdin: stdin, lines: make(chan string, 64), exited: make(chan struct{})}
	go p.read(stdout)
	return p, nil
}

// read passes on lines until the process closes its output or writes a line that
// is too long, then kills the process and waits for its end.
func (p *process) read(stdout io.Reader) {
	scan := bufio.NewScanner(stdout)
	scan.Buffer(make([]byte, 4096), maxLine)
	for scan.Scan() {
		p.lines <- strings.TrimSpace(scan.Text())
	}
	p.kill() // after a line that is too long it still runs
	werr := p.cmd.Wait()
	switch {
	case scan.Err() != nil:
		p.err = fmt.Errorf("uci: engine output: %w", scan.Err())
	case werr != nil:
		p.err = fmt.Errorf("uci: engine ended: %w", werr)
	default:
		p.err = fmt.Errorf("uci: engine closed its output")
	}
	close(p.lines)
	close(p.exited)
}

func (p *process) kill() { p.once.Do(func() { _ = p.cmd.Process.Kill() }) }

// stop ends the process and waits until it has ended.
func (p *process) stop() {
	_, _ = io.WriteString(p.stdin, "quit\n")
	_ = p.stdin.Close()
	timer := time.AfterFunc(200*time.Millisecond, p.kill)
	defer timer.Stop()
	for range p.lines { // the reader must be able to finish
	}
	<-p.exited
}

func (p *process) send(format string, args ...any) error {
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		return fmt.Errorf("uci: engine input: %w", err)
	}
	return nil
}

// until reads lines up to one that starts with the given word. Other lines are
// passed to visit if it is not nil.
func (p *process) until(ctx context.Context, word string, visit func(line string)) (string, error) {
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.exited
				return "", p.err
			}
			if line == word || strings.HasPrefix(line, word+" ") {
				return line, nil
			}
			if visit != nil {
				visit(line)
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
