// Package leaks has transactions that are closed, and some that are not.
package leaks

import (
	"context"
	"errors"
	"os"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/session"
)

var (
	user  = conversation.User("Hello")
	asked bool
	kept  *session.Transaction
)

type holder struct{ tx *session.Transaction }

func deferred(s *session.Session) {
	tx := s.Begin()
	defer tx.Close()
	tx.Add(user)
}

func deferredInFunction(s *session.Session) {
	tx := s.Begin()
	defer func() { _ = tx.Close() }()
	tx.Add(user)
}

func forgotten(s *session.Session) {
	tx := s.Begin() // want
	tx.Add(user)
}

func forgottenVar() int {
	var tx = conversation.Begin(nil) // want
	return tx.Len()
}

func onePath(s *session.Session) error {
	tx := s.Begin() // want
	if asked {
		return errors.New("early")
	}
	tx.Rollback()
	return nil
}

func bothPaths(s *session.Session) error {
	tx := s.Begin()
	if asked {
		tx.Rollback()
		return errors.New("early")
	}
	return tx.Close()
}

func tooLate(s *session.Session) error {
	tx := s.Begin() // want
	if asked {
		return errors.New("before the defer")
	}
	defer tx.Close()
	return nil
}

func plainCommit() []conversation.Message {
	tx := conversation.Begin(nil)
	tx.Add(user)
	all, _ := tx.Commit()
	return all
}

func commitWithoutCare(ctx context.Context, s *session.Session) error {
	tx := s.Begin() // want
	tx.Add(user)
	_, err := s.Commit(ctx, tx)
	return err
}

func commitChecked(ctx context.Context, s *session.Session) error {
	tx := s.Begin()
	tx.Add(user)
	if _, err := s.Commit(ctx, tx); err != nil {
		tx.Rollback()
		return err
	}
	return nil
}

func commitCheckedOtherwise(ctx context.Context, s *session.Session) error {
	tx := s.Begin()
	tx.Add(user)
	_, err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	tx.Rollback()
	return err
}

func commitCheckedAndLeft(ctx context.Context, s *session.Session) error {
	tx := s.Begin() // want
	tx.Add(user)
	if _, err := tx.Commit(ctx); err != nil {
		return err
	}
	return nil
}

func committedOnOnePath(ctx context.Context, s *session.Session) error {
	tx := s.Begin() // want
	var err error
	if asked {
		_, err = s.Commit(ctx, tx)
		tx.Rollback()
		return err
	}
	if err == nil {
		return nil
	}
	tx.Rollback()
	return err
}

func otherError(ctx context.Context, s *session.Session, other func() error) error {
	tx := s.Begin() // want
	_, err := s.Commit(ctx, tx)
	err = other()
	if err != nil {
		tx.Rollback()
		return err
	}
	return nil
}

func stream(ctx context.Context, s *session.Session, a conversation.Agent, m conversation.Model) error {
	deltas, tx := s.SendStream(ctx, user, a, m) // want
	for _, err := range deltas {
		if err != nil {
			return err
		}
	}
	tx.Rollback()
	return nil
}

func streamClosed(ctx context.Context, s *session.Session, a conversation.Agent, m conversation.Model) (err error) {
	deltas, tx := s.SendStream(ctx, user, a, m)
	defer func() { err = errors.Join(err, tx.Close()) }()
	for _, err := range deltas {
		if err != nil {
			return err
		}
	}
	return nil
}

func dropped(ctx context.Context, s *session.Session, a conversation.Agent, m conversation.Model) {
	s.Begin()                            // want
	_ = s.Begin()                        // want
	_, _ = s.SendStream(ctx, user, a, m) // want
	s.Begin().Add(user)                  // want
	s.Begin().Rollback()
}

func again(s *session.Session) {
	tx := s.Begin() // want
	tx.Add(user)
	tx = s.Begin()
	tx.Rollback()
}

func loop(s *session.Session) {
	for range 3 {
		tx := s.Begin() // want
		if asked {
			continue
		}
		tx.Rollback()
	}
}

func loopClosed(s *session.Session) {
	for range 3 {
		tx := s.Begin()
		if asked {
			tx.Rollback()
			continue
		}
		_ = tx.Close()
	}
}

func choice(s *session.Session, n int) {
	tx := s.Begin() // want
	switch n {
	case 0:
		tx.Rollback()
	case 1:
		_ = tx.Close()
	}
}

func choiceOfAll(s *session.Session, n int) {
	tx := s.Begin()
	switch n {
	case 0:
		tx.Rollback()
	default:
		_ = tx.Close()
	}
}

func borrowed(ctx context.Context, s *session.Session, a conversation.Agent, m conversation.Model) int {
	tx := s.Begin() // want
	_ = tx
	_, _ = s.Execute(ctx, tx, a, m)
	return s.With(tx).Len() + conversation.TransactionContext(s.Context(), tx.Transaction).Len()
}

func returned(s *session.Session) *session.Transaction {
	tx := s.Begin()
	tx.Add(user)
	return tx
}

func returnedAtOnce(s *session.Session) *session.Transaction { return s.Begin() }

func named(s *session.Session) (tx *session.Transaction) {
	tx = s.Begin()
	return
}

func stored(s *session.Session, h *holder, queue chan *session.Transaction) {
	h.tx = s.Begin()
	kept = s.Begin()
	a := s.Begin()
	h.tx = a
	b := s.Begin()
	queue <- b
	c := s.Begin()
	_ = holder{tx: c}
	d := s.Begin()
	take(d)
	e := s.Begin()
	end := e.Rollback
	end()
}

func take(tx *session.Transaction) { tx.Rollback() }

func start(s *session.Session) (*session.Transaction, error) {
	if asked {
		return nil, errors.New("busy")
	}
	return s.Begin(), nil
}

func started(s *session.Session) error {
	tx, err := start(s)
	if err != nil {
		return err
	}
	defer tx.Close()
	return nil
}

func startedAndLeft(s *session.Session) error {
	tx, err := start(s) // want
	if err != nil {
		return err
	}
	tx.Add(user)
	return nil
}

func noReturn(s *session.Session) {
	tx := s.Begin()
	tx.Add(user)
	if asked {
		panic("lost anyway")
	}
	if tx == nil {
		os.Exit(1)
	}
	tx.Rollback()
}

func inner(s *session.Session) {
	func() {
		tx := s.Begin() // want
		tx.Add(user)
	}()
}

func forever(s *session.Session) {
	tx := s.Begin()
	for {
		tx.Add(user)
	}
}

func deferredBefore(s *session.Session) {
	var tx *session.Transaction
	defer func() {
		if tx != nil {
			_ = tx.Close()
		}
	}()
	if asked {
		tx = s.Begin()
		tx.Add(user)
	}
}

func deferredUse(s *session.Session) {
	tx := s.Begin() // want
	defer func() { println(tx.Len()) }()
}

func usedInFunction(s *session.Session) {
	tx := s.Begin() // want
	add := func() { tx.Add(user) }
	add()
}

func committedInFunction(ctx context.Context, s *session.Session) error {
	tx := s.Begin()
	return func() error {
		_, err := s.Commit(ctx, tx)
		return err
	}()
}
