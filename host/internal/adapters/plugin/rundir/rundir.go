package rundir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/fermenthq/ferment/sdk/launch"
)

// Lengths of socket paths in bytes. The kernel permits 108 (104 on BSD). socketSuffix is the
// longest suffix that go-plugin appends to its directory.
const (
	MaxSocketPath = 100
	socketSuffix  = "/plugin-dir4294967295/plugin4294967295"
)

// PathTooLongError is the error for a directory whose path is too long for Unix sockets in it.
type PathTooLongError struct {
	Path   string // the longest socket path that can occur
	Length int
	Limit  int
}

// Error implements error.
func (e *PathTooLongError) Error() string {
	return fmt.Sprintf("socket path %s has %d bytes, the limit is %d: choose a shorter runtime directory", e.Path,
		e.Length, e.Limit)
}

// Dir is the private directory of one host process. A file lock, which is released when the process
// ends, marks it as in use. It is safe for concurrent use.
type Dir struct {
	path string
	lock *os.File

	mu   sync.Mutex
	next int
}

// Base returns the parent of the directories of all hosts of a user: below xdgRuntimeDir (the value
// of XDG_RUNTIME_DIR) if that is a directory, else below /tmp.
func Base(xdgRuntimeDir string, uid int) string {
	if info, err := os.Stat(xdgRuntimeDir); xdgRuntimeDir != "" && err == nil && info.IsDir() {
		return filepath.Join(xdgRuntimeDir, "ferment")
	}
	return filepath.Join("/tmp", "ferment-"+strconv.Itoa(uid))
}

// Open creates and locks a new directory below base, after it has deleted those of ended hosts. It
// creates base if it is missing. It rejects a base that another user owns, that is accessible to
// others (expected mode 0700), or that is too long for sockets ([PathTooLongError]). The caller
// must close the Dir.
func Open(base string) (*Dir, error) {
	abs, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	if err := checkSocketPath(filepath.Join(abs, "01234567", "9999")); err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	return OpenScratch(abs)
}

// OpenScratch is [Open] for a directory without sockets: the length of base is not limited.
func OpenScratch(base string) (*Dir, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	if err := privateDir(base); err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	if _, err := Sweep(base); err != nil {
		return nil, err
	}
	for range 16 {
		path, lock, err := newLockedDir(base)
		if err != nil {
			return nil, fmt.Errorf("runtime directory: %w", err)
		}
		if lock != nil {
			return &Dir{path: path, lock: lock}, nil
		}
	}
	return nil, fmt.Errorf("runtime directory: no free name below %s", base)
}

// newLockedDir creates and locks a directory with a random name. lock is nil if the name exists
// already, or another host deleted the directory before it was locked.
func newLockedDir(base string) (string, *os.File, error) {
	var name [4]byte
	if _, err := rand.Read(name[:]); err != nil {
		return "", nil, err
	}
	path := filepath.Join(base, hex.EncodeToString(name[:]))
	if err := os.Mkdir(path, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", nil, nil
		}
		return "", nil, err
	}
	lock, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, nil
		}
		return "", nil, err
	}
	if !holdLock(lock) || !sameFile(lock, path) {
		_ = lock.Close()
		return "", nil, nil
	}
	return path, lock, nil
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Instance creates a directory for the sockets of one process and returns its path. The caller must
// delete it after the end of the process.
func (d *Dir) Instance() (string, error) {
	d.mu.Lock()
	d.next++
	path := filepath.Join(d.path, strconv.Itoa(d.next))
	d.mu.Unlock()
	if err := checkSocketPath(path); err != nil {
		return "", err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	return path, nil
}

// Close deletes the directory and releases the lock.
func (d *Dir) Close() error {
	err := os.RemoveAll(d.path)
	if cerr := d.lock.Close(); err == nil && !errors.Is(cerr, os.ErrClosed) {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("remove runtime directory: %w", err)
	}
	return nil
}

// Sweep deletes the directories below base whose host process has ended, and returns their paths.
func Sweep(base string) ([]string, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("sweep runtime directories: %w", err)
	}
	var swept []string
	for _, e := range entries {
		if raw, err := hex.DecodeString(e.Name()); err != nil || len(raw) != 4 || !e.IsDir() {
			continue // not created by a host
		}
		path := filepath.Join(base, e.Name())
		gone, err := launch.RemoveAbandoned(path)
		if err != nil {
			return swept, fmt.Errorf("sweep runtime directories: %w", err)
		}
		if gone {
			swept = append(swept, path)
		}
	}
	return swept, nil
}

// privateDir creates dir, or checks that an existing one belongs to this user and is not accessible
// to others: below /tmp another user may have created it.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %04o), it must have 0700", dir, info.Mode().Perm())
	case !ownedByUs(info):
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}

func checkSocketPath(dir string) error {
	if longest := dir + socketSuffix; len(longest) > MaxSocketPath {
		return &PathTooLongError{Path: longest, Length: len(longest), Limit: MaxSocketPath}
	}
	return nil
}

func sameFile(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// LongestSocketPath returns the longest path that a socket below base can have. The error is a
// [PathTooLongError] if it exceeds [MaxSocketPath].
func LongestSocketPath(base string) (string, error) {
	dir := filepath.Join(base, "01234567", "9999")
	return dir + socketSuffix, checkSocketPath(dir)
}
