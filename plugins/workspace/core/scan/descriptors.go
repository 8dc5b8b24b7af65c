package scan

import (
	"errors"
	"syscall"

	"github.com/fermenthq/ferment/sdk/contract"
)

// TooManyFiles returns the error of an operation for which the process had no file descriptor left.
// It is nil for all other errors.
func TooManyFiles(op, object string, err error) *contract.Error {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return nil
	}
	return contract.Errorf("store/io", "%w", err).WithOp(op, object).
		WithHint("the process of the plugin has no file descriptor left: raise open_files in its isolation block, " +
			"or send fewer requests at a time")
}
