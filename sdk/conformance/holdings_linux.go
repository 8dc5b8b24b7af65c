package conformance

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// holdings measures a process; ok is false if it has ended.
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
		case "RssAnon": // without file pages, which are loaded as the program runs
			h.memory = n << 10
		}
	}
	return h, true
}
