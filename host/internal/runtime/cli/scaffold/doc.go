// Package scaffold generates the project of a new plugin: a program that
// serves one capability, its conformance test, a configuration to try it with,
// and its continuous integration.
//
// A [Project] describes the project and returns its files; [Write] writes
// them, all or none. The files come from the templates folder. The runtimes
// for Python and Node, which implement the plugin contract, are one folder of
// a project ([RuntimeDir]) that [Outdated] compares and [Update] updates, also
// that of the examples in those languages.
//
// The package has no state: functions are safe for concurrent use on different
// folders.
package scaffold
