// Package scaffold makes the project of a new plugin: a program that serves one
// capability, its conformance test, a configuration to try it with, and what has
// to pass before a change lands.
//
// A [Project] says what is wanted and gives its files; [Write] puts them on the
// disk, all or none. The templates below this folder are what a person gets: the
// parts that speak the plugin contract in Python and Node are complete programs
// and are also what the examples in those languages are made of.
//
// Nothing here is shared or kept: every function is safe for concurrent use as
// far as different folders are concerned.
package scaffold
