//go:build !unix

package daemon

import (
	"io/fs"
	"os"
)

// tryLock always succeeds: the daemon supports unix systems only.
func tryLock(*os.File) bool { return true }

func ownedByUs(fs.FileInfo) bool { return true }

func openFiles() int { return 0 }

func inode(fs.FileInfo) string { return "" }
