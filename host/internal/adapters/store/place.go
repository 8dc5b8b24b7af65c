package store

import (
	"os"
	"path/filepath"
)

// place identifies the files of an open SQLite database. Another file can take the path of
// one at any time, and what is written to the one that is open is then lost with this process.
// Files are compared by path only: to open and close one would drop the locks of SQLite.
type place []placedFile

type placedFile struct {
	path string
	info os.FileInfo
}

// ReplacedError is the failure of a store whose database, or the log of it, was removed or
// replaced while it was open.
type ReplacedError struct{ Path, What string }

// Error implements error.
func (e *ReplacedError) Error() string {
	return e.Path + " " + e.What + " while the journal was open"
}

// placeOf returns the place of a database whose log exists.
func placeOf(path string) (place, error) {
	real, err := filepath.EvalSymlinks(path) // as SQLite does: the log is beside that file
	if err != nil {
		return nil, err
	}
	p := place{{path: path}, {path: real + "-wal"}}
	for i := range p {
		if p[i].info, err = os.Stat(p[i].path); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// check returns a *ReplacedError if one of the files is not at its path any more. It costs a
// call of stat for each.
func (p place) check() error {
	for _, f := range p {
		now, err := os.Stat(f.path)
		switch {
		case os.IsNotExist(err):
			return &ReplacedError{f.path, "was removed or moved"}
		case err != nil:
			return err
		case !os.SameFile(now, f.info):
			return &ReplacedError{f.path, "was replaced by another file"}
		}
	}
	return nil
}

// holdFiles records the identity of the files of the database.
func (s *Store) holdFiles() (err error) {
	if db, ok := s.db.(*sqliteDB); ok {
		db.files, err = placeOf(db.path)
	}
	return err
}

// CheckFiles returns journal/unavailable if the files of the database were removed or replaced.
// The store then records nothing any more.
func (s *Store) CheckFiles() error {
	err := s.Err()
	if err == nil {
		if err = s.db.inPlace(); err == nil {
			return nil
		}
		s.fail(err)
	}
	return unwritten(err)
}
