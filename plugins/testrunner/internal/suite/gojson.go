package suite

import (
	"encoding/json"
	"strings"
	"time"
)

// event is one line of `go test -json`, with the build events that Go 1.24
// added.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// goEvents collects the events of one run. Its memory is bounded by the number
// of tests that run at one time and the number of tests that failed.
type goEvents struct {
	tests    map[string]*goTest
	order    []*goTest
	packages map[string]*goPackage
	names    []string // packages in order
	build    excerpt
	noise    excerpt
	failed   bool // some build failed
	memory   bool
	kept     int // bytes of output of failed tests
}

type goTest struct {
	Test
	done   bool
	output excerpt
}

type goPackage struct {
	output excerpt
	failed bool
	tests  int // failed tests
	built  bool
}

func newGoEvents() *goEvents {
	return &goEvents{tests: make(map[string]*goTest), packages: make(map[string]*goPackage)}
}

// line parses one line of standard output.
func (g *goEvents) line(text string) {
	var e event
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
		g.other(text)
		return
	}
	g.memory = g.memory || saysOutOfMemory(e.Output)
	switch e.Action {
	case "build-output":
		g.build.add(e.Output)
	case "build-fail":
		g.failed = true
	case "output":
		g.output(&e)
	case "run":
		g.test(&e)
	case "pass", "fail", "skip":
		g.end(&e)
	}
}

// other keeps a line that is not an event: standard error of the go command, or output of another
// program.
func (g *goEvents) other(text string) {
	g.noise.line(text)
	g.memory = g.memory || saysOutOfMemory(text)
}

// maxTracked bounds the number of tests of one run that are tracked by name.
const maxTracked = 100_000

func (g *goEvents) test(e *event) *goTest {
	key := e.Package + "\x00" + e.Test
	t, ok := g.tests[key]
	if !ok && len(g.order) < maxTracked {
		t = &goTest{Test: Test{Name: e.Test, Package: e.Package}}
		g.tests[key] = t
		g.order = append(g.order, t)
		g.pkg(e)
	}
	return t
}

func (g *goEvents) pkg(e *event) *goPackage {
	p, ok := g.packages[e.Package]
	if !ok {
		p = &goPackage{built: true}
		g.packages[e.Package] = p
		g.names = append(g.names, e.Package)
	}
	return p
}

func (g *goEvents) output(e *event) {
	if e.Test != "" {
		if t := g.test(e); t != nil && !t.done {
			t.output.add(e.Output)
		}
		return
	}
	p := g.pkg(e)
	p.output.add(e.Output)
	if strings.Contains(e.Output, "[build failed]") || strings.Contains(e.Output, "[setup failed]") {
		g.failed, p.built = true, false
	}
}

func (g *goEvents) end(e *event) {
	if e.Test == "" {
		p := g.pkg(e)
		p.failed = e.Action == "fail"
		if e.FailedBuild != "" {
			g.failed, p.built = true, false
		}
		return
	}
	t := g.test(e)
	if t == nil || t.done {
		return
	}
	t.done = true
	t.Status = Status(e.Action)
	t.Took = time.Duration(e.Elapsed * float64(time.Second))
	if t.Status == Fail {
		g.pkg(e).tests++
		t.Output = g.keep(&t.output)
	}
	t.output = excerpt{}
}

// keep returns the output of a failed test, or "" if it exceeds the limit of all kept outputs.
func (g *goEvents) keep(e *excerpt) string {
	text := e.String()
	if g.kept+len(text) > totalSize {
		return ""
	}
	g.kept += len(text)
	return text
}

// Names of the entries for a package that failed outside its tests.
const (
	packageEntry = "(package)"
	buildEntry   = "(build)"
)

func (g *goEvents) outOfMemory() bool { return g.memory }

// fill sets the tests and the output of a result from the collected events.
func (g *goEvents) fill(r *Result, _ string) {
	for _, t := range g.order {
		if !t.done {
			t.Status = Fail
			g.packages[t.Package].tests++
			t.Output = strings.TrimLeft(g.keep(&t.output)+"\nthe test did not end\n", "\n")
		}
		r.add(t.Test)
	}
	for _, name := range g.names {
		p := g.packages[name]
		if !p.failed || p.tests > 0 {
			continue
		}
		entry := Test{Name: packageEntry, Package: name, Status: Fail, Output: g.keep(&p.output)}
		if !p.built {
			entry.Name = buildEntry
		}
		r.add(entry)
	}
	// A go command that fails before any package is a failed build: no module,
	// a broken go.mod, unknown flags.
	r.BuildFailed = g.failed || r.Exit > 0 && len(g.names) == 0
	r.Output = g.build.String() + g.noise.String()
}
