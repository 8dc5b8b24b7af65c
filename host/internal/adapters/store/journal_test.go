package store

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// SES-030: one suite for every journal. Records come back as they were written,
// in order, to readers that follow and to readers that come later.
func TestJournalKeepsRecordsInOrder(t *testing.T) {
	each(t, func(t *testing.T, j act.Journal) {
		s := newScript("run_1")
		records := s.whole(3)
		cursor := j.Follow("run_1", 0)
		var followed []journal.Record
		var done sync.WaitGroup
		done.Go(func() {
			for {
				r, ok, err := cursor.Next(context.Background())
				if !ok || err != nil {
					return
				}
				followed = append(followed, r)
			}
		})
		appendAll(t, j, records...)
		syncRun(t, j, "run_1")
		done.Wait()
		assert.Equal(t, texts(records), texts(followed))
		assert.Equal(t, texts(records), texts(recordsOf(t, j, "run_1")))
		late := j.Follow("run_1", 2)
		j.Drop("run_1")
		r, ok, err := late.Next(context.Background())
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, 3, r.Seq)
	})
}

// SES-030: an invalid record, a gap and a record after the end are rejected.
func TestJournalRejects(t *testing.T) {
	each(t, func(t *testing.T, j act.Journal) {
		s := newScript("run_1")
		first := s.accepted(nothing)
		second := s.record(&journal.CancelRequested{By: "uid/7"})
		ctx := context.Background()
		typed(t, j.Append(ctx, journal.Record{Run: "run_1", Seq: 1, At: start, Epoch: 1}), "runtime/internal")
		typed(t, j.Append(ctx, second), "runtime/internal")
		appendAll(t, j, first, second, s.finished(nothing))
		assert.Error(t, j.Append(ctx, s.record(&journal.CancelRequested{By: "uid/7"})))
		syncRun(t, j, "run_1")
		assert.Len(t, recordsOf(t, j, "run_1"), 3)
	})
}

// JRN-002: the records of many writers share commits, and Sync returns after the
// commit of what was appended before it.
func TestStoreGroupsCommits(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		const writers, steps = 16, 10
		s := on.openAt(t, t.TempDir())
		before := s.writer.commits
		var done sync.WaitGroup
		for n := range writers {
			done.Go(func() {
				run := fmt.Sprintf("run_%02d", n)
				sc := newScript(run)
				log := s.Open(run)
				assert.NoError(t, log.Append(context.Background(), sc.accepted(nothing)))
				for i := range steps {
					for _, r := range sc.step(textOf(i, 300), textOf(n, 300)) {
						assert.NoError(t, log.Append(context.Background(), r))
					}
					assert.NoError(t, s.Sync(context.Background(), run))
					stored, err := s.Bytes(context.Background(), run, 0, 1000)
					assert.NoError(t, err)
					assert.Len(t, stored, 1+5*(i+1), "durable after Sync")
				}
			})
		}
		done.Wait()
		require.NoError(t, s.queue.run(context.Background(), func(context.Context) error { // the writer is idle
			assert.Less(t, s.writer.commits-before, int64(writers*steps), "commits are shared between writers")
			return nil
		}))
		damage, err := s.VerifyAll(context.Background())
		require.NoError(t, err)
		assert.Empty(t, damage)
	})
}

// JRN-004: what no barrier waits for shares the commit of the next barrier, so a
// run with one barrier commits once.
func TestStoreCommitsOncePerBarrier(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		s.queue.mu.Lock()
		s.queue.delay = time.Hour
		s.queue.mu.Unlock()
		appendAll(t, s, newScript("run_1").whole(5)...)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		assert.EqualValues(t, 1, s.writer.commits)
	})
}

// JRN-004, JRN-002: a reader never sees what is not durable, and Sync waits for
// it.
func TestStoreShowsDurableRecordsOnly(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		hold, held := make(chan struct{}), make(chan struct{})
		s := on.openAt(t, t.TempDir(), func(o *Options) {
			o.Faults.Before = func(op string) error {
				if op == "commit" {
					held <- struct{}{}
					<-hold
				}
				return nil
			}
		})
		sc := newScript("run_1")
		cursor := s.Follow("run_1", 0)
		appendAll(t, s, sc.accepted(nothing))
		<-held
		assert.Len(t, recordsOf(t, s, "run_1"), 1, "the writer of the run sees its own records")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, err := cursor.Next(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, s.Sync(ctx, "run_1"), context.Canceled)
		close(hold)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		r, ok, err := cursor.Next(context.Background())
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, 1, r.Seq)
		assert.NoError(t, s.Sync(context.Background(), "run_unknown"))
	})
}

