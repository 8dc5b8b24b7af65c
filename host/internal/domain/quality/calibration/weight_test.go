package calibration_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// JDG-010, JDG-011: with twenty anchors of each label, judges that ignore the
// content get no weight, and sound judges do. confounded anchors are good ones
// of which three quarters are longer than most bad ones.
func TestWeight(t *testing.T) {
	type judge func(d *rand.Rand, good bool, length int) quality.Score
	tell := func(sure float64) judge {
		return func(d *rand.Rand, good bool, _ int) quality.Score {
			if (d.Float64() < sure) == good {
				return 850
			}
			return 200
		}
	}
	constant := func(s quality.Score) judge { return func(*rand.Rand, bool, int) quality.Score { return s } }
	long := func(_ *rand.Rand, _ bool, length int) quality.Score { return quality.Score(min(1000, length)) }
	judges := map[string]struct {
		judge     judge
		worthless bool
	}{
		"always passes": {constant(1000), true},
		"always fails":  {constant(0), true},
		"always middle": {constant(500), true},
		"random":        {func(d *rand.Rand, _ bool, _ int) quality.Score { return quality.Score(d.IntN(1001)) }, true},
		"coin":          {tell(0.5), true},
		"inverted":      {tell(0), true},
		"mostly wrong":  {tell(0.2), true},
		"loves length":  {long, true},
		"hates length":  {func(_ *rand.Rand, _ bool, length int) quality.Score { return quality.Score(max(0, 1000-length)) }, true},
		"counts to 500": {func(_ *rand.Rand, _ bool, length int) quality.Score { return quality.Score(min(1, length/500) * 1000) }, true},
		"right":         {tell(1), false},
		"mostly right":  {tell(0.9), false},
		"right and long": {func(d *rand.Rand, good bool, length int) quality.Score {
			return tell(1)(d, good, length) + quality.Score(length/10)
		}, false},
	}
	const seeds = 200
	for name, j := range judges {
		for _, confounded := range []bool{false, true} {
			worthless := 0
			for seed := range uint64(seeds) {
				d := rand.New(rand.NewPCG(seed, 11))
				var seen []calibration.Observation
				for i := range 40 {
					good := i%2 == 0
					length := d.IntN(1001)
					if confounded && d.Float64() < 0.75 {
						if length = d.IntN(500); good {
							length += 501
						}
					}
					seen = append(seen, calibration.Observation{Good: good, Score: j.judge(d, good, length), Again: j.judge(d, good, length), Repeated: true, Length: length})
				}
				r := calibration.Measure(calibration.Record{ScoreMin: 500}, seen, nil)
				standing := r.Standing(&registry.Judge{MinKappa: 0.4, Recheck: time.Hour, Drift: 1}, r.At.Add(100*time.Hour))
				if r.Worthless() != "" {
					worthless++
					assert.Equal(t, calibration.Worthless, standing, name)
				} else {
					assert.Equal(t, calibration.Expired, standing, name)
				}
			}
			if j.worthless {
				assert.GreaterOrEqual(t, worthless, seeds*95/100, "%s, confounded: %t", name, confounded)
			} else {
				assert.LessOrEqual(t, worthless, seeds*5/100, "%s, confounded: %t", name, confounded)
			}
		}
	}
}

// JDG-005, JDG-011: only a valid calibration that agrees well enough lets a judge
// reject an answer, and only with the models that were measured; a drifted judge is not called, and one whose agreement is
// within chance neither.
func TestWeightOfARecord(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	judge := &registry.Judge{Name: "grader", MinKappa: 0.4, Drift: 0.15, Recheck: time.Hour}
	record := func(kappa, baseline float64) *calibration.Record {
		return &calibration.Record{
			Capability: "judge/rules", Key: "k", At: at, Good: 20, Bad: 20, Kappa: kappa,
			Baseline: calibration.Measured{Value: baseline, Of: 40},
			Model:    "m-1", Models: []string{"m-1", "m-2"},
		}
	}
	other := *judge
	other.Capability = "judge/other"
	for name, row := range map[string]struct {
		record    *calibration.Record
		judge     *registry.Judge
		after     time.Duration
		standing  calibration.Standing
		rejects   bool
		covers    bool
		drift     string
		worthless bool
	}{
		"never calibrated":  {nil, judge, 0, calibration.Uncalibrated, false, false, "", false},
		"agrees":            {record(0.4, 0.4), judge, time.Hour, calibration.Believed, true, true, "", false},
		"agrees too little": {record(0.39, 0.39), judge, 0, calibration.Weak, false, true, "", false},
		"expired":           {record(0.4, 0.4), judge, time.Hour + 1, calibration.Expired, false, false, "", false},
		"other capability":  {record(0.4, 0.9), &other, 0, calibration.Uncalibrated, false, false, "", false},
		"drifted":           {record(0.6, 0.8), judge, 2 * time.Hour, calibration.Drifted, true, true, "kappa was 0.8 at first and is 0.6", false},
		"drifted and weak":  {record(0.39, 0.8), judge, 0, calibration.Drifted, false, true, "kappa was 0.8 at first and is 0.39", false},
		"within chance":     {record(0, 0), judge, 2 * time.Hour, calibration.Worthless, false, true, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := row.record.Weight(row.judge, at.Add(row.after))
			assert.Equal(t, row.standing, w.Standing)
			grader := calibration.Grader{CapID: "judge/rules", Key: "k"}
			for _, models := range [][]string{nil, {""}, {"m-1"}, {"m-1", "", "m-2"}} {
				grader.Models = models
				assert.Equal(t, row.rejects, w.Rejects(grader))
				assert.Equal(t, row.covers, w.Covers(grader))
			}
			grader.Models = []string{"m-1", "m-3"}
			assert.False(t, w.Covers(grader) || w.Rejects(grader))
			assert.Equal(t, row.record != nil, w.Unmeasured(grader) == "m-3")
			assert.Equal(t, row.covers, w.Covers(calibration.Grader{}))
			assert.Equal(t, row.drift, w.Drift())
			assert.Equal(t, row.worthless, w.Worthless() != "")
			assert.False(t, w.Covers(calibration.Grader{CapID: "judge/other", Key: "k"}))
			assert.False(t, w.Rejects(calibration.Grader{CapID: "judge/rules", Key: "k2"}))
		})
	}
	assert.False(t, calibration.Weight{}.Covers(calibration.Grader{}))
}
