package identity

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// AUTH-020: failed logins of other accounts do not end a lock, and the counters are bounded,
// also if all of them lock.
func TestLocksOutlastOtherFailures(t *testing.T) {
	a, now := newAttempts(), time.Unix(1_000_000, 0)
	l := Locks{Max: 2, StrongMax: 2, Window: time.Hour, StrongWindow: time.Hour, Forgive: time.Hour}
	lock := func(login string) {
		for range l.Max {
			a.failed(login, "192.0.2.1", false, now, l)
		}
	}
	locked := func(login string) bool {
		left, _ := a.check(login, "192.0.2.1", now, l)
		return left > 0
	}
	lock("ann")
	for i := range maxTallies {
		now = now.Add(time.Millisecond)
		a.failed("guess-"+strconv.Itoa(i), "192.0.2.1", false, now, l)
	}
	assert.True(t, locked("ann"))
	for name, pair := range a.pairs {
		if name != pairOf("ann", "192.0.2.1") {
			pair.until = now.Add(2 * l.Window)
		}
	}
	lock("bob")
	assert.Len(t, a.pairs, maxTallies)
	assert.False(t, locked("ann"), "it would have ended first")
	assert.True(t, locked("bob"))
}
