// Package language describes the configuration language as a table.
//
// # Main types
//
// [Specification] returns the tree of all blocks. A [Block] has a label grammar, attributes and
// nested blocks; an [Attr] has a [Type] with its range, a default per profile, and the effect of a
// reload that changes it. The table determines decoding, defaults, ranges and the reference.
// [ReservedAt] returns the names that this build rejects because it lacks the feature; nothing is
// accepted and ignored. Other functions return the names of profiles, units, blocks and attributes
// in diagnostics, and the HCL names for EDN names.
//
// # Concurrency
//
// The table is not modified and is safe for concurrent use.
//
// # Failure
//
// Only the functions that parse a duration, a size or a rate return errors. Their text describes
// the syntax of the value.
package language
