package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// replacements are what can happen to the files of an open database.
var replacements = map[string]func(t *testing.T, dir string){
	"removed":          func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "ferment.db"))) },
	"log removed":      func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "ferment.db-wal"))) },
	"replaced":         func(t *testing.T, dir string) { replaceFile(t, filepath.Join(dir, "ferment.db")) },
	"log replaced":     func(t *testing.T, dir string) { replaceFile(t, filepath.Join(dir, "ferment.db-wal")) },
	"directory gone":   func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
	"directory moved":  func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".moved")) },
	"directory is new": func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".moved")); filledIn(t, dir) },
}

// replaceFile puts a copy of a file in its place.
func replaceFile(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".copy", text, 0o600))
	require.NoError(t, os.Rename(path+".copy", path))
}

// filledIn makes a directory with another database.
func filledIn(t *testing.T, dir string) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	s, err := Open(context.Background(), Options{Path: filepath.Join(dir, "ferment.db"), Now: now})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// JRN-004, JRN-005: what is written to a database that was removed or replaced is lost with the
// process, so it is not acknowledged, and the store fails for good.
func TestReplacedDatabase(t *testing.T) {
	uses := map[string]func(s *Store) error{
		"append": func(s *Store) error {
			appendAll(t, s, newScript("run_2").accepted(nothing))
			return s.Sync(t.Context(), "run_2")
		},
		"change": func(s *Store) error { return s.Pin(t.Context(), "run_1") },
		"key":    func(s *Store) error { _, err := s.Keyed(t.Context(), someSum); return err },
		"copy":   func(s *Store) error { return s.Snapshot(t.Context(), filepath.Join(t.TempDir(), "copy.db")) },
		"close":  func(s *Store) error { require.NoError(t, s.Close()); return unwritten(s.Err()) },
	}
	for name, replace := range replacements {
		for use, do := range uses {
			t.Run(name+", "+use, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "var")
				require.NoError(t, os.Mkdir(dir, 0o700))
				s, err := Open(t.Context(), Options{Path: filepath.Join(dir, "ferment.db"), Now: now})
				require.NoError(t, err)
				defer func() { assert.NoError(t, s.Close()) }()
				sc := newScript("run_1")
				appendAll(t, s, sc.whole(1)...)
				require.NoError(t, s.Sync(t.Context(), "run_1"))
				require.NoError(t, s.CheckFiles())

				replace(t, dir)
				typed(t, do(s), "journal/unavailable")
				<-s.Failed()
				var replaced *ReplacedError
				require.ErrorAs(t, s.Err(), &replaced)
				typed(t, s.Append(t.Context(), newScript("run_3").accepted(nothing)), "journal/unavailable")
				typed(t, s.CheckFiles(), "journal/unavailable")
			})
		}
	}
}

func BenchmarkCheckFiles(b *testing.B) {
	s := openAt(b, b.TempDir())
	for b.Loop() {
		if err := s.db.inPlace(); err != nil {
			b.Fatal(err)
		}
	}
}
