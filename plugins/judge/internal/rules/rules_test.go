package rules

import (
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

const article = "The bridge was built in 1932. It is 503 metres long. The engineer said: \"It will stand for a hundred years.\" Nobody believed him at first."

// JDG-002: the score of each kind of rule; "skip" if it has nothing to judge.
func TestRules(t *testing.T) {
	for _, c := range []struct{ rule, text, want, says string }{
		{`{:rule :terms :all ["bridge" ["car" "automobile"] "1932"]}`, "A Bridge of 1932, for automobiles? An AUTOMOBILE.", "1M", ""},
		{`{:rule :terms :all ["bridge" "car" "long river" "c++"]}`, "The bridges: a long river in C++ and c++.", "0.5M", `"bridge"`},
		{`{:rule :forbidden :any ["as an AI"]}`, "As an AI, I cannot.", "0M", `"as an AI"`},
		{`{:rule :forbidden :any ["as an AI"]}`, "I was an AIDE.", "1M", ""},
		{`{:rule :length :min 4 :unit :words}`, "two words", "0.5M", "at least 4"},
		{`{:rule :length :max 5}`, "ééééé", "1M", ""},
		{`{:rule :length :max 2 :unit "sentences"}`, "One. Two. Three. Four.", "0.5M", "at most 2"},
		{`{:rule :length :min 1}`, "  \n ", "0M", "0 chars"},
		{`{:rule :sections :titles ["Summary" "Next steps"]}`, "## 1. Summary\ntext\n**Next Steps:**\n", "1M", ""},
		{`{:rule :sections :titles ["Summary" "Next steps"]}`, "# Summary of it\ntext", "0M", `"Summary" is missing`},
		{`{:rule :numbers}`, "It is from 1932 and 600 metres long.", "0.5M", "600"},
		{`{:rule :numbers :source "600"}`, "600 metres", "1M", ""},
		{`{:rule :numbers :from [:task/env :other]}`, "600 metres", "skip", ""},
		{`{:rule :quotes}`, `He said "it will stand for a hundred years" and "I am sure of that myself".`, "0.5M", "I am sure"},
		{`{:rule :repetition}`, strings.Repeat("we will see what we will do ", 8), "0.165M", "occur twice"},
		{`{:rule :repetition :words 2 :most 0.5}`, "no no no yes", "1M", ""},
		{`{:rule :repetition}`, "short", "1M", ""},
		{`{:rule :language :is :de}`, "This is a text that is written in plain English, and there is nothing else in it.", "0M", "English"},
		{`{:rule :language}`, "Dies ist ein Text, der auf Deutsch geschrieben ist, und sonst ist da nichts.", "0M", "German"},
		{`{:rule :language :is :de}`, "Ja.", "skip", ""},
		{`{:rule :pattern :match ["^\\d+$" "b"] :refuse "(?i)todo"}`, "a TODO b", "0.333M", `"TODO"`},
		{`{:rule :rouge-l :reference "the cat sat on the mat"}`, "the cat lay on the mat", "0.833M", ""},
		{`{:rule :rouge-l :from [:task/env :reference]}`, "The engineer smiled", "0.8M", ""},
		{`{:rule :rouge-l :from [:task/env :none]}`, "x", "skip", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s, err := Parse(edn.MustRead("[" + c.rule + "]"))
			require.NoError(t, err)
			input := edn.MustMap(edn.K("task/env"), edn.MustMap(edn.K("source"), edn.Text(article), edn.K("reference"), edn.Text("the engineer")))
			v := s.Judge(Subject{Text: c.text, Input: input, Language: "en"})
			o := v.Outcomes[s.Rules[0].ID]
			if c.want == "skip" {
				assert.Nil(t, o.Score)
				assert.Nil(t, v.Score)
				return
			}
			require.NotNil(t, o.Score)
			assert.Equal(t, c.want, score.Rounded(o.Score).String(), "%v", o.Findings)
			assert.Equal(t, c.says == "", len(o.Findings) == 0, "%v", o.Findings)
			assert.Contains(t, strings.Join(o.Findings, "\n"), c.says)
		})
	}
}

