package main

import (
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// progressEvery is the shortest time between two progress events of a call.
const progressEvery = 100 * time.Millisecond

// progress returns a function that reports how much of a phase is done; the total
// is 0 if it is not known. It drops what comes too fast.
func (r *request) progress(phase, unit string) func(done, total int) {
	if r.out == nil {
		return func(int, int) {}
	}
	var next atomic.Int64
	return func(done, total int) {
		now, due := r.server.now().UnixNano(), next.Load()
		if now < due || !next.CompareAndSwap(due, now+int64(progressEvery)) {
			return
		}
		var b edn.MapBuilder
		b.Key("phase", edn.K(phase))
		b.Key("done", number(done))
		if total > 0 {
			b.Key("total", number(total))
		}
		b.Key("unit", edn.K(unit))
		_ = r.out.Progress(b.Map()) // a caller that is gone cancels the call
	}
}
