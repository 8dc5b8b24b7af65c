// Package dimacs reads and writes propositional formulas in conjunctive normal
// form, as DIMACS text or as vectors of literals.
//
// The reader is strict and bounded: the header must agree with what follows,
// every literal must name a declared variable, and limits hold before memory
// is taken, because solvers trust what they are given. Errors say line and
// column. Formulas are plain data and safe to share once built.
package dimacs
