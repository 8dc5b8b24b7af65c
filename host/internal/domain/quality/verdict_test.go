package quality_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

func result(name string, sev quality.Severity, pass bool) quality.Result {
	return quality.Result{
		Gate:    quality.Gate{Name: name, Severity: sev, Check: &quality.Check{Check: registry.Check{Name: name}}},
		Outcome: quality.Outcome{Pass: pass},
	}
}

// shoulds makes total should results of which passed pass.
func shoulds(passed, total int) []quality.Result {
	var out []quality.Result
	for i := range total {
		out = append(out, result("s", quality.Should, i < passed))
	}
	return out
}

func rat(s string) *big.Rat {
	r, _ := new(big.Rat).SetString(s)
	return r
}

// TestVerdictTable holds every row of the table of GATE-007 (GATE-004).
func TestVerdictTable(t *testing.T) {
	ok := result("m", quality.Must, true)
	for _, row := range []struct {
		name     string
		results  []quality.Result
		judge    *big.Rat
		scoreMin string
		score    quality.Score
		failure  string
	}{
		{"no should", []quality.Result{ok}, nil, "0.0", 1000, ""},
		{"2/3", append(shoulds(2, 3), ok), nil, "0.8", 667, quality.FailLowScore},
		{"2/3 and a judge", append(shoulds(2, 3), ok), rat("0.95"), "0.8", 808, ""},
		{"1/2, judge not run", append(shoulds(1, 2), ok), nil, "0.8", 500, quality.FailLowScore},
		{"1/1 and a judge just there", append(shoulds(1, 1), ok), rat("0.5995"), "0.8", 800, ""},
		{"a must failed", append(shoulds(3, 3), result("tests-pass", quality.Must, false)), nil, "0.8", 1000, quality.FailMust},
		{"schema-valid and another must failed",
			[]quality.Result{result("legal-move", quality.Must, false), result("schema-valid", quality.Must, false)}, nil, "0", 1000, quality.FailSchema},
		{"schema-valid as a should is a should", []quality.Result{ok, result("schema-valid", quality.Should, false)}, nil, "0", 0, ""},
		{"score-min default", shoulds(0, 4), nil, "0", 0, ""},
		{"the threshold itself passes", shoulds(4, 5), nil, "0.8M", 800, ""},
		{"score-min is rounded too", shoulds(2, 3), nil, "0.6674", 667, ""},
		{"half to even", shoulds(1, 16), nil, "0.062", 62, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := quality.Decide(row.results, edn.MustRead(row.scoreMin), row.judge)
			assert.Equal(t, row.score, v.Score)
			assert.Equal(t, row.failure, v.FailureType)
			assert.Equal(t, row.failure == "", v.Pass)
			assert.Equal(t, row.failure == "" || row.failure == quality.FailLowScore, v.MustPass)
		})
	}
}

// TestJudgeMatters: GATE-008, when a judge is called; each row of GATE-007
// states whether it ran.
func TestJudgeMatters(t *testing.T) {
	ok := result("m", quality.Must, true)
	for _, row := range []struct {
		name     string
		results  []quality.Result
		scoreMin string
		want     bool
	}{
		{"nothing else to say", []quality.Result{ok}, "0.8", true},
		{"no gates", nil, "1", true},
		{"2/3 may become enough", append(shoulds(2, 3), ok), "0.8", true},
		{"1/2 cannot", append(shoulds(1, 2), ok), "0.8", false},
		{"1/2 can just", append(shoulds(1, 2), ok), "0.75", true},
		{"1/2 cannot by a thousandth", append(shoulds(1, 2), ok), "0.751", false},
		{"rounded it can", append(shoulds(1, 2), ok), "0.7504", true},
		{"a must failed", append(shoulds(3, 3), result("tests-pass", quality.Must, false)), "0", false},
		{"nothing is asked for", shoulds(0, 4), "0", true},
	} {
		assert.Equal(t, row.want, quality.JudgeMatters(row.results, edn.MustRead(row.scoreMin)), row.name)
	}
	rapid.Check(t, func(t *rapid.T) { // a judge that cannot change the verdict is not called
		results := shoulds(rapid.IntRange(0, 5).Draw(t, "passed"), 5)
		least := quality.Score(rapid.Int64Range(0, 1000).Draw(t, "least")).Value()
		judge := big.NewRat(rapid.Int64Range(0, 1000).Draw(t, "judge"), 1000)
		if v := quality.Decide(results, least, judge); v.Pass && !quality.JudgeMatters(results, least) {
			t.Fatalf("a judge that gives %s decides, and is not asked", judge)
		}
	})
}

