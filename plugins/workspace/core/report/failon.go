package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Condition is one alternative of an expression for --fail-on.
type Condition struct {
	Kind  string // invalid, stale, missing, authored-stale, coverage, inexact
	Type  string // of missing and coverage
	Below float64
	text  string
}

// String returns the condition as it was written.
func (c Condition) String() string { return c.text }

var (
	simple   = []string{"invalid", "stale", "authored-stale", "inexact"}
	missing  = regexp.MustCompile(`^missing:([A-Za-z0-9._:/-]{1,128})$`)
	tooFew   = regexp.MustCompile(`^coverage:([A-Za-z0-9._:/-]{1,128})<([0-9]{1,3}(?:\.[0-9]{1,4})?)$`)
	between  = regexp.MustCompile(`[|,\s]+`)
	allowed  = "invalid, stale, missing:TYPE, authored-stale, coverage:TYPE<N, inexact"
	maxTerms = 100
)

// ParseFailOn returns the conditions of an expression, which are separated by a bar, a comma or
// blanks. The expression is met if one of them is. The error is input/invalid.
func ParseFailOn(text string) ([]Condition, error) {
	var list []Condition
	for _, term := range between.Split(text, -1) {
		if term == "" {
			continue
		}
		c, err := parseTerm(term)
		if err != nil {
			return nil, err
		}
		if list = append(list, c); len(list) > maxTerms {
			return nil, badInput("fail-on", "it has more than %d conditions", maxTerms)
		}
	}
	if len(list) == 0 {
		return nil, badInput("fail-on", "expected at least one condition of %s", allowed)
	}
	return list, nil
}

func parseTerm(term string) (Condition, error) {
	c := Condition{Kind: term, text: term}
	if slices.Contains(simple, term) {
		return c, nil
	}
	if m := missing.FindStringSubmatch(term); m != nil {
		c.Kind, c.Type = "missing", m[1]
		return c, nil
	}
	if m := tooFew.FindStringSubmatch(term); m != nil {
		var err error
		c.Kind, c.Type = "coverage", m[1]
		if c.Below, err = strconv.ParseFloat(m[2], 64); err == nil && c.Below <= 100 {
			return c, nil
		}
		return c, badInput("fail-on", "%.140q: a percentage is from 0 to 100", term)
	}
	return c, badInput("fail-on", "expected one of %[2]s, found %.140[1]q", term, allowed)
}

func badInput(key, format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	return contract.Errorf("input/invalid", ":%s: %s", key, reason).
		WithDetail("path", edn.Vector(edn.K(key))).WithDetail("reason", edn.Text(reason))
}

func list2(names []string) string { return ":" + strings.Join(names, ", :") }

// Verdict is the result of evaluating the conditions.
type Verdict struct {
	Met        bool     `edn:"met?"`
	Conditions []Judged `edn:"conditions"`
}

// Judged is a condition with the findings that meet it.
type Judged struct {
	Condition string `edn:"condition"`
	Met       bool   `edn:"met?"`
	Count     int    `edn:"count"` // of paths, heads or errors that meet it
	// Paths are the first paths that meet the condition.
	Paths []store.ShownPath `edn:"paths,omitempty"`
	// Percent is the coverage.
	Percent *float64 `edn:"pct,omitempty"`
}

// shownPaths is the maximum number of paths in a condition.
const shownPaths = 100

// finding is a statement of a report about a path or the store.
type finding struct {
	check   string // condition, or the name of a section
	about   string // a path as people read it, or a file of the store
	message string
	fails   bool
}

// judge decides about the conditions and collects the findings.
func (out *Report) judge(f *Facts, r Request, covered []Coverage, behind []HeadRef) {
	j := judge{facts: f, request: r, covered: covered, behind: behind}
	if len(r.FailOn) > 0 {
		out.FailOn = &Verdict{}
		for _, c := range r.FailOn {
			one := j.condition(c)
			out.FailOn.Conditions = append(out.FailOn.Conditions, one)
			out.FailOn.Met = out.FailOn.Met || one.Met
		}
	}
	j.notes()
	out.findings = j.findings
}

type judge struct {
	facts    *Facts
	request  Request
	covered  []Coverage
	behind   []HeadRef
	findings []finding
}

func (j *judge) condition(c Condition) Judged {
	out := Judged{Condition: c.text}
	add := func(path, message string) {
		out.Count++
		if len(out.Paths) < shownPaths {
			out.Paths = append(out.Paths, store.ShownPath(path))
		}
		j.findings = append(j.findings, finding{c.text, store.Shown(path), message, true})
	}
	switch c.Kind {
	case "stale":
		j.facts.heads(func(path string, h *store.HeadInfo) {
			if h.State != store.Fresh {
				add(path, headState(h))
			}
		})
	case "authored-stale":
		for _, h := range j.behind {
			add(h.path, fmt.Sprintf("the frame of type %q by %s is about an earlier state", h.Type, h.Agent))
		}
	case "missing", "coverage":
		cover := j.coverageOf(c.Type)
		if c.Kind == "coverage" {
			out.Percent = &cover.Percent
			if exact := float64(cover.With) * 100; exact >= c.Below*float64(cover.With+cover.Without) && cover.With > 0 {
				return out
			}
		}
		for _, path := range cover.missing {
			add(path, fmt.Sprintf("it has no head of type %q", c.Type))
		}
		out.Met = c.Kind == "coverage"
	case "inexact":
		for _, x := range j.request.Inexact {
			if tree.Below(x.Path, j.facts.Part) {
				add(x.Path, "ids can differ from git's: "+x.Reason)
			}
		}
	case "invalid": // heads that were marked, and damage of the store
		j.facts.heads(func(path string, h *store.HeadInfo) {
			if h.State == store.Invalid {
				add(path, headState(h))
			}
		})
		if v := j.request.Validation; v != nil && !v.Valid {
			out.Met = true
			for _, p := range v.Errors {
				out.Count++
				j.findings = append(j.findings, finding{c.text, cmp.Or(p.Text, p.Raw, p.File), string(p.Code) + ": " + p.Message, true})
			}
		}
	}
	out.Met = out.Met || out.Count > 0
	return out
}

// coverageOf returns the coverage of a type. A type without any frame misses on
// all files and directories.
func (j *judge) coverageOf(frameType string) Coverage {
	for _, c := range j.covered {
		if c.Type == frameType {
			return c
		}
	}
	c := Coverage{Type: frameType, Kinds: kinds{"dir", "file"}, Agents: map[string]int{}}
	c.count(j.facts)
	return c
}

func headState(h *store.HeadInfo) string {
	return fmt.Sprintf("the head of type %q is %s", h.Type, h.State)
}

// notes adds findings that do not fail the report: heads that are not fresh, unless a condition
// already lists them.
func (j *judge) notes() {
	names := func(kind string) bool {
		return slices.ContainsFunc(j.request.FailOn, func(c Condition) bool { return c.Kind == kind })
	}
	stale, invalid := names("stale"), names("invalid")
	j.facts.heads(func(path string, h *store.HeadInfo) {
		if h.State != store.Fresh && !stale && !(invalid && h.State == store.Invalid) {
			j.findings = append(j.findings, finding{"states", store.Shown(path), headState(h), false})
		}
	})
}
