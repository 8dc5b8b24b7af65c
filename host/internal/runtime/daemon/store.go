package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
)

// errJournalFailed is the error of a daemon that stops because its journal failed (JRN-005).
var errJournalFailed = errors.New("the journal cannot record")

// failedLimit is the time limit of the shutdown after such a failure. There is little to wait for,
// because nothing can be recorded.
const failedLimit = 3 * time.Second

// retainEvery is the interval of retention.
const retainEvery = 10 * time.Minute

// openStore opens the journal of the configuration. If none is configured, runs are kept in memory.
func (d *Daemon) openStore(ctx context.Context, h *Host, loaded *setup.Loaded) error {
	if !loaded.Store.Lasts() {
		d.observeMemory(h)
		return h.openIdentity(ctx, &identity.Memory{}, loaded.Generation.Identity)
	}
	options, err := storeOptions(loaded.Config)
	if err != nil {
		return err
	}
	d.observeStore(&options)
	options.Dropped = func(run string) { cache.Forget(h.answers, run) }
	opened, err := store.Open(ctx, options)
	if err != nil {
		return err
	}
	d.store, h.journal, h.full, h.events = opened, opened, opened.Full, opened.HostStream()
	if h.secretKey, err = secretKey(loaded.Host.DataDir); err != nil {
		return &setup.EnvironmentError{Op: "read the key of secrets in the journal", Err: err}
	}
	if options.Postgres != nil {
		h.id = options.Postgres.Host
	}
	if err = h.openIdentity(ctx, opened.Identity(), loaded.Generation.Identity); err != nil {
		return err
	}
	h.learned = learned.NewBook(opened, h.stats.Notice)
	h.keepTalk(opened.Sessions(), opened.Conversations(), loaded)
	if _, shared := opened.Shared(); shared {
		h.sessions.Share()
		h.ledger = budget.NewShared(opened.Budgets(), nil)
	} else if h.ledger, err = budget.NewKept(ctx, opened, nil); err != nil {
		return err
	}
	d.unfinished, err = opened.Unfinished(ctx)
	return err
}

// storeOptions returns the store options of a configuration. The caller must have locked its data
// directory.
func storeOptions(c *config.Config) (store.Options, error) {
	s := c.Store
	o := store.Options{
		Path:           s.File,
		Used:           usedJournal(c),
		NoSync:         !s.Sync,
		NoMigrate:      !s.AutoMigrate,
		AllowNetworkFS: s.AllowNetworkFS,
		Limits:         storeLimits(s),
	}
	if s.DSN == nil {
		return o, nil
	}
	dsn, err := c.StoreDSN()
	if err != nil {
		return o, err
	}
	id, err := hostID(c.Host.DataDir)
	o.Postgres = &store.Postgres{DSN: dsn, Host: id, Lease: s.Lease}
	o.NoMigrate = true // older programs may use it (OPS-007)
	return o, err
}

// usedJournal reports whether a daemon has kept a journal in files of the data directory: it has
// written the key of secrets after that, and without the id of a host that shares a database.
func usedJournal(c *config.Config) bool {
	if c.Store.File == "" {
		return false
	}
	_, key := os.Stat(filepath.Join(c.Host.DataDir, secretKeyFile))
	_, host := os.Stat(filepath.Join(c.Host.DataDir, "HOST"))
	return key == nil && errors.Is(host, fs.ErrNotExist)
}

// noJournal reports whether the configuration has a journal in a file that was never there.
func noJournal(c *config.Config) bool {
	return c.Store.File != "" && store.Options{Path: c.Store.File, Used: usedJournal(c)}.Unused()
}

func storeLimits(s config.Store) store.Limits {
	return store.Limits{
		MinFree: uint64(s.MinFree),
		Retain:  store.Retention{Age: s.Age, FailedAge: s.FailedAge, Bytes: s.Size, KeyWindow: s.KeyWindow},
	}
}

// admits returns journal/full while there is too little space to record new acts (JRN-006), else
// nil.
func (h *Host) admits() *contract.Error {
	if h.full == nil || !h.full() {
		return nil
	}
	return contract.Errorf("journal/full", "the file system of the journal has less than store.min_free left")
}

