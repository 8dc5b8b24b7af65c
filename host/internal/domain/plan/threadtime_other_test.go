//go:build !linux

package plan_test

import (
	"syscall"
	"testing"
	"time"
)

// threadTime returns the processor time of the process, as the system does not
// report that of threads.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	return processorTime(t, syscall.RUSAGE_SELF)
}
