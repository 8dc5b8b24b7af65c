// Package frame splits the body of a streamed response into frames: events of a
// text/event-stream, lines of JSON, or the body as a whole.
//
// A Splitter accepts pieces of any size and returns the same frames however the
// body was split. It keeps at most MaxFrame bytes of an unfinished frame. It
// does not interpret frames, does no I/O and belongs to one goroutine.
package frame
