package daemon

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// maintainEvery is the interval of maintenance. Programs that clean up old
// files also remove sockets.
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
		if problem != "" && problem != failed { // once, not every second
			d.log.Error("operators cannot reach this daemon", "error", problem)
		}
		failed = problem
	}
}

// maintainOnce runs one round of maintenance.
func (d *Daemon) maintainOnce(ctx context.Context) error {
	if !d.dir.held() {
		if d.lostDir.CompareAndSwap(nil, &lostDir{since: time.Now()}) {
			d.log.Error("the data directory was taken away: its LOCK is not the one that this daemon holds", "path", d.dir.path,
				"next", "end this daemon; what it serves goes on until then, and another may begin in a directory of that path")
		}
		return nil
	}
	if d.lostDir.Swap(nil) != nil {
		d.log.Info("the data directory is back", "path", d.dir.path)
	}
	d.measureSpace()
	if !d.dir.tokenPresent() {
		if err := d.dir.prepareRun(); err != nil {
			return err
		}
		d.log.Warn("the token of operators was gone and was written again", "path", AdminTokenFile(d.dir.path))
	}
	bound, err := d.server.RestoreSocket(ctx)
	if bound {
		d.log.Warn("the admin socket was gone and was bound again", "listen", d.server.Addresses())
	}
	return err
}

// lostDir holds the time since when the path no longer leads to the data
// directory of the daemon.
type lostDir struct{ since time.Time }

// directory is the condition of the data directory (HTTP-007).
func (d *Daemon) directory() httpapi.Condition {
	c := httpapi.Condition{Name: "data-directory", OK: true}
	if gone := d.lostDir.Load(); gone != nil {
		c.OK, c.Since, c.Why = false, gone.since, "the data directory was taken away while the daemon serves; it has to be restarted"
	}
	return c
}
