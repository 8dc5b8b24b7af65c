package suite

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Limits of a parsed TAP stream.
const (
	maxNesting = 32        // nested subtests
	maxPlan    = 1_000_000 // tests that a plan may announce
)

// tapReader parses the Test Anything Protocol, versions 12 to 14. The tests of
// a result are the leaves: a point that summarizes subtests counts only if it
// failed and none of them did.
type tapReader struct {
	noise  excerpt
	seen   bool // whether any line of the protocol was seen
	memory bool
	tests  []tapTest
	kept   int
	levels []tapLevel
	yaml   *tapYAML
	bail   string
	bailed bool
	over   int // points beyond maxTracked
}

type tapTest struct {
	Test
	output excerpt
}

// tapLevel is one depth of subtests.
type tapLevel struct {
	name    string // name of the last subtest announced here
	points  int
	failed  int // failed leaves and parents since the last point above
	planned int
	plans   int
	skipped string // reason of a plan that skips everything
}

// tapYAML is the block of details that follows a point.
type tapYAML struct {
	indent string
	open   bool
	test   int // index, -1 for a point that is not a test of its own
}

var (
	tapPoint = regexp.MustCompile(`^(not )?ok\b(?:[ \t]+([0-9]{1,9}))?(?:[ \t]*-)?[ \t]*(.*)$`)
	tapPlan  = regexp.MustCompile(`^1\.\.([0-9]{1,9})(?:[ \t]*#[ \t]*(.*))?[ \t]*$`)
	tapWord  = regexp.MustCompile(`(?i)(?:^|[ \t])#[ \t]*(skip|todo)[^ \t]*[ \t]*(.*)$`)
	tapTook  = regexp.MustCompile(`^duration_ms:[ \t]*([0-9][0-9.eE+-]{0,30})[ \t]*$`)
)

func newTAPReader() *tapReader { return &tapReader{levels: make([]tapLevel, 1)} }

// line parses one line of standard output.
func (r *tapReader) line(raw string) {
	r.memory = r.memory || saysOutOfMemory(raw)
	text := strings.TrimRight(raw, " \t\r")
	if r.details(text) || r.bailed {
		return
	}
	body := strings.TrimLeft(text, " ")
	indent := len(text) - len(body)
	depth := indent / 4
	if body == "" {
		return
	}
	if indent%4 != 0 || depth >= maxNesting || !r.entry(body, depth) {
		r.noise.line(raw)
		return
	}
	r.seen = true
}

// entry handles a line of the protocol and reports whether it was one.
func (r *tapReader) entry(body string, depth int) bool {
	switch {
	case strings.HasPrefix(body, "TAP version "), strings.HasPrefix(body, "pragma "):
		return true
	case strings.HasPrefix(body, "Bail out!"):
		r.bailed, r.bail = true, strings.TrimSpace(strings.TrimPrefix(body, "Bail out!"))
		return true
	case strings.HasPrefix(body, "#"):
		if name, ok := strings.CutPrefix(body, "# Subtest: "); ok {
			r.level(depth).name = clipName(name)
		}
		return r.seen || strings.HasPrefix(body, "# Subtest: ")
	}
	if m := tapPlan.FindStringSubmatch(body); m != nil {
		r.plan(m, depth)
		return true
	}
	if m := tapPoint.FindStringSubmatch(body); m != nil {
		r.point(m, depth)
		return true
	}
	return false
}

func (r *tapReader) level(depth int) *tapLevel {
	for len(r.levels) <= depth {
		r.levels = append(r.levels, tapLevel{})
	}
	return &r.levels[depth]
}

func (r *tapReader) plan(m []string, depth int) {
	l := r.level(depth)
	n, _ := strconv.Atoi(m[1])
	l.planned, l.plans = min(n, maxPlan), l.plans+1
	if n == 0 {
		l.skipped = m[2]
	}
}

func (r *tapReader) point(m []string, depth int) {
	l := r.level(depth)
	l.points++
	below := r.below(depth)
	t := tapTest{Test: Test{Status: Pass}}
	if m[1] != "" {
		t.Status = Fail
	}
	name := m[3]
	if at := tapWord.FindStringSubmatchIndex(unescaped(name)); at != nil {
		// A TODO test may fail; a skipped test did not run.
		if word := strings.ToLower(name[at[2]:at[3]]); word == "skip" || t.Status == Fail {
			t.Status = Skip
		}
		name = name[:at[0]]
	}
	t.Name, t.Package = clipName(plainName(name, m[2])), r.path(depth)
	at := -1
	if below.points == 0 || t.Status == Fail && below.failed == 0 {
		if len(r.tests) < maxTracked {
			at = len(r.tests)
			r.tests = append(r.tests, t)
		} else {
			r.over++
		}
	}
	if t.Status == Fail {
		l.failed++
	}
	r.yaml = &tapYAML{indent: strings.Repeat(" ", 4*depth+2), test: at}
}

