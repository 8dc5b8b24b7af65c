// Package program finds the programs that plugins start. Its functions are safe
// for concurrent use.
package program
