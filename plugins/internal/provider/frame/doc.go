// Package frame cuts the body of a streamed response into frames: events of a
// text/event-stream, lines of JSON, or the body as a whole.
//
// A Splitter is fed with pieces of any size and gives the same frames however
// the body was cut. It keeps at most MaxFrame bytes of an unfinished frame. It
// does not look into what a frame holds, does no I/O and belongs to one
// goroutine.
package frame
