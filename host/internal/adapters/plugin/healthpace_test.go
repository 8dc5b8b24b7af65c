package plugin

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/wire"
)

// SUP-003, WIRE-002: of health events that come too fast, the newest is taken as soon as the limit
// permits, with the number of those before it. The last state of a plugin is always taken.
func TestHealthPace(t *testing.T) {
	clock := &simClock{now: time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)}
	var taken []string
	var dropped []int
	p := &healthPace{clock: clock, take: func(h wire.Health, n int) { taken, dropped = append(taken, h.Reason), append(dropped, n) }}
	n := 0
	send := func(events int) {
		for range events {
			n++
			p.add(wire.Health{Reason: strconv.Itoa(n)})
		}
	}
	send(1000)
	require.Len(t, taken, wire.MaxHealthBurst, "the burst")
	clock.pass(time.Second - 1)
	require.Len(t, taken, wire.MaxHealthBurst)
	clock.pass(1)
	require.Len(t, taken, wire.MaxHealthBurst+1)
	assert.Equal(t, "1000", taken[wire.MaxHealthBurst], "the newest")
	assert.Equal(t, 1000-wire.MaxHealthBurst-1, dropped[wire.MaxHealthBurst])
	for range 60 {
		send(1000)
		clock.pass(time.Second)
	}
	require.Len(t, taken, wire.MaxHealthBurst+61, "one per second")
	assert.Equal(t, strconv.Itoa(n), taken[len(taken)-1])

	clock.pass(wire.MaxHealthBurst * time.Second)
	taken = nil
	send(wire.MaxHealthBurst)
	require.Len(t, taken, wire.MaxHealthBurst, "the burst after a pause")
	send(1)
	p.close()
	clock.pass(time.Minute)
	assert.Len(t, taken, wire.MaxHealthBurst, "nothing is taken after the process")
}