// JRN-002: a slow disk blocks the callers instead of filling the memory.
func TestStoreQueueIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		hold, held := make(chan struct{}), make(chan struct{}, 10)
		s := on.openAt(t, t.TempDir(), func(o *Options) {
			o.QueueBytes = 3 * firstWeight
			o.Faults.Before = func(op string) error {
				if op == "commit" {
					held <- struct{}{}
					<-hold
				}
				return nil
			}
		})
		sc := newScript("run_1")
		appendAll(t, s, sc.accepted(nothing))
		<-held
		for range 3 {
			appendAll(t, s, sc.record(&journal.CancelRequested{By: "a"}))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Append(ctx, sc.record(&journal.CancelRequested{By: "b"})), context.DeadlineExceeded)
		close(hold)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
	})
}

// JRN-007: an append with an older epoch than the run has is rejected, also when
// the newer one was written by an earlier process. JRN-030: a higher epoch
// continues the run that a crash left open.
func TestStoreFencesOldEpochs(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		s := on.openAt(t, dir)
		sc := newScript("run_1")
		appendAll(t, s, sc.accepted(nothing))
		sc.epoch = 2
		appendAll(t, s, sc.record(&journal.RunStarted{Host: "h", Boot: "b", Config: someSum}))
		old := sc.record(&journal.CancelRequested{By: "a"})
		old.Epoch = 1
		typed(t, s.Append(context.Background(), old), "journal/fenced")
		require.NoError(t, s.Close())

		s = on.openAt(t, dir)
		open, err := s.Unfinished(context.Background())
		require.NoError(t, err)
		require.Len(t, open, 1)
		assert.Equal(t, "run_1", open[0].Run.ID)
		assert.Equal(t, 2, open[0].Last.Seq)
		typed(t, s.Append(context.Background(), old), "journal/fenced")
		sc.seq, sc.epoch = 2, 3
		appendAll(t, s, sc.record(&journal.RunStarted{Host: "h", Boot: "c", Config: someSum}), sc.finished(nothing))
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		require.NoError(t, s.Verify(context.Background(), "run_1"))
		run, err := s.Run(context.Background(), "run_1")
		require.NoError(t, err)
		assert.Equal(t, 3, run.Epoch)
		assert.Equal(t, 4, run.Records)
		assert.Len(t, recordsOf(t, s, "run_1"), 4)
		open, err = s.Unfinished(context.Background())
		require.NoError(t, err)
		assert.Empty(t, open)
	})
}

// JRN-044: a suspended run waits in the store for its decision: a start does not
// resume it, and nothing removes it. The decision opens it again.
func TestStoreKeepsSuspendedRuns(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		now := start.Add(time.Hour)
		options := func(o *Options) {
			o.Limits.Retain = Retention{Age: time.Hour}
			o.Now = func() time.Time { return now }
		}
		s := on.openAt(t, dir, options)
		sc := newScript("run_1")
		question := journal.Question{Path: edn.Vector(edn.Int(0)), Node: "c-01", Attempt: 1, CapID: "a/one", EffectKey: someSum}
		appendAll(t, s, sc.accepted(nothing))
		appendAll(t, s, sc.step(nothing, nothing)[:2]...)
		sc.seq = 3
		appendAll(t, s, sc.record(&journal.RunSuspended{Why: "effects/outcome-unknown", Open: []journal.Question{question}}))
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		state := func() (state, problem string, unfinished int) {
			run, err := s.Run(context.Background(), "run_1")
			require.NoError(t, err)
			assert.False(t, run.Ended())
			open, err := s.Unfinished(context.Background())
			require.NoError(t, err)
			return run.State, run.Error, len(open)
		}
		for range 2 {
			is, problem, unfinished := state()
			assert.Equal(t, "suspended", is)
			assert.Equal(t, "effects/outcome-unknown", problem)
			assert.Zero(t, unfinished)
			now = now.Add(time.Hour * 1000)
			removed, err := s.Retain(context.Background())
			require.NoError(t, err)
			assert.Zero(t, removed.Runs)
			typed(t, s.Purge(context.Background(), "run_1"), "queue/invalid-transition")
			typed(t, s.Export(context.Background(), "run_1", io.Discard), "queue/invalid-transition")
			require.NoError(t, s.Verify(context.Background(), "run_1"))
			require.NoError(t, s.Close())
			s = on.openAt(t, dir, options)
		}
		sc.epoch = 2
		appendAll(t, s, sc.record(&journal.RunResumed{Host: "h", Boot: "c", Config: someSum, Was: someSum, Why: journal.ResumedDecision,
			Decisions: []journal.Decision{{Path: question.Path, Choice: journal.DecisionRetry, By: "uid/7"}}}))
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		is, problem, unfinished := state()
		assert.Equal(t, []any{"open", "", 1}, []any{is, problem, unfinished})
		require.NoError(t, s.Verify(context.Background(), "run_1"))
		appendAll(t, s, sc.finished(nothing))
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		require.NoError(t, s.Verify(context.Background(), "run_1"))
		removed, err := s.Retain(context.Background())
		require.NoError(t, err)
		assert.Equal(t, 1, removed.Runs)
	})
}

