package dispatch

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// jitterSteps is the number of values of the jitter between -20 % and +20 %.
const jitterSteps = 4001

// delays computes the waits of a node before its retries.
type delays struct {
	n     *node
	draws int // random values drawn so far
}

// backoff returns the wait before try+1 of one candidate: exponential, bounded,
// with 20 % jitter from the seed of the run. A retry-after in err is the
// minimum.
func (d *delays) backoff(try int, err *contract.Error) time.Duration {
	wait := d.n.w.Policy.Backoff
	for i := 1; i < try && wait < d.n.w.Policy.MaxBackoff; i++ {
		wait *= 2
	}
	wait = min(wait, d.n.w.Policy.MaxBackoff)
	if wait > 0 {
		draw := d.draw(jitterSteps)
		wait = wait * time.Duration(8000+draw) / 10000
	}
	return max(wait, stats.RetryAfter(err))
}

// draw returns a number below n from the seed of the run and records it for
// replay.
func (d *delays) draw(n int64) int64 {
	v := Rand(d.n.run.Seed, d.n.w.Path, d.draws).Int64N(n)
	d.n.Record(&journal.EnvRead{What: "random", Ordinal: d.draws, Value: edn.Int(v)})
	d.draws++
	return v
}
