package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

var errDisk = errors.New("the disk is broken")

// JRN-005: each failed write, sync, rename and commit ends the store: it says so
// once, nothing waits for ever, and what was acknowledged is there afterwards.
func TestFailedWritesAreFinal(t *testing.T) {
	for _, op := range []string{"begin", "commit", "blob/write", "blob/sync", "blob/rename", "blob/dir"} {
		t.Run(op, func(t *testing.T) {
			dir := t.TempDir()
			var broken atomic.Bool
			s := openAt(t, dir, func(o *Options) {
				o.Faults.Before = func(at string) error {
					if at == op && broken.Load() {
						return errDisk
					}
					return nil
				}
			})
			sc := newScript("run_1")
			appendAll(t, s, sc.accepted(large(1)))
			require.NoError(t, s.Sync(context.Background(), "run_1"))
			broken.Store(true)
			lost := sc.record(&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Usage: usage, Result: journal.RefTo(large(2)), ResultType: "value"})
			appendAll(t, s, lost)
			typed(t, s.Sync(context.Background(), "run_1"), "journal/unavailable")
			<-s.Failed()
			require.ErrorIs(t, s.Err(), errDisk)
			broken.Store(false)
			typed(t, s.Append(context.Background(), sc.record(&journal.CancelRequested{By: "a"})), "journal/unavailable")
			typed(t, s.Append(context.Background(), newScript("run_2").accepted(nothing)), "journal/unavailable")
			typed(t, s.Sync(context.Background(), "run_1"), "journal/unavailable")
			typed(t, s.Pin(context.Background(), "run_1"), "journal/unavailable")
			require.NoError(t, s.Close())

			s = openAt(t, dir)
			stored, err := s.Bytes(context.Background(), "run_1", 0, 10)
			require.NoError(t, err)
			assert.Len(t, stored, 1, "what was not acknowledged is not there")
			require.NoError(t, s.Verify(context.Background(), "run_1"))
			_, err = s.Retain(context.Background())
			require.NoError(t, err)
			files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
			require.NoError(t, err)
			assert.Len(t, files, 1, "a file without a value is swept")
		})
	}
}

// JRN-020: a process that ends between a rename and the sync of the folder leaves a file
// that the next one makes durable before a record names it. Folders are synced at the
// start.
func TestFoldersOfAnEarlierProcessAreSynced(t *testing.T) {
	synced := 0
	options := Options{Path: filepath.Join(t.TempDir(), "ferment.db"), Faults: Faults{Before: func(op string) error {
		if op == "blob/dir" {
			synced++
		}
		return nil
	}}}
	b, err := openBlobs(options)
	require.NoError(t, err)
	assert.Equal(t, 1, synced, "folders of an earlier process")
	body := []byte("a body")
	require.NoError(t, b.write(sum{1}, body))
	assert.Equal(t, 3, synced, "a new folder and the file in it")
	require.NoError(t, b.write(sum{1}, body))
	assert.Equal(t, 4, synced, "a file of an earlier process")
	require.NoError(t, b.close())
}

// JRN-008: a commit does not wait for a checkpoint that is under way.
func TestCommitsDoNotAwaitCheckpoints(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s := openAt(t, t.TempDir(), func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == "checkpoint" {
				first.Do(func() {
					close(begun)
					<-end
				})
			}
			return nil
		}
	})
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing))
	write := func(i int) {
		appendAll(t, s, sc.step(textOf(i, maxRow/2), textOf(-i, maxRow/2))...)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
	}
	for i, under := 1, false; !under; i++ {
		write(i)
		select {
		case <-begun:
			under = true
		default:
		}
	}
	write(0)
	close(end)
}

// JRN-005: a failed checkpoint is a failed sync.
func TestFailedCheckpointIsFinal(t *testing.T) {
	s := openAt(t, t.TempDir(), func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == "checkpoint" {
				return errDisk
			}
			return nil
		}
	})
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing))
	for i := range 20 {
		for _, r := range sc.step(textOf(i, maxRow-2000), textOf(-i, maxRow-2000)) {
			if err := s.Append(context.Background(), r); err != nil { // a checkpoint has failed meanwhile
				require.ErrorIs(t, err, errDisk)
				break
			}
		}
	}
	<-s.Failed()
	require.ErrorIs(t, s.Err(), errDisk)
}

