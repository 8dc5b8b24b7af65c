// Package journal records what a run did, as data.
//
// A run is a sequence of records. Each record has a kind with a closed set of
// keys: a table in this package lists them, the EDN schema of a kind and the
// page RECORDS.md are generated from that table, and an append with a missing
// or ill-typed key is rejected as runtime/internal, because only a defect of
// the host can cause it.
//
// Main types: Record is one record, its Body one of the typed kinds. Ref refers to a
// value: readers in this process read the value directly, and a stored record contains
// its hash. Decoder reads stored records. Journal is the interface of writers, Memory
// its implementation in memory, Cursor a reader that follows a run while it is written.
// History indexes the recorded results that a resumed run reuses, and Mask replaces
// secrets in records. Transcript, Progress and Report are computed from records alone,
// so that their output always agrees with them.
//
// Concurrency: records and bodies are immutable once appended. Memory is safe for
// concurrent use; a Cursor is for one goroutine.
//
// Errors: Append returns a *contract.Error of type runtime/internal for an
// invalid record, Decode one of type journal/damaged. Memory has no other errors.
package journal
