//go:build !linux

package plugin

import (
	"io/fs"

	"github.com/fermenthq/ferment/sdk/edn"
)

// changeTime returns 0: the time is unknown on this system, and the modification time is used.
func changeTime(fs.FileInfo) int64 { return 0 }

// inodeOf returns nil: the numbers are unknown on this system.
func inodeOf(fs.FileInfo) edn.Value { return edn.Nil() }
