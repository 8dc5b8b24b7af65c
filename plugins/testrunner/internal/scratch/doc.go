// Package scratch keeps copies of source trees that tests and patches may
// change without touching the original.
//
// A [Store] owns one directory of the process. [Store.Copy] puts a bounded copy
// of a tree below it, under the run of the call; [Store.End] removes everything
// of a run. A process that dies leaves its directory behind; the next Store
// below the same base removes it, because the lock of a dead process is free.
//
// A copy holds regular files, directories, and symbolic links whose targets are
// inside the tree. Links that leave the tree, devices, sockets and pipes are
// omitted and listed. Version control directories (.git, .hg, .svn) are not
// copied: tests run on source, and histories can be larger than any limit.
//
// A Store is safe for concurrent use. Errors of Copy that the caller of the
// capability can fix are [*LimitError] and [*TreeError].
package scratch
