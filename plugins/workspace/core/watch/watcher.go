package watch

import (
	"context"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Options configure a watcher. Zero fields have the defaults that are named.
type Options struct {
	Debounce  time.Duration // 100 ms: quiet time before a scan
	Batch     time.Duration // 50 ms: time in which more changes join the scan
	Poll      time.Duration // 2 s: interval of scans of what cannot be watched
	Reconcile time.Duration // 10 min: interval of scans of everything
	Heartbeat time.Duration // 15 s: longest silence of a subscription
	Queue     int           // 10,000: dirty paths that may wait
	// MaxWatches limits the directories that are watched; the others are polled.
	// 0 means as many as the system allows.
	MaxWatches int
	// Scan has the options of all scans: those of Workspace.Scan, without Paths,
	// Dirs and Visit.
	Scan  scan.Options
	Clock Clock // of the system
}

// maxQuiet limits the time for which continuing changes extend the debounce, as a multiple of it.
const maxQuiet = 10

func (o Options) withDefaults() Options {
	for field, value := range map[*time.Duration]time.Duration{
		&o.Debounce: 100 * time.Millisecond, &o.Batch: 50 * time.Millisecond, &o.Poll: 2 * time.Second,
		&o.Reconcile: 10 * time.Minute, &o.Heartbeat: 15 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if o.Queue == 0 {
		o.Queue = 10_000
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	return o
}

// Watcher watches one workspace while it has subscriptions. It is safe for
// concurrent use.
type Watcher struct {
	workspace *core.Workspace
	o         Options

	mu     sync.Mutex
	closed bool
	run    *run // nil without subscriptions
	users  int  // of run
}

// New returns a watcher that does nothing until it has a subscription.
func New(w *core.Workspace, o Options) *Watcher {
	return &Watcher{workspace: w, o: o.withDefaults()}
}

// State is a snapshot of the counters and of the last scan error of a Watcher.
type State struct {
	Subscriptions int
	Watched       int // directories
	Polled        int // directories that cannot be watched
	Overflows     int // since the first of the subscriptions
	// Err is the error of the last scan, nil if it succeeded.
	Err error
}

// State returns the state of the watcher. Without subscriptions it is zero.
func (w *Watcher) State() State {
	w.mu.Lock()
	r, users := w.run, w.users
	w.mu.Unlock()
	if r == nil {
		return State{}
	}
	s := r.state()
	s.Subscriptions = users
	return s
}

// Close ends all subscriptions and waits until all goroutines of the watcher
// have ended.
func (w *Watcher) Close() {
	w.mu.Lock()
	r := w.run
	w.closed, w.run, w.users = true, nil, 0
	w.mu.Unlock()
	if r == nil {
		return
	}
	why := errClosed(w.workspace.Root)
	if !w.workspace.InPlace() {
		why = r.lost(nil)
	}
	r.stop(why)
}

func errClosed(root string) error {
	return contract.Errorf("canceled", "the watcher is closed").WithOp("watch", root)
}

// acquire returns the run that all subscriptions share, a new one for the first
// of them or if the last one ended.
func (w *Watcher) acquire() (*run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed(w.workspace.Root)
	}
	if w.run == nil || w.run.ended() {
		w.run, w.users = newRun(w.workspace, w.o), 0
	}
	w.users++
	return w.run, nil
}

// release ends a run that has no subscription any more.
func (w *Watcher) release(r *run) {
	w.mu.Lock()
	last := false
	if w.run == r {
		if w.users--; w.users == 0 {
			w.run, last = nil, true
		}
	}
	w.mu.Unlock()
	if last {
		r.stop(errClosed(w.workspace.Root))
	}
}

// Subscribe begins a subscription, and starts the watch if it is the first. It
// returns when the tree is scanned and watched. The caller must close the
// subscription.
func (w *Watcher) Subscribe(ctx context.Context, o SubscribeOptions) (*Subscription, error) {
	r, err := w.acquire()
	if err != nil {
		return nil, err
	}
	s := &Subscription{watcher: w, run: r, o: o}
	select {
	case <-r.ready:
		err = s.start(ctx)
	case <-r.done:
		err = r.err
	case <-ctx.Done():
		err = contract.AsError(context.Cause(ctx))
	}
	if err != nil {
		w.release(r)
		return nil, err
	}
	return s, nil
}
