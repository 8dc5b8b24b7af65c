// Package scan reads a directory into a Merkle tree.
//
// [Run] walks the tree with several workers and returns a [Result]: the tree,
// what it skipped, and what it cannot promise. The previous result makes the
// next scan cheap: a file whose size, times, inode and mode are equal is not
// read again, a directory whose entries are equal is not hashed again.
//
// # Safety
//
// Every access is relative to the open handle of a directory and follows no
// link, so a directory that is swapped for a link during the scan cannot lead
// out of the root. Links are stored as links. Sockets, FIFOs and devices are
// counted and not opened for reading.
//
// # Ignored entries
//
// Entries named .git and the paths in Options.Exclude are never part of the
// tree. All others are decided by package ignore.
//
// # Concurrency
//
// Run may be called concurrently; each call has its own workers. The result
// does not depend on their number or on the order in which the system lists
// entries. A canceled context ends the call within 200 ms.
//
// # Failure
//
// Errors are of type *contract.Error: scan/unreadable lists what could not be
// read, ignore/invalid names an ignore file that cannot be used, limit/exceeded
// names the limit, path/invalid names a path of the options, workspace/not-found
// and workspace/root-denied are about the root. Others are store/io and, if the
// context ends, canceled or timeout/hard. A scan that fails has no result.
package scan
