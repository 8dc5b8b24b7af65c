package plugin

import (
	"io/fs"
	"syscall"
)

// changeTime is when content or metadata of a file changed last, in ns.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}
