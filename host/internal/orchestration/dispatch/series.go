package dispatch

import (
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// seriesLength is how many of the last successes figures rest on.
const seriesLength = 100

// series are the last measurements of something.
type series struct {
	last []float64
	next int // the oldest, once all room is taken
}

func (s *series) add(v float64) {
	if len(s.last) < seriesLength {
		s.last = append(s.last, v)
		return
	}
	s.last[s.next] = v
	s.next = (s.next + 1) % seriesLength
}

// quantile is that of the measurements; ok is false if there are fewer than so
// many.
func (s *series) quantile(share float64, least int) (v float64, ok bool) {
	n := len(s.last)
	if n < max(1, least) {
		return 0, false
	}
	sorted := slices.Clone(s.last)
	slices.Sort(sorted)
	return sorted[min(n-1, int(math.Ceil(share*float64(n)))-1)], true
}

// duration is quantile of measurements of time.
func (s *series) duration(share float64, least int) (time.Duration, bool) {
	v, ok := s.quantile(share, least)
	return time.Duration(v), ok
}

// speed is how fast the text of an answer came.
type speed struct {
	first time.Duration // until its first piece; 0: not known
	rate  float64       // tokens a second; 0: not known
}

// speedOf reads the usage of an answer. What the plugin does not say of the
// first piece the host has seen itself: heard, 0 if it saw none.
func speedOf(usage edn.Value, observed time.Duration) speed {
	s := speed{first: observed}
	if usage.IsNil() {
		return s
	}
	first, ok := usage.Key("first-token-ms").AsInt()
	if !ok || first < 0 || first > maxMillis {
		return s
	}
	s.first = max(time.Duration(first)*time.Millisecond, 1)
	whole, _ := usage.Key("latency-ms").AsInt()
	tokens, _ := usage.Key("tokens-out").AsInt()
	if whole > first && tokens > 1 {
		s.rate = float64(tokens-1) * 1000 / float64(whole-first)
	}
	return s
}

// maxMillis is the longest time that is believed: a day.
const maxMillis = int64(24 * time.Hour / time.Millisecond)
