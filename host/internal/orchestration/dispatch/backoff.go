package dispatch

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// jitterSteps is the grain of the jitter: the draw is one of this many steps
// between -20 % and +20 %.
const jitterSteps = 4001

// backoff is the wait before try+1 of one candidate: doubled from try to try,
// bounded, with a fifth of jitter either way from the seed of the run. What the
// other side asked for is a floor.
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
	return max(wait, retryAfter(err))
}

// draw gives a number below n from the seed of the run and records it: the
// decision that rests on it can be repeated.
func (o *operation) draw(n int64) int64 {
	v := Rand(o.run.Seed, o.w.Path, o.draws).Int64N(n)
	o.record(&journal.EnvRead{What: "random", Ordinal: o.draws, Value: edn.Int(v)})
	o.draws++
	return v
}

// maxRetryAfter bounds what a foreign server may ask for: a day in milliseconds.
const maxRetryAfter = 24 * 60 * 60 * 1000

func retryAfter(err *contract.Error) time.Duration {
	if err == nil {
		return 0
	}
	ms, ok := err.Details.Key("retry-after-ms").AsInt()
	if !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxRetryAfter)) * time.Millisecond
}
