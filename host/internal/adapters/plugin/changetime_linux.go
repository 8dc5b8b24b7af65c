package plugin

import (
	"fmt"
	"io/fs"
	"syscall"

	"github.com/fermenthq/ferment/sdk/edn"
)

// changeTime is when content or metadata of a file changed last, in ns.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}

// inodeOf is the device and the number of a file.
func inodeOf(info fs.FileInfo) edn.Value {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return edn.Text(fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	}
	return edn.Nil()
}
