package daemon

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// maintainEvery is the interval of maintenance. It is short because programs that clean up old
// files also delete sockets.
const maintainEvery = time.Second

// maintain restores the admin socket and the admin token when they are
// deleted, and detects a data directory that was moved, replaced or filled up.
func (d *Daemon) maintain(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		problem := ""
		if err := d.maintainOnce(ctx); err != nil && ctx.Err() == nil {
			problem = err.Error()
		}
		if problem != "" && problem != failed { // once per problem, not every second
			d.log.Error("operators cannot reach this daemon", "error", problem)
		}
		failed = problem
	}
}

// maintainOnce executes one round of maintenance.
func (d *Daemon) maintainOnce(ctx context.Context) error {
	if d.store != nil && d.store.CheckFiles() != nil {
		return nil // the daemon ends
	}
	if !d.dir.held() {
		if d.lostDir.CompareAndSwap(nil, &lostDir{since: time.Now()}) {
			d.log.Error("the data directory was moved or replaced: its LOCK file is not the one that this daemon has locked", "path", d.dir.path,
				"next", "restart this daemon; it serves until then, but another daemon may start with that path")
		}
		return nil
	}
	if d.lostDir.Swap(nil) != nil {
		d.log.Info("the data directory is back", "path", d.dir.path)
	}
	d.measureSpace()
	d.noteWaiting()
	if !d.dir.tokenPresent() {
		if err := d.dir.prepareRun(); err != nil {
			return err
		}
		d.log.Warn("the admin token was deleted and was written again", "path", AdminTokenFile(d.dir.path))
	}
	bound, err := d.server.RestoreSocket(ctx)
	if bound {
		d.log.Warn("the admin socket was deleted and was bound again", "listen", d.server.Addresses())
	}
	return err
}

// lostDir records since when the path no longer leads to the locked data directory.
type lostDir struct{ since time.Time }

// directory returns the condition of the data directory (HTTP-007).
func (d *Daemon) directory() httpapi.Condition {
	c := httpapi.Condition{Name: "data-directory", OK: true}
	if gone := d.lostDir.Load(); gone != nil {
		c.OK, c.Since, c.Why = false, gone.since,
			"the data directory was moved or replaced while the daemon runs; restart the daemon"
	}
	return c
}
