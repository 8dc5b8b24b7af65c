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

// OnLost sets what is called with messages that a transaction lost, instead of
// the standard logger. It is called from any goroutine.
func OnLost(report func(*conversation.LostError)) Option {
	return func(s *Session) { s.onLost = report }
}

// Open loads the conversation with the id.
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

// Reload loads what others committed. Transactions keep the version on which
// they began.
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
// were complete before are returned.
func (s *Session) Execute(
	ctx context.Context, tx *Transaction, a conversation.Agent, m conversation.Model,
) ([]conversation.Message, error) {
	out, err := a.Execute(ctx, s.With(tx), m)
	if err == nil {
		tx.Extend(out...)
	}
	return out, err
}

// Commit stores the pending messages and ends the transaction. A transaction
// without messages only ends.
//
// If it fails, the transaction stays open: commit again after a failure of the
// store. After a [*ConflictError], Reload and begin again, because the agent did
// not read what was committed meanwhile. A [*conversation.InvalidError] is a
// message that is empty, or the result of a tool without a call before it.
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

// ErrForeign is the error of a transaction of another session.
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

// Send adds a message, executes the agent, and commits both, or neither. It
// returns the messages of the agent, with an error those that were complete.
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

// SendStream is Send as a stream. The agent executes in a loop over the sequence,
// which commits at its end and at no other time.
//
// The transaction has the message, and each message of the agent once it is
// complete. If the loop is left, or the sequence ends with an error, the
// transaction is open: what it has can be committed or rolled back. The caller
// must close it, but not use it within the loop.
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

// Truncate removes all messages but the first n.
func (s *Session) Truncate(ctx context.Context, n int) error {
	base := s.now()
	if n == base.Len() {
		return nil
	}
	_, err := s.change(ctx, base, Change{From: n, To: base.Len()})
	return err
}

// Clear removes all messages.
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
