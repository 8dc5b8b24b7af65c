//go:build unix

package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/contract"
)

// takeLock opens a file and locks it for this process. The lock ends with the
// process.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, contract.Errorf("store/io", "%w", err).WithOp("store: lock", path)
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, contract.Errorf("store/locked", "another process works on the workspace").WithOp("store: lock", path).
			WithHint("wait until the other command has ended; with a daemon, omit --local: its commands share one process")
	}
	return nil, contract.Errorf("store/io", "%w", err).WithOp("store: lock", path)
}
