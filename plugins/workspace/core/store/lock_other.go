//go:build !unix

package store

import (
	"os"

	"github.com/fermenthq/ferment/sdk/contract"
)

// InUse returns false, because a store cannot be locked on this system.
func InUse(string) bool { return false }

// takeLock fails: this system has no advisory locks that end with the process.
func takeLock(_ *os.Root, dir string) (*os.File, error) {
	return nil, contract.Errorf("store/io", "workspaces are not supported on this system").WithOp("store: lock", dir).
		WithHint("use a Unix system, such as Linux or macOS")
}
