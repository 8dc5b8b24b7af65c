package solve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/crillab/gophersat/solver"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
)

// Status is the outcome of a solver.
type Status string

// The outcomes: a model was found, none exists, or neither is known.
const (
	Sat     Status = "sat"
	Unsat   Status = "unsat"
	Unknown Status = "unknown"
)

// Answer is the answer of a solver. Model names every variable of the formula
// once, in order; it is set for Sat only. Reason is set for Unknown only.
type Answer struct {
	Status Status
	Model  []int
	Reason string
}

// WorkerArg is the argument that makes a binary a worker: see WorkerMain.
const WorkerArg = "sat-worker"

// Run decides the formula in a worker process. When the context ends, the
// worker is killed; after the timeout (0: none) the answer is Unknown. The
// model of a worker is verified before it is returned.
func Run(ctx context.Context, self string, f *dimacs.Formula, timeout time.Duration) (Answer, error) {
	normal, answer, ok := trivial(f)
	if ok {
		return answer, nil
	}
	var out string
	over, err := within(ctx, timeout, func(ctx context.Context) (err error) {
		out, err = work(ctx, self, append(normal.Text(), endMark...))
		return err
	})
	switch {
	case err != nil:
		return Answer{}, err
	case over:
		return tooLong(timeout), nil
	}
	answer, err = parseAnswer(out)
	if err != nil {
		return Answer{}, err
	}
	if answer.Status == Sat {
		bad, err := f.Check(answer.Model)
		if err == nil && (bad > 0 || len(answer.Model) != f.Vars) {
			err = fmt.Errorf("clause %d is not satisfied", bad)
		}
		if err != nil {
			return Answer{}, fmt.Errorf("sat: the solver's model is wrong: %w", err)
		}
	}
	return answer, nil
}

// within limits the time of a solver: over means that it took longer than the
// timeout (0: none), whatever its result. The end of ctx is an error.
func within(ctx context.Context, timeout time.Duration, do func(ctx context.Context) error) (over bool, err error) {
	bounded := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	err = do(bounded)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case bounded.Err() != nil:
		return true, nil
	}
	return false, err
}

func tooLong(timeout time.Duration) Answer {
	return Answer{Status: Unknown, Reason: fmt.Sprintf("no answer within %s", timeout)}
}

// work sends the formula to a worker and returns its output. The end of ctx
// kills the worker; ctx may also end before the worker exists.
func work(ctx context.Context, self string, formula []byte) (string, error) {
	cmd := exec.CommandContext(ctx, self, WorkerArg)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = workerAttributes()
	cmd.WaitDelay = time.Second
	// The pipe stays open until the worker has answered: its end means that the
	// plugin has died.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("sat: start worker: %w", err)
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &limited{buf: &problems, left: 4 << 10}
	if err := startWorker(cmd); err != nil {
		return "", fmt.Errorf("sat: start worker: %w", err)
	}
	_, werr := stdin.Write(formula)
	err = cmd.Wait()
	_ = stdin.Close()
	switch {
	case err != nil:
		return "", fmt.Errorf("sat: worker failed: %w: %s", err, strings.TrimSpace(problems.String()))
	case werr != nil:
		return "", fmt.Errorf("sat: worker input: %w", werr)
	}
	return out.String(), nil
}

// trivial normalizes a formula, or decides one that needs no search.
func trivial(f *dimacs.Formula) (*dimacs.Formula, Answer, bool) {
	normal, empty := f.Normal()
	if empty > 0 {
		return nil, Answer{Status: Unsat}, true
	}
	if len(normal.Clauses) > 0 {
		return normal, Answer{}, false
	}
	model := make([]int, f.Vars)
	for i := range model {
		model[i] = i + 1
	}
	return nil, Answer{Status: Sat, Model: model}, true
}

// endMark closes the formula on the worker's input, which stays open.
const endMark = "c end of formula\n"

// WorkerMain is the worker: it reads a formula from in, writes "s SATISFIABLE"
// with a "v" line or "s UNSATISFIABLE" to out, and returns the exit code.
func WorkerMain(in io.Reader, out, problems io.Writer) int {
	buffered := bufio.NewReader(in)
	var text strings.Builder
	for {
		line, err := buffered.ReadString('\n')
		if line == endMark {
			break
		}
		text.WriteString(line)
		if err != nil {
			_, _ = fmt.Fprintln(problems, "the formula ended before its mark")
			return 2
		}
	}
	go func() { // no more input follows: its end means that the plugin has died
		_, _ = io.Copy(io.Discard, buffered)
		os.Exit(3)
	}()
	f, err := dimacs.Read(text.String())
	if err != nil {
		_, _ = fmt.Fprintln(problems, err)
		return 2
	}
	s := solver.New(solver.ParseSliceNb(f.Clauses, f.Vars))
	if s.Solve() != solver.Sat {
		_, err = fmt.Fprintln(out, "s UNSATISFIABLE")
	} else {
		var b strings.Builder
		b.WriteString("s SATISFIABLE\nv")
		for i, value := range s.Model() {
			lit := i + 1
			if !value {
				lit = -lit
			}
			b.WriteByte(' ')
			b.WriteString(strconv.Itoa(lit))
		}
		b.WriteString(" 0\n")
		_, err = io.WriteString(out, b.String())
	}
	if err != nil {
		return 2
	}
	return 0
}

// parseAnswer parses the output of a solver in SAT competition form.
func parseAnswer(text string) (Answer, error) {
	var a Answer
	closed := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "s SATISFIABLE":
			a.Status = Sat
		case line == "s UNSATISFIABLE":
			a.Status = Unsat
		case line == "s UNKNOWN":
			a.Status, a.Reason = Unknown, "the solver gave up"
		case strings.HasPrefix(line, "v ") || line == "v":
			for word := range strings.FieldsSeq(line[1:]) {
				lit, err := strconv.Atoi(word)
				if err != nil {
					return Answer{}, fmt.Errorf("sat: the solver's model has %q", word)
				}
				if lit == 0 {
					closed = true
					break
				}
				a.Model = append(a.Model, lit)
			}
		}
	}
	if a.Status == "" {
		return Answer{}, errors.New("sat: the solver gave no status line")
	}
	if a.Status == Sat && !closed {
		return Answer{}, errors.New("sat: the solver's model is cut off")
	}
	return a, nil
}

// limited keeps the first bytes that are written to it.
type limited struct {
	buf  *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.buf.Write(p[:n])
	l.left -= n
	return len(p), nil
}
