package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fillDisk makes the database refuse to grow, with the error that a full disk gives, and
// returns what takes that back.
func fillDisk(t *testing.T, s *Store) (free func()) {
	limit := func(pages int) {
		require.NoError(t, s.queue.run(context.Background(), func(ctx context.Context) error {
			_, err := s.db.writer().ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count=%d", pages))
			return err
		}))
	}
	limit(1) // the size of now
	return func() { limit(1 << 30) }
}

// largeAction is a record of the host that needs pages of its own.
func largeAction(n int) *journal.AdminAction {
	return &journal.AdminAction{Action: "admin/status", Principal: fmt.Sprintf("user/%d", n), OK: true,
		Input: edn.MustMap(edn.K("text"), textOf(n, 3*pageSize))}
}

// hostRecord appends a record of the host and waits for it.
func hostRecord(t *testing.T, s *Store, n int) error {
	wait, err := s.HostStream().Record(context.Background(), now(), largeAction(n))
	require.NoError(t, err)
	return wait(context.Background())
}

// JRN-006: a record of the host that a full disk does not take waits in memory: it does not
// end the store. With space, those that wait are written in their order.
func TestRecordsOfTheHostWaitForSpace(t *testing.T) {
	s := openAt(t, t.TempDir(), idleUpkeep)
	require.NoError(t, hostRecord(t, s, 1))
	free := fillDisk(t, s)
	for n := 2; n <= 4; n++ {
		typed(t, hostRecord(t, s, n), "journal/full")
	}
	require.NoError(t, s.Err())
	assert.True(t, s.Short())
	records, lost := s.Waiting()
	assert.Equal(t, [2]int{3, 0}, [2]int{records, lost})

	s.readmit() // the disk is still full
	require.NoError(t, s.Probe(context.Background()))
	records, _ = s.Waiting()
	assert.Equal(t, 3, records)
	assert.True(t, s.Short())

	free()
	s.readmit()
	require.NoError(t, hostRecord(t, s, 5))
	records, _ = s.Waiting()
	assert.Zero(t, records)
	assert.False(t, s.Short())
	page := hostPage(t, s.HostStream(), journal.ViewAudit, "", 10)
	var users []string
	for _, rec := range page.Records {
		users = append(users, rec.Body.(*journal.AdminAction).Principal)
	}
	var want []string
	for n := 1; n <= 5; n++ {
		want = append(want, largeAction(n).Principal)
	}
	assert.Equal(t, want, users)
	damage, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	assert.Empty(t, damage)
}

// JRN-006: what waits for space is bounded, and what is dropped is counted. The end of the
// store tries a last time to write it.
func TestWaitingRecordsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, idleUpkeep)
	s.queue.setShort()
	for n := range maxWaiting + 3 {
		wait, err := s.HostStream().Record(context.Background(), now(), denial(n))
		require.NoError(t, err)
		err = wait(context.Background())
		typed(t, err, "journal/full")
		if n < maxWaiting {
			require.ErrorContains(t, err, "waits in memory")
		} else {
			require.ErrorContains(t, err, "is dropped")
		}
	}
	records, lost := s.Waiting()
	assert.Equal(t, [2]int{maxWaiting, 3}, [2]int{records, lost})
	require.NoError(t, s.Close())

	s = openAt(t, dir)
	_, last, err := s.HostStream().Bounds(context.Background())
	require.NoError(t, err)
	assert.Equal(t, maxWaiting, last)
}

// JRN-006: records that come while an earlier one fails for want of space are written behind
// it, and before later ones; also when the reserve is released meanwhile.
func TestWaitingRecordsKeepTheirOrder(t *testing.T) {
	for name, short := range map[string]bool{"the write fails": false, "the reserve is released": true} {
		t.Run(name, func(t *testing.T) {
			var during atomic.Pointer[func()]
			s := openAt(t, t.TempDir(), idleUpkeep, atBegin(&during))
			free := fillDisk(t, s)
			var waits []func(context.Context) error
			record := func(n int) {
				wait, err := s.HostStream().Record(context.Background(), now(), largeAction(n))
				assert.NoError(t, err)
				waits = append(waits, wait)
			}
			do := func() {
				record(2)
				if short {
					s.queue.setShort()
					record(3)
				}
			}
			during.Store(&do)
			typed(t, hostRecord(t, s, 1), "journal/full")
			if !short {
				record(3)
			}
			for _, wait := range waits {
				typed(t, wait(context.Background()), "journal/full")
			}
			free()
			s.readmit()
			require.NoError(t, hostRecord(t, s, 4))
			var want []string
			for n := 1; n <= 4; n++ {
				want = append(want, largeAction(n).Principal)
			}
			var users []string
			for _, rec := range hostPage(t, s.HostStream(), journal.ViewAudit, "", 10).Records {
				users = append(users, rec.Body.(*journal.AdminAction).Principal)
			}
			assert.Equal(t, want, users)
		})
	}
}