// JDG-002: the score is the weighted mean of the rules that had something to
// judge.
func TestJudgeWeighs(t *testing.T) {
	s, err := Parse(edn.MustRead(`[{:rule :terms :id :a :all ["x"] :weight 3} {:rule :terms :id :b :all ["y"] :weight 1} {:rule :numbers :weight 100}]`))
	require.NoError(t, err)
	assert.Equal(t, "0.75M", score.Rounded(s.Judge(Subject{Text: "x 5"}).Score).String())
	many, err := Parse(edn.MustRead(`[{:rule :terms :all ["a" "b" "c" "d" "e" "f" "g"]}]`))
	require.NoError(t, err)
	said := many.Judge(Subject{}).Outcomes["terms"].Findings
	assert.Len(t, said, mostFindings+1)
	assert.Equal(t, "and 2 more", said[mostFindings])
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                    "expected a vector of 1 to 100 rules",
		`[]`:                                    "expected a vector",
		`[1]`:                                   "[:rules 0]: expected a map",
		`[{:rule :lengh}]`:                      "[:rules 0 :rule]: expected one of :forbidden :language :length",
		`[{:rule :length}]`:                     "expected :min, :max or both",
		`[{:rule :length :min 5 :max 3}]`:       "not below :min, which is 5, found 3",
		`[{:rule :length :min -5}]`:             "expected an integer of 0 or more, found -5",
		`[{:rule :length :min 1 :unit :lines}]`: ":chars, :words or :sentences",
		`[{:rule :length :minimum 1 :max 2}]`:   "unknown key :minimum",
		`[{:rule :length :min 1 :weight -1}]`:   "[:rules 0 :weight]",
		`[{:rule :length :min 1 :weight 0}]`:    "all weights are 0",
		`[{:rule :length :min 1} {:rule :length :max 2}]`: "give each rule its own :id",
		`[{:rule :terms}]`:                   "[:rules 0 :all]",
		`[{:rule :terms :all [1]}]`:          "[:rules 0 :all]",
		`[{:rule :forbidden :any []}]`:       "[:rules 0 :any]",
		`[{:rule :pattern :match "("}]`:      "not a regular expression (RE2)",
		`[{:rule :pattern :match "(?=a)"}]`:  "not a regular expression (RE2)",
		`[{:rule :rouge-l}]`:                 "[:rules 0 :reference]",
		`[{:rule :numbers :from :source}]`:   "expected a path",
		`[{:rule :repetition :most 1}]`:      "[:rules 0 :most]",
		`[{:rule :language :is 5}]`:          "[:rules 0 :is]",
		`[{:rule :length :min 1 :id "a b"}]`: "[:rules 0 :id]",
	} {
		_, err := Parse(edn.MustRead(text))
		require.ErrorIs(t, err, contract.OfType("judge/rubric-invalid"), text)
		assert.ErrorContains(t, err, want, text)
	}
}

// The bit algorithm agrees with the plain table.
func TestSubsequenceIsThatOfTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.Int32Range(0, 5)
		a := rapid.SliceOfN(word, 0, 150).Draw(t, "a")
		b := rapid.SliceOfN(word, 0, 150).Draw(t, "b")
		table := make([][]int, len(a)+1)
		for i := range table {
			table[i] = make([]int, len(b)+1)
		}
		for i := range a {
			for j := range b {
				if table[i+1][j+1] = max(table[i][j+1], table[i+1][j]); a[i] == b[j] {
					table[i+1][j+1] = table[i][j] + 1
				}
			}
		}
		require.Equal(t, table[len(a)][len(b)], subsequence(a, b, 6))
	})
}

// For every text, scores are from 0 to 1.
func TestScoresStayInRange(t *testing.T) {
	s, err := Parse(edn.MustRead(`[{:rule :terms :all ["a"]} {:rule :length :min 3 :max 10} {:rule :numbers :source "1 2"} {:rule :quotes :source "q"}
	 {:rule :repetition :words 1 :most 0} {:rule :language :is :en} {:rule :rouge-l :reference "a b c"} {:rule :pattern :refuse "a"}]`))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		v := s.Judge(Subject{Text: rapid.String().Draw(t, "text")})
		for id, o := range v.Outcomes {
			if o.Score != nil {
				require.True(t, o.Score.Sign() >= 0 && o.Score.Cmp(big.NewRat(1, 1)) <= 0, "%s %s", id, o.Score)
			}
		}
	})
}
