package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Commits counts the transactions of a journal and its known damage. The zero value is ready to use; it
// is safe for concurrent use.
type Commits struct {
	mu             sync.Mutex
	count          int64
	records, bytes int64
	took, longest  time.Duration
	seconds        buckets
	batches        buckets
	damaged        int64
}

// Bounds of the histograms of transactions: 0.1 ms to 0.8 s, and 1 to 2048 records.
const commitBuckets = 14

var (
	commitBounds = prometheus.ExponentialBuckets(0.0001, 2, commitBuckets)
	batchBounds  = prometheus.ExponentialBuckets(1, 2, commitBuckets)
)

// buckets counts values by histogram bucket; a value above the last bound is not counted.
type buckets [commitBuckets]uint64

func (b *buckets) add(bounds []float64, v float64) {
	for i, bound := range bounds {
		if v <= bound {
			b[i]++
			return
		}
	}
}

// upTo returns the number of values up to each bound.
func (b *buckets) upTo(bounds []float64) map[float64]uint64 {
	out, n := map[float64]uint64{}, uint64(0)
	for i, bound := range bounds {
		n += b[i]
		out[bound] = n
	}
	return out
}

// Add counts a transaction with its number of records, the bytes that it added, and its duration.
func (c *Commits) Add(records, size int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.records += int64(records)
	c.bytes += int64(size)
	c.took += took
	c.longest = max(c.longest, took)
	c.seconds.add(commitBounds, took.Seconds())
	c.batches.add(batchBounds, float64(records))
}

// AddDamage counts a damaged place of the journal.
func (c *Commits) AddDamage() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.damaged++
}

// Damaged returns the number of damaged places that were counted.
func (c *Commits) Damaged() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.damaged
}

// Value returns the counts as an EDN map. Durations are in microseconds.
func (c *Commits) Value() edn.Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	mean := int64(0)
	if c.count > 0 {
		mean = (c.took / time.Duration(c.count)).Microseconds()
	}
	return edn.MustMap(edn.K("commits"), edn.Int(c.count), edn.K("records"), edn.Int(c.records), edn.K("bytes"), edn.Int(c.bytes),
		edn.K("damaged"), edn.Int(c.damaged),
		edn.K("commit-us"), edn.MustMap(edn.K("mean"), edn.Int(mean), edn.K("longest"), edn.Int(c.longest.Microseconds())))
}

// collect sends the families of the journal.
func (c *Commits) collect(descs map[string]*prometheus.Desc, to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := uint64(c.count)
	to <- prometheus.MustNewConstHistogram(descs["ferment_journal_commit_seconds"], n, c.took.Seconds(), c.seconds.upTo(commitBounds))
	to <- prometheus.MustNewConstHistogram(descs["ferment_journal_batch_records"], n, float64(c.records), c.batches.upTo(batchBounds))
	to <- prometheus.MustNewConstMetric(descs["ferment_journal_bytes_total"], prometheus.CounterValue, float64(c.bytes))
	to <- prometheus.MustNewConstMetric(descs["ferment_journal_damaged"], prometheus.GaugeValue, float64(c.damaged))
}
