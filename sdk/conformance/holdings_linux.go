package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// holdings measures a process; ok is false if it is gone.
func holdings(pid int) (h held, ok bool) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return h, false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return h, false
	}
	h.descriptors = len(fds)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "Threads":
			h.threads = int(n)
		case "RssAnon": // without the pages of files, which come as the program runs
			h.memory = n << 10
		}
	}
	return h, true
}

// tick is the unit of processor times in /proc, 1/100 s on every Linux that Go
// runs on.
const tick = 10 * time.Millisecond

// processorTime is what all living processes of a session have used of the
// processor.
func processorTime(session int) (total time.Duration, ok bool) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, false
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may contain anything; the fields follow it.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 13 || fields[3] != strconv.Itoa(session) {
			continue
		}
		for _, word := range fields[11:13] { // user and system time
			n, _ := strconv.ParseInt(word, 10, 64)
			total += time.Duration(n) * tick
		}
		ok = true
	}
	return total, ok
}
