package sdk

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A plugin's live heap is small, so the default target of the collector makes
// it run every few dozen calls: raising it was worth a factor of three in the
// tail of 64 KiB calls. The memory limit is the brake: near it the collector
// goes back to working hard.
const (
	collectorTarget = 400
	memoryBrake     = 256 << 20
	liveHeapMetric  = "/gc/heap/live:bytes"
)

// tuneCollector sets the defaults where the environment does not say
// otherwise.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectorTarget)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryBrake)
		followHeap()
	}
}

// followHeap moves the brake after each collection. A fixed limit would make a
// plugin that really needs more collect without end; twice the live heap is
// what Go's own default would allow it.
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
