package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
)

// errJournalFailed is the cause of a daemon that ends because its journal cannot
// record any more (JRN-005).
var errJournalFailed = errors.New("the journal cannot record")

// failedLimit bounds the end of such a daemon. Nothing that it would wait for can
// be recorded.
const failedLimit = 3 * time.Second

// retainEvery is the interval in which old runs are removed.
const retainEvery = 10 * time.Minute

// openStore opens the journal of the configuration. Without one, runs are kept in
// memory.
func (d *Daemon) openStore(ctx context.Context, h *Host, loaded *Loaded) error {
	if !loaded.Store.Lasts() {
		var err error
		h.identity, err = identity.Open(ctx, &identity.Memory{})
		return err
	}
	options, err := storeOptions(loaded.Config)
	if err != nil {
		return err
	}
	opened, err := store.Open(ctx, options)
	if err != nil {
		return err
	}
	d.store, h.journal, h.full = opened, opened, opened.Full
	if h.secretKey, err = secretKey(loaded.Host.DataDir); err != nil {
		return &EnvironmentError{"read the key of secrets in the journal", err}
	}
	if options.Postgres != nil {
		h.id = options.Postgres.Host
	}
	if h.identity, err = identity.Open(ctx, opened.Identity()); err != nil {
		return err
	}
	h.learned = learned.NewBook(opened, h.stats.Notice)
	h.keepTalk(opened.Sessions(), opened.Conversations(), loaded)
	if _, shared := opened.Shared(); shared {
		h.ledger = budget.NewShared(opened.Budgets(), nil)
	} else if h.ledger, err = budget.NewKept(ctx, opened, nil); err != nil {
		return err
	}
	d.unfinished, err = opened.Unfinished(ctx)
	return err
}

// storeOptions returns the options of the store of a configuration, whose data
// directory is locked.
func storeOptions(c *config.Config) (store.Options, error) {
	s := c.Store
	o := store.Options{
		Path:    s.File,
		NoSync:  !s.Sync,
		MinFree: uint64(s.MinFree),
		Retain:  store.Retention{Age: s.Age, FailedAge: s.FailedAge, Bytes: s.Size, KeyWindow: s.KeyWindow},
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

// admits rejects new acts while there is too little space to record them
// (JRN-006).
func (h *Host) admits() *contract.Error {
	if h.full == nil || !h.full() {
		return nil
	}
	return contract.Errorf("journal/full", "the file system of the journal has less than store.min_free left")
}

// resumeRuns continues the runs that an earlier daemon has not finished (JRN-040,
// RUN-016). One that cannot be continued is reported and left as it is.
func (d *Daemon) resumeRuns(ctx context.Context) {
	why := journal.ResumedRestart
	if d.dir.crashed {
		why = journal.ResumedCrash
	}
	if resumed := d.recallAll(ctx, d.unfinished, func(store.Unfinished) string { return why }); resumed > 0 {
		d.log.Info("resumed runs that an earlier daemon had begun", "runs", resumed)
	}
}

// recallAll puts runs back into the queue and returns their number.
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

// takeOver resumes the runs of other hosts whose lease lapses, while a daemon serves
// (JRN-007).
func (d *Daemon) takeOver(ctx context.Context, lease time.Duration) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
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

// recall puts a run of an earlier daemon back into the queue.
func (d *Daemon) recall(ctx context.Context, u store.Unfinished, why string) error {
	id := u.Run.ID
	first, err := d.store.Read(ctx, id, 0, 1)
	if err != nil {
		return err
	}
	accepted, ok := first[0].Body.(*journal.RunAccepted)
	if !ok {
		return fmt.Errorf("its first record is %s", first[0].Body.Kind())
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
		d.log.Error("a run cannot be resumed", "run", id, "intent", accepted.Intent, "error", err)
	})
	return nil
}

// resume continues a suspended or failed run and returns once it goes on.
func (h *Host) resume(id string, how act.Resumption) *contract.Error {
	if !h.runs.claim(id) {
		return contract.Errorf("run/not-resumable", "run %s is in progress: it goes on by itself", id)
	}
	defer h.runs.unclaim(id)
	taken, err := h.Take()
	if err != nil {
		return err
	}
	t := taken.(*turn)
	records, failed := h.journal.Records(id)
	if failed != nil {
		t.Release()
		return failureOf(failed)
	}
	run, err := t.of.service.Resume(context.Background(), id, records, how)
	if err != nil {
		t.Release()
		return err
	}
	active := &activeRun{run: run, of: t.of}
	h.runs.track(active)
	h.runs.after.Go(func() {
		defer t.Release()
		_, _ = t.attend(active, func(*act.Run) {}) // the journal has the response
	})
	return nil
}

// giveUp ends a daemon whose journal failed: no answer leaves any more, so there
// is nothing to wait for.
func (d *Daemon) giveUp() error {
	err := fmt.Errorf("%w: %w", errJournalFailed, d.store.Err())
	d.log.Error("the journal cannot record: the daemon ends", "error", d.store.Err())
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

// retain removes old runs from time to time.
func (d *Daemon) retain(ctx context.Context) {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		removed, err := d.store.Retain(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.Error("old runs are not removed", "error", err)
		case removed > 0:
			d.log.Info("removed old runs", "runs", removed)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// journalCondition is the condition of the journal (HTTP-007).
func (d *Daemon) journalCondition() httpapi.Condition {
	c := httpapi.Condition{Name: "journal", OK: true}
	switch {
	case d.store == nil:
	case d.store.Err() != nil:
		c.OK, c.Why = false, "the journal cannot record: "+d.store.Err().Error()
	case d.store.Full():
		c.OK, c.Why = false, "the file system of the journal has less than store.min_free left"
	}
	return c
}
