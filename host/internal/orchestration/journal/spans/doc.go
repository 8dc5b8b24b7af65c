// Package spans turns the records of a run into the spans of a trace.
//
// A Run reads the records of one run in their order. It passes a Span to a Sink when the
// step of the span has ended, and an Event for each verdict of a gate. Equal records
// give equal spans, whether they are read during the run or later: ids are hashes of the
// run and of places in it, and times are those of the records, in milliseconds.
//
// A run is the root of a trace, or a child of the span of its caller. Its children are
// its operations, and the children of an operation are its attempts. Operations of a
// request that a plugin makes to the host are children of the attempt that makes it.
// Each epoch of a run is a trace of its own with a link to the epoch before.
//
// Concurrency: a Run is for one goroutine. AttemptContext is safe for concurrent use.
//
// Errors: none. A record that does not belong to a known step gives no span.
package spans