// TestRounding: GATE-007, half to even at the third decimal, exactly.
func TestRounding(t *testing.T) {
	for in, want := range map[string]quality.Score{
		"0.0005": 0, "0.0015": 2, "0.0025": 2, "0.00250001": 3, "0.9995": 1000, "0.9985": 998, "0.79975": 800,
		"1": 1000, "0": 0, "2/3": 667, "1/3": 333, "-0.0015": -2, "-0.0025": -2, "0.1": 100,
	} {
		assert.Equal(t, want, quality.RoundScore(rat(in)), in)
	}
	for text, want := range map[string]quality.Score{"0.0015": 2, "0.1": 100, "0.0025M": 2, "1": 1000} {
		got, ok := quality.ScoreOf(edn.MustRead(text))
		require.True(t, ok)
		assert.Equal(t, want, got, "floats count by their shortest decimal")
	}
	_, ok := quality.ScoreOf(edn.Text("0.8"))
	assert.False(t, ok)
	assert.Equal(t, "0.667M", quality.Score(667).Value().String())
	assert.Equal(t, "1M", quality.Perfect.Value().String())
}

// TestRatioAgreesWithRationals: the fast path without a judge gives the same
// score as exact arithmetic.
func TestRatioAgreesWithRationals(t *testing.T) {
	for total := 1; total <= 64; total++ {
		for passed := range total + 1 {
			v := quality.Decide(shoulds(passed, total), edn.Nil(), nil)
			require.Equal(t, quality.RoundScore(big.NewRat(int64(passed), int64(total))), v.Score)
		}
	}
}

// TestNotApplicable: TXT-007, excluded from the score, passing as a must unless
// the check is marked evidence.
func TestNotApplicable(t *testing.T) {
	na := func(sev quality.Severity, evidence bool) quality.Result {
		return quality.Result{
			Gate:    quality.Gate{Name: "x", Severity: sev, Check: &quality.Check{Check: registry.Check{Name: "x", Evidence: evidence}}},
			Outcome: quality.NotApplicable("why"),
		}
	}
	v := quality.Decide(append(shoulds(1, 2), na(quality.Should, false)), edn.Nil(), nil)
	assert.Equal(t, quality.Score(500), v.Score)
	assert.True(t, quality.Decide([]quality.Result{na(quality.Must, false)}, edn.Nil(), nil).Pass)
	failed := quality.Decide([]quality.Result{na(quality.Must, true)}, edn.Nil(), nil)
	assert.Equal(t, quality.FailMust, failed.FailureType)
	assert.True(t, quality.MustFailed([]quality.Result{na(quality.Must, true)}))
	assert.False(t, quality.MustFailed([]quality.Result{na(quality.Must, false), na(quality.Should, true)}))
	assert.Equal(t, "{:applicable? false :findings [{:gate :x :message \"why\" :path [] :severity :must}] :gate :x :pass true :severity :must}",
		withGate(na(quality.Must, false)).String())
}

func withGate(r quality.Result) edn.Value {
	r = r.Named()
	return r.Value()
}

// TestVerdictLaws: EVAL-071, adding a must never turns a failure into a pass,
// and raising score-min never adds passes.
func TestVerdictLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "n")
		var results []quality.Result
		for range n {
			sev := quality.Severity(rapid.IntRange(0, 1).Draw(t, "severity"))
			results = append(results, result(rapid.SampledFrom([]string{"schema-valid", "a", "b"}).Draw(t, "name"), sev, rapid.Bool().Draw(t, "pass")))
		}
		var judge *big.Rat
		if rapid.Bool().Draw(t, "judged") {
			judge = big.NewRat(rapid.Int64Range(0, 10_000).Draw(t, "judge"), 10_000)
		}
		low := rapid.IntRange(0, 1000).Draw(t, "low")
		high := rapid.IntRange(low, 1000).Draw(t, "high")
		before := quality.Decide(results, quality.Score(low).Value(), judge)
		raised := quality.Decide(results, quality.Score(high).Value(), judge)
		assert.False(t, raised.Pass && !before.Pass)
		more := append(append([]quality.Result{}, results...), result("c", quality.Must, rapid.Bool().Draw(t, "extra")))
		after := quality.Decide(more, quality.Score(low).Value(), judge)
		assert.False(t, after.Pass && !before.Pass)
		assert.Equal(t, before.Score, after.Score, "musts do not enter the score")
		assert.GreaterOrEqual(t, before.Score, quality.Score(0))
		assert.LessOrEqual(t, before.Score, quality.Perfect)
	})
}

func TestVerdictValue(t *testing.T) {
	set, err := quality.NewSet()
	require.NoError(t, err)
	gates := set.Gates([]string{"nobody"}, []string{"json-valid"}, false)
	var results []quality.Result
	for _, g := range gates {
		r := quality.Unknown(g)
		if g.Check != nil {
			r = quality.Result{Gate: g, Outcome: g.Check.Run(quality.Subject{Result: edn.MustRead(`{:text "{"}`)})}.Named()
		}
		results = append(results, r)
	}
	v := quality.Decide(results, edn.Nil(), nil)
	assert.Equal(t, `{:checks [{:findings [{:code :check/error :gate :nobody :message "no check is named :nobody" :path [] :severity :must}] :gate :nobody :pass false :severity :must} `+
		`{:findings [{:gate :json-valid :message "the text is not one valid JSON document" :path [:text] :severity :should}] :gate :json-valid :pass false :severity :should}] :must-pass? false :score 0M}`,
		v.Value().String())
	require.Len(t, v.Findings(), 2)
	assert.Equal(t, "nobody", v.Findings()[0].Gate, "musts first")
}
