package daemon

import (
	"context"
	"sync/atomic"
	"time"
)

// probe periodically checks the parts without which a daemon cannot work although its main loop
// runs: the queue of runs and the writer of the journal (OPS-005). The zero value does not check
// anything.
type probe struct {
	begun atomic.Int64 // start of the current check, in nanoseconds since Daemon.begun; 0: no check
}

// run calls check every beatEvery until ctx ends. A check that blocks is not interrupted.
func (p *probe) run(ctx context.Context, start time.Time, check func(context.Context)) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		p.begun.Store(max(1, int64(time.Since(start))))
		check(ctx)
		p.begun.Store(0)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// late reports whether the current check takes longer than limit.
func (p *probe) late(start time.Time, limit time.Duration) bool {
	begun := p.begun.Load()
	return begun > 0 && time.Since(start)-time.Duration(begun) > limit
}

// check waits for the queue and for the writer of the journal. A failed journal stops the daemon
// elsewhere, so the error is ignored.
func (d *Daemon) check(ctx context.Context) {
	d.host.Load().queue.Loads()
	if d.store != nil {
		_ = d.store.Probe(ctx)
	}
}

// alive reports whether the main loop, the queue and the writer of the journal respond in time.
func (d *Daemon) alive() bool {
	return d.sinceBeat(time.Now()) < beatLimit && !d.probe.late(d.begun, beatLimit)
}

// ping resets the watchdog of the service manager. It does not if a check is stuck, so that the
// service manager restarts the daemon.
func (d *Daemon) ping() {
	if d.probe.late(d.begun, max(d.notify.every, beatEvery)) {
		return
	}
	d.notify.ping()
}
