package plugin

import (
	"fmt"
	"io/fs"
	"syscall"

	"github.com/fermenthq/ferment/sdk/edn"
)

// changeTime returns the time of the last change of content or metadata of a file, in ns since
// 1970; 0 if unknown.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}

// inodeOf returns the device and inode number of a file.
func inodeOf(info fs.FileInfo) edn.Value {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return edn.Text(fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	}
	return edn.Nil()
}
