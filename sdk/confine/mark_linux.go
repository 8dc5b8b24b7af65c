package confine

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// rlimitMark is RLIMIT_LOCKS, the same number on all architectures here. The
// kernel has not used it since Linux 2.4.25, but it keeps all properties of a
// hard limit: every descendant inherits it, through new sessions, new programs
// and cleared environments, only a privileged process can raise it, and /proc
// shows it.
const rlimitMark = 10

// unmarked is the value of the limit in a process without a mark.
const unmarked = unix.RLIM_INFINITY

// NewMark returns a mark for a process that is about to be started: [Start]
// sets it on the process, and all descendants carry it. It returns 0 if this
// process itself carries a mark, which its descendants keep.
func NewMark() uint64 {
	if !canMark() {
		return 0
	}
	return 1<<62 | rand.Uint64()>>2
}

// canMark reports whether processes started by this one can be marked.
func canMark() bool {
	var now unix.Rlimit
	return unix.Getrlimit(rlimitMark, &now) == nil && now.Max == unmarked
}

// setMark marks the calling process.
func setMark(mark uint64) error {
	if mark == 0 {
		return nil
	}
	if err := unix.Setrlimit(rlimitMark, &unix.Rlimit{Cur: mark, Max: mark}); err != nil {
		return &Error{Layer: LayerLimits, Err: err}
	}
	return nil
}

// MarkRunning marks a running process: the descendants that it starts from now
// on carry the mark. It returns 0 if the process cannot be marked.
func MarkRunning(pid int) uint64 {
	mark := NewMark()
	if mark == 0 || unix.Prlimit(pid, rlimitMark, &unix.Rlimit{Cur: mark, Max: mark}, nil) != nil {
		return 0
	}
	return mark
}

// Foreign reports whether a process has a mark that this process does not have: another
// process confined it or one of its ancestors. It is also true if the mark is unknown: for
// a process that has ended, because a descendant may hold the files that it opened, and if
// /proc cannot be read. pid must be an id in the namespace of this process.
func Foreign(pid int) bool {
	mark, known := markOf(pid)
	if known && mark == 0 {
		return false
	}
	own, _ := markOf(os.Getpid())
	return !known || mark != own
}

// Mark returns the mark of a process; 0: no mark, or no such process.
func Mark(pid int) uint64 {
	mark, _ := markOf(pid)
	return mark
}

// markOf returns the mark of a process, 0 if it has none; false if that is not known.
func markOf(pid int) (mark uint64, known bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		values, ok := bytes.CutPrefix(line, []byte("Max file locks"))
		if !ok {
			continue
		}
		if fields := bytes.Fields(values); len(fields) > 1 { // soft limit, hard limit
			mark, _ := strconv.ParseUint(string(fields[1]), 10, 64) // "unlimited" means no mark
			return mark, true
		}
	}
	return 0, false
}
