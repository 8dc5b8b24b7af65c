//go:build !unix

package daemon

import "errors"

// FreeSpace returns errors.ErrUnsupported on this system.
func FreeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
