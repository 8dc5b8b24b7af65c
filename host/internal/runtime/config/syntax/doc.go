// Package syntax parses configuration files to trees of blocks.
//
// # Main types
//
// [Parse] parses a file in native syntax, [ParseJSON] one in JSON. [Tree] returns the tree of a
// parsed file: a [Node] per block, with attributes whose expressions are not evaluated. It reports
// names that the specification does not have. [Merge] combines two trees of the same block; an
// [Attribute] keeps the ones that it overrides. [PartsOf] merges the layers of a block with the
// schema of a plugin.
//
// # Concurrency
//
// A tree is built by one goroutine. Merge does not modify its operands.
//
// # Failure
//
// Problems are reported to the [diag.Collector]; the returned tree has the valid part of a file.
// Input limits are checked before parsing, because the parser of the library recurses without a
// limit.
package syntax
