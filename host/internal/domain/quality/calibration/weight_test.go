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
