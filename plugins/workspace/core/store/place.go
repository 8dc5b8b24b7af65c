package store

import (
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/fermenthq/ferment/sdk/contract"
)

// held identifies the files of an open store. Another directory can take the path of the
// store at any time, so nothing is written by path before InPlace has compared them.
type held struct {
	dir, lock os.FileInfo
	parent    os.FileInfo // of a store inside a workspace
	// replaced means that a commit found another log at the path.
	replaced atomic.Bool
}

// hold records the identity of the data directory whose lock was taken.
func (s *Store) hold(at *os.Root) (err error) {
	if s.held.lock, err = s.lock.Stat(); err == nil {
		s.held.dir, err = at.Stat(".")
	}
	if err == nil && inTree(s.dir) {
		s.held.parent, err = os.Lstat(filepath.Dir(s.dir))
	}
	if err != nil {
		return asStoreError("open", err)
	}
	if !s.InPlace() {
		return errReplaced(s.dir)
	}
	return nil
}

// InPlace reports whether the data directory at the path of the store is the one that was
// opened. If it is not, transactions and reads fail with store/io, and Close leaves what
// is at the path unchanged. It costs three calls of stat.
func (s *Store) InPlace() bool {
	if s.follows {
		return true
	}
	return s.lockInPlace() && s.dirInPlace()
}

// dirInPlace compares the data directory. No link may have taken the place of one inside a
// workspace, also if it leads to the same directory.
func (s *Store) dirInPlace() bool {
	if s.held.parent == nil {
		return SameFile(s.dir, s.held.dir)
	}
	parent, err := os.Lstat(filepath.Dir(s.dir))
	if err != nil || !parent.IsDir() || !os.SameFile(parent, s.held.parent) {
		return false
	}
	dir, err := os.Lstat(s.dir)
	return err == nil && os.SameFile(dir, s.held.dir)
}

// lockInPlace is the part of InPlace that suffices after the index was opened by its path: it
// compares only the lock file. While the lock is open, no other file can have its inode.
func (s *Store) lockInPlace() bool {
	return s.follows || !s.held.replaced.Load() && SameFile(filepath.Join(s.dir, lockFile), s.held.lock)
}

// SameFile reports whether the file at a path is the one that info describes.
func SameFile(path string, info os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && info != nil && os.SameFile(now, info)
}

// checkWritten returns an error if the transactions that were just written are not in the
// store at the path: they must not be acknowledged. The store then takes no more writes.
func (s *Store) checkWritten() error {
	if s.InPlace() && s.log.InPlace() {
		return nil
	}
	s.held.replaced.Store(true)
	err := errReplaced(s.dir)
	s.log.Fail(err)
	return err
}

func errReplaced(dir string) error {
	return contract.Errorf("store/io", "the data directory was removed or replaced while the store was open").
		WithOp("store", dir).WithHint("send the request again")
}
