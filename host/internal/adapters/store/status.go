package store

import (
	"context"
	"errors"
	"io/fs"
	"strings"
)

// Status is the state of a database.
type Status struct {
	Database string
	Driver   string // "sqlite" or "postgres"
	Known    int    // latest schema version that this program supports
	Position
	Size, Free int64 // bytes of the database, and how many of them are unused
	Files      int   // number of values that are stored as files, and their size
	FileBytes  int64
}

// Status returns the state of the database.
func (s *Store) Status(ctx context.Context) (st Status, err error) {
	st.Database, st.Driver = s.db.name(), s.db.dialect()
	if st.Known, err = knownSchema(st.Driver); err != nil {
		return st, err
	}
	if st.Position, err = s.Position(ctx); err != nil {
		return st, err
	}
	if st.Size, st.Free, err = s.db.size(ctx); err != nil {
		return st, err
	}
	st.Files, st.FileBytes, err = s.blobs.size()
	return st, err
}

// knownSchema returns the latest schema version of a dialect.
func knownSchema(dialect string) (int, error) {
	steps, err := readMigrations(sqlFiles, "sql/"+dialect)
	return len(steps), err
}

// size returns the number and the total size of the values that are stored as files.
func (b *blobs) size() (n int, bytes int64, err error) {
	if b == nil {
		return 0, 0, nil
	}
	err = WalkDir(b.dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed in the meantime
		}
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), tempPrefix) {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			n, bytes = n+1, bytes+info.Size()
		}
		return err
	})
	return n, bytes, err
}
