package daemon

import (
	"sync"
	"time"
)

// readers counts the readers of the events of each run. A streamed run without an idempotency key
// that has had no reader for a while is canceled, because its answer could not be delivered
// (RUN-007). The zero value is ready to use.
type readers struct {
	mu sync.Mutex
	of map[string]*audience
}

// audience is the number of readers of one run.
type audience struct {
	n int
	// abandon cancels a run that needs readers; nil: the run continues without readers. patience
	// returns how long the run waits for a reader.
	abandon  func()
	patience func() time.Duration
	timer    *time.Timer // runs while there is no reader
}

// need calls abandon when the run has had no reader for patience. The caller must call over when
// the run has ended.
func (r *readers) need(run string, patience func() time.Duration, abandon func()) {
	r.change(run, func(a *audience) { a.abandon, a.patience = abandon, patience })
}

// over withdraws need for a run that has ended.
func (r *readers) over(run string) { r.change(run, func(a *audience) { a.abandon = nil }) }

// enter counts a reader of a run until leave is called, which must be called exactly once.
func (r *readers) enter(run string) (leave func()) {
	r.change(run, func(a *audience) { a.n++ })
	return func() { r.change(run, func(a *audience) { a.n-- }) }
}

// change applies the function to to the audience of a run, and starts or stops its timer.
func (r *readers) change(run string, to func(*audience)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.of[run]
	if a == nil {
		a = &audience{}
		if r.of == nil {
			r.of = map[string]*audience{}
		}
		r.of[run] = a
	}
	to(a)
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	switch {
	case a.n > 0:
	case a.abandon != nil:
		a.timer = time.AfterFunc(a.patience(), func() { r.abandon(run, a) })
	default:
		delete(r.of, run)
	}
}

// abandon cancels a run, unless it has a reader again or has ended.
func (r *readers) abandon(run string, a *audience) {
	r.mu.Lock()
	cancel := a.abandon
	if a.n > 0 || r.of[run] != a {
		cancel = nil
	}
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
