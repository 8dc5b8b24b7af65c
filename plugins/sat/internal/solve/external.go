package solve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

// Style is the interface of a program: how it receives the formula and returns
// its answer.
type Style string

// The styles.
const (
	// Competition programs receive the name of a file and write "s" and "v"
	// lines, as in the SAT competitions: cadical, picosat, kissat.
	Competition Style = "competition"
	// MiniSat programs receive the names of two files and write their answer
	// into the second.
	MiniSat Style = "minisat"
	// builtin programs run WorkerMain: they read the formula from standard input,
	// whose end then means that the plugin has died.
	builtin Style = "builtin"
)

// Exit codes of solvers.
const (
	exitUnknown = 0
	exitSat     = 10
	exitUnsat   = 20
)

// maxOutput bounds the parsed output of a program, in bytes.
const maxOutput = 64 << 20

// killWait is the time that a program may take to end after SIGKILL.
const killWait = time.Second

// External is a program that decides formulas.
type External struct {
	Path  string // absolute
	Args  []string
	Style Style
	// Dir holds the files of calls; each call has its own directory below it.
	Dir string
}

// Run decides the formula with the program. When the context ends, the program
// and its children are killed. After the timeout (0: none) the answer is
// Unknown. The output is verified: the exit code must agree with the answer,
// and a model must satisfy the formula. The error is provider/not-configured for a
// program that does not start, provider/error for one that fails or writes an
// invalid answer, runtime/invalid-result for a wrong model, that of ctx, or one of
// the file system, which has no type.
func (e External) Run(ctx context.Context, f *dimacs.Formula, timeout time.Duration) (Answer, error) {
	normal, a, ok := trivial(f)
	if ok {
		return a, nil
	}
	c := launch.Command{Path: e.Path, Args: slices.Clone(e.Args)}
	var input []byte
	var result string
	if e.Style == builtin {
		c.Env = append(os.Environ(), "GOMAXPROCS=1")
		input = append(normal.Text(), endMark...)
	} else {
		dir, err := os.MkdirTemp(e.Dir, "sat-")
		if err != nil {
			return Answer{}, fmt.Errorf("sat: make a directory for the formula: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		formula := filepath.Join(dir, "formula.cnf")
		if err := os.WriteFile(formula, normal.Text(), 0o600); err != nil {
			return Answer{}, fmt.Errorf("sat: write the formula: %w", err)
		}
		c.Dir, c.Env, c.Args = dir, []string{"LANG=C", "TMPDIR=" + dir}, append(c.Args, formula)
		if e.Style == MiniSat {
			result = filepath.Join(dir, "result")
			c.Args = append(c.Args, result)
		}
	}
	var code int
	var out []byte
	over, err := within(ctx, timeout, func(ctx context.Context) (err error) {
		code, out, err = e.execute(ctx, c, input)
		return err
	})
	switch {
	case err != nil:
		return Answer{}, err
	case over:
		return tooLong(timeout), nil
	}
	if e.Style == MiniSat {
		a, err = minisatAnswer(result, code)
	} else {
		a, err = competitionAnswer(out, code)
	}
	if err != nil {
		return Answer{}, e.fault("%w", err)
	}
	return e.checked(f, a)
}

// fault returns the error for a program that misbehaves.
func (e External) fault(format string, args ...any) error {
	return contract.Errorf("provider/error", "run the solver %s: %w", filepath.Base(e.Path), fmt.Errorf(format, args...)).
		WithHint("check solver, path and args in the config block of the plugin")
}

// checked returns the answer with a value for each variable in its model. The error is
// runtime/invalid-result for a model that does not satisfy the formula.
func (e External) checked(f *dimacs.Formula, a Answer) (Answer, error) {
	if a.Status != Sat {
		return a, nil
	}
	value := make([]int, f.Vars+1)
	for _, lit := range a.Model {
		v := max(lit, -lit)
		switch {
		case v > f.Vars:
			return Answer{}, e.wrong("variable %d is not in the formula, which has %d variables", v, f.Vars)
		case value[v] == -lit:
			return Answer{}, e.wrong("variable %d is both true and false", v)
		}
		value[v] = lit
	}
	model := make([]int, f.Vars)
	for i := range model {
		// A solver may omit variables that do not matter.
		if model[i] = value[i+1]; model[i] == 0 {
			model[i] = i + 1
		}
	}
	bad, err := f.Check(model)
	if err == nil && bad > 0 {
		err = fmt.Errorf("clause %d is not satisfied", bad)
	}
	if err != nil {
		return Answer{}, e.wrong("%w", err)
	}
	a.Model = model
	return a, nil
}

func (e External) wrong(format string, args ...any) error {
	return contract.Errorf("runtime/invalid-result", "the model of %s is wrong: %w", filepath.Base(e.Path),
		fmt.Errorf(format, args...)).WithHint("use another solver: this one answers with wrong models")
}

// execute runs the program to its end and returns its exit code and output.
// When ctx ends, the program has ended within killWait.
func (e External) execute(ctx context.Context, c launch.Command, input []byte) (int, []byte, error) {
	p, err := launch.Start(c)
	if err != nil {
		return 0, nil, contract.Errorf("provider/not-configured", "start the solver %s: %w", filepath.Base(e.Path), err)
	}
	out, problems := &bounded{left: maxOutput}, &bounded{left: 4 << 10}
	var pipes sync.WaitGroup
	over := make(chan struct{})
	pipes.Go(func() {
		_, _ = p.Stdin().Write(input) // a program that ends early fails below
		if e.Style != builtin {
			_ = p.CloseStdin()
		}
	})
	pipes.Go(func() {
		if !out.fill(p.Stdout()) {
			close(over)
			_, _ = io.Copy(io.Discard, p.Stdout()) // drain, so that its end is noticed
		}
	})
	pipes.Go(func() {
		if !problems.fill(p.Stderr()) {
			_, _ = io.Copy(io.Discard, p.Stderr())
		}
	})
	tooMuch := false
	select {
	case <-p.Done():
	case <-ctx.Done():
	case <-over:
		tooMuch = true
	}
	_ = p.Kill() // including its children
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-p.Settled():
	case <-timer.C:
		return 0, nil, e.fault("the process did not end within %s after the kill", killWait)
	}
	pipes.Wait()
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	select {
	case <-over:
		tooMuch = true
	default:
	}
	exit := p.Exit()
	switch {
	case tooMuch:
		return 0, nil, e.fault("the output has more than %d bytes", maxOutput)
	case exit.Signal != 0, exit.Code != exitUnknown && exit.Code != exitSat && exit.Code != exitUnsat:
		return 0, nil, e.fault("the process ended with %s: %s", exit,
			strings.TrimSpace(launch.Clip(problems.String()+" "+firstProblem(out.Bytes()), 300)))
	}
	return exit.Code, out.Bytes(), nil
}

// firstProblem returns the first problem in the standard output of a program.
func firstProblem(out []byte) string {
	for line := range bytes.Lines(out) {
		if text := strings.TrimSpace(string(line)); text != "" && !strings.HasPrefix(text, "c ") && text != "c" {
			return strings.ToValidUTF8(text, "?")
		}
	}
	return ""
}

// bounded keeps at most left bytes of a stream.
type bounded struct {
	bytes.Buffer
	left int64
}

// fill reads until the end of the stream or until the limit is exceeded. It returns false if the
// stream is too long.
func (b *bounded) fill(r io.Reader) bool {
	n, _ := io.Copy(&b.Buffer, io.LimitReader(r, b.left+1)) // a broken stream counts as ended
	return n <= b.left
}

// status returns an error if the status word and the exit code of a program do not agree.
func status(word Status, code int) error {
	want := map[Status]int{Sat: exitSat, Unsat: exitUnsat, Unknown: exitUnknown}[word]
	if code != want {
		return fmt.Errorf("the status is %s, but the exit code is %d, expected %d", word, code, want)
	}
	return nil
}

// competitionAnswer parses the output of a program strictly: comments, one
// status line, and value lines that end with 0.
func competitionAnswer(out []byte, code int) (Answer, error) {
	var a Answer
	closed := false
	n := 0
	for raw := range bytes.Lines(out) {
		n++
		line := strings.TrimRight(string(raw), "\r\n \t")
		switch {
		case line == "" || line == "c" || strings.HasPrefix(line, "c ") || strings.HasPrefix(line, "c\t"):
		case strings.HasPrefix(line, "s "):
			if a.Status != "" {
				return Answer{}, fmt.Errorf("line %d is a second status line", n)
			}
			word, ok := map[string]Status{"s SATISFIABLE": Sat, "s UNSATISFIABLE": Unsat, "s UNKNOWN": Unknown}[line]
			if !ok {
				return Answer{}, fmt.Errorf("line %d: expected SATISFIABLE, UNSATISFIABLE or UNKNOWN, found %q",
					n, launch.Clip(line, 60))
			}
			a.Status = word
		case line == "v" || strings.HasPrefix(line, "v "):
			if closed {
				return Answer{}, fmt.Errorf("line %d continues a model that has ended", n)
			}
			var err error
			if a.Model, closed, err = literals(a.Model, line[1:]); err != nil {
				return Answer{}, fmt.Errorf("line %d: %w", n, err)
			}
		default:
			return Answer{}, fmt.Errorf("line %d: expected a line that begins with c, s or v, found %q", n,
				launch.Clip(strings.ToValidUTF8(line, "?"), 60))
		}
	}
	return finish(a, closed, code)
}

func finish(a Answer, closed bool, code int) (Answer, error) {
	if a.Status == "" && code == exitUnknown {
		a.Status = Unknown // cadical writes no status when it gives up
	}
	switch {
	case a.Status == "":
		return Answer{}, errors.New("the output has no status line")
	case a.Status != Sat && (len(a.Model) > 0 || closed):
		return Answer{}, fmt.Errorf("the status is %s, but the output has a model", a.Status)
	case a.Status == Sat && !closed:
		return Answer{}, errors.New("the model does not end with 0")
	}
	if err := status(a.Status, code); err != nil {
		return Answer{}, err
	}
	if a.Status == Unknown {
		a.Reason = "the solver gave up"
	}
	return a, nil
}

// literals parses the words of a model and reports whether its end was among
// them.
func literals(model []int, text string) ([]int, bool, error) {
	closed := false
	for word := range strings.FieldsSeq(text) {
		if closed {
			return nil, false, fmt.Errorf("%q follows the 0 that ends the model", launch.Clip(word, 40))
		}
		lit, err := strconv.Atoi(word)
		if err != nil || lit == -lit && lit != 0 {
			return nil, false, fmt.Errorf("expected an integer as literal, found %q",
				launch.Clip(strings.ToValidUTF8(word, "?"), 40))
		}
		if lit == 0 {
			closed = true
			continue
		}
		model = append(model, lit)
	}
	return model, closed, nil
}

// minisatAnswer parses the file that MiniSat writes: a status word, and after SAT one line with the
// model.
func minisatAnswer(path string, code int) (Answer, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return finish(Answer{}, false, code)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read the result file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Answer{}, errors.New("the result is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOutput+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("read the result file: %w", err)
	case len(text) > maxOutput:
		return Answer{}, fmt.Errorf("the result file has more than %d bytes", maxOutput)
	case len(bytes.TrimSpace(text)) == 0:
		return finish(Answer{}, false, code)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	var a Answer
	var ok bool
	if a.Status, ok = map[string]Status{"SAT": Sat, "UNSAT": Unsat, "INDET": Unknown}[strings.TrimSpace(first)]; !ok {
		return Answer{}, fmt.Errorf("expected SAT, UNSAT or INDET as the first line of the result, found %q",
			launch.Clip(strings.ToValidUTF8(first, "?"), 60))
	}
	closed := false
	if a.Model, closed, err = literals(nil, rest); err != nil {
		return Answer{}, err
	}
	return finish(a, closed, code)
}
