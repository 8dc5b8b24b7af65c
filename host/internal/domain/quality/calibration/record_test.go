package calibration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func aRecord() calibration.Record {
	return calibration.Record{
		Judge: "grader", Capability: "judge/rubric", Key: "b3:aa", Model: "m-1", Family: "alpha",
		Anchors: "b3:bb", Good: 24, Bad: 20, Failed: 1, At: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), ScoreMin: 700,
		Sensitivity: 0.9167, Specificity: 0.85, Kappa: 0.7692,
		Flips: calibration.Measured{Value: 0.0455, Of: 44}, Order: calibration.Measured{Value: -0.1, Of: 20}, Spread: 0.2811,
	}
}

// JDG-010: writing and reading a record returns the same record.
func TestRecordReadsBackWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := func(low float64, name string) float64 {
			return float64(rapid.IntRange(int(low*10_000), 10_000).Draw(t, name)) / 10_000
		}
		maybe := func(low float64, name string) calibration.Measured {
			m := calibration.Measured{Of: rapid.IntRange(0, 500).Draw(t, name+" of")}
			if m.Of > 0 {
				m.Value = share(low, name)
			}
			return m
		}
		r := calibration.Record{
			Judge: rapid.StringMatching(`[a-z][a-z0-9._+-]{0,20}`).Draw(t, "judge"), Capability: "judge/rubric",
			Key: rapid.String().Draw(t, "key"), Model: rapid.String().Draw(t, "model"), Family: rapid.String().Draw(t, "family"),
			Anchors: "b3:00", Good: rapid.IntRange(0, 999).Draw(t, "good"), Bad: rapid.IntRange(0, 999).Draw(t, "bad"),
			At:       time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "at"), 0).UTC(),
			ScoreMin: quality.Score(rapid.IntRange(0, 1000).Draw(t, "min")),
			Kappa:    share(-1, "kappa"), Sensitivity: share(0, "se"), Specificity: share(0, "sp"), Spread: share(0, "spread"),
			Baseline: maybe(-1, "baseline"), Flips: maybe(0, "flips"), Length: maybe(-1, "length"), Order: maybe(-1, "order"), Own: maybe(-1, "own"),
		}
		text := edn.WritePretty(r.Value(), edn.PrettyOptions{})
		v, err := edn.Read(text)
		require.NoError(t, err)
		back, err := calibration.ParseRecord(v)
		require.NoError(t, err)
		assert.Equal(t, r, back)
		assert.Equal(t, r.Hash(), back.Hash())
	})
}

