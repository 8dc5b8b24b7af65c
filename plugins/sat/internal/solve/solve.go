package solve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/crillab/gophersat/solver"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
)

// Status is the outcome of a solver.
type Status string

// The outcomes: a model exists, no model exists, or it is unknown.
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

// WorkerArg is the argument that makes a binary a worker; see WorkerMain.
const WorkerArg = "sat-worker"

// Builtin returns the built-in solver. self is the path of a binary that calls WorkerMain if its
// argument is WorkerArg.
func Builtin(self string) External {
	return External{Path: self, Args: []string{WorkerArg}, Style: builtin}
}

// within calls do with a context that ends after the timeout (0: no limit). over is true if the
// timeout has passed, whatever do returned. The error is that of ctx if ctx has ended, otherwise
// that of do.
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

// trivial returns the normal form of a formula, or the answer and true for a formula that needs no
// search.
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

// endMark marks the end of the formula on the worker's input, which stays open.
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
	code := exitUnsat
	if s.Solve() != solver.Sat {
		_, err = fmt.Fprintln(out, "s UNSATISFIABLE")
	} else {
		code = exitSat
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
	return code
}
