package daemon

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// Defaults of the garbage collector. A host keeps little alive, so the usual
// target would collect every few calls; a higher one costs memory that the
// limit bounds. Measured on calls of 64 KiB it takes two thirds off the p99.
const (
	collectAt   = 400
	memoryLimit = 1 << 30
)

// tuneCollector sets growth and limit of the heap (OPS-010); 0 stands for what
// the host chooses. The environment goes before both.
func tuneCollector(gogc int, limit int64) {
	if gogc == 0 {
		gogc = collectAt
	}
	if limit == 0 {
		limit = chosenLimit(cgroupLimit("/proc/self/cgroup", "/sys/fs/cgroup"))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gogc)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// chosenLimit leaves half of what the control group has to the plugins, which
// share it.
func chosenLimit(group int64) int64 { return min(memoryLimit, group/2) }

// cgroupLimit is the least memory.max of the control group of the process and
// of those around it; the largest number if there is none.
func cgroupLimit(self, root string) int64 {
	least := int64(math.MaxInt64)
	text, err := os.ReadFile(self)
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for dir := filepath.Join(root, filepath.Clean("/"+path)); len(dir) >= len(root); dir = filepath.Dir(dir) {
			if text, err := os.ReadFile(filepath.Join(dir, "memory.max")); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					least = min(least, n)
				}
			}
			if dir == root {
				break
			}
		}
	}
	return least
}