// JRN-008: the log is copied behind the commits, so it does not grow with what is
// written.
func TestCheckpointsRunBehindCommits(t *testing.T) {
	var checkpoints atomic.Int32
	s := openAt(t, t.TempDir(), func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == "checkpoint" {
				checkpoints.Add(1)
			}
			return nil
		}
	})
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing))
	for i := range 100 {
		appendAll(t, s, sc.step(textOf(i, maxRow/2), textOf(-i, maxRow/2))...)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
	}
	assert.Positive(t, checkpoints.Load())
	assert.Less(t, lite(s).walSize(), int64(walCut))
	checkpoint(t, s)
	assert.Zero(t, lite(s).walSize())
	assert.Zero(t, lite(s).walBehind())
}

// JRN-008: the log is started over in its place although records are appended while it
// is copied: the last pages are copied between two commits.
func TestLogStartsOver(t *testing.T) {
	ctx := context.Background()
	db, err := openSQLite(ctx, filepath.Join(t.TempDir(), "log.db"), false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.close()) })
	write := func(bytes int) {
		_, err := db.conn.ExecContext(ctx, "INSERT INTO t (body) VALUES (?)", make([]byte, bytes))
		require.NoError(t, err)
	}
	_, err = db.conn.ExecContext(ctx, "CREATE TABLE t (body BLOB)")
	require.NoError(t, err)
	write(walCopy)
	reader, err := db.pool.BeginTx(ctx, nil) // what is appended after its begin is not copied before its end
	require.NoError(t, err)
	var n int
	require.NoError(t, reader.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	write(pageSize)
	calls := 0
	require.NoError(t, db.upkeep(ctx, false, func(do func(context.Context) error) error {
		calls++
		assert.Positive(t, db.walBehind())
		assert.LessOrEqual(t, db.walBehind(), int64(walRest))
		require.NoError(t, reader.Rollback())
		return do(ctx)
	}))
	assert.Equal(t, 1, calls)
	assert.Zero(t, db.walBehind())
	size := db.walSize()
	write(walCopy / 2)
	assert.Equal(t, size, db.walSize(), "the blocks of the file are used again")

	require.NoError(t, db.upkeep(ctx, false, func(func(context.Context) error) error {
		calls++
		return nil
	}))
	assert.Equal(t, 1, calls, "the log is too short for a checkpoint")
}

// JRN-006: below the minimum of free space new runs are rejected and running ones
// go on; the reserve is released when the rest is nearly gone, and taken back.
func TestLowSpaceRejectsNewRuns(t *testing.T) {
	dir := t.TempDir()
	var free atomic.Uint64
	free.Store(10 << 30)
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	s := openAt(t, dir, func(o *Options) {
		o.Now = func() time.Time { return at }
		o.Limits.MinFree = 512 << 20
		o.Faults.Free = func() (uint64, error) { return free.Load(), nil }
	})
	look := func(bytes uint64) {
		free.Store(bytes)
		require.NoError(t, s.queue.run(context.Background(), func(context.Context) error { s.checkSpace(); return nil }))
	}
	reserved := func() bool {
		info, err := os.Stat(filepath.Join(dir, reserveName))
		return err == nil && info.Size() == reserveSize
	}
	running := newScript("run_1")
	appendAll(t, s, running.accepted(nothing))
	assert.False(t, s.Full())
	assert.True(t, reserved())

	look(400 << 20)
	assert.True(t, s.Full())
	assert.Equal(t, at, s.Since())
	assert.True(t, reserved())
	typed(t, s.Append(context.Background(), newScript("run_2").accepted(nothing)), "journal/full")
	appendAll(t, s, running.step(textOf(1, 300), textOf(2, 300))...)
	look(10 << 20)
	assert.False(t, reserved())
	assert.Equal(t, at, s.Since(), "since it became full")
	appendAll(t, s, running.finished(nothing))
	require.NoError(t, s.Sync(context.Background(), "run_1"))

	look(520 << 20)
	assert.False(t, s.Full())
	assert.Zero(t, s.Since())
	assert.False(t, reserved(), "there is no room for it yet")
	appendAll(t, s, newScript("run_2").accepted(nothing))
	look(10 << 30)
	assert.True(t, reserved())
}

