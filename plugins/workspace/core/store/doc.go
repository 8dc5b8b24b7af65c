// Package store is the data directory of a workspace: a log, which is the source of truth, and an
// index and a stat cache that are derived from it.
//
// # Files
//
//	workspace.edn   id, scheme and format of the workspace
//	log/            segments of package log
//	index.db        SQLite database for reading
//	stat.cache      file information of the last scan
//	seal            state of log and index at the last clean close
//	LOCK            empty; the process that writes holds a lock on it
//	quarantine/     what was cut off or replaced; nothing is deleted there, and
//	                each name ends with a hash of the content. The file damage
//	                marks a log in which damage was found
//
// # Writing
//
// [Store.Update] runs a function with a [Tx]. One goroutine runs these functions, one after the
// other; those that wait are written to the log as one batch with one fsync. Only then is the index
// committed, so a reader never sees what is not durable. A function that fails leaves no trace. Nor
// does a batch that the disk has no space for: if the index lacks it, the log is cut back.
//
// # Reading
//
// [Store.View] runs a function with a [Snapshot]: the state at the latest or an earlier sequence
// number. Readers use their own connections and never wait for the writer. Content is read from the
// log and verified against its id. A process that only reads follows the store of another one with
// [Follow].
//
// # Frames
//
// A [Frame] is an immutable text about a path. Its head is kept for each state of the path, so a
// change makes it stale and a return to the state makes it current again without a write. A frame
// is verified against its record id on every read.
//
// The state of a head follows from its basis: [Fresh] if it would be the same now. The index has
// the head by path of every path, and which of them are suspect because something changed that
// their state may depend on. Only suspect heads are compared, so finding what a change made stale
// does not depend on the size of the tree. A frame that was made from others is put with
// [Tx.PutDerived], which computes the basis again.
//
// # Deletion, snapshots, compaction
//
// [Tx.Delete] hides paths without removing anything: a deleted path reads like one that is gone,
// and [Tx.Restore] undoes it. [Tx.SetSnapshot] names a state. [Store.Compact] drops texts of frames
// that were deleted long ago, or of history. The frames remain with all their ids, so every root
// still verifies; reading a text is [ErrTextDropped], and states that would read differently are
// seq/compacted unless they have a name.
//
// # Exchange
//
// [Snapshot.Export] writes a stream that verifies itself; [ReadExport] verifies all of it, and
// [Tx.Import] adds what the store lacks. Frames belong to states of paths. Frames of states that
// the tree does not have at present are added too, and become heads when a scan finds such a state.
//
// # Recovery
//
// [Open] applies the transactions that the index lacks. It rebuilds the index if it is missing,
// damaged, of another workspace, or does not match the seal. If the log lacks transactions that the
// seal or the index records, or is damaged, the store is read-only and [Store.Damage] names the
// place. Open does not read the part of the log that the index covers: a validation or a read finds
// damage there and writes the mark quarantine/damage, which makes the store read-only until a
// repair. [Verify] reads a closed data directory, [Store.Validate] an open one; both report
// everything that does not verify, and compare the index with a replay of the log. [Repair] makes a
// closed data directory valid again: it replaces a damaged log by a new one with every transaction
// that verifies, and lists what is lost.
//
// # Concurrency and failure
//
// A Store is safe for concurrent use. Errors, except [ErrMoved], are of type *contract.Error:
// store/locked, store/io, store/corrupt, store/version, store/unsafe, store/read-only,
// workspace/not-found, workspace/exists, workspace/unscanned, runtime/overloaded, runtime/internal, seq/unknown,
// seq/compacted, input/invalid, limit/exceeded; those of paths and frames: frame/*, head/conflict,
// node/*, path/invalid, path/not-in-tree; those of exports: import/invalid, import/conflict; and
// canceled or timeout/hard if the context ends. After a failed fsync the store rejects writes until
// it is opened again, and so it does while [Store.Behind] is true.
package store
