// Package tree holds the Merkle tree of a workspace in memory.
//
// A [Node] is one file, directory, link or nested repository in one state. A
// [Tree] is immutable once it is built, so trees of different times share the
// nodes that did not change, and any number of goroutines may read them. [Diff]
// compares two trees and skips directories whose node ids are equal.
package tree
