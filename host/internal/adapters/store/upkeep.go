package store

import (
	"cmp"
	"context"
	"time"
)

// Full reports whether free space is below the minimum, so that new runs are
// rejected.
func (s *Store) Full() bool { return s.full.Load() != nil }

// Since returns the time of the failure that Err returns; without a failure, the time since which
// Full reports true; zero if neither applies.
func (s *Store) Since() time.Time {
	if s.Err() != nil {
		return s.failedAt
	}
	if since := s.full.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// SetLimits changes the limits. They apply from the next run and the next Retain on.
func (s *Store) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.checkSpace()
}

// checkSpace compares the free space with the minimum. It releases the reserve when less than its
// size is free, and allocates it again when there is enough space for both.
func (s *Store) checkSpace() {
	if s.reserve == nil {
		return // the space of a server is not checked
	}
	s.reserve.mu.Lock()
	defer s.reserve.mu.Unlock()
	free, err := s.reserve.free() // read under the lock, so that the latest caller has the latest number
	if err != nil {
		return // the next write fails and reports the cause
	}
	least := s.limits.Load().MinFree
	low := free < least
	switch {
	case !low:
		s.full.Store(nil)
	case s.full.Load() == nil:
		now := s.opts.Now()
		s.full.Store(&now)
	}
	switch {
	case s.reserve.held && free < reserveSize:
		if err := s.reserve.release(); err != nil {
			s.fail(err)
		}
	case !s.reserve.held && free >= max(least, reserveSize)+reserveSize: // or the next look would release it
		s.reserve.hold()
	}
	if low && !s.reserve.held {
		s.queue.setShort()
	}
}

// spacePeriod is the interval of the upkeep without commits, and the time without commits after
// which the writer counts as idle.
const spacePeriod = 5 * time.Second

// Amounts of written data after which keepUp is woken. Waking it after each commit would be too
// costly.
const (
	lookBytes   = 256 << 10
	lookBatches = 32
)

// noteBatch wakes keepUp if enough was written since it was last woken.
func (w *writer) noteBatch(b *batch) {
	w.s.batches.Add(1)
	w.unseenBytes += w.stored
	if w.unseenBatches++; w.unseenBatches < lookBatches && w.unseenBytes < lookBytes && len(b.jobs) == 0 {
		return
	}
	w.unseenBatches, w.unseenBytes = 0, 0
	select {
	case w.s.upkeep <- struct{}{}:
	default:
	}
}

// period returns the interval of keepUp without commits. With a shared database it is short enough
// to renew the lease several times before it lapses.
func (s *Store) period() time.Duration {
	period := cmp.Or(s.opts.period, spacePeriod)
	if s.shared != nil {
		return min(period, s.shared.leased()/5)
	}
	return period
}

// between makes the writer call do while no transaction is open, and waits until do has returned.
// If the store is closed or fails before that, it returns nil, and do may not have been called.
func (s *Store) between(do func(ctx context.Context) error) error {
	j := &job{do: do, done: make(chan struct{})}
	if s.queue.post(j) != nil {
		return nil
	}
	select {
	case <-j.done:
		return j.err
	case <-s.stop:
	case <-s.failed:
	}
	return nil
}

// keepUp maintains the database and watches the free space, in a goroutine of its own.
func (s *Store) keepUp() {
	defer s.done.Done()
	tick := time.NewTicker(s.period())
	defer tick.Stop()
	for seen := int64(0); ; {
		idle, ticked := false, false
		select {
		case <-s.stop:
			return
		case <-s.failed:
			return
		case <-tick.C:
			made := s.batches.Load()
			if idle, seen = made == seen, made; idle && s.shared != nil {
				_ = s.queue.post(&job{do: s.renew, done: make(chan struct{})})
			}
			ticked = true
		case <-s.upkeep:
		}
		s.checkSpace()
		if ticked {
			s.readmit()
		}
		// If space is low, the write-ahead log is not copied.
		if err := s.db.upkeep(context.Background(), idle, s.between); err != nil && !isFull(err) {
			s.fail(err)
		}
	}
}
