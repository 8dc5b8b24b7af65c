//go:build !unix

package launch

import (
	"io/fs"
	"os"
)

func holdLock(*os.File) bool { return true }

// abandoned is never sure: without advisory locks a directory in use cannot be
// told from litter, and litter is the lesser harm.
func abandoned(*os.File) bool { return false }

func ownedByUs(fs.FileInfo) bool { return true }
