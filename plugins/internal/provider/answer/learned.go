package answer

import (
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
)

// maxHeadroom bounds the tokens that a request leaves for reasoning, unless the
// configuration sets more.
const maxHeadroom = 16 << 10

// maxRejected bounds the rejected fields of a model, which may be values of callers.
const maxRejected = 64

// Learned holds facts about a model learned from its answers since the process
// started. It is safe for concurrent use.
type Learned struct {
	mu       sync.Mutex
	rejected []chat.Rejected // oldest first
	headroom int64
	window   int64
	asked    time.Time // time of the last request for the window
}

// windowAgain is the lifetime of the window stated by a server: it may reload
// its model with another one.
const windowAgain = time.Minute

// Window returns the context window of the loaded model in tokens, 0 if unknown. stale reports
// whether it was never read, or was read at least windowAgain before now.
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

// Rejected returns the request fields that the server rejected.
func (l *Learned) Rejected() []chat.Rejected {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rejected)
}

// reject records a field of a request that was rejected. It returns false if the next request would
// have it too: it is the output limit, whose other name was rejected before and is then forgotten. A
// field that is already recorded was rejected in a request that was sent before that.
func (l *Learned) reject(r chat.Rejected) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	other := chat.Rejected{Field: dialect.OtherLimit(r.Field)}
	if i := slices.Index(l.rejected, other); i >= 0 {
		l.rejected = slices.Delete(l.rejected, i, i+1)
		return false
	}
	if !slices.Contains(l.rejected, r) {
		l.rejected = append(l.rejected, r)
		l.rejected = l.rejected[max(0, len(l.rejected)-maxRejected):]
	}
	return true
}

// room returns the number of tokens to leave for reasoning, at least the given
// one.
func (l *Learned) room(least int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.headroom, least)
}

// widen increases the room for reasoning after reasoning used up a request's limit of tokens. The
// room never exceeds maxHeadroom.
func (l *Learned) widen(limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.headroom = max(l.headroom, min(max(2*limit, dialect.Headroom), maxHeadroom))
}
