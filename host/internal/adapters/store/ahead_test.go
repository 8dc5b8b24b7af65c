package store

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// aheadStore is a store that commits nothing before a caller waits for it.
func aheadStore(t *testing.T, before func(op string) error) *Store {
	s := openAt(t, t.TempDir(), func(o *Options) { o.Faults.Before = before })
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.delay = time.Hour
	return s
}

// JRN-002, JRN-004: what led to a call is executed while the call is under way, in a
// transaction that is not visible and not durable before its commit.
func TestRecordsAreExecutedAhead(t *testing.T) {
	begun, commits := make(chan struct{}, 10), atomic.Int32{}
	s := aheadStore(t, func(op string) error {
		switch op {
		case "begin":
			begun <- struct{}{}
		case "commit":
			commits.Add(1)
		}
		return nil
	})
	sc := newScript("run_1")
	log := s.Open(sc.run)
	appendAll(t, log, sc.accepted(nothing))
	step := sc.step(textOf(1, 300), textOf(2, 300))
	appendAll(t, log, step[:2]...)
	<-begun // without a caller that waits

	assert.Zero(t, commits.Load())
	_, err := s.Run(t.Context(), sc.run)
	typed(t, err, "run/not-found")
	appendAll(t, log, step[2:]...)
	appendAll(t, log, sc.finished(nothing))
	syncRun(t, s, sc.run)
	assert.EqualValues(t, 1, commits.Load(), "both parts are one transaction")
	assert.Empty(t, begun)

	stored, err := s.Bytes(t.Context(), sc.run, 0, 100)
	require.NoError(t, err)
	assert.Len(t, stored, sc.seq)
	require.NoError(t, s.Verify(t.Context(), sc.run))
}

// JRN-002: what cannot be executed ahead is executed again by the commit.
func TestFailureAheadIsLeftToTheCommit(t *testing.T) {
	var failed atomic.Bool
	s := aheadStore(t, func(op string) error {
		if op == "blob/write" && failed.CompareAndSwap(false, true) {
			return errDisk
		}
		return nil
	})
	sc := newScript("run_1")
	log := s.Open(sc.run)
	appendAll(t, log, sc.accepted(textOf(1, 300)))
	step := sc.step(textOf(2, 2*maxRow), textOf(3, 300))
	appendAll(t, log, step[:2]...)
	require.Eventually(t, failed.Load, 10*time.Second, time.Millisecond)
	appendAll(t, log, step[2:]...)
	syncRun(t, s, sc.run)
	require.NoError(t, s.Err())
	require.NoError(t, s.Verify(t.Context(), sc.run))
	assert.Len(t, recordsOf(t, s, sc.run), sc.seq)
}

// RUN-022: a run that is refused ahead, because another has its key, does not disturb the
// others of its batch.
func TestRefusalAheadIsOfItsRun(t *testing.T) {
	s := aheadStore(t, nil)
	accept := func(run string) (*script, journal.Journal) {
		sc, log := newScript(run), s.Open(run)
		rec := sc.accepted(nothing)
		rec.Body.(*journal.RunAccepted).Key = someSum
		appendAll(t, log, rec)
		return sc, log
	}
	first, _ := accept("run_1")
	syncRun(t, s, first.run)
	second, log := accept("run_2")
	other := newScript("run_3")
	appendAll(t, s, other.accepted(nothing))
	appendAll(t, log, second.step(nothing, nothing)[:2]...)
	typed(t, s.Sync(context.Background(), second.run), "journal/fenced")
	syncRun(t, s, other.run)
	require.NoError(t, s.Verify(t.Context(), other.run))
}