// below returns the results one level deeper since the last point here, after a check of their
// plan.
func (r *tapReader) below(depth int) tapLevel {
	if len(r.levels) <= depth+1 {
		return tapLevel{}
	}
	l := r.levels[depth+1]
	if problem := l.problem(); l.points > 0 && l.plans > 0 && problem != "" && len(r.tests) < maxTracked {
		t := tapTest{Test: Test{Name: planEntry, Package: r.path(depth + 1), Status: Fail}}
		t.output.line(problem)
		r.tests = append(r.tests, t)
		l.failed++
	}
	r.levels = r.levels[:depth+1]
	return l
}

// path names the subtests around a point.
func (r *tapReader) path(depth int) string {
	var names []string
	for _, l := range r.levels[:min(depth, len(r.levels))] {
		if l.name != "" {
			names = append(names, l.name)
		}
	}
	return strings.Join(names, " > ")
}

// problem returns the violation of a level's plan, "" if there is none.
func (l *tapLevel) problem() string {
	switch {
	case l.plans == 0:
		return "there is no plan: the run was cut"
	case l.plans > 1:
		return "there are several plans"
	case l.planned != l.points:
		return fmt.Sprintf("the plan announces %s, there were %d", plural(l.planned, "test"), l.points)
	}
	return ""
}

// details handles the lines of a YAML block.
func (r *tapReader) details(text string) bool {
	y := r.yaml
	if y == nil {
		return false
	}
	inside, indented := strings.CutPrefix(text, y.indent)
	switch {
	case !y.open && indented && inside == "---":
		y.open = true
		return true
	case !y.open, !indented && text != "": // there is no block, or it was never closed
		r.yaml = nil
		return false
	case inside == "..." && indented:
		r.yaml = nil
		return true
	}
	if y.test < 0 {
		return true
	}
	t := &r.tests[y.test]
	if m := tapTook.FindStringSubmatch(inside); m != nil {
		t.Took = milliseconds(m[1])
	}
	if t.Status == Fail {
		t.output.line(inside)
	}
	return true
}

func milliseconds(text string) time.Duration {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || ms < 0 || ms > 1e10 {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// unescaped removes escaped characters, so that they are not taken for a
// directive.
func unescaped(s string) string {
	return strings.NewReplacer(`\\`, "__", `\#`, "__").Replace(s)
}

// plainName returns a description without escapes; a point without one is named
// by its number.
func plainName(s, number string) string {
	s = strings.TrimSpace(strings.NewReplacer(`\\`, `\`, `\#`, `#`).Replace(s))
	if s == "" {
		return strings.TrimSpace("test " + number)
	}
	return s
}

// clipName bounds the name of a test.
func clipName(s string) string {
	const most = 400
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (r *tapReader) other(line string) {
	r.noise.line(line)
	r.memory = r.memory || saysOutOfMemory(line)
}

func (r *tapReader) outOfMemory() bool { return r.memory }

// Names of the entries for an invalid report.
const (
	planEntry   = "(plan)"
	bailEntry   = "(bail out)"
	reportEntry = "(report)"
)

func (r *tapReader) fill(result *Result, _ string) {
	for i := range r.tests {
		t := &r.tests[i]
		if t.Status == Fail {
			t.Output = keepOutput(&r.kept, &t.output)
		}
		result.add(t.Test)
	}
	top := &r.levels[0]
	switch problem := top.problem(); {
	case r.bailed:
		result.add(Test{Name: bailEntry, Status: Fail, Output: r.bail})
	case r.seen && problem != "":
		result.add(Test{Name: planEntry, Status: Fail, Output: problem})
	}
	if len(r.levels) > 1 && r.levels[1].points > 0 {
		result.add(Test{
			Name:    planEntry,
			Package: r.path(1),
			Status:  Fail,
			Output:  "the subtests have no result: the run was cut",
		})
	}
	if r.over > 0 {
		result.add(Test{Name: reportEntry, Status: Fail, Output: fmt.Sprintf("more than %d tests", maxTracked)})
	}
	result.Output = r.noise.String()
	if top.skipped != "" {
		result.Output += "skipped: " + clipName(top.skipped) + "\n"
	}
}

// keepOutput returns the output of a failed test, or "" if it exceeds the limit of all kept
// outputs. It adds its length to kept.
func keepOutput(kept *int, e *excerpt) string {
	text := e.String()
	if *kept+len(text) > totalSize {
		return ""
	}
	*kept += len(text)
	return text
}
