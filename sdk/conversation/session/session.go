package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Session is one conversation in a store, held in memory. It is safe for
// concurrent use; its transactions are not.
type Session struct {
	store  Store
	id     string
	onLost func(*conversation.LostError)

	mu      sync.Mutex
	current snapshot
}

// Option changes a session.
type Option func(*Session)

// OnLost sets the function that reports lost messages of a transaction; the
// default writes to the standard logger. It is called from any goroutine.
func OnLost(report func(*conversation.LostError)) Option {
	return func(s *Session) { s.onLost = report }
}

// Open loads the conversation with the id, which need not exist. The error is that
// of the store.
func Open(ctx context.Context, store Store, id string, options ...Option) (*Session, error) {
	s := &Session{store: store, id: id}
	for _, option := range options {
		option(s)
	}
	if err := s.Reload(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload loads the messages that others committed. Open transactions keep the
// version on which they began.
func (s *Session) Reload(ctx context.Context) error {
	loaded, err := s.store.Load(ctx, s.id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if loaded.Version >= s.current.version { // else committed meanwhile
		s.current = snapshot{loaded.Version, slices.Clip(loaded.Messages)}
	}
	return nil
}

// Context returns the committed messages.
func (s *Session) Context() conversation.Context { return s.now() }

// Version returns the version of the committed messages.
func (s *Session) Version() Version { return s.now().version }

func (s *Session) now() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Begin returns an empty transaction on the committed messages.
func (s *Session) Begin() *Transaction {
	return &Transaction{Transaction: conversation.Begin(s.onLost), session: s, base: s.now()}
}

// With returns what an agent reads in the transaction: the messages that were
// committed when it began, then those that are pending now.
func (s *Session) With(tx *Transaction) conversation.Context {
	return conversation.TransactionContext(tx.base, tx.Transaction)
}

// Execute executes the agent in the transaction and appends its messages to it.
// It does not commit. If the agent fails, nothing is appended; the messages that
// were complete before are returned. The agent is not executed on pending messages
// that Commit would refuse; the error is then that of Commit.
func (s *Session) Execute(
	ctx context.Context, tx *Transaction, a conversation.Agent, m conversation.Model,
) ([]conversation.Message, error) {
	if err := check(tx.base.messages, tx.Pending()); err != nil {
		return nil, err
	}
	out, err := a.Execute(ctx, s.With(tx), m)
	if err == nil {
		tx.Extend(out...)
	}
	return out, err
}

// Commit stores the pending messages and ends the transaction. A transaction
// without messages only ends.
//
// If Commit fails, the transaction stays open. After a failure of the store,
// Commit can be repeated. After a [*ConflictError], Reload and begin again,
// because the agent did not read what was committed meanwhile. A
// [*conversation.InvalidError] reports a message that is empty, or a tool result
// without a call before it. The error is [ErrForeign] for a transaction of
// another session, and [conversation.ErrFinalized] for one that has ended.
func (s *Session) Commit(ctx context.Context, tx *Transaction) (Version, error) {
	if tx.session != s {
		return 0, ErrForeign
	}
	if tx.Finalized() {
		return 0, conversation.ErrFinalized
	}
	pending := tx.Pending()
	if err := check(tx.base.messages, pending); err != nil {
		return 0, err
	}
	version, n := tx.base.version, tx.base.Len()
	if len(pending) > 0 {
		var err error
		if version, err = s.change(ctx, tx.base, Change{From: n, To: n, Messages: pending}); err != nil {
			return 0, err
		}
	}
	tx.Rollback() // ends it: the messages are stored
	return version, nil
}

// ErrForeign is returned by Commit for a transaction of another session.
var ErrForeign = errors.New("session: the transaction belongs to another session")

// change commits a change to a version.
func (s *Session) change(ctx context.Context, base snapshot, c Change) (Version, error) {
	version, err := s.store.Commit(ctx, s.id, base.version, c)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.version != base.version {
		return version, nil // reloaded meanwhile
	}
	messages, err := c.apply(base.messages)
	if err == nil {
		s.current = snapshot{version, messages}
	}
	return version, err
}

// Send adds a message, executes the agent, and commits the message with those
// of the agent, or commits nothing. It returns the messages of the agent; with
// an error, those that were complete before it.
func (s *Session) Send(
	ctx context.Context, message conversation.Message, a conversation.Agent, m conversation.Model,
) ([]conversation.Message, error) {
	tx := s.Begin()
	defer tx.Rollback()
	tx.Add(message)
	out, err := s.Execute(ctx, tx, a, m)
	if err != nil {
		return out, err
	}
	_, err = s.Commit(ctx, tx)
	return out, err
}

// SendStream is Send as a stream. Iterating the stream executes the agent, and
// commits if the stream ends without an error.
//
// The transaction holds the message, and each message of the agent once it is
// complete. If the loop is left, or the stream ends with an error, the
// transaction stays open and the caller can commit it or roll it back. The caller
// must close the transaction, and must not use it within the loop.
func (s *Session) SendStream(
	ctx context.Context, message conversation.Message, a conversation.Agent, m conversation.Model,
) (conversation.Stream, *Transaction) {
	tx := s.Begin()
	tx.Add(message)
	return func(yield func(conversation.Delta, error) bool) {
		if tx.Finalized() {
			yield(conversation.Delta{}, conversation.ErrFinalized)
			return
		}
		if err := check(tx.base.messages, tx.Pending()); err != nil {
			yield(conversation.Delta{}, err)
			return
		}
		left := false
		_, err := conversation.Fold(a.ExecuteStream(ctx, s.With(tx), m), func(d conversation.Delta) bool {
			if d.Kind == conversation.DeltaMessage {
				tx.Add(d.Message)
			}
			left = !yield(d, nil)
			return !left
		})
		if left {
			return
		}
		if err == nil {
			_, err = s.Commit(ctx, tx)
		}
		if err != nil {
			yield(conversation.Delta{}, err)
		}
	}, tx
}

// Truncate removes all messages but the first n and commits the change. The error
// is a [*RangeError] if there are fewer than n messages or n is negative, a
// [*ConflictError] if the session is not at the current version, or another error
// of the store.
func (s *Session) Truncate(ctx context.Context, n int) error {
	base := s.now()
	if n == base.Len() {
		return nil
	}
	_, err := s.change(ctx, base, Change{From: n, To: base.Len()})
	return err
}

// Clear removes all messages and commits the change.
func (s *Session) Clear(ctx context.Context) error { return s.Truncate(ctx, 0) }

// check checks that the messages can follow the others.
func check(before, messages []conversation.Message) error {
	for i, m := range messages {
		why := ""
		if r, ok := m.Result(); ok && !called(messages[:i], r.CallID) && !called(before, r.CallID) {
			why = fmt.Sprintf("it is the result of the call %q, which no message before it makes", r.CallID)
		}
		if m.Empty() {
			why = "it is empty"
		}
		if why != "" {
			return fmt.Errorf("session: message %d of the transaction: %w", i, &conversation.InvalidError{Part: -1, Reason: why})
		}
	}
	return nil
}

// called reports whether one of the messages makes the call.
func called(messages []conversation.Message, id string) bool {
	for _, m := range slices.Backward(messages) {
		for call := range m.Calls() {
			if call.ID == id {
				return true
			}
		}
	}
	return false
}
