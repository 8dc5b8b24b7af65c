//go:build !linux

package plugin

import (
	"io/fs"

	"github.com/fermenthq/ferment/sdk/edn"
)

// changeTime is not known here; the time of the last write stands for it.
func changeTime(fs.FileInfo) int64 { return 0 }

// inodeOf is not known here.
func inodeOf(fs.FileInfo) edn.Value { return edn.Nil() }
