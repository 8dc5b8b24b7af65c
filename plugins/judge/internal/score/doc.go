// Package score defines the scales of judges and the written form of scores:
// exact rationals, rounded once, half to even, to thousandths.
// contract.ParseScore parses the scores of a judge; parsing the output of
// Rounded returns the same score. Everything is pure and safe for concurrent
// use.
package score
