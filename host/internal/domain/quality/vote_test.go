package quality_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/sdk/edn"
)

func grade(s string) *big.Rat {
	r, _ := new(big.Rat).SetString(s)
	return r
}

// JDG-004, JDG-008: the number of requested grades and the resulting score.
func TestBallot(t *testing.T) {
	for _, row := range []struct {
		name   string
		most   int
		least  string
		grades []string // all grades that may be requested
		asked  int
		score  string
	}{
		{"a pass stands", 3, "0.8M", []string{"0.8", "0", "0"}, 1, "0.8"},
		{"the threshold passes", 3, "0.8M", []string{"0.79951", "0", "0"}, 1, "0.79951"},
		{"half to even passes too", 3, "0.8M", []string{"0.7995", "0", "0"}, 1, "0.7995"},
		{"just below it does not", 3, "0.8M", []string{"0.7994", "0.1", "0.9"}, 2, "0.4497"},
		{"two of three fail", 3, "0.8M", []string{"0.5", "0.9", "0.6"}, 3, "0.6"},
		{"two of three pass", 3, "0.8M", []string{"0.5", "0.9", "0.95"}, 3, "0.9"},
		{"two fails are certain", 3, "0.8M", []string{"0.5", "0.7", "1"}, 2, "0.6"},
		{"three of five", 5, "0.8M", []string{"0.5", "0.9", "0.9", "0.6", "0.7"}, 5, "0.7"},
		{"three of five by the fourth", 5, "0.8M", []string{"0.5", "0.9", "0.6", "0.7", "1"}, 4, "0.65"},
		{"one vote", 1, "0.8M", []string{"0.5"}, 1, "0.5"},
		{"nothing to reach", 3, "0", []string{"0"}, 1, "0"},
	} {
		b := quality.NewBallot(row.most, edn.MustRead(row.least))
		asked := 0
		for !b.Settled() {
			b.Add(grade(row.grades[asked]))
			asked++
		}
		assert.Equal(t, row.asked, asked, row.name)
		assert.Zero(t, grade(row.score).Cmp(b.Score()), "%s: %s", row.name, b.Score())
	}
	b := quality.NewBallot(3, edn.MustRead("0.8"))
	assert.Nil(t, b.Score())
	b.Add(grade("0.5"))
	b.Add(grade("0.9"))
	assert.False(t, b.Settled())
	assert.Zero(t, grade("0.5").Cmp(b.Score()), "without a majority the first stands")
}

// JDG-008: the median agrees with the majority, which is that of all grades
// that could have been requested; the order of the later ones does not matter.
func TestBallotLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := 1 + 2*rapid.IntRange(0, 4).Draw(t, "half")
		least := edn.Int(0)
		if n := rapid.IntRange(0, 1000).Draw(t, "least"); n > 0 {
			least = quality.Score(n).Value()
		}
		all := make([]*big.Rat, most)
		for i := range all {
			all[i] = big.NewRat(int64(rapid.IntRange(0, 10_000).Draw(t, "grade")), 10_000)
		}
		b := quality.NewBallot(most, least)
		for i := 0; !b.Settled(); i++ {
			b.Add(all[i])
		}
		passes := 0
		for _, g := range all {
			if b.Passes(g) {
				passes++
			}
		}
		want := b.Passes(all[0]) || 2*passes > most
		assert.Equal(t, want, b.Passes(b.Score()), "grades %v of %v", b.Scores(), all)
		assert.LessOrEqual(t, len(b.Scores()), most)
		assert.GreaterOrEqual(t, len(b.Scores()), min(most, 1))
		shuffled := rapid.Permutation(b.Scores()).Draw(t, "shuffled")
		assert.Zero(t, quality.Median(shuffled).Cmp(quality.Median(b.Scores())))
	})
}

// GATE-004, GATE-007: the mean with a grade is exact, however it is computed.
func TestMeanWithAGrade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 7).Draw(t, "total")
		passed := rapid.IntRange(0, total).Draw(t, "passed")
		den := rapid.SampledFrom([]int64{1, 3, 7, 1000, 100_000, 1 << 20, 1 << 40}).Draw(t, "den")
		judge := big.NewRat(rapid.Int64Range(0, den).Draw(t, "num"), den)
		results := make([]quality.Result, total)
		for i := range results {
			results[i] = quality.Result{Gate: quality.Gate{Name: "c", Severity: quality.Should}, Outcome: quality.Outcome{Pass: i < passed}}
		}
		want := big.NewRat(1, 1)
		if total > 0 {
			want.SetFrac64(int64(passed), int64(total))
		}
		want.Quo(want.Add(want, judge), big.NewRat(2, 1))
		assert.Equal(t, quality.RoundScore(want), quality.Decide(results, edn.Int(0), judge).Score)
	})
}
