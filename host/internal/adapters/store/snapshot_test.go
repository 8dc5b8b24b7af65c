package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// copyOf writes a snapshot of an open store with its files into a new directory, and
// returns the database of it.
func copyOf(t *testing.T, s *Store) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ferment.db")
	require.NoError(t, s.Snapshot(context.Background(), path))
	x, err := OpenSnapshot(context.Background(), path)
	require.NoError(t, err)
	files, err := x.Files(context.Background())
	require.NoError(t, err)
	for _, name := range files {
		body, err := os.ReadFile(filepath.Join(s.blobs.dir, name))
		require.NoError(t, err)
		to := filepath.Join(filepath.Dir(path), "blobs", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.WriteFile(to, body, 0o600))
	}
	require.NoError(t, x.Close())
	return path
}

// OPS-008: a snapshot of a store in use is the state between two commits: every run of
// it verifies, and it changes no file that it reads.
func TestSnapshotWhileWriting(t *testing.T) {
	s := openAt(t, t.TempDir())
	var writers sync.WaitGroup
	halfway, half := make(chan struct{}), sync.Once{}
	for n := range 8 {
		writers.Go(func() {
			for k := range 10 {
				sc := newScript(fmt.Sprintf("run_%d_%d", n, k))
				all := sc.whole(2)
				if k%5 == 4 {
					all = append(all[:1:1], newScriptAt(sc, 1).step(large(n*10+k), textOf(k, 400))...)
				}
				for _, r := range all {
					assert.NoError(t, s.Append(context.Background(), r))
				}
				assert.NoError(t, s.Sync(context.Background(), sc.run))
				if k == 5 {
					half.Do(func() { close(halfway) })
				}
			}
		})
	}
	<-halfway
	path := copyOf(t, s)
	writers.Wait()
	before, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	x, err := OpenSnapshot(context.Background(), path)
	require.NoError(t, err)
	damage, err := x.Verify(context.Background())
	require.NoError(t, err)
	assert.Empty(t, damage)
	p, err := x.Position(context.Background())
	require.NoError(t, err)
	assert.Positive(t, p.Runs)
	assert.Positive(t, p.Records)
	require.NoError(t, x.Close())
	after, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, after, len(before), "no log is left beside a file that is only read")
}

// newScriptAt continues a script after a number of records.
func newScriptAt(sc *script, seq int) *script {
	return &script{run: sc.run, epoch: sc.epoch, seq: seq, at: sc.at}
}

// OPS-008: damage of a copy is found, also in a file beside it.
func TestSnapshotFindsDamage(t *testing.T) {
	dir := filled(t)
	s := openAt(t, dir)
	for name, spoil := range map[string]func(t *testing.T, path string){
		"a value that is missing": func(t *testing.T, path string) {
			files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "blobs", "??", "*"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			require.NoError(t, os.Remove(files[0]))
		},
		"a page": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, pageSize), 2*pageSize)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, s)
			spoil(t, path)
			x, err := OpenSnapshot(context.Background(), path)
			var d *Damage
			if err != nil {
				require.ErrorAs(t, err, &d)
				return
			}
			damage, err := x.Verify(context.Background())
			if err != nil {
				require.ErrorAs(t, err, &d)
			} else {
				assert.NotEmpty(t, damage)
			}
			require.NoError(t, x.Close())
		})
	}
}

// OPS-008: a run that is open in a copy is suspended before anything can continue it,
// and still verifies.
func TestSuspendOpen(t *testing.T) {
	s := openAt(t, filled(t))
	n, err := s.SuspendOpen(context.Background(), "run/restored")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	open, err := s.Unfinished(context.Background())
	require.NoError(t, err)
	assert.Empty(t, open)
	run, err := s.Run(context.Background(), "run_3")
	require.NoError(t, err)
	assert.Equal(t, []string{"suspended", "run/restored"}, []string{run.State, run.Error})
	require.NoError(t, s.Verify(context.Background(), "run_3"))
	p, err := s.Position(context.Background())
	require.NoError(t, err)
	assert.Equal(t, Position{Runs: 3, Suspended: 1, Records: p.Records, Bytes: p.Bytes, Last: "run_3", Schema: p.Schema}, p)
}

// OPS-008, JRN-030: a database with damaged pages cannot be copied, and the error says that
// the database is damaged: neither space nor another attempt helps.
func TestSnapshotOfADamagedDatabase(t *testing.T) {
	dir := filled(t)
	s := openAt(t, dir)
	checkpoint(t, s)
	f, err := os.OpenFile(filepath.Join(dir, "ferment.db"), os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0x55}, int(info.Size())-pageSize), pageSize)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	typed(t, s.Snapshot(context.Background(), filepath.Join(t.TempDir(), "copy.db")), "journal/damaged")
}
