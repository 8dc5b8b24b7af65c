package plugin

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ERR-009: silence is measured with monotonic time; setting the clock neither
// causes nor hides it.
func TestSilenceOutlivesTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		s := &service{born: time.Now()}
		s.alive()
		now := time.Now()
		set := now
		*(*uint64)(unsafe.Pointer(&set)) += uint64(by/time.Second) << 30
		require.Equal(t, by, set.Round(0).Sub(now.Round(0)), "the clock")
		require.Zero(t, set.Sub(now), "what runs evenly")
		assert.Less(t, s.silent(set), time.Minute, "%s", by)
		assert.GreaterOrEqual(t, s.silent(set.Add(time.Minute)), time.Minute, "%s", by)
	}
}
