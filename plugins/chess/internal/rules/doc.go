// Package rules answers questions that depend on the rules of chess alone:
// whether a move is legal, and how many leaves a tree of moves has.
package rules
