package conversation

import (
	"fmt"
	"io"
	"iter"
)

// DeltaKind is the kind of a delta.
type DeltaKind string

// The kinds of deltas.
const (
	// DeltaText, DeltaReasoning and DeltaCall are a piece of the message that is
	// being written: of its text, its reasoning, or the arguments of a call.
	DeltaText      DeltaKind = "text"
	DeltaReasoning DeltaKind = "reasoning"
	DeltaCall      DeltaKind = "tool-call"
	// DeltaRetract invalidates the pieces since the last message. Text is the
	// reason.
	DeltaRetract DeltaKind = "retract"
	// DeltaMessage is a complete message. It replaces the pieces since the last
	// message: pieces are for display, messages are what a conversation stores.
	DeltaMessage DeltaKind = "message"
)

// Delta is a part of a streamed answer.
type Delta struct {
	Kind    DeltaKind
	Text    string  // of a piece, or the reason of a DeltaRetract
	Message Message // of a DeltaMessage
}

// Stream is an answer that arrives in parts. An error is its last element. It
// can be iterated once; leaving the loop cancels the work of the model or agent.
type Stream = iter.Seq2[Delta, error]

// Fold reads a stream and returns its messages, and the error that ended it. If
// the stream ends in the middle of a message, the error wraps
// [io.ErrUnexpectedEOF].
//
// If show is not nil, it gets each delta; if it returns false, Fold leaves the
// stream and returns the messages so far without an error.
func Fold(stream Stream, show func(Delta) bool) (messages []Message, err error) {
	open := false
	for d, err := range stream {
		if err != nil {
			return messages, err
		}
		switch d.Kind {
		case DeltaMessage:
			messages, open = append(messages, d.Message), false
		case DeltaRetract:
			open = false
		default:
			open = true
		}
		if show != nil && !show(d) {
			return messages, nil
		}
	}
	if open {
		return messages, fmt.Errorf("conversation: the stream ended within a message: %w", io.ErrUnexpectedEOF)
	}
	return messages, nil
}
