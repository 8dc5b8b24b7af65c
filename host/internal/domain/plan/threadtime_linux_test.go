package plan_test

import (
	"syscall"
	"testing"
	"time"
)

// threadTime returns the processor time of the calling thread, which is
// independent of other load.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	return processorTime(t, syscall.RUSAGE_THREAD)
}
