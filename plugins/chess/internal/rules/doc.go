// Package rules answers questions that the rules of chess decide alone: is a
// move legal, and how many positions does a tree of moves have.
package rules
