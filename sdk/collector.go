package sdk

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The live heap of a plugin is small, so with the default target the collector
// runs every few dozen calls. The higher target made the tail latency of 64 KiB
// calls three times shorter. Near the memory limit the collector works as hard
// as by default.
const (
	collectorTarget = 400
	memoryBrake     = 256 << 20
	liveHeapMetric  = "/gc/heap/live:bytes"
)

// tuneCollector sets the target and the memory limit unless the environment
// sets them.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectorTarget)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryBrake)
		followHeap()
	}
}

// followHeap adjusts the memory limit after each collection. With a fixed
// limit, a plugin that needs more memory would collect permanently; twice the
// live heap is what Go's default target allows.
func followHeap() {
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, func(struct{}) {
		debug.SetMemoryLimit(brakeFor(liveHeap()))
		followHeap()
	}, struct{}{})
}

func brakeFor(live uint64) int64 { return max(memoryBrake, 2*int64(live)) }

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: liveHeapMetric}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
