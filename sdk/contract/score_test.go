package contract_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JDG-003: positions of a score, the effect of a scale, and invalid scores.
func TestParseScore(t *testing.T) {
	ten := edn.MustRead(`[0 10]`)
	for _, row := range []struct {
		in    string
		path  []string
		scale edn.Value
		want  string // the score, or the type of the error
	}{
		{`0.8`, nil, edn.Nil(), "4/5"},
		{`1`, nil, edn.Nil(), "1/1"},
		{`0.85M`, nil, edn.Nil(), "17/20"},
		{`"0.8"`, nil, edn.Nil(), "4/5"},
		{`" 0.8 "`, nil, edn.Nil(), "4/5"},
		{`"8/10"`, nil, ten, "4/5"},
		{`"8 / 10"`, nil, ten, "4/5"},
		{`"8/10"`, nil, edn.Nil(), "judge/ambiguous-score"},
		{`"8/5"`, nil, ten, "judge/ambiguous-score"},
		{`8`, nil, ten, "4/5"},
		{`8`, nil, edn.Nil(), "judge/score-out-of-range"},
		{`11`, nil, ten, "judge/score-out-of-range"},
		{`-1`, nil, ten, "judge/score-out-of-range"},
		{`2`, nil, edn.MustRead(`[1 5]`), "1/4"},
		{`-1`, nil, edn.MustRead(`[-1 1]`), "0/1"},
		{`{:score 0.7}`, nil, edn.Nil(), "7/10"},
		{`{"score" 0.7}`, nil, edn.Nil(), "7/10"},
		{`{:eval/score 0.7}`, nil, edn.Nil(), "7/10"},
		{`{"grade/score" "0.7"}`, nil, edn.Nil(), "7/10"},
		{`{:score 0.7 :eval/score 0.70M}`, nil, edn.Nil(), "7/10"},
		{`{:score 0.7 :eval/score 0.8}`, nil, edn.Nil(), "judge/ambiguous-score"},
		{`{:score 0.7 "score" 0.8}`, nil, edn.Nil(), "judge/ambiguous-score"},
		{`{:score nil :grade/score 0.8}`, nil, edn.Nil(), "4/5"},
		{`{:score "good"}`, nil, edn.Nil(), "judge/no-score"},
		{`{:score [0.8]}`, nil, edn.Nil(), "judge/no-score"},
		{`{:result {"grade" 0.5} :score 0.9}`, []string{"result", "grade"}, edn.Nil(), "1/2"},
		{`{:score 0.7 "score" 0.8}`, []string{"score"}, edn.Nil(), "judge/ambiguous-score"},
		{`{:score 0.7 :eval/score 0.8}`, []string{":score"}, edn.Nil(), "judge/ambiguous-score"},
		{`{:grade {:a 1} :score 0.9}`, []string{"grade"}, edn.Nil(), "judge/no-score"},
		{`{:score 0.9}`, []string{"result", "grade"}, edn.Nil(), "9/10"},
		{`{:text "{\"score\": 0.25}"}`, nil, edn.Nil(), "1/4"},
		{`{:text "{:score 0.25}"}`, nil, edn.Nil(), "1/4"},
		{`{:text "0.25"}`, nil, edn.Nil(), "1/4"},
		{`{:text "the score is 0.25"}`, nil, edn.Nil(), "judge/no-score"},
		{"{:text \"```json\\n{\\\"score\\\": 0.25, \\\"why\\\": \\\"a } b\\\"}\\n```\"}", nil, edn.Nil(), "1/4"},
		{"{:text \"Well.\\n```json\\n{\\\"score\\\": 0.25, \\\"why\\\": \\\"a } b\\\"}\\n```\"}", nil, edn.Nil(), "judge/no-score"},
		{`{:text "First {\"score\": 0.25}, again {\"score\": 0.250}."}`, nil, edn.Nil(), "judge/ambiguous-score"},
		{`{:text "First {\"score\": 0.25}, no, {\"score\": 0.2}."}`, nil, edn.Nil(), "judge/ambiguous-score"},
		{`{:text "{a {\"score\": 0.25}"}`, nil, edn.Nil(), "judge/no-score"},
		{`{:text "{\"score\": 0.25"}`, nil, edn.Nil(), "judge/no-score"},
		{`{:text "{\"score\": 1e999}"}`, nil, edn.Nil(), "judge/no-score"},
		{`{:text "{\"text\": \"{:score 1}\"}"}`, nil, edn.Nil(), "judge/no-score"},
		{`{:text "NaN"}`, nil, edn.Nil(), "judge/no-score"},
		{`"Inf"`, nil, edn.Nil(), "judge/no-score"},
		{`"1e400"`, nil, edn.Nil(), "judge/no-score"},
		{`""`, nil, edn.Nil(), "judge/no-score"},
		{`"+-1"`, nil, edn.Nil(), "judge/no-score"},
		{`"."`, nil, edn.Nil(), "judge/no-score"},
		{`nil`, nil, edn.Nil(), "judge/no-score"},
		{`[0.8]`, nil, edn.Nil(), "judge/no-score"},
		{`true`, nil, edn.Nil(), "judge/no-score"},
		{`{:ok? true}`, nil, edn.Nil(), "judge/no-score"},
		{`0.5`, nil, edn.MustRead(`[10 0]`), "judge/rubric-invalid"},
		{`0.5`, nil, edn.MustRead(`[0]`), "judge/rubric-invalid"},
		{`0.5`, nil, edn.MustRead(`{:a 1}`), "judge/rubric-invalid"},
	} {
		got, err := contract.ParseScore(edn.MustRead(row.in), contract.ScoreRules{Path: row.path, Scale: row.scale})
		if err != nil {
			assert.Equal(t, row.want, err.Type, "%s %s", row.in, err.Message)
			continue
		}
		assert.Equal(t, row.want, got.String(), row.in)
	}
}

