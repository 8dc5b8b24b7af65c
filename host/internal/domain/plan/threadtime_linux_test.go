package plan_test

import (
	"syscall"
	"testing"
	"time"
)

// threadTime is the processor time of the calling thread, which other work on
// the machine does not lengthen.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	return processorTime(t, syscall.RUSAGE_THREAD)
}
