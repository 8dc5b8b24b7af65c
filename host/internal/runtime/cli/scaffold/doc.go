// Package scaffold makes the project of a new plugin: a program that serves one
// capability, its conformance test, a configuration to try it with, and what has
// to pass before a change lands.
//
// A [Project] says what is wanted and gives its files; [Write] puts them on the
// disk, all or none. The templates below this folder are what a person gets. The
// runtimes in Python and for Node, which implement the plugin contract, are one
// folder of a project ([RuntimeDir]) that [Outdated] and [Update] bring up to
// date. The examples in those languages have the same runtimes.
//
// Nothing here is shared or kept: every function is safe for concurrent use as
// far as different folders are concerned.
package scaffold
