package store

import "sync"

// news wakes goroutines that wait for a transaction.
type news struct {
	mu     sync.Mutex
	seq    uint64
	waking chan struct{} // nil if none waits
}

// publish sets the sequence number of the last transaction and wakes all waiters.
func (n *news) publish(seq uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq = seq
	if n.waking != nil {
		close(n.waking)
		n.waking = nil
	}
}

// Committed returns a channel that is closed when a transaction after the given
// one is committed.
func (s *Store) Committed(after uint64) <-chan struct{} {
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	if s.news.waking == nil {
		s.news.waking = make(chan struct{})
	}
	if s.news.seq > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return s.news.waking
}
