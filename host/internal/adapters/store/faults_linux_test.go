package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// JRN-006, JRN-005: on a really full disk the store ends, and everything that was
// acknowledged is there.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("needs the right to mount a file system")
	}
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	opts := Options{Path: filepath.Join(dir, "ferment.db")}
	s, err := Open(context.Background(), opts)
	require.NoError(t, err)
	acknowledged := map[string]int{}
	var mu sync.Mutex
	var done sync.WaitGroup
	for n := range 4 {
		done.Go(func() {
			sc := newScript(fmt.Sprintf("run_%d", n))
			seq := 0
			for i := 0; ; i++ {
				records := sc.step(textOf(i, 20_000), textOf(n*1000+i, 20_000))
				if i == 0 {
					sc.seq = 0
					records = append([]journal.Record{sc.accepted(nothing)}, sc.step(nothing, nothing)...)
				}
				for _, r := range records {
					if err := s.Append(context.Background(), r); err != nil {
						return
					}
					seq = r.Seq
				}
				if s.Sync(context.Background(), sc.run) != nil {
					return
				}
				mu.Lock()
				acknowledged[sc.run] = seq
				mu.Unlock()
			}
		})
	}
	done.Wait()
	<-s.Failed()
	require.NoError(t, s.Close())

	// With room again, the database opens.
	require.NoError(t, unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=200m"))
	s, err = Open(context.Background(), opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	damage, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	assert.Empty(t, damage)
	assert.NotEmpty(t, acknowledged)
	for run, seq := range acknowledged {
		got, err := s.Run(context.Background(), run)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, got.Records, seq, run)
	}
}

// JRN-006: a database that cannot be opened because the disk is full is not a defect of the
// host: the error says what to do.
func TestOpenOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("needs the right to mount a file system")
	}
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	name := filepath.Join(dir, "fill")
	fill, err := os.Create(name)
	require.NoError(t, err)
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, fill.Truncate(1<<20-100<<10)) // room for folders and the lock, not for the schema
	require.NoError(t, fill.Close())
	_, err = Open(context.Background(), Options{Path: filepath.Join(dir, "ferment.db")})
	typed(t, err, "journal/full")
}
