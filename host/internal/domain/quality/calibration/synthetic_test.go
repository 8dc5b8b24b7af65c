package calibration_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
)

// synthetic is a judge with planted biases.
type synthetic struct {
	length float64 // bonus of a long answer
	own    float64 // bonus of an answer of its own family
	hug    float64 // share of the distance from the middle that is removed
	first  float64 // probability to choose the first answer regardless of content
	later  float64 // loss of accuracy one month later
}

var planted = map[string]synthetic{
	"":           {},
	"order":      {first: 0.8},
	"length":     {length: 0.4},
	"own-family": {own: 0.3},
	"spread":     {hug: 0.9},
	"drift":      {later: 0.7},
}

// judge scores sixty answers of each label, twice, and compares forty pairs.
func (s synthetic) judge(d *rand.Rand, blind float64) calibration.Record {
	score := func(good bool, length float64, own bool) quality.Score {
		x := 0.3
		if good {
			x = 0.8
		}
		x += (0.55 - x) * blind
		x += d.NormFloat64()*0.12 + s.length*(length-0.5)
		if own {
			x += s.own
		}
		x = 0.5 + (x-0.5)*(1-s.hug)
		return quality.Score(1000 * min(1, max(0, x)))
	}
	var seen []calibration.Observation
	for i := range 120 {
		good, length, family := i%2 == 0, d.Float64(), "alpha"
		if d.IntN(2) == 0 {
			family = "beta"
		}
		seen = append(seen, calibration.Observation{
			Good: good, Score: score(good, length, family == "beta"), Again: score(good, length, family == "beta"), Repeated: true,
			Length: int(1000 * length), Family: family,
		})
	}
	var choices []calibration.Choice
	for range 40 {
		better := calibration.Second
		for range 2 { // both orders
			better = -better
			choice := better
			if d.Float64() < 0.1 {
				choice = -choice
			}
			if d.Float64() < s.first {
				choice = calibration.First
			}
			choices = append(choices, choice)
		}
	}
	return calibration.Measure(calibration.Record{ScoreMin: 550, Family: "beta"}, seen, choices)
}

// JDG-015: each planted bias is found in at least 95 of 100 runs, and no bias
// is found in an unbiased judge in 95 of 100.
func TestPlantAndRecover(t *testing.T) {
	const seeds = 200
	for plant, s := range planted {
		t.Run("planted "+plant, func(t *testing.T) {
			t.Parallel()
			found, clean := 0, 0
			for seed := range uint64(seeds) {
				d := rand.New(rand.NewPCG(seed, 7))
				before := s.judge(d, 0)
				faults := s.judge(d, s.later).Since(&before).Faults(0.15)
				if len(faults) == 0 {
					clean++
				}
				if slices.ContainsFunc(faults, func(f calibration.Fault) bool { return f.Name == plant }) {
					found++
				}
			}
			if plant == "" {
				assert.GreaterOrEqual(t, clean, seeds*95/100)
			} else {
				assert.GreaterOrEqual(t, found, seeds*95/100)
			}
		})
	}
}

// JDG-010: the share of good answers in a stream is estimated without the
// errors of the judge, and the interval contains it nearly as often as stated.
func TestCorrectedRecoversTheRate(t *testing.T) {
	const truth, se, sp, of, trials = 0.6, 0.9, 0.75, 400, 100
	held, sum := 0, 0.0
	for seed := range uint64(trials) {
		d := rand.New(rand.NewPCG(seed, 3))
		draw := func(n int, p float64) (hits int) {
			for range n {
				if d.Float64() < p {
					hits++
				}
			}
			return hits
		}
		r := calibration.Record{Good: 60, Bad: 60, Sensitivity: float64(draw(60, se)) / 60, Specificity: float64(draw(60, sp)) / 60}
		good := draw(of, truth)
		passed := draw(good, se) + draw(of-good, 1-sp)
		e, ok := r.Corrected(passed, of, seed)
		require.True(t, ok)
		require.LessOrEqual(t, e.Low, e.Rate)
		require.GreaterOrEqual(t, e.High, e.Rate)
		if e.Low <= truth && truth <= e.High {
			held++
		}
		sum += e.Rate
		if seed == 0 {
			again, _ := r.Corrected(passed, of, seed)
			require.Equal(t, e, again, "the interval is that of its seed")
		}
	}
	assert.GreaterOrEqual(t, held, trials*90/100)
	assert.InDelta(t, truth, sum/trials, 0.03, "what passed without correction is %.2f", truth*se+(1-truth)*(1-sp))
}

func TestCorrectedNeedsMoreThanChance(t *testing.T) {
	for name, r := range map[string]calibration.Record{
		"a coin":         {Good: 30, Bad: 30, Sensitivity: 0.5, Specificity: 0.5},
		"worse than one": {Good: 30, Bad: 30, Sensitivity: 0.2, Specificity: 0.5},
		"no anchors":     {Sensitivity: 1, Specificity: 1},
	} {
		_, ok := r.Corrected(5, 10, 1)
		assert.False(t, ok, name)
	}
	sharp := calibration.Record{Good: 30, Bad: 30, Sensitivity: 1, Specificity: 1}
	_, ok := sharp.Corrected(0, 0, 1)
	assert.False(t, ok, "no answers")
	e, ok := sharp.Corrected(30_000, 40_000, 1)
	require.True(t, ok)
	assert.InDelta(t, 0.75, e.Rate, 1e-9)
	assert.Less(t, e.High-e.Low, 0.03)
	nearly := calibration.Record{Good: 20, Bad: 20, Sensitivity: 0.55, Specificity: 0.5}
	e, ok = nearly.Corrected(10, 20, 1)
	require.True(t, ok)
	assert.Equal(t, calibration.Estimate{Rate: e.Rate, Low: 0, High: 1}, e, "who is hardly better than a coin leaves everything open")
}
