package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Answer is the stored entry of the idempotency key of an admin action: the hash of the action, and
// its response if the action has ended.
type Answer struct {
	Print  string // hash of the action
	Status int    // HTTP status of the response; 0: the action has begun but not ended
	Body   edn.Value
}

// BeginAnswer records, in one transaction, that an action begins at now under an idempotency key.
// print is the hash of the action. If the key is recorded already, BeginAnswer returns its entry
// and does not change it; otherwise known is nil. In both cases it first deletes the keys that were
// recorded earlier than before.
func (s *Store) BeginAnswer(ctx context.Context, key, print string, now, before time.Time) (known *Answer, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		known = nil
		if _, err := s.write.exec(ctx, "drop_answers", nanos(before)); err != nil {
			return err
		}
		var found Answer
		var body []byte
		err := s.write.one(ctx, "answer", []any{key}, []any{&found.Print, &found.Status, &body})
		if errors.Is(err, sql.ErrNoRows) {
			_, err = s.write.exec(ctx, "begin_answer", key, print, nanos(now))
			return err
		}
		if err == nil && len(body) > 0 {
			if found.Body, err = edn.Read(body, storedLimits); err != nil {
				return contract.Errorf("runtime/internal", "read the answer of an admin action: %w", err)
			}
		}
		known = &found
		return err
	})
	return known, err
}

// dropAnswers deletes the keys that are older than Retention.KeyWindow.
func (s *Store) dropAnswers(ctx context.Context) error {
	return s.change(ctx, func(ctx context.Context) error {
		_, err := s.write.exec(ctx, "drop_answers", nanos(s.opts.Now().Add(-s.limits.Load().Retain.KeyWindow)))
		return err
	})
}

// EndAnswer stores the response of the action that BeginAnswer recorded under key. It does nothing
// if the key is not recorded.
func (s *Store) EndAnswer(ctx context.Context, key string, status int, body edn.Value) error {
	return s.change(ctx, func(ctx context.Context) error {
		_, err := s.write.exec(ctx, "end_answer", key, status, []byte(body.String()))
		return err
	})
}

// ForgetAnswer deletes an idempotency key, so that BeginAnswer accepts it again. An unknown key is
// not an error.
func (s *Store) ForgetAnswer(ctx context.Context, key string) error {
	return s.change(ctx, func(ctx context.Context) error {
		_, err := s.write.exec(ctx, "forget_answer", key)
		return err
	})
}

// copyAnswers copies the idempotency keys of actions. A key whose response cannot be read is kept
// as that of an action with unknown outcome: without the key, a repeated request would execute the
// action again.
func (r *repairer) copyAnswers(ctx context.Context) error {
	var there int
	if err := r.src.read.one(ctx, "answers_table", nil, []any{&there}); err != nil || there == 0 {
		return err
	}
	var known Answer
	var key string
	var body []byte
	var created int64
	row := []any{&key, &known.Print, &known.Status, &body, &created}
	err := r.src.read.all(ctx, "all_answers", nil, row, func() error {
		if _, err := edn.Read(body, storedLimits); err != nil {
			known.Status, body = 0, []byte{}
		}
		_, err := r.dst.write.exec(ctx, "salvage_answer", key, known.Print, known.Status, body, created)
		return err
	})
	var damage *Damage
	if errors.As(err, &damage) {
		return nil // the rows before it stay
	}
	return err
}
