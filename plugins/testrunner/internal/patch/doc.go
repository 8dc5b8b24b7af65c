// Package patch reads unified diffs and applies them strictly to a tree.
//
// [Parse] takes a diff apart and refuses what is malformed, leads out of the
// tree or is binary, before any file is touched. [Patch.Apply] changes a tree:
// every hunk must fit exactly where its header says, or nothing is written. A
// [Refusal] says which file and hunk, and why; it is an answer about the patch,
// not a failure of the caller.
//
// Strict means more than the library underneath: text that follows a hunk but
// belongs to none, two names that disagree, and a hunk of a file that is
// reached through a symbolic link are refused too, because a patch that says
// something else than its author meant must not pass a gate.
//
// Values of this package are not safe for concurrent use, except that several
// goroutines may apply one Patch to different trees.
package patch
