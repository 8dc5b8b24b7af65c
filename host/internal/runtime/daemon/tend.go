package daemon

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// tendEvery is how often the files by which operators reach the daemon are
// looked at. Programs that clean up old files take sockets too.
const tendEvery = time.Second

// tend keeps the socket and the token of operators where they are looked for,
// and notices when the data directory is taken away or full.
func (d *Daemon) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		problem := ""
		if err := d.tendOnce(ctx); err != nil && ctx.Err() == nil {
			problem = err.Error()
		}
		if problem != "" && problem != failed { // once, not every second
			d.log.Error("operators cannot reach this daemon", "error", problem)
		}
		failed = problem
	}
}

// tendOnce puts back what is gone.
func (d *Daemon) tendOnce(ctx context.Context) error {
	if !d.dir.held() {
		if d.astray.CompareAndSwap(nil, &astray{since: time.Now()}) {
			d.log.Error("the data directory was taken away: its LOCK is not the one that this daemon holds", "path", d.dir.path,
				"next", "end this daemon; what it serves goes on until then, and another may begin in a directory of that path")
		}
		return nil
	}
	if d.astray.Swap(nil) != nil {
		d.log.Info("the data directory is back", "path", d.dir.path)
	}
	d.measureSpace()
	if !d.dir.tokenThere() {
		if err := d.dir.prepareRun(); err != nil {
			return err
		}
		d.log.Warn("the token of operators was gone and was written again", "path", AdminTokenFile(d.dir.path))
	}
	bound, err := d.server.Tend(ctx)
	if bound {
		d.log.Warn("the admin socket was gone and was bound again", "listen", d.server.Addresses())
	}
	return err
}

// astray says since when the data directory is not the daemon's.
type astray struct{ since time.Time }

// directory is the condition of the data directory (HTTP-007).
func (d *Daemon) directory() httpapi.Condition {
	c := httpapi.Condition{Name: "data-directory", OK: true}
	if gone := d.astray.Load(); gone != nil {
		c.OK, c.Since, c.Why = false, gone.since, "the data directory was taken away while the daemon serves; it has to be restarted"
	}
	return c
}