// JDG-015: a written score is read back exactly, on any scale and in any
// wrapping.
func TestParseScoreReadsWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low, width, step := int64(rapid.IntRange(-20, 20).Draw(t, "low")), int64(rapid.IntRange(1, 40).Draw(t, "width")), int64(rapid.IntRange(0, 1000).Draw(t, "step"))
		want := big.NewRat(step, 1000)
		raw := new(big.Rat).Add(big.NewRat(low, 1), new(big.Rat).Mul(want, big.NewRat(width, 1)))
		text := raw.FloatString(6)
		scale := edn.Vector(edn.Int(low), edn.Int(low+width))
		for _, in := range []edn.Value{
			edn.MustDecimal(text), edn.Text(text), edn.MustMap(edn.K("score"), edn.MustDecimal(text)),
			edn.MustMap(edn.K("text"), edn.Text(`{"score": `+text+`}`)), edn.MustMap(edn.Text("a"), edn.MustMap(edn.K("b"), edn.Text(text))),
		} {
			got, err := contract.ParseScore(in, contract.ScoreRules{Path: []string{"a", "b"}, Scale: scale})
			require.Nil(t, err, "%s on %s", in, scale)
			require.Zero(t, want.Cmp(got), "%s on %s: %s", in, scale, got)
		}
	})
}

// JDG-003: any input gives a score from 0 to 1 or one of the errors.
func FuzzParseScore(f *testing.F) {
	for _, seed := range []string{`0.5`, `{:score "3/10"}`, `{:text "{\"score\": 1e5}"}`, `{:score 1 :eval/score 0}`, `{:text "{{{{\\""}`, `{:text "a {:score 1} {\"score\": 0.5}"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.ReadString(text)
		if err != nil {
			v = edn.MustMap(edn.K("text"), edn.Text("x"))
		}
		for _, scale := range []edn.Value{edn.Nil(), edn.MustRead(`[0 10]`)} {
			got, err := contract.ParseScore(v, contract.ScoreRules{Path: []string{"score"}, Scale: scale})
			if err != nil {
				assert.Contains(t, []string{"judge/no-score", "judge/score-out-of-range", "judge/ambiguous-score"}, err.Type)
				continue
			}
			assert.True(t, got.Sign() >= 0 && got.Cmp(big.NewRat(1, 1)) <= 0)
		}
	})
}