// JRN-007: a run that was recorded already is not started again.
func TestStoreRefusesARunTwice(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		appendAll(t, s, newScript("run_1").whole(1)...)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		s.Drop("run_1")
		appendAll(t, s, newScript("run_1").accepted(nothing))
		typed(t, s.Sync(context.Background(), "run_1"), "journal/fenced")
		typed(t, s.Append(context.Background(), newScript("run_1").record(&journal.CancelRequested{By: "a"})), "runtime/internal")
		require.NoError(t, s.Verify(context.Background(), "run_1"))
		assert.NoError(t, s.Err(), "other runs go on")
	})
}

// JRN-020: a run without space for another record still has some for its end.
func TestRecordsThatEndARun(t *testing.T) {
	at := func(seq int, body journal.Body) error {
		return (&item{rec: journal.Record{Run: "run_a", Seq: seq, Body: body}}).check()
	}
	require.NoError(t, at(maxRecords-closingRecords, &journal.NodeSkipped{}))
	typed(t, at(maxRecords-closingRecords+1, &journal.NodeSkipped{}), "journal/too-large")
	require.NoError(t, at(maxRecords, &journal.RunFinished{}))
	typed(t, at(maxRecords+1, &journal.RunFinished{}), "journal/too-large")
}

// JRN-020: a record or a value above the limit is refused at once and alone: its run and the others
// go on.
func TestStoreLimitsRecords(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		a, b := newScript("run_a"), newScript("run_b")
		appendAll(t, s, a.accepted(nothing), b.accepted(nothing))
		before := *a
		typed(t, s.Append(context.Background(), a.record(&journal.CancelRequested{By: string(make([]byte, maxRecord))})), "journal/too-large")
		*a = before
		half := edn.Text(strings.Repeat("x", maxValue/2))
		typed(t, s.Append(context.Background(), a.finished(edn.MustMap(edn.K("a"), half, edn.K("b"), half))), "journal/too-large")
		*a = before
		appendAll(t, s, a.finished(nothing), b.finished(nothing))
		for _, run := range []string{"run_a", "run_b"} {
			require.NoError(t, s.Sync(context.Background(), run))
			require.NoError(t, s.Verify(context.Background(), run))
		}
	})
}

// A run that was dropped before its records were durable is written all the same,
// and its readers reach the end.
func TestStoreDropsAfterTheCommit(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		hold := make(chan struct{})
		s := on.openAt(t, t.TempDir(), func(o *Options) {
			o.Faults.Before = func(op string) error {
				if op == "commit" {
					<-hold
				}
				return nil
			}
		})
		cursor := s.Follow("run_1", 0)
		records := newScript("run_1").whole(1)
		appendAll(t, s, records...)
		s.Drop("run_1")
		close(hold)
		for range records {
			_, ok, err := cursor.Next(context.Background())
			require.NoError(t, err)
			require.True(t, ok)
		}
		_, ok, err := cursor.Next(context.Background())
		require.NoError(t, err)
		assert.False(t, ok)
		require.NoError(t, s.queue.run(context.Background(), func(context.Context) error { return nil }))
		assert.Empty(t, recordsOf(t, s.memory, "run_1"))
		assert.Equal(t, texts(records), texts(recordsOf(t, s, "run_1")))
		followed, ok, err := s.Follow("run_1", len(records)-1).Next(context.Background())
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, len(records), followed.Seq)
	})
}

