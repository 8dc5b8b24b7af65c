// Package language describes the configuration language as a table.
//
// # Main types
//
// [Specification] returns the tree of all blocks. A [Block] has a label grammar,
// attributes and nested blocks; an [Attr] has a [Type] with its range, a default
// per profile, and the effect of a reload that changes it. The table drives
// decoding, defaults, ranges and the reference. [ReservedAt] returns what this
// build rejects because it lacks the feature: nothing is accepted and ignored.
// The other functions name things: profiles, units of durations and sizes, blocks
// and attributes in the terms of a diagnostic, and EDN names in HCL.
//
// # Concurrency
//
// The table is not modified and is safe for concurrent use.
//
// # Failure
//
// Only the functions that parse a duration, a size or a rate return errors; their
// text says how to write the value.
package language
