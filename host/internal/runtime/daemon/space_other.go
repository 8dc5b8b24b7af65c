//go:build !unix

package daemon

import "errors"

// FreeSpace is not known here.
func FreeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