// RUN-041: a reader that begins to follow a run while it ends reaches the end.
func TestStoreFollowsARunThatEnds(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for i := range 300 {
			run := fmt.Sprintf("run_%d", i)
			records := newScript(run).whole(1)
			appendAll(t, s, records...)
			require.NoError(t, s.Sync(ctx, run))
			var readers sync.WaitGroup
			for range 3 {
				readers.Go(func() {
					for live := true; live; {
						live = s.liveRun(run) != nil
						rec, ok, err := s.Follow(run, len(records)-1).Next(ctx)
						assert.NoError(t, err)
						assert.True(t, ok)
						assert.Equal(t, len(records), rec.Seq)
					}
				})
			}
			runtime.Gosched()
			s.Drop(run)
			readers.Wait()
		}
	})
}

// JRN-060: summaries are written with the records and can be selected.
func TestStoreSelectsRuns(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		for i := range 5 {
			sc := newScript(fmt.Sprintf("run_%d", i))
			sc.at = start.Add(time.Duration(i) * time.Minute)
			records := sc.whole(1)
			if i == 3 {
				records = records[:3]
			}
			if i%2 == 1 {
				records[0].Body.(*journal.RunAccepted).SessionID = "s"
			}
			if i < 2 {
				records[0].Body.(*journal.RunAccepted).Tenant = "lab"
			}
			appendAll(t, s, records...)
			require.NoError(t, s.Sync(context.Background(), sc.run))
		}
		for name, row := range map[string]struct {
			f    Filter
			want []string
		}{
			"all":       {Filter{}, []string{"run_4", "run_3", "run_2", "run_1", "run_0"}},
			"open":      {Filter{Status: "open"}, []string{"run_3"}},
			"completed": {Filter{Status: "completed", Limit: 2}, []string{"run_4", "run_2"}},
			"page":      {Filter{Before: "run_2"}, []string{"run_1", "run_0"}},
			"since":     {Filter{Since: start.Add(3 * time.Minute)}, []string{"run_4", "run_3"}},
			"until":     {Filter{Until: start.Add(time.Minute)}, []string{"run_0"}},
			"ever":      {Filter{Since: year(1), Until: year(9999)}, []string{"run_4", "run_3", "run_2", "run_1", "run_0"}},
			"too late":  {Filter{Since: year(2263)}, nil},
			"too early": {Filter{Until: year(1600)}, nil},
			"intent":    {Filter{Intent: "a/c"}, nil},
			"principal": {Filter{Principal: "uid/7", Limit: 1}, []string{"run_4"}},
			"session":   {Filter{Session: "s", Principal: "uid/7", Limit: 5}, []string{"run_3", "run_1"}},
			"no such":   {Filter{Session: "other"}, nil},
			"tenant":    {Filter{Tenant: "lab"}, []string{"run_1", "run_0"}},
			"both":      {Filter{Tenant: "lab", Session: "s"}, []string{"run_1"}},
			"no tenant": {Filter{Tenant: "shop"}, nil},
			"its page":  {Filter{Session: "s", Before: "run_3"}, []string{"run_1"}},
		} {
			runs, err := s.Runs(context.Background(), row.f)
			require.NoError(t, err)
			var got []string
			for _, r := range runs {
				got = append(got, r.ID)
			}
			assert.Equal(t, row.want, got, name)
		}
		for _, row := range []struct { // AUTH-004, AUTH-012
			reach Reach
			f     Filter
			want  []string
		}{
			{Reach{Tenant: "lab"}, Filter{}, []string{"run_1", "run_0"}},
			{Reach{Tenant: "shop"}, Filter{}, nil},
			{Reach{Principal: "uid/7"}, Filter{Limit: 1}, []string{"run_4"}},
			{Reach{Principal: "uid/8"}, Filter{}, nil},
			{Reach{Principal: "uid/7"}, Filter{Principal: "uid/8"}, nil},
			{Reach{Session: "s"}, Filter{}, []string{"run_3", "run_1"}},
			{Reach{Session: "s", Tenant: "lab", Principal: "uid/7"}, Filter{}, []string{"run_1"}},
			{Reach{Session: "s"}, Filter{Session: "other"}, nil},
		} {
			row.f.Reach = row.reach
			runs, err := s.Runs(context.Background(), row.f)
			require.NoError(t, err)
			var got []string
			for _, r := range runs {
				got = append(got, r.ID)
				is, err := s.InReach(context.Background(), r.ID, row.reach)
				require.NoError(t, err)
				assert.True(t, is, "%s in %+v", r.ID, row.reach)
			}
			assert.Equal(t, row.want, got, "%+v", row)
			is, err := s.InReach(context.Background(), "run_2", row.reach)
			require.NoError(t, err)
			assert.Equal(t, row.reach == Reach{Principal: "uid/7"}, is, "run_2 in %+v", row.reach)
		}
		run, err := s.Run(context.Background(), "run_0")
		require.NoError(t, err)
		assert.Equal(t, Run{
			ID:        "run_0",
			State:     "completed",
			Intent:    "a/b",
			Principal: "uid/7",
			Epoch:     1,
			Records:   7,
			Accepted:  start.Add(time.Millisecond),
			Finished:  start.Add(7 * time.Millisecond),
			Latency:   7 * time.Millisecond,
			Cost:      "0.25",
		}, run)
		_, err = s.Run(context.Background(), "run_9")
		typed(t, err, "run/not-found")
	})
}