// resumeRuns queues the runs that an earlier daemon has not finished (JRN-040, RUN-016). A run that
// cannot be continued is logged and stays open.
func (d *Daemon) resumeRuns(ctx context.Context) {
	why := journal.ResumedRestart
	if d.dir.crashed {
		why = journal.ResumedCrash
	}
	if resumed := d.recallAll(ctx, d.unfinished, func(store.Unfinished) string { return why }); resumed > 0 {
		d.log.Info("resumed runs that an earlier daemon had begun", "runs", resumed)
	}
}

// recallAll queues runs again and returns the number of those that could be.
func (d *Daemon) recallAll(ctx context.Context, all []store.Unfinished, why func(store.Unfinished) string) (resumed int) {
	for _, u := range all {
		if err := d.recall(ctx, u, why(u)); err != nil {
			d.log.Error("a run cannot be resumed", "run", u.Run.ID, "intent", u.Run.Intent, "error", err)
			continue
		}
		resumed++
	}
	return resumed
}

// takeOverEvery is the maximum interval at which takeOver looks for runs. It is short because a
// host that shuts down hands over its runs at once.
const takeOverEvery = time.Second

// takeOver periodically takes and resumes the runs of other hosts whose lease has lapsed or that
// handed them over, until the daemon drains (JRN-007).
func (d *Daemon) takeOver(ctx context.Context, lease time.Duration) {
	tick := time.NewTicker(min(lease/3, takeOverEvery))
	defer tick.Stop()
	for d.Phase() != phaseDraining {
		taken, err := d.store.Take(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.Error("runs of other hosts are not taken over", "error", err)
		}
		resumed := d.recallAll(ctx, taken, func(u store.Unfinished) string {
			if u.Left {
				return journal.ResumedRestart
			}
			return journal.ResumedLease
		})
		if resumed > 0 {
			d.log.Warn("took over runs of hosts that are gone", "runs", resumed)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// handOverEvery is the interval at which handOver looks for runs.
const handOverEvery = 100 * time.Millisecond

// giver is the method of the store that hands runs over to other hosts.
type giver interface {
	HandOver(ctx context.Context) (n int, err error)
}

// giver returns the store, nil without one.
func (d *Daemon) giver() giver {
	if d.store == nil {
		return nil
	}
	return d.store
}

// drainRuns drains the host and meanwhile hands its runs over to other hosts (OPS-004). It stops
// accepting acts before the first run is handed over, because an act could continue that run. When
// ctx ends, it returns at once.
func (d *Daemon) drainRuns(ctx context.Context, to giver) {
	h := d.host.Load()
	h.refuseActs()
	stop := d.handOver(ctx, to)
	h.drain(ctx, h.Loaded().Host.DrainTimeout)
	stop()
}

// handOver starts a goroutine that hands over runs to other hosts as soon as this daemon no longer
// executes them, until stop is called or outer ends. Closing the store releases the remaining runs.
func (d *Daemon) handOver(outer context.Context, to giver) (stop func()) {
	if to == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(outer)
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(handOverEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			n, err := to.HandOver(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				d.log.Error("runs are not handed over to other hosts", "error", err)
			case n > 0:
				d.log.Info("handed runs over to other hosts", "runs", n)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		select {
		case <-over:
		case <-outer.Done():
		}
	}
}

// recall queues a run of an earlier daemon again. why is the reason for its interruption.
func (d *Daemon) recall(ctx context.Context, u store.Unfinished, why string) error {
	id := u.Run.ID
	first, err := d.store.Read(ctx, id, 0, 1)
	if err != nil {
		return err
	}
	accepted, ok := first[0].Body.(*journal.RunAccepted)
	if !ok {
		return fmt.Errorf("its first record is of kind %s, expected run/accepted", first[0].Body.Kind())
	}
	h := d.host.Load()
	reopened, _ := u.Last.Body.(*journal.RunResumed)
	run, refused := h.runs.now().service.Recall(context.Background(), id, accepted, reopened)
	if refused != nil {
		return refused
	}
	if accepted.ResponseType == "stream" && accepted.Key == "" {
		h.needReaders(run)
	}
	h.enqueue(run, why, func(err error) {
		d.log.Error("a run cannot be resumed", append(aboutRun(id, u.Last.Epoch, accepted), "error", err)...)
	})
	return nil
}

// resume continues a suspended or failed run and returns once it is running. The error is
// run/not-resumable for a run in progress.
func (h *Host) resume(id string, how act.Resumption) (*act.Run, *contract.Error) {
	if !h.runs.claim(id) {
		return nil, contract.Errorf("run/not-resumable", "run %s is in progress: it goes on by itself", id)
	}
	defer h.runs.unclaim(id)
	taken, err := h.Take()
	if err != nil {
		return nil, err
	}
	t := taken.(*turn)
	records, failed := h.journal.Records(id)
	if failed != nil {
		t.Release()
		return nil, history.Failure(failed)
	}
	run, err := t.of.service.Resume(context.Background(), id, records, how)
	if err != nil {
		t.Release()
		return nil, err
	}
	active := &activeRun{run: run, of: t.of}
	h.runs.track(active)
	h.runs.after.Go(func() {
		defer t.Release()
		_, _ = t.attend(active, func(*act.Run) {}) // the journal has the response
	})
	return run, nil
}

// giveUp stops a daemon whose journal failed. Its runs fail with journal/unavailable at once.
func (d *Daemon) giveUp() error {
	err := d.journalFailed()
	d.setPhase(phaseDraining)
	d.notify.tell("STOPPING=1", "STATUS=the journal cannot record")
	ctx, cancel := context.WithTimeout(context.Background(), failedLimit)
	defer cancel()
	if h := d.host.Load(); h != nil {
		lost := contract.Errorf("journal/unavailable", "the journal cannot record: %w", d.store.Err())
		for _, active := range h.runs.all() {
			active.run.Lose(lost)
		}
	}
	d.takeDown(ctx)
	return err
}

// journalFailed logs and returns the failure of the journal.
func (d *Daemon) journalFailed() error {
	d.log.Error("the journal cannot record: the daemon ends", "error", d.store.Err())
	return fmt.Errorf("%w: %w", errJournalFailed, d.store.Err())
}

// retain removes old runs from time to time.
func (d *Daemon) retain(ctx context.Context) {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		removed, err := d.store.Retain(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.Error("old runs are not removed", "error", err)
		case removed.Runs+removed.Host > 0:
			d.log.Info("removed old runs", "runs", removed.Runs, "host-records", removed.Host)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// verifyShare limits the verification of finished runs to 1/verifyShare of the time.
const verifyShare = 20

// mostDamage is the maximum number of damaged places that are logged.
const mostDamage = 16

// verifyJournal verifies all runs and sessions once, slowly (JRN-030). Damage of finished runs does
// not stop the daemon: it is logged, and the status and a metric show the number of damaged places.
func (d *Daemon) verifyJournal(ctx context.Context) {
	began, damaged := time.Now(), 0
	const next = `"ferment runs verify" lists all damage; "ferment admin journal-repair" repairs it while no daemon runs`
	runs, err := d.store.VerifyEach(ctx, func(x *store.Damage) {
		d.figures.commits.AddDamage()
		if damaged++; damaged <= mostDamage {
			d.log.Error("the journal is damaged", "error", x, "next", next)
		}
	}, func(took time.Duration) error {
		timer := time.NewTimer((verifyShare - 1) * took)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	took := time.Since(began).Round(time.Millisecond).String()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		d.log.Error("the journal could not be verified", "error", err, "runs", runs, "next", next)
	case damaged > 0:
		d.log.Error("the journal was verified", "runs", runs, "damaged", damaged, "took", took)
	default:
		d.log.Info("the journal was verified", "runs", runs, "took", took)
	}
}

// journalCondition returns the condition of the journal (HTTP-007).
func (d *Daemon) journalCondition() httpapi.Condition {
	c := httpapi.Condition{Name: "journal", OK: true}
	switch {
	case d.store == nil:
		return c
	case d.store.Err() != nil:
		c.OK, c.Why = false, "the journal cannot record: "+d.store.Err().Error()
	case d.store.Full():
		c.OK, c.Why = false, "the file system of the journal has less than store.min_free left"
		if records, lost := d.store.Waiting(); records > 0 {
			c.Why += fmt.Sprintf("; %d records of the audit trail wait for space, %d are lost", records, lost)
		}
	}
	c.Since = d.store.Since()
	return c
}
