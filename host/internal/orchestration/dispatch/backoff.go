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

// backoff returns the wait before try+1 of one candidate: exponential, bounded,
// with 20 % jitter from the seed of the run. A retry-after in err is the
// minimum.
func (o *operation) backoff(try int, err *contract.Error) time.Duration {
	wait := o.w.Policy.Backoff
	for i := 1; i < try && wait < o.w.Policy.MaxBackoff; i++ {
		wait *= 2
	}
	wait = min(wait, o.w.Policy.MaxBackoff)
	if wait > 0 {
		draw := o.draw(jitterSteps)
		wait = wait * time.Duration(8000+draw) / 10000
	}
	return max(wait, stats.RetryAfter(err))
}

// draw returns a number below n from the seed of the run and records it for
// replay.
func (o *operation) draw(n int64) int64 {
	v := Rand(o.run.Seed, o.w.Path, o.draws).Int64N(n)
	o.record(&journal.EnvRead{What: "random", Ordinal: o.draws, Value: edn.Int(v)})
	o.draws++
	return v
}
