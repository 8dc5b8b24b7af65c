package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// build compiles the test programs. Mutants that do not compile are left out.
func (p *pkg) build() error {
	if err := p.check(); err != nil {
		return err
	}
	overlay, err := p.overlay()
	if err != nil {
		return err
	}
	for _, s := range p.suites {
		out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.program, "./"+s.dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s does not compile with mutants: %w\n%s", s.dir, err, out)
		}
		imports, err := exec.Command("go", "list", "-f", `{{join .TestImports " "}} {{join .XTestImports " "}}`, "./"+s.dir).Output()
		if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if slices.Contains(strings.Fields(string(imports)), "pgregory.net/rapid") {
			// To find a smaller example takes long and is of no use here.
			s.flags = []string{"-rapid.nofailfile", "-rapid.shrinktime=1ms"}
		}
	}
	return nil
}

func (p *pkg) runtime() []byte { return fmt.Appendf(nil, runtimeFile, p.sources[0].pkg, p.next+1) }

// listing is the format of the fields that check reads of each package.
const listing = "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}"

// check finds the mutants that do not compile. The compiler cannot: it counts
// columns to 255 and stops after some errors.
func (p *pkg) check() error {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", listing, "./"+p.dir).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var folder, names string
	for line := range strings.Lines(string(out)) {
		part := strings.Split(strings.TrimSpace(line), "\t")
		exports[part[0]] = part[1]
		if len(part) == 4 { // the last one is the package itself
			folder, names = part[2], part[3]
		}
	}
	bySource := map[string]*source{}
	for _, s := range p.sources {
		bySource[filepath.Base(s.path)] = s
	}
	for {
		fset := token.NewFileSet()
		var files []*ast.File
		written := map[string][]byte{"ferment_mutant.go": p.runtime()}
		for _, name := range append(strings.Fields(names), "ferment_mutant.go") {
			text := written[name]
			if s := bySource[name]; s != nil {
				text = s.write()
				written[name] = text
			} else if text == nil {
				if text, err = os.ReadFile(filepath.Join(folder, name)); err != nil {
					return err
				}
			}
			file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("a mutant of %s does not parse: %w", name, err)
			}
			files = append(files, file)
		}
		var first error
		progress := false
		conf := types.Config{
			Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }),
			Error: func(err error) {
				var found types.Error
				if errors.As(err, &found) {
					at := fset.Position(found.Pos)
					if s := bySource[at.Filename]; s != nil && s.kill(written[at.Filename], at.Offset) {
						progress = true
					}
				}
				if first == nil {
					first = err
				}
			},
		}
		_, _ = conf.Check(p.dir, fset, files, nil)
		if first == nil {
			return nil
		}
		if !progress {
			return fmt.Errorf("the package does not compile: %w", first)
		}
	}
}

// test is a top-level test with what it takes and the mutants that it reaches.
type test struct {
	suite   *suite
	name    string
	took    time.Duration
	reaches map[int]bool
}

// baseline runs each test alone, without a mutant.
func (p *pkg) baseline(o options) ([]*test, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		tests []*test
		fails []error
		work  = make(chan *test)
	)
	for i := range o.workers {
		hits := filepath.Join(p.scratch, fmt.Sprint("hits", i))
		wg.Go(func() {
			for one := range work {
				_ = os.Remove(hits)
				began := time.Now()
				out, err := one.suite.exec(context.Background(), []string{"FERMENT_MUTANT_HITS=" + hits}, "-test.run", "^"+one.name+"$")
				one.took = time.Since(began)
				text, _ := os.ReadFile(hits)
				for line := range strings.FieldsSeq(string(text)) {
					id, _ := strconv.Atoi(line)
					one.reaches[id] = true
				}
				mu.Lock()
				if err != nil {
					fails = append(fails, fmt.Errorf("%s of %s fails without a mutant: %w\n%s", one.name, one.suite.dir, err, out))
				}
				tests = append(tests, one)
				one.suite.alone += one.took
				mu.Unlock()
			}
		})
	}
	for _, s := range p.suites {
		out, err := s.exec(context.Background(), nil, "-test.list", o.tests)
		if err != nil {
			fails = append(fails, fmt.Errorf("the tests of %s cannot be listed: %w\n%s", s.dir, err, out))
			break
		}
		for name := range strings.FieldsSeq(string(out)) {
			work <- &test{suite: s, name: name, reaches: map[int]bool{}}
		}
	}
	close(work)
	wg.Wait()
	slices.SortFunc(tests, func(a, b *test) int { return int(a.took - b.took) })
	return tests, errors.Join(fails...)
}

// reaching are the tests that reach a mutant, the quick ones first.
func reaching(m *mutant, tests []*test) []*test {
	var out []*test
	for _, t := range tests {
		if t.reaches[m.id] {
			out = append(out, t)
		}
	}
	return out
}

// kill runs the tests that reach a mutant and names the run that fails.
func (p *pkg) kill(m *mutant, tests []*test) string {
	for _, s := range p.suites {
		began := time.Now()
		killer := s.kill(m, tests)
		s.spent.Add(int64(time.Since(began)))
		if killer != "" {
			s.kills.Add(1)
			return killer
		}
		s.passes.Add(1)
	}
	return ""
}

// kill runs the tests of one program. Tests run in batches of growing time:
// most mutants die in the first one.
func (s *suite) kill(m *mutant, tests []*test) string {
	batch, took := []string(nil), time.Duration(0)
	limit := 200 * time.Millisecond
	env := []string{"FERMENT_MUTANT=" + strconv.Itoa(m.id)}
	flush := func() bool {
		if len(batch) == 0 {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+10*took)
		defer cancel()
		_, err := s.exec(ctx, env, "-test.failfast", "-test.run", "^("+strings.Join(batch, "|")+")$")
		return err != nil
	}
	for _, t := range reaching(m, tests) {
		if t.suite != s {
			continue
		}
		if len(batch) > 0 && took+t.took > limit {
			if flush() {
				return batch[0]
			}
			batch, took, limit = nil, 0, 2*limit
		}
		batch, took = append(batch, t.name), took+t.took
	}
	if flush() {
		return batch[0]
	}
	return ""
}

// exec runs the test program in the folder of its package. A mutant may
// allocate without end or leave processes behind: memory has a limit, and the
// whole process group ends with the context.
func (s *suite) exec(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v 8388608; exec "$0" "$@"`, s.program}, append(append(args, "-test.short"), s.flags...)...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}
