package conversation

import (
	"errors"
	"fmt"
	"log"
	"runtime"
	"slices"
	"strings"
)

// Transaction collects messages that are not part of the conversation yet. It
// ends with Commit or Rollback:
//
//	tx := conversation.Begin(nil)
//	defer tx.Close()
//
// Close makes sure that messages are not lost unnoticed: it reports those that
// are pending in a transaction that did not end. A transaction that is garbage
// collected before it ended is also reported, at a time that depends on the
// runtime and possibly never. The vet tool of package txclose finds paths on
// which a transaction does not end.
//
// A transaction has one owner at a time: it is not safe for concurrent use.
type Transaction struct {
	state   *state
	cleanup runtime.Cleanup
}

// state is the state of a Transaction. It is a separate object, so that the cleanup
// of a Transaction that was garbage collected can report the pending messages.
type state struct {
	pending []Message // only ever appended to: contexts share it
	ended   bool
	onLost  func(*LostError)
	callers []uintptr
}

// Begin returns an empty transaction. Messages that it loses are reported to
// onLost, from any goroutine; nil writes them to the standard logger.
func Begin(onLost func(*LostError)) *Transaction {
	if onLost == nil {
		onLost = func(e *LostError) { log.Print(e) }
	}
	s := &state{onLost: onLost, callers: make([]uintptr, maxCallers)}
	s.callers = s.callers[:runtime.Callers(2, s.callers)]
	tx := &Transaction{state: s}
	tx.cleanup = runtime.AddCleanup(tx, func(s *state) { _ = s.close() }, s)
	return tx
}

// Add appends a message to the pending ones. After the end of the transaction it
// panics with a [*FinalizedError], because a caller that ignored an error would
// lose the message.
func (t *Transaction) Add(m Message) { t.Extend(m) }

// Extend is Add for any number of messages.
func (t *Transaction) Extend(messages ...Message) {
	if t.state.ended {
		panic(&FinalizedError{Messages: len(messages)})
	}
	t.state.pending = append(t.state.pending, messages...)
}

// Pending returns the pending messages in their order, none after the end of the
// transaction.
func (t *Transaction) Pending() []Message { return slices.Clone(t.state.pending) }

// Len returns the number of pending messages.
func (t *Transaction) Len() int { return len(t.state.pending) }

// Finalized reports whether the transaction ended.
func (t *Transaction) Finalized() bool { return t.state.ended }

// Commit ends the transaction and returns its messages in their order. The error
// is [ErrFinalized] if it had already ended.
func (t *Transaction) Commit() ([]Message, error) {
	if t.state.ended {
		return nil, ErrFinalized
	}
	return slices.Clone(t.end()), nil // contexts share the slice
}

// Rollback ends the transaction and drops its messages. It does nothing if the
// transaction has ended.
func (t *Transaction) Rollback() { t.end() }

func (t *Transaction) end() []Message {
	t.cleanup.Stop()
	return t.state.end()
}

// Close rolls the transaction back if it has not ended. If this drops messages,
// Close reports them, once, and returns a [*LostError].
func (t *Transaction) Close() error {
	t.cleanup.Stop()
	return t.state.close()
}

func (s *state) end() []Message {
	pending := s.pending
	s.pending, s.ended = nil, true
	return pending
}

func (s *state) close() error {
	lost := len(s.end())
	if lost == 0 {
		return nil
	}
	e := &LostError{Messages: lost, Begun: s.begun()}
	s.onLost(e)
	return e
}

// ErrFinalized is returned by Commit if the transaction was already committed,
// rolled back or closed; FinalizedError wraps it.
var ErrFinalized = errors.New("conversation: the transaction has already ended")

// FinalizedError is the panic value of Add and Extend after the end of the
// transaction. It wraps [ErrFinalized].
type FinalizedError struct {
	Messages int // number of messages that were not added
}

// Error implements error.
func (e *FinalizedError) Error() string {
	return fmt.Sprintf("conversation: the transaction ended before %d messages were added", e.Messages)
}

// Unwrap returns ErrFinalized.
func (e *FinalizedError) Unwrap() error { return ErrFinalized }

// LostError reports messages that were neither committed nor rolled back.
type LostError struct {
	Messages int    // number of lost messages
	Begun    string // file and line of the call of Begin
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("conversation: the transaction of %s lost %d messages: it was neither committed nor rolled back",
		e.Begun, e.Messages)
}

// maxCallers bounds the frames between Begin and the caller of a session.
const maxCallers = 4

// begun returns the place of Begin: the first caller outside the package that
// begins transactions for others.
func (s *state) begun() string {
	frames := runtime.CallersFrames(s.callers)
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "/sdk/conversation/session.") || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}
