package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// leftBehind makes a directory as a killed process leaves it: with a finished and an open run, the
// last records of which are in the log only.
func leftBehind(t *testing.T) string {
	dir := t.TempDir()
	s := openAt(t, dir)
	done := newScript("run_1")
	appendAll(t, s, done.whole(1)...)
	require.NoError(t, s.Sync(t.Context(), "run_1"))
	checkpoint(t, s)
	open := newScript("run_2")
	appendAll(t, s, open.accepted(nothing))
	require.NoError(t, s.Sync(t.Context(), "run_2"))
	checkpoint(t, s)
	appendAll(t, s, open.record(&journal.CancelRequested{By: "a"}))
	require.NoError(t, s.Sync(t.Context(), "run_2"))
	killed := t.TempDir()
	for _, name := range []string{"ferment.db", "ferment.db-wal", markName} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(killed, name), text, 0o600))
	}
	return killed
}

// JRN-030: a directory that had a database does not begin an empty one, or one without the end of
// its log, unless a repair says so.
func TestLostDatabase(t *testing.T) {
	for name, row := range map[string]struct {
		lose func(dir string) error
		runs int // that a repair keeps
	}{
		"nothing":   {func(string) error { return nil }, -1},
		"file":      {func(dir string) error { return os.Remove(filepath.Join(dir, "ferment.db")) }, 2},
		"all files": {func(dir string) error { return removeAll(dir, "ferment.db", "ferment.db-wal") }, 0},
		"empty": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ferment.db"), nil, 0o600)
		}, 2},
		"log": {func(dir string) error { return os.Remove(filepath.Join(dir, "ferment.db-wal")) }, 2},
		"empty log": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "ferment.db-wal"), 0)
		}, 2},
		"foreign": {func(dir string) error {
			if err := removeAll(dir, "ferment.db", "ferment.db-wal"); err != nil {
				return err
			}
			return foreignDatabase(filepath.Join(dir, "ferment.db"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := leftBehind(t)
			require.NoError(t, row.lose(dir))
			if row.runs < 0 {
				require.NoError(t, openAt(t, dir).Close())
				return
			}
			for range 2 { // an attempt changes nothing
				_, err := tryOpen(t, dir)
				typed(t, err, "journal/damaged")
				var damage *Damage
				require.ErrorAs(t, err, &damage)
				assert.True(t, damage.Lost, damage.What)
			}
			options := Options{Path: filepath.Join(dir, "ferment.db"), Now: now}
			assert.False(t, options.Unused())
			_, err := Migrate(t.Context(), options, -1, false, true)
			typed(t, err, "journal/damaged")

			got, err := Repair(t.Context(), options, false)
			require.NoError(t, err)
			assert.False(t, got.Sound())
			s := openAt(t, dir)
			all, err := s.Runs(t.Context(), Filter{})
			require.NoError(t, err)
			if name == "log" || name == "empty log" {
				require.Len(t, all, 2)
				for _, run := range all {
					assert.NotEqual(t, stateOpen, run.State, "what it did after its last record is not known")
				}
			}
			if row.runs == 0 {
				assert.Empty(t, all)
			}
		})
	}
}

func removeAll(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func foreignDatabase(path string) error {
	db, err := openSQLite(context.Background(), path, true)
	if err != nil {
		return err
	}
	if _, err = db.conn.ExecContext(context.Background(), "CREATE TABLE other (n INTEGER)"); err != nil {
		return err
	}
	return db.close()
}

// An older copy of a database does not pass for the database that was left. A program that reads
// the database after a crash, and so empties its log, does no harm.
func TestOlderCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ferment.db")
	fill := func(run string) {
		s := openAt(t, dir)
		appendAll(t, s, newScript(run).whole(1)...)
		require.NoError(t, s.Sync(t.Context(), run))
		require.NoError(t, s.Close())
	}
	fill("run_1")
	older, err := os.ReadFile(path)
	require.NoError(t, err)
	fill("run_2")
	require.NoError(t, os.WriteFile(path, older, 0o600))
	_, err = tryOpen(t, dir)
	typed(t, err, "journal/damaged")

	dir = leftBehind(t)
	db, err := openSQLite(t.Context(), filepath.Join(dir, "ferment.db"), true)
	require.NoError(t, err)
	require.NoError(t, db.close())
	require.NoFileExists(t, filepath.Join(dir, "ferment.db-wal"))
	require.NoError(t, openAt(t, dir).Close())
}

// A first start that was cut off at any point leaves nothing that looks like a lost journal.
func TestFirstStartCutOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ferment.db")
	assert.True(t, Options{Path: path}.Unused())
	assert.False(t, Options{Path: path, Used: true}.Unused())
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, openAt(t, dir).Close())

	dir = t.TempDir()
	db, err := openSQLite(t.Context(), filepath.Join(dir, "ferment.db"), true)
	require.NoError(t, err)
	require.NoError(t, db.close())
	s := openAt(t, dir)
	require.NoFileExists(t, filepath.Join(dir, markName), "nothing was written")
	require.NoError(t, s.Probe(t.Context()))
	require.FileExists(t, filepath.Join(dir, markName))
	require.NoError(t, s.Close())
}
