package score_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func reader(scale, path string) score.Reader {
	r := score.Reader{Scale: score.Unit()}
	if scale != "" {
		r.Scale, _ = score.ReadScale(edn.MustRead(scale))
	}
	if path != "" {
		for v := range edn.MustRead(path).Elems() {
			r.Path = append(r.Path, v)
		}
	}
	return r
}

// JDG-003: where a score is found, and what is none.
func TestRead(t *testing.T) {
	const none, outside, two = "judge/no-score", "judge/score-out-of-range", "judge/ambiguous-score"
	for _, c := range []struct{ answer, scale, path, want string }{
		{`0.8`, "", "", "0.8"}, {`1`, "", "", "1"}, {`0`, "", "", "0"}, {`0.25M`, "", "", "0.25"},
		{`8`, "[0 10]", "", "0.8"}, {`3`, "[1 5]", "", "0.5"}, {`-1`, "[-3 1]", "", "0.5"},
		{`8`, "", "", outside}, {`-0.1`, "", "", outside}, {`10.001M`, "[0 10]", "", outside}, {`0`, "[1 5]", "", outside},
		{`"0.8"`, "", "", "0.8"}, {`" +8e-1 "`, "", "", "0.8"}, {`"80"`, "[0 100]", "", "0.8"},
		{`"8/10"`, "[0 10]", "", "0.8"}, {`"8 / 10"`, "[0 10]", "", "0.8"}, {`"8/100"`, "[0 10]", "", none}, {`"8/10"`, "", "", none}, {`"0.8/1"`, "", "", "0.8"}, {`"1/2/3"`, "", "", none},
		{`"0,8"`, "", "", none}, {`"80%"`, "[0 100]", "", none}, {`"NaN"`, "", "", none}, {`"Infinity"`, "", "", none}, {`"1e999"`, "", "", outside}, {`"1e99999"`, "", "", none}, {`"0x1"`, "", "", none},
		{`{:score 0.8}`, "", "", "0.8"}, {`{"score" "0.8"}`, "", "", "0.8"}, {`{:eval/score 0.5}`, "", "", "0.5"}, {`{"grade/score" 4}`, "[0 8]", "", "0.5"},
		{`{:score 0.5 :eval/score 0.50M :grade/score "0.5"}`, "", "", "0.5"},
		{`{:score 0.5 :eval/score 0.6}`, "", "", two}, {`{:score 0.5 "score" 0.6}`, "", "", two},
		{`{:score nil}`, "", "", none}, {`{:score true}`, "", "", none}, {`{:score [0.5]}`, "", "", none}, {`{:score "good"}`, "", "", none}, {`{}`, "", "", none}, {`nil`, "", "", none}, {`[0.5]`, "", "", none},
		{`{:verdict {:points 3} :score 0.1}`, "[0 6]", "[:verdict :points]", "0.5"}, {`{"verdict" {"points" "3"}}`, "[0 6]", "[:verdict :points]", "0.5"},
		{`{:verdict {:points 3}}`, "[0 6]", `["verdict" ":points"]`, "0.5"}, {`{:marks [1 3]}`, "[0 6]", "[:marks 1]", "0.5"},
		{`{:score 0.5}`, "", "[:verdict :points]", "0.5"}, {`{:verdict {:points "many"} :score 0.5}`, "", "[:verdict :points]", none},
		{`{:a 0.1 "a" 0.2}`, "", "[:a]", two}, {`{:a 0.1 "a" 0.1}`, "", "[:a]", "0.1"},
		{`{:text "0.8"}`, "", "", "0.8"}, {`{:text "{\"score\": 0.8}"}`, "", "", "0.8"}, {`{:text "{:score 0.8}"}`, "", "", "0.8"}, {`{"text" "{:eval/score 4}"}`, "[0 5]", "", "0.8"},
		{"{:text \"Well.\\n```json\\n{\\\"score\\\": 0.8, \\\"why\\\": \\\"a } b\\\"}\\n```\"}", "", "", "0.8"},
		{`{:text "First {\"score\": 0.8}, again {\"score\": 0.80}."}`, "", "", "0.8"},
		{`{:text "First {\"score\": 0.8}, no, {\"score\": 0.2}."}`, "", "", two},
		{`{:text "I would say 0.8"}`, "", "", none}, {`{:text "{\"score\": 0.8"}`, "", "", none}, {`{:text "{ { {"}`, "", "", none}, {`{:text "{\"text\": \"{:score 1}\"}"}`, "", "", none},
		{`{:text "{\"score\": 8}"}`, "", "", outside}, {`{:text "{\"score\": 1e999}"}`, "", "", none},
		{`{:text "{a {\"score\": 0.4}"}`, "", "", "0.4"},
	} {
		t.Run(c.answer+" "+c.scale+c.path, func(t *testing.T) {
			got, err := reader(c.scale, c.path).Read(edn.MustRead(c.answer))
			if strings.HasPrefix(c.want, "judge/") {
				require.ErrorIs(t, err, contract.OfType(c.want))
				assert.Equal(t, contract.ClassRetry, contract.AsError(err).Class)
				return
			}
			require.NoError(t, err)
			want, _ := new(big.Rat).SetString(c.want)
			assert.Zero(t, want.Cmp(got), "got %s", got)
		})
	}
}

