//go:build !linux

package plan_test

import (
	"syscall"
	"testing"
	"time"
)

// threadTime is the processor time of the process: the system tells none of
// threads.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	return processorTime(t, syscall.RUSAGE_SELF)
}
