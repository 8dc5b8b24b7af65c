package dimacs

import (
	"fmt"
	"slices"
	"strconv"
)

// Bounds of a formula. They keep the memory of any input below some 200 MiB.
const (
	MaxBytes    = 16 << 20
	MaxVars     = 1_000_000
	MaxClauses  = 2_000_000
	MaxLiterals = 8_000_000
)

// Formula is a conjunction of clauses over the variables 1..Vars. A clause is
// a disjunction of literals: v for a variable, -v for its negation.
type Formula struct {
	Vars    int
	Clauses [][]int
}

// Error is a mistake in the text of a formula.
type Error struct {
	Line, Column int // from 1; 0 if the input was not text
	Clause       int // from 1; 0 if no clause is concerned
	Message      string
	Expected     string
}

// Error returns one line with the position.
func (e *Error) Error() string {
	at := ""
	switch {
	case e.Line > 0:
		at = fmt.Sprintf("%d:%d: ", e.Line, e.Column)
	case e.Clause > 0:
		at = fmt.Sprintf("clause %d: ", e.Clause)
	}
	if e.Expected == "" {
		return "dimacs: " + at + e.Message
	}
	return "dimacs: " + at + e.Message + " (expected " + e.Expected + ")"
}

// FromClauses returns a formula of vectors of literals, which it keeps. The number of variables is
// the largest one named. The error is an *Error.
func FromClauses(clauses [][]int) (*Formula, error) {
	if len(clauses) > MaxClauses {
		return nil, &Error{Message: fmt.Sprintf("%d clauses", len(clauses)), Expected: fmt.Sprintf("at most %d", MaxClauses)}
	}
	f := &Formula{Clauses: clauses}
	literals := 0
	for i, clause := range clauses {
		literals += len(clause)
		if literals > MaxLiterals {
			return nil, &Error{Clause: i + 1, Message: "too many literals",
				Expected: fmt.Sprintf("at most %d in all", MaxLiterals)}
		}
		for _, lit := range clause {
			if lit == 0 {
				return nil, &Error{Clause: i + 1, Message: "literal 0", Expected: "variables from 1, negated with a minus"}
			}
			v := max(lit, -lit)
			if v > MaxVars || v < 0 {
				return nil, &Error{Clause: i + 1, Message: fmt.Sprintf("literal %d", lit),
					Expected: fmt.Sprintf("variables 1..%d", MaxVars)}
			}
			f.Vars = max(f.Vars, v)
		}
	}
	return f, nil
}

// Text returns the formula as DIMACS text.
func (f *Formula) Text() []byte {
	out := fmt.Appendf(nil, "p cnf %d %d\n", f.Vars, len(f.Clauses))
	for _, clause := range f.Clauses {
		for _, lit := range clause {
			out = strconv.AppendInt(out, int64(lit), 10)
			out = append(out, ' ')
		}
		out = append(out, '0', '\n')
	}
	return out
}

// Normal returns a copy of the formula without repeated literals and tautologies. If a clause is
// empty, it returns nil and the number of the first such clause, from 1; otherwise the number is 0.
func (f *Formula) Normal() (*Formula, int) {
	out := &Formula{Vars: f.Vars, Clauses: make([][]int, 0, len(f.Clauses))}
	for i, clause := range f.Clauses {
		if len(clause) == 0 {
			return nil, i + 1
		}
		c := slices.Clone(clause)
		slices.Sort(c)
		c = slices.Compact(c)
		if !tautology(c) {
			out.Clauses = append(out.Clauses, c)
		}
	}
	return out, 0
}

// tautology reports whether a sorted clause contains v and -v.
func tautology(sorted []int) bool {
	for _, lit := range sorted {
		if lit >= 0 {
			return false
		}
		if _, found := slices.BinarySearch(sorted, -lit); found {
			return true
		}
	}
	return false
}

// Check evaluates the formula under a model. It returns the number of the first unsatisfied clause,
// from 1, or 0 if all are satisfied. A literal of a variable that the model does not name is not
// satisfied. The error is an *Error that describes an invalid model.
func (f *Formula) Check(model []int) (int, error) {
	if len(model) > MaxVars {
		return 0, &Error{Message: fmt.Sprintf("the model has %d literals", len(model)),
			Expected: fmt.Sprintf("at most %d", f.Vars)}
	}
	value := make([]int8, f.Vars+1)
	for _, lit := range model {
		v, sign := lit, int8(1)
		if lit < 0 {
			v, sign = -lit, -1
		}
		switch {
		case v <= 0 || v > f.Vars:
			return 0, &Error{Message: fmt.Sprintf("the model names %d", lit), Expected: fmt.Sprintf("variables 1..%d", f.Vars)}
		case value[v] != 0:
			return 0, &Error{Message: fmt.Sprintf("the model names variable %d twice", v), Expected: "each variable once"}
		}
		value[v] = sign
	}
	for i, clause := range f.Clauses {
		if !slices.ContainsFunc(clause, func(lit int) bool {
			return lit > 0 && value[lit] > 0 || lit < 0 && value[-lit] < 0
		}) {
			return i + 1, nil
		}
	}
	return 0, nil
}
