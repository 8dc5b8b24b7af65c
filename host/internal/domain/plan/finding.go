package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Severity is the consequence of a finding.
type Severity uint8

// An error prevents the plan from running, a warning does not.
const (
	Error Severity = iota
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Finding is one result of a static check.
type Finding struct {
	// Check is the id, such as "CHECK-011".
	Check    string
	Severity Severity
	// Path leads from the root of the text to the subject of the finding.
	Path []edn.Value
	// Line and Column count from 1; both are 0 for a plan without text. EndLine
	// and EndColumn are behind the last code point of the subject.
	Line, Column, EndLine, EndColumn int
	// Message is one sentence without the position.
	Message string
	// Nearest is the known name most similar to the written one, or nil.
	Nearest edn.Value
	// Expected are the valid keys in the place of an unknown key that resembles
	// none of them; sorted.
	Expected []string
	// Effect is the effect that the request would have to allow, "" if
	// something else is wrong.
	Effect string
	// Hint is the next step, "" if the message already contains it.
	Hint string

	// key is true if the subject is the key at the end of Path.
	key bool
	// elsewhere is the path of another key whose place Message contains; nil
	// for none.
	elsewhere []edn.Value
	// binding is the slot whose known value does not fit, "" for other
	// findings.
	binding string
	// denied is the error of the rule that denies an effect, nil for other findings.
	denied *contract.Error
}

// SyntaxFinding returns the only finding of a text that cannot be parsed.
func SyntaxFinding(e *edn.SyntaxError) Finding {
	typed := contract.SyntaxError("plan/invalid", e)
	return Finding{
		Check: "edn/invalid", Path: e.Path,
		Line: e.Pos.Line, Column: e.Pos.Column, EndLine: e.Pos.Line, EndColumn: e.Pos.Column + 1,
		Message: typed.Message, Hint: typed.Hint,
	}
}

// Value returns the finding as a map; keys that do not apply are absent.
func (f Finding) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("check", edn.Text(f.Check))
	b.Key("severity", edn.K(f.Severity.String()))
	b.Key("path", edn.Vector(f.Path...))
	if f.Line > 0 {
		b.Key("line", edn.Int(int64(f.Line)))
		b.Key("column", edn.Int(int64(f.Column)))
	} else if f.key {
		b.Key("part", edn.K("key"))
	}
	if f.elsewhere != nil {
		b.Key("elsewhere", edn.Vector(f.elsewhere...))
	}
	b.Key("message", edn.Text(f.Message))
	b.Opt("nearest", f.Nearest)
	if len(f.Expected) > 0 {
		expected := make([]edn.Value, len(f.Expected))
		for i, name := range f.Expected {
			expected[i] = edn.K(name)
		}
		b.Key("expected", edn.Vector(expected...))
	}
	b.OptKeyword("effect", f.Effect)
	b.OptText("hint", f.Hint)
	return b.Map()
}

// HasErrors reports whether any finding is an error.
func HasErrors(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
}

// FindingsError returns the plan/invalid error of findings with errors, nil if
// there are none. Its details hold all findings, errors first.
func FindingsError(fs []Finding, source contract.Source) *contract.Error {
	var errs, warnings []edn.Value
	var first Finding
	var denied *contract.Error
	for _, f := range fs {
		if f.Severity != Error {
			warnings = append(warnings, f.Value())
			continue
		}
		if len(errs) == 0 {
			first = f
		}
		if denied == nil {
			denied = f.denied
		}
		errs = append(errs, f.Value())
	}
	if len(errs) == 0 {
		return nil
	}
	more := ""
	if len(errs) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(errs)-1)
	}
	e := contract.Errorf("plan/invalid", "%s %s%s", first.Check, first.Message, more).
		WithSource(source).
		WithCause(denied).
		WithDetail("findings", edn.Vector(append(errs, warnings...)...))
	if first.Line > 0 {
		e = e.WithWhere("line", edn.Int(int64(first.Line))).WithWhere("column", edn.Int(int64(first.Column)))
	}
	if first.Effect != "" {
		e = e.WithHint(policy.AllowHint(first.Effect))
	}
	if first.Hint != "" {
		e = e.WithHint(first.Hint)
	}
	return e
}

// DeniesEffect reports whether e is a plan/invalid error that FindingsError made of a finding about
// an effect that is not allowed.
func DeniesEffect(e *contract.Error) bool {
	return slices.ContainsFunc(FindingsOf(e, nil), func(f Finding) bool {
		return f.Check == checkEffects && f.Severity == Error
	})
}

