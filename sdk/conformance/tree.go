package conformance

import (
	"context"
	"time"
)

// processTree is a process and its descendants, in whatever session they are.
type processTree struct {
	pid  int
	mark uint64 // of the descendants; 0 if only the session of pid is known
}

// member is one process of a tree. The start time distinguishes it from a later
// process with the same number.
type member struct {
	pid   int
	start uint64
}

// burnWindow is the time over which the processor time of a plugin is measured, and
// burnShare what it may use of it beyond what it uses when it is idle.
const (
	burnWindow = 600 * time.Millisecond
	burnShare  = burnWindow / 10
)

// used measures the processor time of the tree in one burnWindow. ok is false if it
// cannot be measured.
func (t processTree) used(ctx context.Context) (total time.Duration, ok bool) {
	before, ok := t.members()
	if !ok {
		return 0, false
	}
	select {
	case <-time.After(burnWindow):
	case <-ctx.Done():
		return 0, false
	}
	after, ok := t.members()
	for m, spent := range after {
		total += spent - before[m]
	}
	return total, ok
}

// cools waits until the tree uses little more processor time than idle and fails if
// it does not within b.soon. The limit holds for processor time, so that a machine
// that is busy with other things does not matter.
func (b *bench) cools(ctx context.Context, t processTree, idle time.Duration, after string) error {
	limit := time.Now().Add(b.soon)
	for {
		spent, ok := t.used(ctx)
		if !ok || spent < idle+burnShare {
			return ctx.Err()
		}
		if time.Now().Add(burnWindow).After(limit) {
			return want("a processor that is idle soon after "+after,
				"%s of processor time in %s, %s when the plugin was idle", spent, burnWindow, idle)
		}
	}
}
