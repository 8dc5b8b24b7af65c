// Package journal says what a run did, as data.
//
// A run is a sequence of records. Each record has a kind, and the keys of every
// kind are closed: a table in this package lists them, the EDN schema of a kind
// and the page RECORDS.md are generated from that table, and an append with a
// key that is missing or of the wrong type is refused as runtime/internal,
// because only a defect of the host can cause it.
//
// Main types: Record is one record, its Body one of the typed kinds. Ref names
// a value; readers in this process take the value from it, whoever stores the
// record takes the hash. Journal is what the evaluator writes to, Memory the
// implementation that keeps runs in memory, Cursor a reader that follows a run
// while it is being written. Transcript, Progress and Report are readers: they
// know records and nothing else, so what they show can never differ from what
// was recorded.
//
// Concurrency: records and bodies are immutable once appended. Memory and its
// cursors may be used by many goroutines; one Cursor belongs to one of them.
//
// Failure: Append returns a *contract.Error of type runtime/internal for a bad
// record. Memory does not fail otherwise.
package journal
