package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// RUN-020, RUN-022: the key of a run commits with its acceptance, and is free again
// when the run was removed.
func TestKeyed(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		now, dir := start, t.TempDir()
		open := func() *Store {
			return on.openAt(t, dir, func(o *Options) {
				o.Limits.Retain, o.Now = Retention{Age: time.Hour, KeyWindow: 2 * time.Hour}, func() time.Time { return now }
			})
		}
		keyed := func(s *Store) string {
			run, err := s.Keyed(context.Background(), someSum)
			require.NoError(t, err)
			return run
		}
		s := open()
		assert.Empty(t, keyed(s))
		accept := func(name string) (first, last journal.Record) {
			sc := newScript(name)
			first, last = sc.accepted(nothing), sc.finished(nothing)
			first.Body.(*journal.RunAccepted).Key = someSum
			return first, last
		}
		first, last := accept("run_1")
		appendAll(t, s, first)
		syncRun(t, s, "run_1")
		assert.Equal(t, "run_1", keyed(s), "from the acceptance on")
		appendAll(t, s, last)
		syncRun(t, s, "run_1")
		require.NoError(t, s.Close())
		s = open()
		assert.Equal(t, "run_1", keyed(s))
		require.NoError(t, s.Verify(context.Background(), "run_1"))

		now = start.Add(90 * time.Minute)
		removed, err := s.Retain(context.Background())
		require.NoError(t, err)
		assert.Zero(t, removed.Runs, "its key is valid")
		now = start.Add(3 * time.Hour)
		removed, err = s.Retain(context.Background())
		require.NoError(t, err)
		assert.Equal(t, 1, removed.Runs)
		assert.Empty(t, keyed(s))
		first, last = accept("run_2")
		appendAll(t, s, first, last)
		syncRun(t, s, "run_2")
		assert.Equal(t, "run_2", keyed(s))
		require.NoError(t, s.Err())
	})
}
