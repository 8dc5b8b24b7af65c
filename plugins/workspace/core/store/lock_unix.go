//go:build unix

package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/contract"
)

// InUse reports whether a store of this or another process holds the lock of a data directory.
func InUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// takeLock opens the lock file of a data directory and locks it for this process. The
// lock ends with the process.
func takeLock(at *os.Root, dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := at.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, contract.Errorf("store/io", "%w", scan.WithoutPath(err)).WithOp("store: lock", path)
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, locked(path, otherWrites)
	}
	return nil, contract.Errorf("store/io", "%w", err).WithOp("store: lock", path)
}
