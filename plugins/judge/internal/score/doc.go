// Package score has the scales of judges and the form in which scores are written:
// exact rationals until they are rounded once, half to even, to thousandths. What
// a judge said is read by contract.ParseScore, and reading what Rounded wrote
// gives the same score. Everything is pure and safe for concurrent use.
package score
