// Package log is the append-only file that is the source of truth of a workspace.
//
// # Format
//
// A log is a directory of segments, 00000001.seg and so on, of at most [SegmentSize] bytes each. A
// segment is a sequence of records:
//
//	length   4 bytes, most significant first: of kind and payload
//	kind     1 byte
//	payload
//	chain    32 bytes: the hash of the previous chain value, kind and payload
//
// The first record of a segment has its number and the chain value before it, so that each segment
// can be verified alone. A transaction is any number of records and a commit record with its
// [Commit]. It may continue in the next segment.
//
// # Durability
//
// [Log.Append] writes transactions, synchronizes once, and returns: what it returned without an
// error survives a killed process, and a loss of power if the disk honours fsync. A failed write is
// cut off again, and the log remains usable. After a failed fsync the content of the page cache is
// unknown, so the log rejects further writes.
//
// # Recovery
//
// [Open] verifies the log from a [Checkpoint] on and passes every committed transaction to a
// function. The bytes after the last valid commit are the torn tail of a batch that was not
// acknowledged: it is copied to the quarantine directory and cut off. It is damage instead, and
// nothing is cut, if more is known to have been committed: by the caller, or because a valid commit
// of a later batch follows. A batch is written only after the one before it is durable.
//
// # Rewriting
//
// [Log.Rewrite] writes the transactions again, under their numbers and without dropped records,
// into new segments after the last one. The second record of the first new segment marks a
// rewritten log. As soon as the last commit is durable, the new segments are the log, and the older
// ones are removed. After a crash before that moment, the next Open drops the new ones. So a crash
// never loses both.
//
// [Salvage] reads a damaged log: every transaction whose records have the chain value that follows
// from the one stored before them. [Restart] writes a new log from them in the same way, and moves
// the old segments to the quarantine.
//
// # Concurrency and failure
//
// Append and Close belong to one goroutine; Read is safe for concurrent use with them. Errors are
// of type *contract.Error: store/io, store/read-only, store/corrupt for a missing segment,
// limit/exceeded for a record that is too large. Those of [ReadBundle] have no type. [Damage] names
// file and position of what does not verify.
package log