// JRN-020: the values of stored records are read by their hash when they are
// asked for.
func TestStoreReadsValues(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		records := newScript("run_1").whole(2)
		appendAll(t, s, records...)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		read, err := s.Read(context.Background(), "run_1", 1, 2)
		require.NoError(t, err)
		require.Len(t, read, 2)
		request := read[1].Body.(*journal.AttemptStarted).Request
		assert.True(t, edn.Equal(textOf(0, 300), request.Value()))
		v, err := s.Value(context.Background(), request.Hash())
		require.NoError(t, err)
		assert.Equal(t, request.Hash(), edn.Hash(v))
		_, err = s.Value(context.Background(), edn.Hash(edn.Text("never stored")))
		typed(t, err, "replay/values-purged")
		_, err = s.Read(context.Background(), "run_2", 0, 1)
		typed(t, err, "run/not-found")
	})
}

// JRN-050, LED-005: a long run, whose records are decoded several at a time, is what its
// records are one by one; a reservation and its end are the same value in both.
func TestLongRunsAreDecodedTogether(t *testing.T) {
	s := openAt(t, t.TempDir())
	sc := newScript("run_1")
	records := []journal.Record{sc.accepted(nothing)}
	for i := range 3 * page / 7 {
		reserved := &journal.BudgetReserved{For: "attempt", Scopes: []string{"run"}, Amount: edn.MustRead(`{:usd 1M}`), Attempt: 1}
		records = append(records, sc.record(reserved))
		records = append(records, sc.step(textOf(i, 10), textOf(-i, 10))...)
		records = append(records, sc.record(&journal.BudgetSettled{Of: reserved, Amount: edn.MustRead(`{:usd 0.5M}`), Mark: "exact"}))
		reserved.SetSeq(records[len(records)-7].Seq)
	}
	appendAll(t, s, append(records, sc.finished(nothing))...)
	syncRun(t, s, sc.run)
	s.Drop(sc.run)

	together, err := s.Read(t.Context(), sc.run, 0, maxRecords)
	require.NoError(t, err)
	require.Greater(t, len(together), decodedTogether)
	decode := s.decoder()
	stored, err := s.Bytes(t.Context(), sc.run, 0, maxRecords)
	require.NoError(t, err)
	require.Len(t, stored, len(together))
	open := map[int]journal.Body{}
	for i, rec := range together {
		alone, err := decode(stored[i].Bytes)
		require.NoError(t, err)
		require.True(t, alone.Value().Equal(rec.Value()), "record %d", rec.Seq)
		switch body := rec.Body.(type) {
		case *journal.BudgetReserved:
			open[rec.Seq] = body
		case *journal.BudgetSettled:
			require.Same(t, open[rec.Seq-6], journal.Body(body.Of), "record %d", rec.Seq)
		}
	}
}

func year(n int) time.Time { return time.Date(n, 12, 31, 23, 59, 59, 0, time.UTC) }