// FindingsOf returns the findings in the details of a plan/invalid error that FindingsError made,
// with their positions in the text of the plan, which may be nil. It returns nil for other errors.
func FindingsOf(e *contract.Error, text *edn.Positions) []Finding {
	if e.Type != "plan/invalid" {
		return nil
	}
	var fs []Finding
	loc := &locator{pos: text}
	for v := range e.Details.Key("findings").Elems() {
		f := Finding{Path: slices.Collect(v.Key("path").Elems()), Nearest: v.Key("nearest")}
		f.Check, _ = v.Key("check").AsString()
		f.Message, _ = v.Key("message").AsString()
		f.Effect, _ = v.Key("effect").AsKeyword()
		f.Hint, _ = v.Key("hint").AsString()
		part, _ := v.Key("part").AsKeyword()
		f.key = part == "key"
		if severity, _ := v.Key("severity").AsKeyword(); severity != Error.String() {
			f.Severity = Warning
		}
		for name := range v.Key("expected").Elems() {
			expected, _ := name.AsKeyword()
			f.Expected = append(f.Expected, expected)
		}
		if f.elsewhere = slices.Collect(v.Key("elsewhere").Elems()); len(f.elsewhere) > 0 {
			unplaced := (*locator)(nil).describe(f.elsewhere)
			if i := strings.LastIndex(f.Message, unplaced); i >= 0 { // after any name from the plan
				f.Message = f.Message[:i] + loc.describe(f.elsewhere) + f.Message[i+len(unplaced):]
			}
		}
		fs = append(fs, f)
	}
	return loc.settle(fs)
}

// findings collects at most MaxFindings of each severity. It keeps the first ones, because
// a later finding of one pass is also later in the plan.
type findings struct {
	list             []Finding
	errors, warnings int
}

func (fs *findings) full(sev Severity) bool {
	if sev == Error {
		return fs.errors >= MaxFindings
	}
	return fs.warnings >= MaxFindings
}

func (fs *findings) add(f Finding) {
	if fs.full(f.Severity) {
		return
	}
	if f.Severity == Error {
		fs.errors++
	} else {
		fs.warnings++
	}
	fs.list = append(fs.list, f)
}

// locator converts paths to positions; nil for a plan without text.
type locator struct {
	pos *edn.Positions
}

// at returns the position of the value under path, or of its nearest ancestor
// that has one.
func (l *locator) at(path []edn.Value, key bool) edn.Span {
	if l == nil || l.pos == nil {
		return edn.Span{}
	}
	if key {
		if s, ok := l.pos.KeyAt(path...); ok {
			return s
		}
	}
	for n := len(path); n >= 0; n-- {
		if s, ok := l.pos.At(path[:n]...); ok {
			return s
		}
	}
	return edn.Span{}
}

// describe names the position of a key in a message: line:column, or the path
// of its map in a plan without text.
func (l *locator) describe(path []edn.Value) string {
	if at := l.at(path, true).Start; at.Line > 0 {
		return fmt.Sprintf("%d:%d", at.Line, at.Column)
	}
	return showPath(path[:len(path)-1])
}

// settle sorts findings, cuts them to MaxFindings and sets their positions.
// Looking up a position takes time linear in the text, so findings are first
// cut in path order; only the remaining ones are located and sorted by
// position.
func (l *locator) settle(fs []Finding) []Finding {
	slices.SortStableFunc(fs, func(a, b Finding) int { return comparePaths(a.Path, b.Path) })
	fs = limitFindings(fs)
	if l == nil || l.pos == nil {
		return fs
	}
	for i := range fs {
		if f := &fs[i]; f.Line == 0 {
			at := l.at(f.Path, f.key)
			f.Line, f.Column, f.EndLine, f.EndColumn = at.Start.Line, at.Start.Column, at.End.Line, at.End.Column
		}
	}
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fs
}

// comparePaths orders by indices as numbers and keys canonically: a total order
// that follows the nodes of a plan.
func comparePaths(a, b []edn.Value) int {
	for i := range min(len(a), len(b)) {
		x, xok := a[i].AsInt()
		y, yok := b[i].AsInt()
		c := 0
		if xok && yok {
			c = cmp.Compare(x, y)
		} else {
			c = edn.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// limitFindings cuts to MaxFindings in order, dropping warnings first.
func limitFindings(fs []Finding) []Finding {
	if len(fs) <= MaxFindings {
		return fs
	}
	errs := 0
	for i := range fs {
		if fs[i].Severity == Error {
			errs++
		}
	}
	room := max(0, MaxFindings-errs)
	out := make([]Finding, 0, MaxFindings)
	for _, f := range fs {
		if f.Severity == Warning {
			if room == 0 {
				continue
			}
			room--
		}
		if len(out) < MaxFindings {
			out = append(out, f)
		}
	}
	return out
}
