package stats

import (
	"math"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// seriesLength is the number of successes that the figures are based on.
const seriesLength = 100

// series holds the last measurements of one quantity.
type series struct {
	last []float64
	next int // the oldest, once last is full
}

func (s *series) add(v float64) {
	if len(s.last) < seriesLength {
		s.last = append(s.last, v)
		return
	}
	s.last[s.next] = v
	s.next = (s.next + 1) % seriesLength
}

// quantile returns the quantile share (0 to 1) of the measurements; ok is false with
// fewer than least measurements.
func (s *series) quantile(share float64, least int) (v float64, ok bool) {
	n := len(s.last)
	if n < max(1, least) {
		return 0, false
	}
	sorted := slices.Clone(s.last)
	slices.Sort(sorted)
	return sorted[min(n-1, int(math.Ceil(share*float64(n)))-1)], true
}

// duration returns a quantile of durations.
func (s *series) duration(share float64, least int) (time.Duration, bool) {
	v, ok := s.quantile(share, least)
	return time.Duration(v), ok
}

// speed holds the measured speed of the text of one answer.
type speed struct {
	first time.Duration // time to the first piece; 0: unknown
	rate  float64       // tokens per second; 0: unknown
}

// speedOf reads the usage of an answer. observed is the time to the first piece
// as measured by the host, 0 if none; the value of the plugin takes precedence.
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

// maxMillis is the longest accepted time: a day.
const maxMillis = int64(24 * time.Hour / time.Millisecond)

// minP95Samples is the number of successes needed to estimate a p95.
const minP95Samples = 20

// performance holds the measurements of the last successes.
type performance struct {
	measuring sync.Mutex
	paid      *big.Rat
	bills     int64
	// Latency, time to the first piece of text, tokens per second.
	latencies, firsts, rates series
}

// add adds latency, speed and cost of a success.
func (p *performance) add(took time.Duration, how speed, cost edn.Value) {
	p.measuring.Lock()
	defer p.measuring.Unlock()
	p.latencies.add(float64(took))
	if how.first > 0 {
		p.firsts.add(float64(how.first))
	}
	if how.rate > 0 {
		p.rates.add(how.rate)
	}
	if r, ok := cost.AsNumber(); ok && r.Sign() >= 0 {
		p.paid = new(big.Rat).Add(p.paid, r)
		p.bills++
	}
}

// fill sets the measured figures.
func (p *performance) fill(f *Figures) {
	p.measuring.Lock()
	defer p.measuring.Unlock()
	f.Latency, f.Timed = p.latencies.duration(0.5, 1)
	f.First, _ = p.firsts.duration(0.5, 1)
	f.Rate, _ = p.rates.quantile(0.5, 1)
	if p.bills > 0 {
		f.Cost = new(big.Rat).Quo(p.paid, new(big.Rat).SetInt64(p.bills))
	}
}

// P95 returns the p95 of the last latencies; ok is false with too few
// successes.
func (p *performance) P95() (d time.Duration, ok bool) {
	p.measuring.Lock()
	defer p.measuring.Unlock()
	return p.latencies.duration(0.95, minP95Samples)
}
