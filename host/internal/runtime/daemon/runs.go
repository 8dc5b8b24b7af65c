package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// runs tracks the runs in progress, and the generation of each.
type runs struct {
	mu       sync.Mutex
	current  *generation
	live     []*generation         // generations with holds, and the current one
	byID     map[string]*activeRun // accepted runs
	resuming map[string]bool       // runs that a caller is about to continue, before they are accepted
	taken    int                   // turns held by callers
	ending   context.Context       // canceled when acts are no longer accepted
	refuse   context.CancelFunc
	closed   bool           // the host is closing: plugins are not notified of ended runs
	after    sync.WaitGroup // goroutines that notify plugins
	readers  readers
	changed  chan struct{} // closed when taken decreases or a generation is retired
}

// stateOf returns the state of an unfinished run that this host executes: "queued", "waiting" (for
// people) or "running". It returns "open" if this host does not execute the run.
func (r *runs) stateOf(id string) string {
	active := r.active(id)
	switch {
	case active == nil:
		return "open"
	case active.run.Waiting():
		return "queued"
	case active.run.AwaitsPeople():
		return "waiting"
	}
	return "running"
}

// active returns the run in progress with an id, nil if there is none.
func (r *runs) active(id string) *activeRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// activeRun is an accepted run with its generation.
type activeRun struct {
	run      *act.Run
	of       *generation // nil while the run is queued
	canceled bool        // by the shutdown of the host
}

func newRuns() *runs {
	ending, refuse := context.WithCancel(context.Background())
	return &runs{
		byID:     map[string]*activeRun{},
		resuming: map[string]bool{},
		ending:   ending,
		refuse:   refuse,
		changed:  make(chan struct{}),
	}
}

// claim reserves a run that is not in progress for a caller that wants to continue it. It reports
// false if the run is in progress or claimed.
func (r *runs) claim(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[id] != nil || r.resuming[id] {
		return false
	}
	r.resuming[id] = true
	return true
}

// unclaim releases a claim.
func (r *runs) unclaim(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.resuming, id)
}

// turn is a caller's hold on a generation.
type turn struct {
	host   *Host
	of     *generation
	nested bool // for a request of a plugin within another run
	once   sync.Once
}

var _ httpapi.Turn = (*turn)(nil)

// Take returns a hold on the current generation. The error is runtime/draining when acts are no
// longer accepted. The caller must release the hold.
func (h *Host) Take() (httpapi.Turn, *contract.Error) {
	r := h.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending.Err() != nil {
		return nil, draining()
	}
	r.taken++
	r.current.holds++
	return &turn{host: h, of: r.current}, nil
}

// nested returns a hold on the generation of a run, for a request within it. For an unknown run
// that is the current generation.
func (h *Host) nested(run string) *turn {
	r := h.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.current
	if t := r.byID[run]; t != nil && t.of != nil {
		of = t.of
	}
	of.holds++
	return &turn{host: h, of: of, nested: true}
}

// Registry implements httpapi.Turn.
func (t *turn) Registry() *registry.Registry { return t.of.loaded.Generation.Registry }

// Do implements httpapi.Turn.
func (t *turn) Do(ctx context.Context, a act.Act) (edn.Value, *contract.Error) {
	return t.perform(ctx, a, func(*act.Run) {})
}

