// Package conformance checks that a plugin keeps the contract of package wire,
// whatever language it is written in.
//
// A [Target] starts instances of the plugin under test, in this process
// ([InProcess]) or as a process of its own ([Process]). [Run] takes the checks
// of [Checks] through it and gives a [Report]. Each [Check] has an id that
// never changes and names the requirements that it tests; it starts instances
// of its own, so checks do not depend on one another and run in any order.
//
// A check that cannot be made is a failure, not a skip: a plugin that cannot be
// started fails every check. A fault of the harness itself is told apart
// ([Fault]).
//
// What a plugin computes is not judged here. Inputs come from
// [Options.Samples] or are made up from the schemas that the plugin
// advertises, and a typed error is as good an answer as a value.
//
// Everything is safe for concurrent use as far as different targets are
// concerned; one Run uses its target from several goroutines.
package conformance
