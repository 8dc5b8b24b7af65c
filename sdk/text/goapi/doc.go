// Package goapi knows the exported names of the packages of Go's standard
// library, and finds selectors in Go code that name none of them.
//
// The index is data of the toolchain, written into symbols.txt by the test of
// this package; nothing of a toolchain is needed where it is used. Everything is
// a pure function and safe for concurrent use.
package goapi
