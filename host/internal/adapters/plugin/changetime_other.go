//go:build !linux

package plugin

import (
	"io/fs"

	"github.com/fermenthq/ferment/sdk/edn"
)

// changeTime is unknown on this system; the modification time is used.
func changeTime(fs.FileInfo) int64 { return 0 }

// inodeOf is unknown on this system.
func inodeOf(fs.FileInfo) edn.Value { return edn.Nil() }
