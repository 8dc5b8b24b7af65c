// Package diag reports the problems of a configuration.
//
// # Main types
//
// A [Source] is one file, a [Range] a place in it. A [Diagnostic] is one problem
// with its type of the error catalogue, its place, what was expected, what was
// found, and a next step. A [Collector] collects the diagnostics of one load; it
// folds the consequences of one cause. A [Report] renders diagnostics as text with
// excerpts, as JSON and as EDN. [Nearest] suggests the known name that was
// probably meant.
//
// # Concurrency
//
// A Collector is used by one goroutine. A Source and a Diagnostic are not modified
// after the load that made them.
//
// # Failure
//
// Reporting does not fail. More than [MaxKept] diagnostics are only counted.
// Excerpts never show secrets: a Source hides literals in the place of a secret
// and the passwords of URLs.
package diag
