// Command mutate changes the source in small ways and reports the changes that
// no test notices:
//
//	go run ./.ci/mutate [-j 2] [-run REGEXP] [FILE|DIR ...]
//
// It negates conditions, swaps operators, adds one to numbers, drops statements
// and returns zero values. All mutants of a package are compiled into one test
// program, each behind a switch, so a mutant costs a run and not a build. A
// mutant is run against the tests that reach it, the quick ones first; a test
// that fails, panics or exceeds ten times its time kills it.
//
// survivors.txt names the survivors that are accepted, each below a comment
// that says why. Any other survivor, and a line of survivors.txt that names no
// mutant of a measured file, makes the exit status 1. -v prints the mutants
// that are killed as well; -run measures what some of the tests notice.
//
// A package may be tested by the tests of others: witnesses names these.
//
// It runs from the root of the repository. A mutant whose source does not
// compile is left out. Declarations of constants are not changed; their uses
// are.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// targets are measured when no argument names others.
var targets = []string{
	"host/internal/domain/plan/check.go",
	"host/internal/domain/plan/check_gates.go",
	"host/internal/domain/plan/check_input.go",
	"host/internal/domain/plan/check_known.go",
	"host/internal/domain/plan/check_names.go",
	"host/internal/domain/plan/check_slots.go",
	"host/internal/domain/plan/check_whole.go",
	"host/internal/domain/policy",
	"host/internal/orchestration/budget",
	"host/internal/orchestration/dispatch/flow/decide.go",
	"host/internal/orchestration/dispatch/backoff.go",
	"host/internal/orchestration/dispatch/breaker",
	"host/internal/orchestration/eval/order.go",
	"host/internal/orchestration/journal",
	"sdk/conversation/agent",
	"sdk/conversation/session",
}

// witnesses are packages whose tests are run besides those of the package that
// is changed: what they test is made of it.
var witnesses = map[string][]string{
	"host/internal/domain/policy": {
		"host/internal/domain/plan",
		"host/internal/orchestration/act",
		"host/internal/orchestration/budget",
		"host/internal/orchestration/dispatch",
	},
	"host/internal/orchestration/budget": {
		"host/internal/orchestration/dispatch",
		"host/internal/orchestration/eval",
	},
	"host/internal/orchestration/dispatch/flow": {"host/internal/orchestration/dispatch"},
	"host/internal/orchestration/journal": {
		"host/internal/orchestration/act",
		"host/internal/orchestration/eval",
		"host/internal/runtime/history",
	},
}

const survivorsFile = ".ci/mutate/survivors.txt"

// options say how mutants are run.
type options struct {
	workers int    // mutants at once
	verbose bool   // prints those that are killed as well
	tests   string // names of the tests that are run, a regular expression
}

func main() {
	var o options
	flag.IntVar(&o.workers, "j", 2, "mutants that run at once")
	flag.BoolVar(&o.verbose, "v", false, "print killed mutants as well")
	flag.StringVar(&o.tests, "run", "^(Test|Example|Fuzz)", "tests to run")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		names = targets
	}
	ok, err := measure(names, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// measure runs the mutants of all targets, package by package.
func measure(names []string, o options) (bool, error) {
	byDir := map[string][]string{}
	var dirs []string
	for _, name := range names {
		files := []string{name}
		if info, err := os.Stat(name); err != nil {
			return false, err
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(name, "*.go")); err != nil {
				return false, err
			}
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			dir := filepath.Dir(file)
			if byDir[dir] == nil {
				dirs = append(dirs, dir)
			}
			byDir[dir] = append(byDir[dir], filepath.ToSlash(filepath.Clean(file)))
		}
	}
	text, err := os.ReadFile(survivorsFile)
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	explained, err := survivors(string(text))
	if err != nil {
		return false, err
	}
	var total tally
	for _, dir := range dirs {
		began := time.Now()
		p, err := open(dir, byDir[dir])
		if err != nil {
			return false, err
		}
		t, err := p.run(o, explained)
		p.close()
		if err != nil {
			return false, fmt.Errorf("%s: %w", dir, err)
		}
		fmt.Printf("%s: %s (%.0f s)\n", dir, t, time.Since(began).Seconds())
		total.add(t)
	}
	for key := range explained {
		file, _, _ := strings.Cut(key, " ")
		_, missing := os.Stat(file)
		if (missing != nil || slices.Contains(byDir[filepath.Dir(file)], file)) && !total.found[key] {
			fmt.Printf("%s explains what is not a mutant: %s\n", survivorsFile, key)
			total.stale++
		}
	}
	fmt.Printf("all: %s\n", total)
	return total.survived == 0 && total.stale == 0, nil
}

