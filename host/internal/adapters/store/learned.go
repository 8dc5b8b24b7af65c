package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
)

var _ learned.Store = (*Store)(nil)

// Learned implements learned.Store.
func (s *Store) Learned(ctx context.Context, k learned.Key) (string, error) {
	return readLearned(ctx, s.read, k)
}

func readLearned(ctx context.Context, from *statements, k learned.Key) (text string, err error) {
	err = from.one(ctx, "learned", []any{k.Intent, k.Bucket}, []any{&text})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return text, err
}

// AllLearned implements learned.Store.
func (s *Store) AllLearned(ctx context.Context) (map[learned.Key]string, error) {
	return readAllLearned(ctx, s.read)
}

func readAllLearned(ctx context.Context, from *statements) (map[learned.Key]string, error) {
	out := map[learned.Key]string{}
	var k learned.Key
	var text string
	err := from.all(ctx, "all_learned", nil, []any{&k.Intent, &k.Bucket, &text}, func() error {
		out[k] = text
		return nil
	})
	return out, err
}

// Learn implements learned.Store. It queues the change and returns; done is called after the
// commit, and is not called if the change fails. Transactions of hosts that share the database are
// serialized, so each change sees the result of the previous one.
func (s *Store) Learn(k learned.Key, change func(text string) string, done func()) {
	j := &job{done: make(chan struct{})}
	j.do = func(ctx context.Context) error {
		err := s.transaction(ctx, func(ctx context.Context) error {
			text, err := readLearned(ctx, s.write, k)
			if err == nil {
				_, err = s.write.exec(ctx, "set_learned", k.Intent, k.Bucket, change(text))
			}
			return err
		})
		if err == nil {
			done()
		}
		return err
	}
	_ = s.queue.post(j) // a failed store learns nothing
}

// copyLearned copies the counts that can be read. A group without counts starts again from its
// priors.
func (r *repairer) copyLearned(ctx context.Context) error {
	var there int
	if err := r.src.read.one(ctx, "learned_table", nil, []any{&there}); err != nil || there == 0 {
		return err
	}
	all, err := readAllLearned(ctx, r.src.read)
	var damage *Damage
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	for k, text := range all {
		if _, err := r.dst.write.exec(ctx, "set_learned", k.Intent, k.Bucket, text); err != nil {
			return err
		}
	}
	return nil
}
