//go:build !linux

package plugin

import "os"

// hold does nothing: only Linux has file leases.
func hold(*os.File) error { return nil }
