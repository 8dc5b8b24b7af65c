package suite

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/launch"
)

// Format is the output format of a command.
type Format string

// The formats.
const (
	GoJSON   Format = "go-json"
	JUnit    Format = "junit"
	TAP      Format = "tap"
	ExitCode Format = "exit-code"
)

// Formats are all formats that Run parses.
var Formats = []Format{GoJSON, JUnit, TAP, ExitCode}

// Spec is one run of a suite.
type Spec struct {
	// Dir is the working directory of the command.
	Dir string
	// Path is the program, absolute; Args follow its name.
	Path string
	Args []string
	// Env is the whole environment.
	Env    []string
	Format Format
	// Report is the path for the command's JUnit report; if it is empty or
	// there is no file, the report is read from standard output.
	Report string
	// Timeout ends the run; it must be positive.
	Timeout time.Duration
	// Memory limits the data segment of each process in bytes; 0 means no
	// limit.
	Memory int64
	// Reaper kills the suite if this process is killed; may be nil.
	Reaper *launch.Reaper

	expired <-chan time.Time // of tests: in place of the timer of Timeout
}

// Name returns the command as text, for messages.
func (s *Spec) Name() string {
	return strings.Join(append([]string{filepath.Base(s.Path)}, s.Args...), " ")
}

// StartError means that the command could not be started.
type StartError struct {
	Command string
	Err     error
}

func (e *StartError) Error() string { return fmt.Sprintf("start %s: %v", e.Command, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// Run runs the suite and returns its result; tests that fail are not an error. The error is a
// *StartError, wraps that of ctx if ctx ended first, or reports that the processes cannot be
// killed. Otherwise no process of the run is left when Run returns.
func Run(ctx context.Context, s Spec) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", s.Name(), err)
	}
	path, args := limited(s.Path, s.Args, s.Memory)
	began := time.Now()
	p, err := launch.Start(launch.Command{Path: path, Args: args, Env: s.Env, Dir: s.Dir, Reaper: s.Reaper})
	if err != nil {
		return Result{}, &StartError{Command: s.Name(), Err: err}
	}
	_ = p.CloseStdin() // tests get no input

	c := collector{reader: readerOf(s)}
	var readers sync.WaitGroup
	readers.Go(func() {
		if raw, ok := c.reader.(*junitReader); ok {
			c.copy(raw, p.Stdout()) // lines of a report may have any length
			return
		}
		c.read(p.Stdout(), c.reader.line)
	})
	readers.Go(func() { c.read(p.Stderr(), c.reader.other) })

	expired := s.expired
	if expired == nil {
		timer := time.NewTimer(s.Timeout)
		defer timer.Stop()
		expired = timer.C
	}
	timedOut, gaveUp := false, false
	select {
	case <-p.Done():
	case <-expired:
		timedOut = true
	case <-ctx.Done():
		gaveUp = true
	}
	if timedOut || gaveUp {
		if err := p.Kill(); err != nil {
			return Result{}, fmt.Errorf("stop %s: %w", s.Name(), err)
		}
	}
	<-p.Settled()
	readers.Wait()
	if gaveUp {
		return Result{}, fmt.Errorf("run %s: %w", s.Name(), ctx.Err())
	}

	exit := p.Exit()
	r := Result{TimedOut: timedOut, Exit: exit.Code, Ended: exit.String(), Took: time.Since(began)}
	c.reader.fill(&r, s.Name())
	r.judge(s.Timeout, c.reader.outOfMemory())
	r.limit()
	return r, nil
}

// reader parses test results from the output of a command. It is used by one
// goroutine at a time.
type reader interface {
	line(text string)  // of standard output
	other(text string) // of standard error
	// fill writes the collected results into a result when the command has
	// ended.
	fill(r *Result, command string)
	outOfMemory() bool
}

func readerOf(s Spec) reader {
	switch s.Format {
	case GoJSON:
		return newGoEvents()
	case JUnit:
		return &junitReader{path: s.Report}
	case TAP:
		return newTAPReader()
	}
	return &exitReader{}
}

// collector reads the two streams of a command.
type collector struct {
	mu     sync.Mutex
	reader reader
}

// read passes each line of a stream to take until the stream ends. The part of a line beyond the
// limit of the launcher is dropped.
func (c *collector) read(r io.Reader, take func(string)) {
	w := launch.NewLineWriter(launch.Stdout, func(l launch.Line) {
		c.mu.Lock()
		defer c.mu.Unlock()
		take(l.Text)
	})
	_, _ = io.Copy(w, r) // the stream ends when the process does
	_ = w.Close()
}

// copy copies a stream to w until the stream ends.
func (c *collector) copy(w io.Writer, r io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		c.mu.Lock()
		_, _ = w.Write(buffer[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// exitReader treats a command as one test.
type exitReader struct {
	output excerpt
	memory bool
}

func (e *exitReader) line(text string) {
	e.output.line(text)
	e.memory = e.memory || saysOutOfMemory(text)
}

func (e *exitReader) other(text string) { e.line(text) }

func (e *exitReader) outOfMemory() bool { return e.memory }

func (e *exitReader) fill(r *Result, name string) {
	t := Test{Name: name, Status: Pass, Took: r.Took}
	if r.Exit != 0 || r.TimedOut {
		t.Status, t.Output = Fail, e.output.String()
	}
	r.add(t)
	r.Output = e.output.String()
}

const shell = "/bin/sh"

// limited wraps a command so that it and its children have at most memory bytes
// of data each. Only a process can lower its own limits without a moment in
// which it runs without them, so a shell lowers them and execs the command. The
// limit is the one for data, because Go reserves far more address space than it
// uses. Without a shell the command runs without a limit.
func limited(path string, args []string, memory int64) (string, []string) {
	if _, err := os.Stat(shell); err != nil || memory <= 0 {
		return path, args
	}
	script := "ulimit -c 0; ulimit -d " + strconv.FormatInt(max(memory/1024, 1), 10) + ` && exec "$@"`
	return shell, append([]string{"-c", script, "sh", path}, args...)
}
