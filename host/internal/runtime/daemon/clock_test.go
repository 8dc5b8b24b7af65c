package daemon

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clockSet is t as time.Now would have given it if the clock of the machine had
// been set by whole seconds a moment before.
func clockSet(t testing.TB, at time.Time, by time.Duration) time.Time {
	t.Helper()
	was := at
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << 30
	require.Equal(t, by, at.Round(0).Sub(was.Round(0)), "the clock")
	require.Zero(t, at.Sub(was), "what runs evenly")
	return at
}

// HTTP-007: the main loop is called standing when it stands, not when somebody
// sets the clock, and a clock that was set back hides nothing.
func TestHealthOutlivesTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		d := &Daemon{begun: time.Now()}
		d.goesRound()
		assert.Less(t, d.silent(clockSet(t, time.Now(), by)), beatLimit, "%s", by)
		assert.GreaterOrEqual(t, d.silent(clockSet(t, time.Now().Add(2*beatLimit), by)), beatLimit, "%s", by)
	}
}
