// Package patch parses unified diffs and applies them strictly to a tree.
//
// [Parse] parses a diff and rejects malformed ones, paths out of the tree and
// binary changes before any file is touched. [Patch.Apply] changes a tree:
// every hunk must fit exactly where its header says, or nothing is written. A
// [Refusal] names file, hunk and reason; it is an answer about the patch, not
// an error of the caller.
//
// Parsing is stricter than that of the underlying library: text after a hunk
// that belongs to none, two names that disagree, and a file reached through a
// symbolic link are rejected too, because a patch with another effect than its
// author intended must not pass a gate.
//
// Values of this package are not safe for concurrent use, except that several
// goroutines may apply one Patch to different trees.
package patch
