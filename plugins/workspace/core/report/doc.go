// Package report describes a workspace for people and for continuous
// integration: [StatusOf] counts, [Diff] compares two states, [New] reports
// coverage and staleness, [ParseFailOn] decides whether that is acceptable,
// [Graph] draws the tree.
//
// [Collect] reads a state of the store once; everything else is computed from
// the [Facts] that it returns. Equal states give equal bytes: lists are sorted,
// and nothing depends on time, on durations, or on where the workspace lies.
//
// # Concurrency and failure
//
// Facts are immutable, and the functions are safe for concurrent use. Errors are
// those of the store; input/invalid for expressions that do not parse and for
// states that cannot be compared; workspace/unscanned if there is no tree; and
// runtime/internal.
package report
