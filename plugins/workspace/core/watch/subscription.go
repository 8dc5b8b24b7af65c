package watch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

// maxBehind is the number of changes by which a consumer may be behind before it gets a summary.
const maxBehind = 10_000

// SubscribeOptions configure a subscription.
type SubscribeOptions struct {
	// After is the transaction after which the changes begin; nil means the one
	// at the time of Ready.
	After *uint64
	// Regenerate is called after each event with changes. Its result is
	// reported as Regenerated. It may be nil.
	Regenerate func(context.Context, *Event) (report any, err error)
	// OnChange is called after Regenerate. Its error is reported. It may be nil.
	OnChange func(context.Context, *Event) error
}

// Within returns the options with hooks that run until ctx ends, also if the context of
// Next has ended.
func (o SubscribeOptions) Within(ctx context.Context) SubscribeOptions {
	if run := o.Regenerate; run != nil {
		o.Regenerate = func(_ context.Context, e *Event) (any, error) { return run(ctx, e) }
	}
	if run := o.OnChange; run != nil {
		o.OnChange = func(_ context.Context, e *Event) error { return run(ctx, e) }
	}
	return o
}

// Subscription is one consumer of a watcher. It must be used by one goroutine.
type Subscription struct {
	watcher *Watcher
	run     *run
	o       SubscribeOptions

	seq    uint64 // of the next event
	cursor uint64 // the transaction up to which changes are reported
	notice uint64 // position in the timeline
	queue  []*Event
	hooks  []func(context.Context) *Event // that have not run
	closed bool
	err    error // of the end
}

// start sets the position of a new subscription.
func (s *Subscription) start(ctx context.Context) error {
	s.notice = s.run.timeline.end()
	err := s.run.workspace.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		s.cursor = v.Seq()
		if s.o.After != nil {
			s.cursor = *s.o.After
			if _, err := v.Changes(ctx, s.cursor, s.cursor); err != nil {
				return err
			}
		}
		return s.push(ctx, v, &Event{Kind: Ready})
	})
	if polled := s.run.state().Polled; err == nil && polled > 0 {
		s.queue = append(s.queue, &Event{Kind: Degraded, Commit: s.cursor, Root: s.queue[0].Root, Polled: polled})
	}
	return err
}

// push queues an event about the state at the cursor.
func (s *Subscription) push(ctx context.Context, v *store.Snapshot, e *Event) (err error) {
	e.Commit = s.cursor
	if e.Root, err = v.RootAt(ctx, s.cursor); err == nil {
		s.queue = append(s.queue, e)
	}
	return err
}

// Close ends the subscription, and stops the watch if it was the last one. It
// can be called repeatedly, but not while Next runs.
func (s *Subscription) Close() {
	if !s.closed {
		s.closed = true
		s.watcher.release(s.run)
	}
}

// Next returns the next event. It blocks until an event occurs, ctx ends, or the
// watch has ended.
func (s *Subscription) Next(ctx context.Context) (*Event, error) {
	silence := s.run.o.Clock.Now().Add(s.run.o.Heartbeat)
	for {
		if e := s.runHook(ctx); e != nil {
			return s.number(e), nil
		}
		if len(s.queue) > 0 {
			e := s.queue[0]
			s.queue = s.queue[1:]
			if e.Changes != nil {
				s.hooks = s.hooksFor(e)
			}
			return s.number(e), nil
		}
		if s.err != nil {
			return nil, s.err
		}
		if err := context.Cause(ctx); err != nil {
			return nil, contract.AsError(err)
		}
		wake, err := s.gather(ctx)
		if err != nil {
			return nil, err
		}
		if len(s.queue) == 0 && s.err == nil {
			s.wait(ctx, silence, wake)
		}
	}
}

func (s *Subscription) number(e *Event) *Event {
	e.Seq, e.Time = s.seq, s.run.o.Clock.Now()
	s.seq++
	return e
}

// wakes are channels that are closed when there may be something new.
type wakes struct {
	notice    <-chan struct{}
	committed <-chan struct{} // nil while changes are held back
}

