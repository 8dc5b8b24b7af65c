package watch

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

// run is the time in which a watcher has subscriptions.
type run struct {
	workspace *core.Workspace
	o         Options
	ctx       context.Context
	cancel    context.CancelCauseFunc
	dirty     *queue
	watches   *watches
	timeline  *timeline

	ready chan struct{} // closed after the first scan
	done  chan struct{} // closed at the end
	err   error         // why it ended; to be read after done

	// Only the loop uses these.
	held      bool      // an overflow was reported, its rescan not yet
	poll      time.Time // when to poll next
	reconcile time.Time // when to scan everything next

	mu        sync.Mutex
	failure   error // of the last scan
	polled    int   // that were reported
	overflows int
}

func newRun(w *core.Workspace, o Options) *run {
	r := &run{
		workspace: w,
		o:         o,
		dirty:     newQueue(o.Queue),
		timeline:  newTimeline(),
		ready:     make(chan struct{}),
		done:      make(chan struct{}),
	}
	r.watches = &watches{root: w.Root, max: o.MaxWatches, now: o.Clock.Now, into: r.dirty}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	go r.loop()
	return r
}

// stop ends the run and waits for it.
func (r *run) stop(why error) {
	r.cancel(why)
	<-r.done
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *run) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := State{Overflows: r.overflows, Err: r.failure}
	s.Watched, s.Polled = r.watches.counts()
	return s
}

// loop scans until the run is stopped or the root is lost.
func (r *run) loop() {
	defer close(r.done)
	defer r.watches.close()
	if r.err = r.start(); r.err != nil {
		return
	}
	close(r.ready)
	for {
		if r.err = r.next(); r.err != nil {
			if errors.Is(r.err, contract.OfType("watch/root-lost")) {
				r.say(notice{kind: RootLost, err: r.err}, false)
			}
			return
		}
	}
}

// start scans and watches the tree.
func (r *run) start() error {
	r.watches.reset()
	now := r.o.Clock.Now()
	r.poll, r.reconcile = now.Add(r.o.Poll), now.Add(r.o.Reconcile)
	if err := r.scan(batch{all: true}); err != nil {
		if !r.workspace.InPlace() {
			return r.lost(nil)
		}
		return err
	}
	r.sayDegraded()
	return nil
}

// next waits for something to do and does it.
func (r *run) next() error {
	now := r.o.Clock.Now()
	due := r.poll
	if r.reconcile.Before(due) {
		due = r.reconcile
	}
	timer, release := r.o.Clock.NewTimer(due.Sub(now))
	defer release()
	select {
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-r.dirty.wake:
		if err := r.settle(); err != nil {
			return err
		}
	case <-timer:
	}
	b := r.dirty.take()
	if now = r.o.Clock.Now(); !now.Before(r.reconcile) {
		r.poll, r.reconcile = now.Add(r.o.Poll), now.Add(r.o.Reconcile)
		b.add(batch{all: true})
	} else if !now.Before(r.poll) {
		r.poll = now.Add(r.o.Poll)
		b.add(r.watches.poll())
	}
	return r.handle(b)
}

// settle waits until no event has come for the debounce, but at most maxQuiet times the debounce, and
// then for the batch.
func (r *run) settle() error {
	end := r.o.Clock.Now().Add(maxQuiet * r.o.Debounce)
	for {
		now := r.o.Clock.Now()
		quiet := r.dirty.lastMark().Add(r.o.Debounce)
		if quiet.After(end) {
			quiet = end
		}
		if !quiet.After(now) {
			return r.sleep(r.o.Batch)
		}
		if err := r.sleep(quiet.Sub(now)); err != nil {
			return err
		}
	}
}

func (r *run) sleep(d time.Duration) error {
	timer, release := r.o.Clock.NewTimer(d)
	defer release()
	select {
	case <-timer:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// handle brings the tree up to date with a batch. A scan that fails is tried
// again with the next batch, at the latest when polling. An error ends the run.
func (r *run) handle(b batch) error {
	if !r.workspace.InPlace() {
		return r.lost(nil)
	}
	if b.empty() {
		return nil
	}
	if b.overflow && !r.held {
		r.held = true
		r.mu.Lock()
		r.overflows++
		r.mu.Unlock()
		r.say(notice{kind: Overflow}, true)
	}
	if b.overflow {
		r.watches.reset()
	}
	r.watches.drop(b.gone)
	err := r.scan(b)
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if errors.Is(err, contract.OfType("workspace/not-found")) {
		return r.lost(err)
	}
	if err != nil && !r.workspace.InPlace() {
		return r.lost(nil)
	}
	if r.failed(err); err != nil {
		r.dirty.restore(b)
		return nil
	}
	if r.held {
		r.held = false
		r.say(notice{kind: Rescan}, false)
	}
	r.sayDegraded()
	return nil
}

// scan commits what a batch found.
func (r *run) scan(b batch) error {
	o := r.o.Scan
	o.Visit = r.watches.add
	if !b.all {
		o.Dirs, o.Paths = slices.Collect(maps.Keys(b.dirs)), slices.Collect(maps.Keys(b.trees))
	}
	s, err := r.workspace.ScanAs(r.ctx, "watch", o)
	if err != nil {
		return err
	}
	r.watches.dropRemoved(s.Changes)
	return nil
}

// failed remembers and reports an error of a scan, once until it changes.
func (r *run) failed(err error) {
	r.mu.Lock()
	before := r.failure
	r.failure = err
	r.mu.Unlock()
	if err != nil && (before == nil || before.Error() != err.Error()) {
		r.say(notice{kind: Error, err: err}, r.held)
	}
}

// sayDegraded reports that polling began or ended.
func (r *run) sayDegraded() {
	_, polled := r.watches.counts()
	r.mu.Lock()
	before := r.polled
	r.polled = polled
	r.mu.Unlock()
	if (before == 0) != (polled == 0) {
		r.say(notice{kind: Degraded, polled: polled}, false)
	}
}

// say adds a notice. With hold, consumers wait for the next one before they read
// changes.
func (r *run) say(n notice, hold bool) {
	// If the store cannot be read, the consumers get that error themselves.
	_ = r.workspace.Store.View(context.WithoutCancel(r.ctx), store.Latest, func(v *store.Snapshot) error {
		n.seq = v.Seq()
		return nil
	})
	r.timeline.add(n, hold)
}

// lost returns the error watch/root-lost of a directory or store that is no longer in its place. If
// why is nil, it determines the cause.
func (r *run) lost(why error) error {
	if why == nil {
		_, why = os.Stat(r.workspace.Root)
	}
	if why == nil {
		why = errors.New("it or its data directory was removed or replaced")
	}
	return contract.Errorf("watch/root-lost", "the directory can no longer be watched: %w", why).
		WithOp("watch", r.workspace.Root)
}
