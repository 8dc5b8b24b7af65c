// Package scaffold generates the project of a new plugin: a program that serves one capability, its
// conformance test, a configuration to try it with, and its continuous integration.
//
// A [Project] describes the project and returns its files; [Write] writes all of them or none. The
// files are created from the templates folder. The runtimes for Python and Node, which implement
// the plugin contract, are one folder of a project ([RuntimeDir]). [Outdated] compares it and
// [Update] updates it, also in the examples in those languages.
//
// The package has no state. Its functions are safe for concurrent use on different folders.
package scaffold
