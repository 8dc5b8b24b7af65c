// Command quality shows what it is worth that dispatch knows how good answers
// were.
//
// It asks two portfolios, of chess engines and of solvers for satisfiability,
// which differ in strength and price, first as a fixed cascade and then with
// the order quality-aware. A third run has the questions become harder on the
// way: the cheap engine begins to answer badly and is swapped for the dear one
// while questions go on. The figures are printed as tables, and it is an error
// if they do not show what this comment says.
//
// Run it from the root of the repository after "make build".
package main
