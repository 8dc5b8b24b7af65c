package daemon

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clockSet returns at as time.Now would have returned it after the machine's
// clock was set by a number of whole seconds.
func clockSet(t testing.TB, at time.Time, by time.Duration) time.Time {
	t.Helper()
	was := at
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << 30
	require.Equal(t, by, at.Round(0).Sub(was.Round(0)), "the clock")
	require.Zero(t, at.Sub(was), "what runs evenly")
	return at
}

// HTTP-007: health depends on the rounds of the main loop, not on the wall
// clock, in both directions.
func TestHealthOutlivesTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		d := &Daemon{begun: time.Now()}
		d.recordBeat()
		assert.Less(t, d.sinceBeat(clockSet(t, time.Now(), by)), beatLimit, "%s", by)
		assert.GreaterOrEqual(t, d.sinceBeat(clockSet(t, time.Now().Add(2*beatLimit), by)), beatLimit, "%s", by)
	}
}
