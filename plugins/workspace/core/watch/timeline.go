package watch

import "sync"

// maxNotices is the number of notices that are kept for slow consumers.
const maxNotices = 256

// notice is an event of a watcher that is not a change: subscriptions read changes from the store.
type notice struct {
	kind Kind
	// seq is the last transaction when the notice was made: changes up to it come
	// first. Those of a Rescan are its own.
	seq    uint64
	polled int
	err    error
}

// timeline delivers notices to any number of readers. It is safe for concurrent use.
type timeline struct {
	mu    sync.Mutex
	first uint64 // position of list[0]
	list  []notice
	// hold means that changes are not to be read until the next notice.
	hold bool
	wake chan struct{}
}

func newTimeline() *timeline { return &timeline{wake: make(chan struct{})} }

// add appends a notice and sets whether changes wait for the one after it.
func (t *timeline) add(n notice, hold bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list, t.hold = append(t.list, n), hold
	if extra := len(t.list) - maxNotices; extra > 0 {
		t.list, t.first = t.list[extra:], t.first+uint64(extra)
	}
	close(t.wake)
	t.wake = make(chan struct{})
}

// end returns the position after the last notice.
func (t *timeline) end() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first + uint64(len(t.list))
}

// at returns the first notice from a position on, nil if there is none yet, and the position after
// it. hold means that changes must not be read yet. wake is closed when there is another notice.
func (t *timeline) at(pos uint64) (n *notice, next uint64, hold bool, wake <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos = max(pos, t.first); pos < t.first+uint64(len(t.list)) {
		found := t.list[pos-t.first]
		return &found, pos + 1, false, t.wake
	}
	return nil, pos, t.hold, t.wake
}
