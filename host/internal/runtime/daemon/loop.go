package daemon

import (
	"context"
	"os"
	"syscall"
	"time"
)

// loop is the main loop. It blocks only in its select. The error is errJournalFailed if the journal
// fails.
func (d *Daemon) loop(signals <-chan os.Signal) error {
	tick := time.NewTicker(d.notify.interval())
	defer tick.Stop()
	var failed <-chan struct{}
	if d.store != nil {
		failed = d.store.Failed()
	}
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGHUP {
				d.hangup()
				continue
			}
			d.log.Info("signal", "signal", s.String())
			return d.stop(signals)
		case <-d.drains:
			d.log.Info("drain", "by", "an operator")
			return d.stop(signals)
		case <-failed:
			return d.giveUp()
		case <-tick.C:
			d.recordBeat()
			d.ping()
		}
	}
}

// hangup requests a reload without waiting for it.
func (d *Daemon) hangup() {
	d.spawn(func() { _, _ = d.Reload(d.life, "SIGHUP") }) // Reload logs its outcome
}

// Drain starts the shutdown and returns at once. Further calls do nothing.
func (d *Daemon) Drain() { d.drained.Do(func() { close(d.drains) }) }

// stop drains and closes the daemon. A further signal skips the waiting. The error is that of
// a journal that failed meanwhile.
func (d *Daemon) stop(signals <-chan os.Signal) error {
	d.setPhase(phaseDraining)
	d.notify.tell("STOPPING=1", "STATUS=draining")
	d.notify.ping()               // the ticker below starts anew
	d.host.Load().rescorer.Stop() // callers do not wait for its measurements
	ctx, hurry := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.drainRuns(ctx, d.giver())
		d.takeDown(ctx)
	}()
	tick := time.NewTicker(d.notify.interval())
	defer tick.Stop()
	for {
		select {
		case <-done:
			hurry()
			if d.store != nil && d.store.Err() != nil {
				return d.journalFailed()
			}
			d.log.Info("stopped", "uptime", time.Since(d.begun).Round(time.Second).String())
			return nil
		case s := <-signals:
			if s != syscall.SIGHUP {
				d.log.Warn("signal during shutdown: not waiting any more", "signal", s.String())
				hurry()
			}
		case <-tick.C:
			d.recordBeat()
			d.notify.ping()
		}
	}
}

// takeDown closes the parts of the daemon in reverse order of their start. When ctx ends, remaining
// processes are killed; the answers of runs that were canceled are still written.
func (d *Daemon) takeDown(ctx context.Context) {
	d.die()
	d.work.Wait()
	if d.server != nil {
		answers, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
		d.server.Shutdown(answers)
		cancel()
	}
	if h := d.host.Load(); h != nil {
		h.close(ctx)
	}
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			d.log.Error("the journal was not closed", "error", err)
		}
	}
	if d.figures.export != nil {
		d.figures.export.Close()
	}
	if d.dir != nil {
		d.dir.close()
	}
}

// recordBeat records a round of the main loop.
func (d *Daemon) recordBeat() { d.beat.Store(int64(time.Since(d.begun))) }

// sinceBeat returns the time since the last round of the main loop. It uses the
// monotonic clock.
func (d *Daemon) sinceBeat(now time.Time) time.Duration {
	return now.Sub(d.begun) - time.Duration(d.beat.Load())
}
