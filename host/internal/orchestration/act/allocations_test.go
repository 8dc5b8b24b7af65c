//go:build !race

package act_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Evaluation 17: what a gated call of 1 KiB allocates in the host, apart from the
// transport. The limits are a tenth above what it needs, so that many small increases
// fail the test too. The counters are those of the whole process, so the least of several
// measurements counts: other goroutines only add to one. The race detector allocates too.
func TestAllocationsOfACall(t *testing.T) {
	call := echoed(t)
	const calls, measurements = 100, 8
	allocs, bytes := math.Inf(1), uint64(math.MaxUint64)
	for range measurements {
		allocs = min(allocs, testing.AllocsPerRun(calls, func() { require.NoError(t, call()) }))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			require.NoError(t, call())
		}
		runtime.ReadMemStats(&after)
		bytes = min(bytes, (after.TotalAlloc-before.TotalAlloc)/calls)
	}
	assert.LessOrEqual(t, allocs, 80.0)
	assert.LessOrEqual(t, bytes, uint64(24<<10), "bytes")
}
