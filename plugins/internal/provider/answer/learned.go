package answer

import (
	"slices"
	"sync"
	"time"
)

// maxHeadroom is the most tokens that a request leaves for reasoning, unless the
// configuration says more.
const maxHeadroom = 16 << 10

// Learned is what the answers of a model have shown of it since the process
// began. It is safe for concurrent use.
type Learned struct {
	mu       sync.Mutex
	refused  []string
	headroom int64
	window   int64
	asked    time.Time // when the server was asked for the window
}

// windowAgain is how long the window that a server stated is believed: a server
// may load its model again with another one.
const windowAgain = time.Minute

// Window is the number of tokens that the loaded model reads, 0 where that is not
// known. It is stale after a while.
func (l *Learned) Window(now time.Time) (n int64, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window, l.asked.IsZero() || now.Sub(l.asked) >= windowAgain
}

func (l *Learned) reads(n int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window, l.asked = n, now
}

// Refused are the fields of a request that the server refused.
func (l *Learned) Refused() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused)
}

// refuse notes a field that the server refused. It is false for one that it
// refused before.
func (l *Learned) refuse(field string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.refused, field) {
		return false
	}
	l.refused = append(l.refused, field)
	return true
}

// room is the number of tokens to leave for reasoning, at least the given one.
func (l *Learned) room(least int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.headroom, least)
}

// widen leaves more room after a request with a limit was used up by reasoning.
func (l *Learned) widen(limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.headroom = max(l.headroom, min(max(2*limit, 2048), maxHeadroom))
}
