package store

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// failed ends a run with a failure after which it may go on.
func (s *script) failed() journal.Record {
	rec := s.finished(edn.Text("failed " + s.run))
	end := rec.Body.(*journal.RunFinished)
	end.Status, end.Err = journal.StatusFailed, contract.Errorf("provider/unavailable", "no server listens")
	return rec
}

// reopened continues a failed run.
func (s *script) reopened() journal.Record {
	s.epoch++
	return s.record(&journal.RunResumed{
		Host:       "here",
		Boot:       "2",
		Config:     someSum,
		Was:        someSum,
		Why:        journal.ResumedKey,
		By:         "uid/7",
		DeadlineAt: s.at.Add(time.Minute),
	})
}

// RUN-022: a run that has failed is open again once it is reopened, in every reader, and
// may fail and be reopened again. Its chain goes on, and an exported file has all of it.
func TestReopenedRun(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		s := on.openAt(t, dir)
		sc := newScript("run_1")
		first := sc.accepted(textOf(1, 300))
		first.Body.(*journal.RunAccepted).Key = someSum
		appendAll(t, s, first, sc.failed())
		require.NoError(t, s.Sync(t.Context(), "run_1"))
		s.Drop("run_1")
		run, err := s.Run(t.Context(), "run_1")
		require.NoError(t, err)
		assert.True(t, run.Ended())
		typed(t, s.Append(t.Context(), sc.step(nothing, nothing)[0]), "run/not-resumable")
		sc.seq = 2

		appendAll(t, s, sc.reopened())
		require.NoError(t, s.Sync(t.Context(), "run_1"))
		run, err = s.Run(t.Context(), "run_1")
		require.NoError(t, err)
		assert.Equal(t, Run{
			ID: "run_1", State: "open", Intent: "a/b", Principal: "uid/7", Epoch: 2, Records: 3, Accepted: run.Accepted, Cost: "0.25",
		}, run)
		typed(t, s.Export(t.Context(), "run_1", &bytes.Buffer{}), "queue/invalid-transition")
		typed(t, s.Purge(t.Context(), "run_1"), "queue/invalid-transition")
		removed, err := s.Retain(t.Context())
		require.NoError(t, err)
		assert.Zero(t, removed.Runs)

		require.NoError(t, s.Close()) // as a crash does, the end of the host leaves it open
		s = on.openAt(t, dir)
		open, err := s.Unfinished(t.Context())
		require.NoError(t, err)
		require.Len(t, open, 1)
		resumed, ok := open[0].Last.Body.(*journal.RunResumed)
		require.True(t, ok)
		assert.True(t, resumed.Reopens())
		follow := s.Follow("run_1", 0)
		appendAll(t, s, sc.step(nothing, textOf(2, 400))...)
		appendAll(t, s, sc.failed(), sc.reopened())
		appendAll(t, s, sc.finished(textOf(3, 400)))
		require.NoError(t, s.Sync(t.Context(), "run_1"))
		var kinds []journal.Kind
		for {
			rec, ok, err := follow.Next(t.Context())
			require.NoError(t, err)
			if !ok {
				break
			}
			kinds = append(kinds, rec.Body.Kind())
		}
		assert.Equal(t, journal.KindRunFinished, kinds[len(kinds)-1])
		assert.Len(t, kinds, 11, "a reader who follows an open run reads over the failure in it")
		s.Drop("run_1")
		run, err = s.Run(t.Context(), "run_1")
		require.NoError(t, err)
		assert.Equal(t, "completed 3 11", run.State+" "+edn.Int(int64(run.Epoch)).String()+" "+edn.Int(int64(run.Records)).String())
		assert.NotZero(t, run.Finished)
		assert.Empty(t, run.Error)
		id, err := s.Keyed(t.Context(), someSum)
		require.NoError(t, err)
		assert.Equal(t, "run_1", id)
		require.NoError(t, s.Verify(t.Context(), "run_1"))

		var file bytes.Buffer
		require.NoError(t, s.Export(t.Context(), "run_1", &file))
		to := on.openAt(t, t.TempDir())
		_, err = to.Import(t.Context(), &file)
		require.NoError(t, err)
		require.NoError(t, to.Verify(t.Context(), "run_1"))
	})
}

// RUN-022: a run that completed, was imported or purged is not reopened; nor is one that
// is purged before the record is written.
func TestNotReopened(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		of := func(run string, records func(*script) []journal.Record) *script {
			sc := newScript(run)
			appendAll(t, s, records(sc)...)
			require.NoError(t, s.Sync(t.Context(), run))
			s.Drop(run)
			return sc
		}
		failing := func(sc *script) []journal.Record {
			return []journal.Record{sc.accepted(textOf(1, 300)), sc.failed()}
		}
		completed := of("completed", func(sc *script) []journal.Record { return sc.whole(1) })
		typed(t, s.Append(t.Context(), completed.reopened()), "run/not-resumable")

		purged := of("purged", failing)
		require.NoError(t, s.Purge(t.Context(), "purged"))
		typed(t, s.Append(t.Context(), purged.reopened()), "replay/values-purged")

		imported := of("imported", failing)
		var file bytes.Buffer
		require.NoError(t, s.Export(t.Context(), "imported", &file))
		to := on.openAt(t, t.TempDir())
		_, err := to.Import(t.Context(), &file)
		require.NoError(t, err)
		typed(t, to.Append(t.Context(), imported.reopened()), "run/not-resumable")

		racing := of("racing", failing)
		row, err := readRun(t.Context(), s.read, "racing")
		require.NoError(t, err)
		require.NoError(t, s.change(t.Context(), func(ctx context.Context) error { // before the writer takes the record
			require.NoError(t, s.Append(ctx, racing.reopened()), "it is not purged yet")
			_, err := s.write.exec(ctx, "mark_purged", row.n, nanos(now()))
			return err
		}))
		typed(t, s.Sync(t.Context(), "racing"), "replay/values-purged")
		require.NoError(t, s.Err())
		after, err := readRun(t.Context(), s.read, "racing")
		require.NoError(t, err)
		assert.Equal(t, row.Records, after.Records)
		require.NoError(t, s.Verify(t.Context(), "racing"))
	})
}

// JRN-030: a reopened run that loses records behind its first end is suspended, as every
// run that was cut: what it did since then is not known.
func TestRepairOfAReopenedRun(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(textOf(1, 300)), sc.failed(), sc.reopened())
	appendAll(t, s, sc.step(nothing, textOf(2, 400))...)
	appendAll(t, s, sc.finished(textOf(3, 400)))
	require.NoError(t, s.Sync(t.Context(), "run_1"))
	require.NoError(t, s.Close())
	tamper(t, dir, "DELETE FROM records WHERE id = (1 << 32) | 3")
	got := repair(t, dir, false)
	require.Len(t, got.Damaged, 1)
	assert.Equal(t, "suspended", got.Damaged[0].State)
	assert.True(t, got.Damaged[0].Halted)

	s = openAt(t, dir)
	require.NoError(t, s.Verify(t.Context(), "run_1"))
	past := journal.NewHistory(recordsOf(t, s, "run_1"))
	require.NotNil(t, past.Suspended)
	assert.False(t, past.Finished)
	assert.Equal(t, "journal/damaged", past.Suspended.Why)
	next := newScript("run_1")
	next.seq, next.epoch, next.at = past.Last, past.Epoch+1, sc.at
	appendAll(t, s, next.record(&journal.RunResumed{
		Host: "here", Boot: "3", Config: someSum, Was: someSum, Why: journal.ResumedDecision,
	}))
	require.NoError(t, s.Sync(t.Context(), "run_1"))
}
