// Package goapi contains the exported names of the packages of Go's standard
// library and finds selectors in Go code that refer to none of them.
//
// The index is data of the toolchain, written into symbols.txt by the test of
// this package; using it needs no toolchain. All functions are pure and safe
// for concurrent use.
package goapi
