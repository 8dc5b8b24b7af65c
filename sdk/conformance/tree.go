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
// process with the same pid.
type member struct {
	pid   int
	start uint64
}

// load is the processor demand of processes: the time for which they ran, and
// the time for which their threads were ready and waited for a processor. On a
// busy machine a process that never rests mostly waits.
type load struct{ ran, waited time.Duration }

// burnWindow is the time over which the load of a plugin is measured. In
// addition to its idle load, a resting plugin runs for less than burnShare of
// it, and runs or waits for less than burnDemand. The demand has the wider
// limit, since on a busy machine a process that works for a moment waits too.
const (
	burnWindow = 600 * time.Millisecond
	burnShare  = burnWindow / 10
	burnDemand = burnWindow / 2
)

// burns reports whether a process with this load is not at rest.
func (u load) burns(idle load) bool {
	return u.ran >= idle.ran+burnShare || u.ran+u.waited >= idle.ran+idle.waited+burnDemand
}

// used measures the load of the tree in one burnWindow. ok is false if it cannot be
// measured.
func (t processTree) used(ctx context.Context) (total load, ok bool) {
	before, ok := t.members()
	if !ok {
		return load{}, false
	}
	select {
	case <-time.After(burnWindow):
	case <-ctx.Done():
		return load{}, false
	}
	after, ok := t.members()
	for m, u := range after {
		total.ran += u.ran - before[m].ran
		total.waited += max(0, u.waited-before[m].waited) // the wait of ended threads is not kept
	}
	return total, ok
}

// cools waits until the tree is as idle as before, and fails after b.soon. Time
// in which the tree waits for a processor does not count in full: on a busy
// machine finite work, such as the start of a server, takes longer.
func (b *bench) cools(ctx context.Context, t processTree, idle load, after string) error {
	limit := time.Now().Add(b.limit * 2 / 3)
	var granted time.Duration
	for {
		now, ok := t.used(ctx)
		if !ok || !now.burns(idle) {
			return ctx.Err()
		}
		granted += time.Duration(float64(burnWindow) * float64(now.ran) / float64(now.ran+now.waited))
		if granted+burnWindow > b.soon || time.Now().After(limit) {
			return want("a processor that is idle soon after "+after,
				"%s of processor time and %s of waiting for a processor in %s; %s and %s when the plugin was idle",
				now.ran, now.waited, burnWindow, idle.ran, idle.waited)
		}
	}
}
