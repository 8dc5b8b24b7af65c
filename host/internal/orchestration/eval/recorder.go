package eval

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Recorder numbers and timestamps the records of one run and appends them in
// order. After an error it rejects all records: a run that cannot be recorded
// must end. After a record that is too large for the journal, those with which a
// run ends are still recorded.
type Recorder struct {
	ctx   context.Context
	to    journal.Journal
	sync  journal.Syncer // nil: every record is durable at once
	clock dispatch.Clock
	run   string
	epoch int

	mu   sync.Mutex
	mask *journal.Mask
	seq  int
	err  error // rejects all records
	full error // rejects those that do not close the run
}

var _ dispatch.Recorder = (*Recorder)(nil)

// NewRecorder creates the recorder of a run. Canceling ctx does not stop
// recording: a run is recorded to its end, which [Recorder.Within] bounds.
func NewRecorder(ctx context.Context, to journal.Journal, clock dispatch.Clock, run string, epoch int) *Recorder {
	r := &Recorder{ctx: context.WithoutCancel(ctx), to: to, clock: clock, run: run, epoch: epoch}
	r.sync, _ = to.(journal.Syncer)
	if o, ok := to.(journal.Opener); ok {
		r.to = o.Open(run)
	}
	return r
}

// Continue makes the next record follow number seq, the last one of a run that is
// resumed. It must be called before the first record.
func (r *Recorder) Continue(seq int) { r.seq = seq }

// Epoch returns the epoch of the next record.
func (r *Recorder) Epoch() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// Mask sets the mask that replaces secrets in all later records.
func (r *Recorder) Mask(m *journal.Mask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mask = m
}

// Within makes all later calls of the journal end with ctx.
func (r *Recorder) Within(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
}

// Stop makes the recorder reject all further records with err, unless it already rejects
// them.
func (r *Recorder) Stop(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// Syncs reports whether Sync has anything to wait for.
func (r *Recorder) Syncs() bool { return r.sync != nil }

// Sync implements dispatch.Recorder.
func (r *Recorder) Sync() error {
	if r.sync == nil {
		return nil
	}
	r.mu.Lock()
	ctx := r.ctx
	r.mu.Unlock()
	err := r.sync.Sync(ctx, r.run)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil {
			r.err = err
		}
	}
	return err
}

// End records body as the last record: all further ones are rejected with err. It returns
// the error of this record.
func (r *Recorder) End(body journal.Body, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed := r.record(edn.Nil(), "", body); failed != nil {
		return failed
	}
	r.err = err
	return nil
}

// Reopen records body as the first record of the next epoch. All further ones are
// rejected with err: another recorder continues the run.
func (r *Recorder) Reopen(body journal.Body, err error) error {
	r.mu.Lock()
	r.epoch++
	r.mu.Unlock()
	return r.End(body, err)
}

// Record implements dispatch.Recorder.
func (r *Recorder) Record(path edn.Value, node string, body journal.Body) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record(path, node, body)
}

func (r *Recorder) record(path edn.Value, node string, body journal.Body) error {
	if r.err != nil {
		return r.err
	}
	if r.full != nil && !journal.Closes(body) {
		return r.full
	}
	if n, ok := body.(journal.Numbered); ok {
		n.SetSeq(r.seq + 1)
	}
	rec := journal.Record{
		Run: r.run, Seq: r.seq + 1, At: r.clock.Now(), Epoch: r.epoch, Path: path, Node: node, Body: body,
	}
	var err error
	if r.mask.Any() {
		rec, err = r.mask.Record(rec)
	}
	if err == nil {
		err = r.to.Append(r.ctx, rec)
	}
	switch {
	case err == nil:
		r.seq++
	case errors.Is(err, contract.OfType("journal/too-large")):
		r.full = cmp.Or(r.full, err)
	default:
		r.err = err
	}
	return err
}