func TestScale(t *testing.T) {
	for _, text := range []string{`nil`, `[]`, `[0]`, `[10 0]`, `[1 1]`, `[0 "10"]`, `[0 5 10]`, `10`} {
		_, err := score.ReadScale(edn.MustRead(text))
		assert.ErrorContains(t, err, "such as [0 10]", text)
	}
	s, err := score.ReadScale(edn.MustRead(`(0.5 2)`))
	require.NoError(t, err)
	assert.Equal(t, "[0.5M 2]", s.Value().String())
}

// JDG-004: half to even, to thousandths.
func TestRounded(t *testing.T) {
	for in, want := range map[string]string{"1/3": "0.333M", "2/3": "0.667M", "0.0005": "0M", "0.0015": "0.002M", "0.0025": "0.002M", "0.9995": "1M", "1": "1M"} {
		r, _ := new(big.Rat).SetString(in)
		assert.Equal(t, edn.MustRead(want).String(), score.Rounded(r).String(), in)
	}
}

// JDG-015: reading what was printed gives the score again, in every form that
// judges use.
func TestReadPrintedIsTheScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000).Draw(t, "thousandths")
		want := score.Rounded(big.NewRat(int64(n), 1000))
		low := rapid.IntRange(-50, 50).Draw(t, "low")
		high := low + rapid.IntRange(1, 100).Draw(t, "width")
		r := reader(fmt.Sprintf("[%d %d]", low, high), "")
		on := new(big.Rat).SetFrac64(int64(n*(high-low)+low*1000), 1000)
		decimal, err := edn.ParseDecimal(on.FloatString(3) + "M")
		require.NoError(t, err)
		text := on.FloatString(3)
		for _, v := range []edn.Value{
			decimal, edn.Text(text), edn.Text(fmt.Sprintf("%s/%d", text, high)),
			edn.MustMap(edn.K("score"), decimal), edn.MustMap(edn.Text("score"), edn.Text(text)),
			edn.MustMap(edn.K("text"), edn.Text(`Verdict: {"score": `+text+`}`)), edn.MustMap(edn.K("text"), edn.Text(edn.MustMap(edn.K("eval/score"), decimal).String())),
		} {
			got, err := r.Read(v)
			require.NoError(t, err, "%s", v)
			assert.True(t, want.Equal(score.Rounded(got)), "%s: %s", v, got)
		}
		back, err := reader("", "").Read(want)
		require.NoError(t, err)
		assert.True(t, want.Equal(score.Rounded(back)))
	})
}

// JDG-015: whatever a judge says gives a score from 0 to 1 or one of the three
// errors.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"score": 0.5}`, `{:score 1 :eval/score 2}`, "```json\n{\"score\": 3}\n```", `{{{{"`, `8/10`, `1e308`, `{"a":{"score":1}} {:score 0.1M}`, `-0`, `{:text "{:score 1}"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, said string) {
		answers := []edn.Value{edn.Text(said), edn.MustMap(edn.K("text"), edn.Text(said))}
		if v, err := edn.ReadString(said); err == nil {
			answers = append(answers, v)
		}
		for _, v := range answers {
			got, err := reader("[0 10]", "[:verdict :points]").Read(v)
			if err != nil {
				e := contract.AsError(err)
				require.NotNil(t, e)
				require.Contains(t, []string{"judge/no-score", "judge/score-out-of-range", "judge/ambiguous-score"}, e.Type)
				continue
			}
			require.True(t, got.Sign() >= 0 && got.Cmp(big.NewRat(1, 1)) <= 0, "%s", got)
			again, err := reader("", "").Read(score.Rounded(got))
			require.NoError(t, err)
			require.Equal(t, score.Rounded(got).String(), score.Rounded(again).String())
		}
	})
}