func TestRecordNamesEveryProblemWithItsPlace(t *testing.T) {
	v := aRecord().Value()
	for name, c := range map[string]struct {
		v    edn.Value
		want []string
	}{
		"no map":             {edn.Int(3), []string{"expected a map"}},
		"empty":              {edn.MustMap(), []string{"expected version 1, found 0"}},
		"kappa beyond 1":     {v.AssocKey("kappa", edn.MustDecimal("1.2")), []string{"[:kappa]", "from -1 to 1"}},
		"kappa is text":      {v.AssocKey("kappa", edn.Text("high")), []string{"[:kappa]", "found string"}},
		"an unknown key":     {v.AssocKey("kapa", edn.Int(1)), []string{"kapa"}},
		"another version":    {v.AssocKey("calibration/version", edn.Int(2)), []string{"calibrate the judge again"}},
		"a figure of nobody": {v.AssocKey("retest-flips", edn.MustMap(edn.K("value"), edn.Int(0), edn.K("of"), edn.Int(0))), []string{"[:retest-flips :of]"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := calibration.ParseRecord(c.v)
			require.ErrorIs(t, err, contract.OfType("invalid-request"))
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// JDG-011: a judge has drifted when kappa fell by 0.15 since the first
// calibration, to the last digit, also gradually; another judge or other
// anchors set a new baseline.
func TestRecordDrifts(t *testing.T) {
	first := aRecord()
	first.Kappa = 0.9
	measured := func(kappa float64, before calibration.Record) calibration.Record {
		r := aRecord()
		r.Kappa = kappa
		return r.Since(&before)
	}
	for kappa, want := range map[float64]bool{0.95: false, 0.9: false, 0.7501: false, 0.75: true, 0.3: true, -0.2: true} {
		assert.Equal(t, want, measured(kappa, first).Drifted(0.15), "kappa %g", kappa)
	}
	slow := measured(0.74, measured(0.82, first))
	assert.True(t, slow.Drifted(0.15), "little by little")
	assert.False(t, slow.Drifted(0.2))
	other := first
	other.Key = "b3:cc"
	assert.False(t, measured(0.1, other).Drifted(0.15), "another judge")
	assert.False(t, first.Since(nil).Drifted(0.15))
}

func qualityScore(n int64) quality.Score { return quality.Score(n) }

// JDG-011: the history of a judge is kept in its record, is bounded, and
// continues across judges.
func TestRecordKeepsItsCourse(t *testing.T) {
	r := aRecord()
	for i := range calibration.MostPoints + 10 {
		next := aRecord()
		next.At, next.Why, next.Kappa = r.At.Add(time.Hour), calibration.ByAge, 0.5
		if i%10 == 3 {
			next.Why, next.Models = calibration.ByModel, []string{"m-1", "m-2"}
		}
		if i%10 == 5 {
			r = next.Anew(&r)
			continue
		}
		r = next.Since(&r)
	}
	require.Len(t, r.Course, calibration.MostPoints)
	v, err := edn.Read(edn.WritePretty(r.Value(), edn.PrettyOptions{}))
	require.NoError(t, err)
	back, err := calibration.ParseRecord(v)
	require.NoError(t, err)
	assert.Equal(t, r, back)
	assert.Equal(t, calibration.ByModel, r.Course[len(r.Course)-6].Why)
	assert.Equal(t, r.Course[len(r.Course)-6].At, r.Last(calibration.ByModel))
	assert.True(t, r.Last(calibration.ByOperator).IsZero(), "that was too long ago")
	assert.True(t, r.Knows("m-1") && !r.Knows("m-3"))
	r.Model = ""
	assert.True(t, r.Knows("m-3"), "nobody can say that it is another one")
	_, err = calibration.ParseRecord(v.AssocKey("why", edn.K("whim")))
	assert.ErrorContains(t, err, "expected :operator, :recheck or :model")
}

// JDG-011: the standing of a judge, exact to the last digit and second.
func TestStandings(t *testing.T) {
	j := &registry.Judge{MinKappa: 0.4, Drift: 0.15, Recheck: 7 * 24 * time.Hour}
	r := aRecord()
	at := r.At
	weak, drifted := r, r
	weak.Kappa = 0.3999
	drifted.Kappa, drifted.Baseline = 0.7, calibration.Measured{Value: 0.85, Of: 40}
	var none *calibration.Record
	assert.Equal(t, calibration.Uncalibrated, none.Standing(j, at))
	other := *j
	other.Capability = "judge/other"
	assert.Equal(t, calibration.Uncalibrated, r.Standing(&other, at), "another one was measured")
	assert.Equal(t, calibration.Believed, r.Standing(j, at.Add(j.Recheck)))
	assert.Equal(t, calibration.Expired, r.Standing(j, at.Add(j.Recheck+1)))
	assert.Equal(t, calibration.Weak, weak.Standing(j, at))
	assert.Equal(t, calibration.Drifted, drifted.Standing(j, at))
	assert.Equal(t, calibration.Drifted, drifted.Standing(j, at.Add(100*j.Recheck)), "that does not expire")
	assert.Equal(t, at.Add(j.Recheck*9/10), r.Due(j.Recheck, 0))
	assert.Equal(t, at.Add(j.Recheck*17/20), r.EarliestDue(j.Recheck))
}
