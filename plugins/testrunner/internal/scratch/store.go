package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Store is the scratch space of one process. The caller of Open must close it.
type Store struct {
	dir    string
	lock   *os.File
	limits Limits

	mu     sync.Mutex
	runs   map[string][]string // run -> directories
	closed bool
}

// Names inside the base directory.
const (
	dirPrefix = "run-"
	lockName  = ".lock"

	openTries = 16
)

// Open creates the directory of this process below base, which it creates if needed, and removes
// the directories of dead processes.
func Open(base string, limits Limits) (*Store, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("open scratch space: %w", err)
	}
	removeAbandoned(base)
	for range openTries {
		dir, lock, err := newLockedDir(base)
		if err != nil {
			return nil, fmt.Errorf("open scratch space: %w", err)
		}
		if lock != nil {
			return &Store{dir: dir, lock: lock, limits: limits.withDefaults(), runs: make(map[string][]string)}, nil
		}
	}
	return nil, fmt.Errorf("open scratch space: other processes removed %d directories below %s before they were locked",
		openTries, base)
}

// newLockedDir creates and locks a directory. lock is nil if another process removed the directory
// as abandoned before it was locked.
func newLockedDir(base string) (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp(base, dirPrefix); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, lockName)
	if lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && sameFile(lock, path) {
		return dir, lock, nil
	}
	_ = lock.Close()
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return "", nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), os.RemoveAll(dir))
	}
	return "", nil, nil
}

// sameFile reports whether the path still names the open file.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// removeAbandoned removes the directories whose lock is free. Those that cannot
// be removed are retried the next time.
func removeAbandoned(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // being created, or not ours
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = removeTree(dir)
		}
		_ = lock.Close()
	}
}

// Dir creates an empty directory for the run and returns its path; End removes it. It fails after
// Close.
func (s *Store) Dir(run, purpose string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", errors.New("make scratch directory: the plugin is shutting down")
	}
	dir, err := os.MkdirTemp(s.dir, purpose+"-")
	if err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	s.runs[run] = append(s.runs[run], dir)
	return dir, nil
}

// Drop removes one directory of a run before the run ends.
func (s *Store) Drop(run, dir string) error {
	s.mu.Lock()
	dirs := s.runs[run]
	for i, d := range dirs {
		if d == dir {
			s.runs[run] = append(dirs[:i:i], dirs[i+1:]...)
			break
		}
	}
	if len(s.runs[run]) == 0 {
		delete(s.runs, run)
	}
	s.mu.Unlock()
	return removeTree(dir)
}

// End removes all directories of a run. Ending a run twice is not an error.
func (s *Store) End(run string) error {
	s.mu.Lock()
	dirs := s.runs[run]
	delete(s.runs, run)
	s.mu.Unlock()
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// Close removes all directories and releases the lock. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.runs = nil
	return errors.Join(removeTree(s.dir), s.lock.Close())
}

// removeTree removes a tree like os.RemoveAll, including directories that tests made read-only,
// such as those of Go's module cache.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err = os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove scratch directory: %w", err)
	}
	return nil
}
