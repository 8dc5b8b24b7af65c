// Package dimacs parses and formats propositional formulas in conjunctive
// normal form, as DIMACS text or as vectors of literals.
//
// The parser is strict and bounded: the header must agree with the clauses,
// every literal must name a declared variable, and limits are checked before
// memory is allocated, because solvers trust their input. Errors contain line
// and column. Formulas are plain data and safe to share once built.
package dimacs