// survivors reads the explained survivors: a line each, below a comment that
// gives the reason. A blank line ends the reason.
func survivors(text string) (map[string]bool, error) {
	explained := map[string]bool{}
	reason := ""
	for i, line := range strings.Split(text, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "":
			reason = ""
		case strings.HasPrefix(line, "#"):
			reason = line
		case reason == "":
			return nil, fmt.Errorf("%s:%d: a survivor without a reason; write it as a comment above", survivorsFile, i+1)
		default:
			explained[line] = true
		}
	}
	return explained, nil
}

// tally counts what became of mutants.
type tally struct {
	mutants, killed, explained, survived, stale int

	found map[string]bool
}

func (t *tally) add(o tally) {
	t.mutants += o.mutants
	t.killed += o.killed
	t.explained += o.explained
	t.survived += o.survived
	if t.found == nil {
		t.found = map[string]bool{}
	}
	for key := range o.found {
		t.found[key] = true
	}
}

func (t tally) String() string {
	share := 100 * float64(t.killed) / float64(max(1, t.mutants))
	return fmt.Sprintf("%d mutants, %d killed (%.1f %%), %d explained, %d unexplained",
		t.mutants, t.killed, share, t.explained, t.survived)
}

// pkg is a package with its mutants and the test programs that hold them.
type pkg struct {
	dir     string // from the root
	sources []*source
	next    int
	scratch string
	suites  []*suite
}

// suite is the test program of one package.
type suite struct {
	dir     string // from the root
	program string
	flags   []string

	alone  time.Duration // of its tests, each run alone
	kills  atomic.Int64
	passes atomic.Int64 // mutants that its tests let live
	spent  atomic.Int64 // nanoseconds on mutants
}

// String says what the tests of a suite cost and found.
func (s *suite) String() string {
	return fmt.Sprintf("tests of %s: %.1f s each alone, %.1f s with mutants, %d killed, %d let live",
		s.dir, s.alone.Seconds(), time.Duration(s.spent.Load()).Seconds(), s.kills.Load(), s.passes.Load())
}

func open(dir string, files []string) (*pkg, error) {
	p := &pkg{dir: dir}
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	consts := map[string]bool{}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := constants(text, consts); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := find(file, text, consts, &p.next)
		if err != nil {
			return nil, err
		}
		p.sources = append(p.sources, s)
	}
	p.scratch, err = os.MkdirTemp("", "ferment-mutate-")
	for i, dir := range append([]string{filepath.ToSlash(dir)}, witnesses[filepath.ToSlash(dir)]...) {
		p.suites = append(p.suites, &suite{dir: dir, program: filepath.Join(p.scratch, fmt.Sprint("test", i))})
	}
	return p, err
}

func (p *pkg) close() { _ = os.RemoveAll(p.scratch) }

// run builds the program and runs every mutant.
func (p *pkg) run(o options, explained map[string]bool) (tally, error) {
	t := tally{found: map[string]bool{}}
	if err := p.build(); err != nil {
		return t, err
	}
	tests, err := p.baseline(o)
	if err != nil {
		return t, err
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		work = make(chan *mutant)
		left []*mutant
	)
	for range o.workers {
		wg.Go(func() {
			for m := range work {
				killer := p.kill(m, tests)
				mu.Lock()
				t.mutants++
				t.found[m.key] = true
				switch {
				case killer != "":
					t.killed++
					if explained[m.key] {
						fmt.Printf("explained, yet killed by %s: %s\n", killer, m.key)
					} else if o.verbose {
						fmt.Printf("killed by %s: %s\n", killer, m.key)
					}
				case explained[m.key]:
					t.explained++
				default:
					left = append(left, m)
				}
				mu.Unlock()
			}
		})
	}
	for _, s := range p.sources {
		for _, m := range s.mutants {
			if !m.dead {
				work <- m
			}
		}
	}
	close(work)
	wg.Wait()
	t.survived = len(left)
	if o.verbose {
		for _, s := range p.suites {
			fmt.Println(s)
		}
	}
	slices.SortFunc(left, func(a, b *mutant) int { return a.id - b.id })
	for _, m := range left {
		fmt.Printf("survived, line %d, reached by %d tests:\n%s\n", m.line, len(reaching(m, tests)), m.key)
	}
	return t, nil
}

// overlay writes the sources with their mutants, and the file that says which
// stands for which.
func (p *pkg) overlay() (string, error) {
	replace := map[string]string{}
	put := func(path string, text []byte) error {
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		replace[abs] = filepath.Join(p.scratch, filepath.Base(path))
		return os.WriteFile(replace[abs], text, 0o600)
	}
	for _, s := range p.sources {
		if err := put(s.path, s.write()); err != nil {
			return "", err
		}
	}
	if err := put(filepath.Join(p.dir, "ferment_mutant.go"), p.runtime()); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(p.scratch, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
