//go:build !unix

package launch

import (
	"io/fs"
	"os"
)

func holdLock(*os.File) bool { return true }

// abandoned is always false: without advisory locks an unused directory cannot
// be distinguished from one in use.
func abandoned(*os.File) bool { return false }

func ownedByUs(fs.FileInfo) bool { return true }
