// Package spans turns the records of a run into the spans of a trace.
//
// A Run reads the records of one run in their order. It gives a Span when what the
// span describes has ended, and an Event for each verdict of a gate. Equal records
// give equal spans, whether they are read while the run goes on or later: ids are
// hashes of the run and of places in it, and times are those of the records, in
// milliseconds.
//
// A run is the root of a trace. Its children are its operations, the children of an
// operation are its attempts, and what a plugin asks its host within an attempt
// hangs below that attempt. Each epoch of a run is a trace of its own with a link to
// the epoch before.
//
// Concurrency: a Run belongs to one goroutine. AttemptContext is safe for concurrent
// use.
//
// Errors: none. A record that does not fit to its run gives no span.
package spans
