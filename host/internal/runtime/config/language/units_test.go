package language

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HCL-019: the units of durations and sizes.
func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{"1h30m": 5_400_000, "250ms": 250, "1.5s": 1500, "1d": 86_400_000, "2m30s5ms": 150_005, "0s": 0, "30m1h": 5_400_000} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "s", "-1s", "1 s", "1S", "1h30", "1w", "0.1ms", "1..5s", "99999999999999999999d"} {
		_, err := ParseDuration(text)
		assert.Error(t, err, text)
	}
	for text, want := range map[string]int64{"0B": 0, "512KiB": 524_288, "1.5GB": 1_500_000_000, "3MB": 3_000_000, "2MiB": 2 << 20, "1KB": 1000} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "KiB", "-1B", "1 KiB", "1kib", "1.5B", "99999999999GiB"} {
		_, err := ParseBytes(text)
		assert.Error(t, err, text)
	}
	for _, ms := range []int64{0, 1, 1000, 5_400_000, 90_061_001} {
		back, err := ParseDuration(FormatDuration(ms))
		require.NoError(t, err)
		assert.Equal(t, ms, back)
	}
	events, period, err := ParseRate("5/min")
	require.NoError(t, err)
	assert.Equal(t, []int64{5, 60_000}, []int64{events, period})
	for _, text := range []string{"", "5", "5/", "/s", "5/week", "-1/s", "1.5/s"} {
		_, _, err := ParseRate(text)
		assert.Error(t, err, text)
	}
}