// Watch implements httpapi.Turn. With a durable journal the events can be read again later, so the
// run continues if the reader is gone; Watch then returns a nil response. Otherwise the run is
// canceled.
func (t *turn) Watch(ctx context.Context, a act.Act, show func([]journal.Event) error) (edn.Value, *contract.Error) {
	a.Watched = true
	if _, durable := t.host.journal.(journal.Syncer); !durable {
		return t.perform(ctx, a, func(run *act.Run) {
			// The end of the run is shown too, so the context of the reader must not stop the
			// watch.
			if err := run.WatchPages(context.WithoutCancel(ctx), show); err != nil {
				run.Cancel("client", "it stopped reading")
			}
		})
	}
	run, active, err := t.start(context.WithoutCancel(ctx), a)
	if err != nil {
		return t.of.service.Refusal(a, err), err
	}
	leave := t.host.runs.readers.enter(run.ID())
	if active != nil {
		if !a.Request.HasKey("idempotency/key") { // with a key, the caller may read the run later
			t.host.needReaders(run)
		}
		t.host.hold(t.of, func() {
			<-run.Done()
			t.host.untrack(active)
		})
	}
	gone := false
	reading, stop := t.host.runs.attending(ctx, run)
	defer stop()
	_ = run.WatchPages(reading, func(events []journal.Event) error {
		err := show(events)
		gone = err != nil
		return err
	}) // a run with unreadable records still has a response
	leave()
	if gone || ctx.Err() != nil {
		return edn.Nil(), nil
	}
	return run.Await(reading)
}

// attending returns the context of a caller that waits for a run. For a run of another host it is
// also canceled when this host shuts down, because nothing here would end the wait.
func (r *runs) attending(ctx context.Context, run *act.Run) (_ context.Context, stop func()) {
	if !run.Elsewhere() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(r.ending, func() { cancel(draining()) })
	return ctx, func() {
		unlink()
		cancel(nil)
	}
}

// needReaders cancels a run when it has had no reader for http.stream_orphan_ttl.
func (h *Host) needReaders(run *act.Run) {
	patience := func() time.Duration { return h.runs.now().loaded.HTTP.OrphanTTL }
	h.runs.readers.need(run.ID(), patience, func() {
		run.Cancel("host", fmt.Sprintf("it had no reader for %s (http.stream_orphan_ttl)", patience()))
	})
}

// hold runs do in a new goroutine, with a hold on a generation.
func (h *Host) hold(g *generation, do func()) {
	r := h.runs
	r.mu.Lock()
	r.taken++
	g.holds++
	r.mu.Unlock()
	r.after.Go(func() {
		t := &turn{host: h, of: g}
		defer t.Release()
		do()
	})
}

// start starts the run of an act. The run is tracked before its id is returned; active is nil if
// another caller has started it.
func (t *turn) start(ctx context.Context, a act.Act) (run *act.Run, active *activeRun, err *contract.Error) {
	if err := t.host.admits(); err != nil {
		return nil, nil, err
	}
	a.Started = func(run *act.Run) {
		active = &activeRun{run: run, of: t.of}
		t.host.runs.track(active)
	}
	run, err = t.of.service.Start(ctx, a)
	if err == nil && run.Stored() && a.Replayed != nil {
		a.Replayed()
	}
	return run, active, err
}

func (t *turn) perform(ctx context.Context, a act.Act, follow func(*act.Run)) (edn.Value, *contract.Error) {
	run, active, err := t.start(ctx, a)
	switch {
	case err != nil:
		return t.of.service.Refusal(a, err), err
	case active == nil:
		ctx, stop := t.host.runs.attending(ctx, run)
		defer stop()
		follow(run)
		return run.Await(ctx)
	}
	return t.attend(active, follow)
}

// attend calls follow for a tracked run, waits for its end and returns its response.
func (t *turn) attend(active *activeRun, follow func(*act.Run)) (edn.Value, *contract.Error) {
	run := active.run
	follow(run)
	response, failure := run.Wait()
	t.host.untrack(active)
	return response, failure
}

// Release implements httpapi.Turn.
func (t *turn) Release() {
	t.once.Do(func() {
		r := t.host.runs
		r.mu.Lock()
		if !t.nested {
			r.taken--
		}
		t.of.holds--
		gone := r.retire()
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		for _, g := range gone {
			g.close()
		}
	})
}

// retire removes the generations without holds and returns them. The caller holds mu and must close
// them.
func (r *runs) retire() []*generation {
	var gone, kept []*generation
	for _, g := range r.live {
		if g != r.current && g.holds == 0 {
			gone = append(gone, g)
		} else {
			kept = append(kept, g)
		}
	}
	r.live = kept
	return gone
}

