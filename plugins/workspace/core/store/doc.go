// Package store is the data directory of a workspace: a log that is the truth,
// and an index and a stat cache that are derived from it.
//
// # Files
//
//	workspace.edn   id, scheme and format of the workspace
//	log/            segments of package log
//	index.db        SQLite database for reading
//	stat.cache      what the system said of the files of the last scan
//	seal            state of log and index at the last clean close
//	LOCK            empty; the process that writes holds a lock on it
//	quarantine/     what was cut off or replaced; nothing is deleted there
//
// # Writing
//
// [Store.Update] runs a function with a [Tx]. One goroutine runs these
// functions, one after the other; those that wait are written to the log as one
// batch with one fsync. Only then is the index committed, so a reader never
// sees what is not durable. A function that fails leaves no trace.
//
// # Reading
//
// [Store.View] runs a function with a [Snapshot]: the state at the latest or an
// earlier sequence number. Readers use their own connections and never wait for
// the writer. Content is read from the log and verified against its id.
//
// # Frames
//
// A [Frame] is an immutable text about a path. Its head is kept for each state
// of the path, so a change makes it stale and a return to the state makes it
// current again without a write. A frame is verified against its record id on
// every read.
//
// The state of a head follows from its basis: [Fresh] if it would be the same
// now. The index has the head by path of every path, and which of them are
// suspect because something changed that their state may depend on. Only suspect
// heads are compared, so finding what a change made stale does not depend on the
// size of the tree. A frame that was made from others is put with
// [Tx.PutDerived], which computes the basis again.
//
// # Recovery
//
// [Open] applies the transactions that the index lacks. It rebuilds the index
// if it is missing, damaged, of another workspace, or not what the seal says.
// If transactions are missing that the seal or the index knows, or the log is
// damaged, the store is read-only and [Store.Damage] says where. [Verify] reads
// a closed data directory and reports every file that does not verify.
//
// # Concurrency and failure
//
// A Store is safe for concurrent use. Errors are of type *contract.Error:
// store/locked, store/io, store/corrupt, store/version, store/read-only,
// workspace/not-found, workspace/exists, runtime/overloaded, seq/unknown, and
// those of frames: frame/*, head/conflict, path/not-in-tree. After
// a failed fsync the store takes no writes until it is opened again.
package store
