package process

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// countEvery is the interval at which the processes of a program are counted.
// The kernel limits their number too, but not for root.
const countEvery = 50 * time.Millisecond

// countProcesses counts the processes and threads of a session.
func countProcesses(session int) int64 {
	var n int64
	eachProcess(func(fields [][]byte) {
		if len(fields) > 17 && string(fields[3]) == strconv.Itoa(session) {
			threads, _ := strconv.ParseInt(string(fields[17]), 10, 64)
			n += threads
		}
	})
	return n
}

// processLimit returns the kernel's limit for at most most further processes:
// the kernel counts all processes of the user, so the existing ones are added.
func processLimit(most int64) uint64 {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return uint64(most)
	}
	uid := uint32(os.Getuid())
	var n int64
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if owner, ok := ownerOf("/proc/" + e.Name()); ok && owner == uid {
			tasks, _ := os.ReadDir("/proc/" + e.Name() + "/task")
			n += int64(len(tasks))
		}
	}
	return uint64(most + n)
}

// eachProcess passes the fields of /proc/PID/stat after the name: state,
// parent, group, session and so on.
func eachProcess(each func(fields [][]byte)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if i := bytes.LastIndexByte(text, ')'); i > 0 {
			each(bytes.Fields(text[i+1:]))
		}
	}
}