// gather queues what is new.
func (s *Subscription) gather(ctx context.Context) (w wakes, err error) {
	ended := s.run.ended() // before the notices: the last one comes first
	for {
		n, next, hold, wake := s.run.timeline.at(s.notice)
		s.notice = next
		if n != nil {
			if err := s.tell(ctx, n); err != nil {
				return w, err
			}
			continue
		}
		if ended {
			s.err = s.run.err
			return w, nil
		}
		w.notice = wake
		if !hold {
			err = s.read(ctx, store.Latest)
			w.committed = s.run.workspace.Store.Committed(s.cursor)
		}
		if err != nil && !s.run.workspace.InPlace() {
			s.run.cancel(s.run.lost(nil)) // its last notice comes next
			w.committed, err = nil, nil
		}
		return w, err
	}
}

// wait blocks until there may be something new, or ctx ends. If nothing happens until silence, it
// queues a heartbeat.
func (s *Subscription) wait(ctx context.Context, silence time.Time, w wakes) {
	timer, release := s.run.o.Clock.NewTimer(silence.Sub(s.run.o.Clock.Now()))
	defer release()
	select {
	case <-w.notice:
	case <-w.committed:
	case <-s.run.done:
	case <-ctx.Done():
	case <-timer:
		s.queue = append(s.queue, &Event{Kind: Heartbeat, Commit: s.cursor})
	}
}

// tell queues a notice, with the changes before it.
func (s *Subscription) tell(ctx context.Context, n *notice) error {
	err := s.tellAt(ctx, n)
	if err != nil && n.kind == RootLost { // the store can be lost with the directory
		s.queue = append(s.queue, &Event{Kind: RootLost, Commit: s.cursor, Err: n.err})
		return nil
	}
	return err
}

func (s *Subscription) tellAt(ctx context.Context, n *notice) error {
	if n.kind != Rescan {
		if err := s.read(ctx, n.seq); err != nil {
			return err
		}
	}
	return s.run.workspace.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		e := &Event{Kind: n.kind, Polled: n.polled, Err: n.err}
		if n.kind == Rescan {
			return s.change(ctx, v, e, n.seq)
		}
		return s.push(ctx, v, e)
	})
}

// read queues the changes up to a transaction: an event for each, or one for all
// if there are too many.
func (s *Subscription) read(ctx context.Context, to uint64) error {
	return s.run.workspace.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		if to = min(to, v.Seq()); to <= s.cursor {
			return nil
		}
		steps, err := v.Steps(ctx, s.cursor, maxBehind)
		if err != nil {
			return err
		}
		total := 0
		for i, step := range steps {
			if step.Seq > to {
				steps = steps[:i]
				break
			}
			total += step.Paths
		}
		if len(steps) > 1 && total > maxBehind {
			e := &Event{Kind: Change, Changes: &Changes{Summary: true}}
			return s.change(ctx, v, e, to)
		}
		for _, step := range steps {
			if err := s.change(ctx, v, &Event{Kind: Change}, step.Seq); err != nil {
				return err
			}
		}
		s.cursor = to // the others changed frames only
		return nil
	})
}

// change queues an event with the changes up to a transaction.
func (s *Subscription) change(ctx context.Context, v *store.Snapshot, e *Event, to uint64) error {
	to = max(to, s.cursor)
	c, err := v.Changes(ctx, s.cursor, to)
	if err != nil {
		return err
	}
	summary := e.Changes != nil && e.Summary
	e.Changes = newChanges(c)
	e.Summary = summary
	s.cursor = to
	return s.push(ctx, v, e)
}

// runHook runs the hooks that are left for the last event with changes, until one
// has something to report. It returns nil if none has.
func (s *Subscription) runHook(ctx context.Context) *Event {
	for len(s.hooks) > 0 {
		hook := s.hooks[0]
		s.hooks = s.hooks[1:]
		if e := hook(ctx); e != nil {
			return e
		}
	}
	return nil
}

// hooksFor returns the hooks for an event with changes.
func (s *Subscription) hooksFor(e *Event) (hooks []func(context.Context) *Event) {
	if s.o.Regenerate != nil {
		hooks = append(hooks, func(ctx context.Context) *Event {
			report, err := s.o.Regenerate(ctx, e)
			return &Event{Kind: Regenerated, Commit: e.Commit, Root: e.Root, Report: report, Err: err}
		})
	}
	if s.o.OnChange != nil {
		hooks = append(hooks, func(ctx context.Context) *Event {
			if err := s.o.OnChange(ctx, e); err != nil {
				return &Event{Kind: OnChange, Commit: e.Commit, Root: e.Root, Err: err}
			}
			return nil
		})
	}
	return hooks
}
