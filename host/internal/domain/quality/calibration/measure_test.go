package calibration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JDG-010, JDG-004: the figures of a table computed by hand; a score at the
// threshold passes.
func TestMeasureByHand(t *testing.T) {
	var seen []calibration.Observation
	add := func(n int, good bool, score, again int64, family string, length int) {
		for range n {
			seen = append(seen, calibration.Observation{Good: good, Score: qualityScore(score), Again: qualityScore(again), Repeated: true, Family: family, Length: length})
		}
	}
	add(18, true, 700, 900, "alpha", 10)
	add(2, true, 699, 900, "beta", 10) // verdict flips
	add(15, false, 100, 100, "alpha", 10)
	add(5, false, 900, 900, "beta", 10)
	seen = append(seen, calibration.Observation{Good: true, Failed: true})
	r := calibration.Measure(calibration.Record{ScoreMin: 700, Family: "beta"}, seen, []calibration.Choice{calibration.First, calibration.First, calibration.Second, calibration.Neither})
	assert.Equal(t, []any{20, 20, 1}, []any{r.Good, r.Bad, r.Failed})
	assert.Equal(t, []float64{0.9, 0.75, 0.65}, []float64{r.Sensitivity, r.Specificity, r.Kappa})
	assert.Equal(t, calibration.Measured{Value: 0.05, Of: 40}, r.Flips)
	assert.Equal(t, calibration.Measured{Value: 0.3333, Of: 3}, r.Order)
	assert.False(t, r.Length.Known(), "answers of one length correlate with nothing")
	assert.Equal(t, 7, r.Own.Of)
	assert.Positive(t, r.Own.Value)

	empty := calibration.Measure(calibration.Record{}, nil, nil)
	assert.Equal(t, calibration.Record{}, empty)
}

func TestMeasureRanksLengthsWithinALabel(t *testing.T) {
	var seen []calibration.Observation
	for i := range 20 { // good answers are longer and better, by label only
		seen = append(seen,
			calibration.Observation{Good: true, Score: 900, Length: 1000 + i},
			calibration.Observation{Score: 100, Length: i})
	}
	assert.False(t, calibration.Measure(calibration.Record{}, seen, nil).Length.Known())
	for i := range seen {
		seen[i].Score += qualityScore(int64(seen[i].Length % 1000))
	}
	assert.Equal(t, calibration.Measured{Value: 1, Of: 40}, calibration.Measure(calibration.Record{}, seen, nil).Length)
}

func anchorsText(good, bad int) string {
	var b strings.Builder
	b.WriteString("{:score-min 0.7 :anchors [")
	for i := range good + bad {
		label := "good"
		if i >= good {
			label = "bad"
		}
		fmt.Fprintf(&b, `{:id "a%d" :label :%s :task/call {:input {:q %d}} :task/result {:out {:text "é%d"}}}`, i, label, i%max(1, good), i%10)
	}
	return b.String() + "]}"
}

func TestAnchors(t *testing.T) {
	a, err := calibration.ParseAnchors(edn.MustRead(anchorsText(21, 20)))
	require.NoError(t, err)
	assert.Len(t, a.List, 41)
	assert.EqualValues(t, 700, a.ScoreMin)
	assert.Equal(t, 2, a.List[0].Length())
	pairs := a.Pairs()
	require.Len(t, pairs, 20, "answers to one question are compared")
	for _, p := range pairs {
		assert.True(t, a.List[p.Good].Good)
		assert.False(t, a.List[p.Bad].Good)
		assert.True(t, a.List[p.Good].Call.Equal(a.List[p.Bad].Call))
	}
}

// JDG-010: at least twenty of each label; every mistake is reported with its
// place.
func TestInvalidAnchors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no map":           {`[]`, "expected a map with :anchors"},
		"no anchors":       {`{}`, "[:anchors]: expected a vector"},
		"too few bad":      {anchorsText(20, 19), "found 20 :good and 19 :bad"},
		"no label":         {`{:anchors [{:task/result {:out 1}}]}`, "[:anchors 0 :label]: expected :good or :bad, found nil"},
		"another label":    {`{:anchors [{:label :ok :task/result {:out 1}}]}`, "found :ok"},
		"no answer":        {`{:anchors [{:label :bad}]}`, "[:anchors 0 :task/result]"},
		"answer is a text": {`{:anchors [{:label :bad :task/result "x"}]}`, "expected a map, found string"},
		"a key mistyped":   {`{:anchors [] :scoremin 1}`, "did you mean :score-min?"},
		"two of one id":    {`{:anchors [{:id "a" :label :bad :task/result {:out 1}} {:id "a" :label :bad :task/result {:out 1}}]}`, "anchor 0 too"},
		"a threshold":      {`{:score-min 7 :anchors []}`, "[:score-min]: expected a number from 0 to 1, found 7"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := calibration.ParseAnchors(edn.MustRead(c.text))
			require.ErrorIs(t, err, contract.OfType("invalid-request"))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func FuzzParseAnchors(f *testing.F) {
	f.Add(anchorsText(20, 20))
	f.Add(`{:anchors [{:id 3 :label nil :task/result {:out {:text 1}}}] :rubric 1}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.ReadString(text, edn.WithLimits(edn.Body))
		if err != nil {
			return
		}
		a, err := calibration.ParseAnchors(v)
		if err != nil {
			require.ErrorIs(t, err, contract.OfType("invalid-request"))
			return
		}
		require.GreaterOrEqual(t, len(a.List), 2*calibration.LeastAnchors)
		_ = a.Pairs()
		_, _ = calibration.ParseRecord(v)
	})
}
