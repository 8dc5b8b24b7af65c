package daemon

import (
	"context"
	"sync/atomic"
	"time"
)

// probe checks from time to time that the parts go on without which a daemon is only
// half alive: the queue of runs and the writer of the journal (OPS-005). The zero value
// is that of a daemon that checks nothing.
type probe struct {
	begun atomic.Int64 // of the check that is under way, in nanoseconds of the clock of Daemon.begun; 0: none
}

// run checks every beatEvery until ctx ends. A check that blocks is never given up.
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

// late reports whether a check has been under way for longer than a limit.
func (p *probe) late(start time.Time, limit time.Duration) bool {
	begun := p.begun.Load()
	return begun > 0 && time.Since(start)-time.Duration(begun) > limit
}

// check waits for the queue and for the writer of the journal. A failure of the journal
// ends the daemon elsewhere.
func (d *Daemon) check(ctx context.Context) {
	d.host.Load().queue.Loads()
	if d.store != nil {
		_ = d.store.Probe(ctx)
	}
}

// alive reports whether the main loop, the queue and the writer of the journal go on.
func (d *Daemon) alive() bool {
	return d.sinceBeat(time.Now()) < beatLimit && !d.probe.late(d.begun, beatLimit)
}

// ping resets the watchdog of the service manager, unless a part is stuck: then the
// service manager restarts the daemon.
func (d *Daemon) ping() {
	if d.probe.late(d.begun, max(d.notify.every, beatEvery)) {
		return
	}
	d.notify.ping()
}