// JRN-006: with less free space than twice the reserve it is not taken: the next look would
// release it.
func TestReserveIsNotTakenInVain(t *testing.T) {
	dir := t.TempDir()
	held := func() bool {
		_, err := os.Stat(filepath.Join(dir, reserveName))
		return err == nil
	}
	const space = 120 << 20 // with the reserve
	s := openAt(t, dir, func(o *Options) {
		o.Limits.MinFree = 1 << 20
		o.Faults.Free = func() (uint64, error) {
			if held() {
				return space - reserveSize, nil
			}
			return space, nil
		}
	})
	for range 4 {
		assert.False(t, held())
		assert.False(t, s.Full())
		require.NoError(t, s.queue.run(t.Context(), func(context.Context) error { s.checkSpace(); return nil }))
	}
}

// OPS-002: a database has one Store.
func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	_, err := tryOpen(t, dir)
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	require.NoError(t, s.Close())
	again := openAt(t, dir)
	require.NoError(t, again.Close())
	require.NoError(t, again.Close(), "closing twice is harmless")
	typed(t, again.Append(context.Background(), newScript("run_1").accepted(nothing)), "journal/unavailable")
}

// OPS-002: a file on a network file system is opened only if that is allowed, by
// whatever opens it.
func TestNetworkFileSystemIsRefused(t *testing.T) {
	dir := filled(t)
	options := onFile.options(t, dir)
	options.Faults.Network = func(of string) (string, error) {
		assert.Equal(t, filepath.Join(dir, "blobs"), of)
		return "nfs4", nil
	}
	for name, open := range map[string]func() error{
		"open":    func() error { _, err := Open(t.Context(), options); return err },
		"migrate": func() error { _, err := Migrate(t.Context(), options, -1, false, true); return err },
		"repair":  func() error { _, err := Repair(t.Context(), options, true); return err },
	} {
		var refused *NetworkError
		require.ErrorAs(t, open(), &refused, name)
		assert.Equal(t, &NetworkError{Path: options.Path, FileSystem: "nfs4"}, refused, name)
	}
	options.Faults.Network = func(string) (string, error) { return "", errDisk }
	_, err := Open(t.Context(), options)
	require.ErrorIs(t, err, errDisk, "a file system that is not known")

	options.AllowNetworkFS = true
	s, err := Open(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, openAt(t, dir).Close(), "the disk of this test is local")
}

// Files of the store are private.
func TestFilesArePrivate(t *testing.T) {
	dir := filled(t)
	require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if name != dir {
			assert.Zero(t, info.Mode().Perm()&0o077, name)
		}
		return nil
	}))
}

// JRN-003: durability is full, and can be given up for tests only by saying so.
func TestDurabilityIsFull(t *testing.T) {
	for want, noSync := range map[int]bool{2: false, 0: true} {
		s := openAt(t, t.TempDir(), func(o *Options) { o.NoSync = noSync })
		var got int
		var mode string
		require.NoError(t, s.queue.run(context.Background(), func(ctx context.Context) error {
			require.NoError(t, s.db.writer().QueryRowContext(ctx, "PRAGMA synchronous").Scan(&got))
			return s.db.writer().QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
		}))
		assert.Equal(t, want, got)
		assert.Equal(t, "wal", mode)
		var trusted int
		require.NoError(t, s.db.readers().QueryRow("PRAGMA trusted_schema").Scan(&trusted))
		assert.Zero(t, trusted)
	}
}

// OPS-005: a probe ends while the writer works, and does not while a commit hangs.
func TestProbeOfAHangingDisk(t *testing.T) {
	hangs, entered := make(chan struct{}), make(chan struct{}, 1)
	var on atomic.Bool
	s := openAt(t, t.TempDir(), func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == "commit" && on.Load() {
				entered <- struct{}{}
				<-hangs
			}
			return nil
		}
	})
	require.NoError(t, s.Probe(context.Background()))
	on.Store(true)
	first := newScript("run_1").accepted(nothing)
	require.NoError(t, s.Append(context.Background(), first))
	<-entered
	probed := make(chan error, 1)
	go func() { probed <- s.Probe(context.Background()) }()
	on.Store(false)
	select {
	case err := <-probed:
		t.Fatalf("the probe has ended while the commit hangs: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(hangs)
	require.NoError(t, <-probed)
	require.NoError(t, s.Sync(context.Background(), "run_1"))
}
