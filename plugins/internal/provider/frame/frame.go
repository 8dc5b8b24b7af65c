package frame

import (
	"bytes"
	"errors"
)

// MaxFrame is the maximum size of a frame in bytes.
const MaxFrame = 1 << 20

// ErrTooLarge means that a frame exceeds MaxFrame.
var ErrTooLarge = errors.New("an event of the answer is longer than 1 MiB, the limit")

// Frame is one part of a stream.
type Frame struct {
	// Data is the content of the frame. It is valid until the next call of the
	// splitter.
	Data []byte
	// Quiet is true if the frame has no content: a comment or an event called
	// ping that keeps the connection alive.
	Quiet bool
	// Failed is true if the server marked the frame as an error: an event
	// called error, or the field error that older llama.cpp servers write in
	// place of data.
	Failed bool
}

// Splitter splits a body into frames.
type Splitter interface {
	// Push accepts a piece of the body and calls each for the frames that it
	// completes. It stops at the first error: that of each, or ErrTooLarge.
	Push(piece []byte, each func(Frame) error) error
	// End ends the body and calls each for a last unterminated frame.
	End(each func(Frame) error) error
}

// Lines splits lines of JSON.
type Lines struct{ rest []byte }

// Push implements Splitter.
func (l *Lines) Push(piece []byte, each func(Frame) error) error {
	for {
		i := bytes.IndexByte(piece, '\n')
		if i < 0 {
			break
		}
		line := piece[:i]
		if len(l.rest) > 0 {
			l.rest = append(l.rest, line...)
			line = l.rest
		}
		piece = piece[i+1:]
		if len(line) > MaxFrame {
			return ErrTooLarge
		}
		err := giveLine(line, each)
		l.rest = l.rest[:0]
		if err != nil {
			return err
		}
	}
	if len(l.rest)+len(piece) > MaxFrame {
		return ErrTooLarge
	}
	l.rest = append(l.rest, piece...)
	return nil
}

// End implements Splitter.
func (l *Lines) End(each func(Frame) error) error {
	line := l.rest
	l.rest = nil
	return giveLine(line, each)
}

func giveLine(line []byte, each func(Frame) error) error {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, bom))
	if len(line) == 0 {
		return nil
	}
	return each(Frame{Data: line})
}

// Whole is a Splitter that returns the body as one frame. It does not limit the
// size; transport.MaxResponse does.
type Whole struct{ body []byte }

// Push implements Splitter.
func (w *Whole) Push(piece []byte, _ func(Frame) error) error {
	w.body = append(w.body, piece...)
	return nil
}

// End implements Splitter.
func (w *Whole) End(each func(Frame) error) error {
	return giveLine(w.body, each)
}
