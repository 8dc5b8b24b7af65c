package dimacs

import (
	"fmt"
)

// Read parses DIMACS CNF text: comment lines that begin with c, one header "p
// cnf VARIABLES CLAUSES", then exactly that many clauses, each a list of
// literals closed by 0, over any number of lines. The error is always an
// *Error.
func Read(text string) (*Formula, error) {
	if len(text) > MaxBytes {
		return nil, &Error{Message: fmt.Sprintf("the text has %d bytes", len(text)),
			Expected: fmt.Sprintf("at most %d", MaxBytes)}
	}
	r := &reader{text: text, line: 1, column: 1}
	vars, clauses, err := r.header()
	if err != nil {
		return nil, err
	}
	f := &Formula{Vars: vars, Clauses: make([][]int, 0, min(clauses, len(text)/2))}
	var clause []int
	literals := 0
	for {
		word, at, ok := r.word()
		if !ok {
			break
		}
		if len(f.Clauses) == clauses {
			if word == "%" {
				return nil, at.fault("a trailer after the last clause",
					"the end of the text: remove the line with % and what follows")
			}
			return nil, at.fault(fmt.Sprintf("%q after the last clause", clip(word)),
				fmt.Sprintf("%d clauses, as the header says", clauses))
		}
		lit, fault := literal(word, vars)
		if fault != "" {
			return nil, at.fault(fault, fmt.Sprintf("a literal from -%d to %d, or 0 to end the clause", vars, vars))
		}
		if lit == 0 {
			f.Clauses = append(f.Clauses, clause)
			clause = nil
			continue
		}
		if literals++; literals > MaxLiterals {
			return nil, at.fault("too many literals", fmt.Sprintf("at most %d", MaxLiterals))
		}
		clause = append(clause, lit)
	}
	end := position{r.line, r.column}
	if clause != nil {
		return nil, end.fault("the last clause is not closed", "0 at its end")
	}
	if len(f.Clauses) != clauses {
		return nil, end.fault(fmt.Sprintf("%d clauses", len(f.Clauses)),
			fmt.Sprintf("%d clauses, as the header says", clauses))
	}
	return f, nil
}

type position struct{ line, column int }

func (p position) fault(message, expected string) *Error {
	return &Error{Line: p.line, Column: p.column, Message: message, Expected: expected}
}

type reader struct {
	text         string
	line, column int
	fresh        bool // only blanks so far on this line
}

// word skips blanks and comment lines and returns the next word.
func (r *reader) word() (string, position, bool) {
	for len(r.text) > 0 {
		c := r.text[0]
		switch {
		case c == '\n':
			r.text, r.line, r.column, r.fresh = r.text[1:], r.line+1, 1, false
		case c == ' ' || c == '\t' || c == '\r':
			r.text, r.column = r.text[1:], r.column+1
		case c == 'c' && !r.fresh && (len(r.text) == 1 || r.text[1] == ' ' || r.text[1] == '\t' || r.text[1] == '\n' || r.text[1] == '\r'):
			n := 0
			for n < len(r.text) && r.text[n] != '\n' {
				n++
			}
			r.text, r.column = r.text[n:], r.column+n
		default:
			n := 0
			for n < len(r.text) && r.text[n] != ' ' && r.text[n] != '\t' && r.text[n] != '\n' && r.text[n] != '\r' {
				n++
			}
			word, at := r.text[:n], position{r.line, r.column}
			r.text, r.column, r.fresh = r.text[n:], r.column+n, true
			return word, at, true
		}
	}
	return "", position{r.line, r.column}, false
}

func (r *reader) header() (vars, clauses int, err error) {
	const form = `the header "p cnf VARIABLES CLAUSES"`
	word, at, ok := r.word()
	if !ok {
		return 0, 0, at.fault("no header", form)
	}
	if word != "p" {
		return 0, 0, at.fault(fmt.Sprintf("%q before the header", clip(word)), form)
	}
	headline := at.line
	if word, at, ok = r.word(); !ok || word != "cnf" || at.line != headline {
		return 0, 0, at.fault(fmt.Sprintf("format %q", clip(word)), form)
	}
	read := func(what string, most int) (int, *Error) {
		word, at, ok := r.word()
		if !ok || at.line != headline {
			return 0, at.fault("the header has no number of "+what, form)
		}
		n, valid := number(word)
		if !valid || n > most {
			return 0, at.fault(fmt.Sprintf("%q is not a number of %s", clip(word), what), fmt.Sprintf("0..%d", most))
		}
		return n, nil
	}
	vars, fault := read("variables", MaxVars)
	if fault != nil {
		return 0, 0, fault
	}
	clauses, fault = read("clauses", MaxClauses)
	if fault != nil {
		return 0, 0, fault
	}
	return vars, clauses, nil
}

// literal parses a literal; the second result is the error text.
func literal(word string, vars int) (int, string) {
	digits, negative := word, false
	if word[0] == '-' {
		digits, negative = word[1:], true
	}
	n, ok := number(digits)
	switch {
	case !ok:
		return 0, fmt.Sprintf("%q is not a literal", clip(word))
	case n > vars:
		return 0, fmt.Sprintf("literal %s names a variable that the header does not declare", clip(word))
	case n == 0 && negative:
		return 0, "-0 is not a literal"
	case negative:
		return -n, ""
	}
	return n, ""
}

// number parses digits without sign; ok is false for anything else, for leading
// zeros and beyond nine digits.
func number(word string) (int, bool) {
	if word == "" || len(word) > 9 || (word[0] == '0' && len(word) > 1) {
		return 0, false
	}
	n := 0
	for i := range len(word) {
		if word[i] < '0' || word[i] > '9' {
			return 0, false
		}
		n = n*10 + int(word[i]-'0')
	}
	return n, true
}

func clip(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