// JRN-006: a record that was told to wait is not dropped for a later one that comes while it
// is tried again.
func TestWaitingRecordsKeepTheirPlace(t *testing.T) {
	var during atomic.Pointer[func()]
	s := openAt(t, t.TempDir(), idleUpkeep, atBegin(&during))
	free := fillDisk(t, s)
	s.queue.setShort()
	record := func(n int) error {
		wait, err := s.HostStream().Record(context.Background(), now(), denial(n))
		assert.NoError(t, err)
		return wait(context.Background())
	}
	for n := range maxWaiting {
		require.ErrorContains(t, record(n), "waits in memory")
	}
	do := func() {
		s.queue.setShort()
		assert.ErrorContains(t, record(maxWaiting), "is dropped")
	}
	during.Store(&do)
	s.readmit()
	require.NoError(t, s.Probe(context.Background()))
	require.Nil(t, during.Load())
	records, lost := s.Waiting()
	assert.Equal(t, [2]int{maxWaiting, 1}, [2]int{records, lost})
	free()
	s.readmit()
	require.NoError(t, s.Probe(context.Background()))
	records, lost = s.Waiting()
	assert.Equal(t, [2]int{0, 1}, [2]int{records, lost})
	all, err := s.HostStream().Read(context.Background(), journal.HostQuery{View: journal.ViewAudit, Limit: 2 * maxWaiting})
	require.NoError(t, err)
	require.Len(t, all, maxWaiting)
	for n, rec := range all {
		require.Equal(t, denial(n).User, rec.Body.(*journal.AuthEvent).User)
	}
}

// idleUpkeep keeps the upkeep of the store from trying again what waits for space.
func idleUpkeep(o *Options) { o.period = time.Hour }

// atBegin makes the next transaction call a function at its begin.
func atBegin(do *atomic.Pointer[func()]) func(*Options) {
	return func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == "begin" {
				if f := do.Swap(nil); f != nil {
					(*f)()
				}
			}
			return nil
		}
	}
}

// JRN-006: the record of a run that shares its commit with one of the host is written
// although that one is not: its transaction is tried again without it.
func TestRunsAreRecordedWithoutTheHost(t *testing.T) {
	s := openAt(t, t.TempDir(), idleUpkeep)
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing))
	require.NoError(t, s.Sync(context.Background(), sc.run))
	free := fillDisk(t, s)
	hold, held := make(chan struct{}), make(chan struct{})
	require.NoError(t, s.queue.post(&job{done: make(chan struct{}), do: func(context.Context) error {
		close(held)
		<-hold
		return nil
	}}))
	<-held // what follows is in one batch
	_, err := s.HostStream().Record(context.Background(), now(), largeAction(1))
	require.NoError(t, err)
	appendAll(t, s, sc.finished(nothing))
	close(hold)
	require.NoError(t, s.Sync(context.Background(), sc.run))
	require.NoError(t, s.Err())
	records, _ := s.Waiting()
	assert.Equal(t, 1, records)
	row, err := s.Run(context.Background(), sc.run)
	require.NoError(t, err)
	assert.True(t, row.Ended())
	free()
	s.readmit()
	require.NoError(t, s.Probe(context.Background()))
	require.NoError(t, s.Verify(context.Background(), sc.run))
	damage, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	assert.Empty(t, damage)
}

// JRN-006: a change that a full disk does not take is refused, and the next one is tried.
func TestChangesAreRefusedWithoutSpace(t *testing.T) {
	s := openAt(t, t.TempDir())
	free := fillDisk(t, s)
	large := func(ctx context.Context) error {
		_, err := s.db.writer().ExecContext(ctx, "CREATE TABLE large AS SELECT zeroblob(100000) AS b")
		return err
	}
	typed(t, s.change(context.Background(), large), "journal/full")
	require.NoError(t, s.Err())
	free()
	require.NoError(t, s.change(context.Background(), large))
}

// JRN-005: a record of a run that a full disk does not take ends the store, with the reason.
func TestARunWithoutSpaceEndsTheStore(t *testing.T) {
	s := openAt(t, t.TempDir())
	fillDisk(t, s)
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(textOf(1, 100_000)))
	typed(t, s.Sync(context.Background(), sc.run), "journal/unavailable")
	<-s.Failed()
	assert.True(t, isFull(errors.Unwrap(s.Err())))
}

// JRN-006: while only the rest of the reserve is left, the records of the host wait: requests
// without rights cause some, which must not take the space that running runs need.
func TestTheReserveIsNotForTheHost(t *testing.T) {
	var free atomic.Uint64
	free.Store(10 << 30)
	s := openAt(t, t.TempDir(), idleUpkeep, func(o *Options) {
		o.Limits.MinFree = 512 << 20
		o.Faults.Free = func() (uint64, error) { return free.Load(), nil }
	})
	look := func(bytes uint64) {
		require.NoError(t, s.queue.run(context.Background(), func(context.Context) error {
			free.Store(bytes)
			s.checkSpace()
			s.readmit()
			return nil
		}))
	}
	look(400 << 20)
	require.NoError(t, hostRecord(t, s, 1), "the reserve is there")
	look(10 << 20)
	typed(t, hostRecord(t, s, 2), "journal/full")
	look(10 << 20)
	assert.True(t, s.Short())
	look(10 << 30)
	require.NoError(t, hostRecord(t, s, 3))
	assert.False(t, s.Short())
}