// install makes g the generation of new acts, and closes generations without holds.
func (r *runs) install(g *generation) {
	r.mu.Lock()
	r.current = g
	r.live = append(r.live, g)
	gone := r.retire()
	r.mu.Unlock()
	for _, old := range gone {
		old.close()
	}
}

// now returns the current generation; nil before the first one.
func (r *runs) now() *generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// awaitRoom waits until fewer than most generations are live. The error is the cause of ctx.
func (r *runs) awaitRoom(ctx context.Context, most int) error {
	for {
		r.mu.Lock()
		n, changed := len(r.live), r.changed
		r.mu.Unlock()
		if n < most {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// onceWait is the additional time, beyond the drain timeout, for attempts whose recovery is once.
const onceWait = 10 * time.Second

// refuseActs stops accepting acts, and ends the wait of callers for runs of other hosts.
func (h *Host) refuseActs() {
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	h.runs.refuse()
}

func draining() *contract.Error {
	return contract.Errorf("runtime/draining", "the daemon is going down")
}

// drain stops accepting acts, ends the runs that are queued or wait for people, and waits for the
// others (OPS-004). After limit it ends those too, except runs with an open attempt whose recovery
// is once, which get onceWait more. When ctx ends, drain returns at once.
func (h *Host) drain(ctx context.Context, limit time.Duration) {
	h.refuseActs()
	if h.endRuns(ctx, limit, func(run *act.Run) bool { return run.Waiting() || run.AwaitsPeople() }) ||
		h.endRuns(ctx, onceWait, func(run *act.Run) bool { return !h.hasOnceAttempt(run.ID()) }) {
		return
	}
	h.cancelRuns(func(*act.Run) bool { return true })
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancelLast()
	h.runs.idle(last)
}

// endRuns cancels the runs for which which returns true, also those for which it does so later,
// and waits for all runs. It reports false if the limit or ctx ends first.
func (h *Host) endRuns(ctx context.Context, limit time.Duration, which func(*act.Run) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		h.cancelRuns(which)
		step, cancelStep := context.WithTimeout(ctx, 100*time.Millisecond)
		idle := h.runs.idle(step)
		cancelStep()
		if idle || ctx.Err() != nil {
			return idle
		}
	}
}

// awaitAfter waits for the goroutines that notify plugins, until ctx ends.
func (r *runs) awaitAfter(ctx context.Context) {
	over := make(chan struct{})
	go func() { r.after.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// idle waits until no turn is held. It reports false if ctx ends first.
func (r *runs) idle(ctx context.Context) bool {
	for {
		r.mu.Lock()
		n, changed := r.taken, r.changed
		r.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// cancelRuns ends the runs for which which returns true. With a durable journal they are
// interrupted and continue at the next start; otherwise they are canceled.
func (h *Host) cancelRuns(which func(*act.Run) bool) {
	for _, t := range h.runs.all() { // only drain uses the field canceled
		if t.canceled || !which(t.run) {
			continue
		}
		t.canceled = true
		if _, durable := h.journal.(journal.Syncer); durable {
			t.run.Interrupt()
		} else {
			t.run.Cancel("host", "the daemon is going down")
		}
	}
}

// all returns the accepted runs that have not ended.
func (r *runs) all() []*activeRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}

// hasOnceAttempt reports whether the run has an open attempt whose recovery is once. If its records
// cannot be read, it returns true.
func (h *Host) hasOnceAttempt(run string) bool {
	type attempt struct {
		path string
		n    int
	}
	open := map[attempt]bool{}
	records, err := h.journal.Records(run)
	if err != nil {
		return true // it may have one
	}
	for _, rec := range records {
		switch body := rec.Body.(type) {
		case *journal.AttemptStarted:
			if body.Recovery == contract.RecoveryOnce.String() {
				open[attempt{rec.Path.String(), body.Attempt}] = true
			}
		case *journal.AttemptFinished:
			delete(open, attempt{rec.Path.String(), body.Attempt})
		}
	}
	return len(open) > 0
}
