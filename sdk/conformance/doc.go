// Package conformance tests whether a plugin, in any language, keeps the
// contract of package wire.
//
// A [Target] starts instances of the plugin under test, in this process
// ([InProcess]) or as separate processes ([Process]). [Run] runs the checks of
// [Checks] on it and returns a [Report]. Each [Check] has an id that never
// changes and names the requirements that it tests. It starts its own
// instances, so checks are independent and run in any order.
//
// A check that cannot be made is a failure, not a skip: a plugin that does not
// start fails every check. A failure of the harness itself has its own status
// ([Fault]).
//
// The suite does not judge what a plugin computes. Inputs come from
// [Options.Samples] or are generated from the advertised schemas, and a typed
// error is accepted like a value.
//
// Different targets are safe for concurrent use; one Run uses its target from
// several goroutines.
package conformance
