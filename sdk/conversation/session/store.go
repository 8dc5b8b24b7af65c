package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Version orders the commits of a conversation. A conversation without a commit
// has the version 0.
type Version uint64

// Snapshot is a conversation at a version.
type Snapshot struct {
	Version  Version
	Messages []conversation.Message
}

// Change replaces the messages with the indices From to To-1 by Messages. If From
// and To are the length of the conversation, it appends; without Messages it
// removes.
type Change struct {
	From, To int
	Messages []conversation.Message
}

// Store keeps conversations by id.
//
//  1. Load returns the current version. A conversation without a commit is empty;
//     its first commit creates it.
//  2. Commit applies a change to the version base and returns the new version,
//     which is greater. It is atomic and durable: after an error nothing changed,
//     without one everything is stored.
//  3. If base is not the current version, the error is a [*ConflictError]. Of
//     concurrent commits on one version exactly one succeeds.
//  4. A store may refuse a change, for example one that begins within a turn, or
//     a conversation that is too large. Then the error is its own.
//  5. Messages are returned as they were committed. Neither side modifies a slice
//     that it gave or got.
//  6. Both methods are safe for concurrent use and return when ctx ends. If Commit
//     is canceled, the change may be stored or not; Load returns the result.
//
// Package storetest tests these points.
type Store interface {
	Load(ctx context.Context, id string) (Snapshot, error)
	Commit(ctx context.Context, id string, base Version, change Change) (Version, error)
}

// ErrConflict is wrapped by each [*ConflictError].
var ErrConflict = errors.New("session: the conversation changed")

// ConflictError is the error of a commit on a version that is not the current one.
type ConflictError struct {
	ID            string // of the conversation
	Base, Current Version
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("session: conversation %s changed: the commit is for version %d, the current one is %d",
		e.ID, e.Base, e.Current)
}

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// RangeError is the error of a change that does not fit the conversation.
type RangeError struct {
	From, To int // the range of the change
	Len      int // number of messages of the conversation
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("session: the messages %d to %d are not in a conversation of %d", e.From, e.To, e.Len)
}

// apply returns the messages after the change. An append may write into the spare
// capacity of messages, so it is applied to the newest version only, at most once.
func (c Change) apply(messages []conversation.Message) ([]conversation.Message, error) {
	n := len(messages)
	switch {
	case c.From < 0 || c.From > c.To || c.To > n:
		return nil, &RangeError{From: c.From, To: c.To, Len: n}
	case c.From == n:
		return append(messages, c.Messages...), nil
	}
	return slices.Concat(messages[:c.From], c.Messages, messages[c.To:]), nil
}
