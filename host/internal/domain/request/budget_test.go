package request

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ENV-016: keys, exact amounts, the second names of two limits.
func TestParseBudget(t *testing.T) {
	for in, want := range map[string]string{
		`nil`: `{}`,
		`{}`:  `{}`,
		`{:max-tokens 1 :max-tokens-in 2 :max-tokens-out 3 :max-usd 0.10M :max-wall-ms 4 :max-roundtrips 5 :max-attempts 6 :max-judge-calls 7 :max-depth 8 :temperature 0.5}`://
		`{:max-attempts 6 :max-depth 8 :max-judge-calls 7 :max-roundtrips 5 :max-tokens 1 :max-tokens-in 2 :max-tokens-out 3 :max-usd 0.1M :max-wall-ms 4 :temperature 0.5}`,
		`{:usd 1 :wall-ms 0}`:                `{:max-usd 1 :max-wall-ms 0}`,
		`{:usd 1 :max-usd 0.5M}`:             `{:max-usd 0.5M}`,
		`{:wall-ms 9 :max-wall-ms 3}`:        `{:max-wall-ms 3}`,
		`{:temperature 2M}`:                  `{:temperature 2M}`,
		`{:max-usd 0.00000000000000000001M}`: `{:max-usd 0.00000000000000000001M}`,
		`{:max-tokens 9223372036854775807}`:  `{:max-tokens 9223372036854775807}`,
	} {
		b, err := ParseBudget(edn.MustRead(in))
		require.Nil(t, err, in)
		assert.Equal(t, want, b.Value().String(), in)
	}
	for in, want := range map[string]string{
		`[]`:                                 "shape/wrong-type",
		`{"max-tokens" 1}`:                   "budget/unknown-key",
		`{:max-tokns 1}`:                     "budget/unknown-key",
		`{:max-usd 0.1}`:                     "budget/not-number",
		`{:max-tokens "1"}`:                  "budget/not-number",
		`{:max-tokens nil}`:                  "budget/not-number",
		`{:max-tokens 99999999999999999999}`: "budget/not-number",
		`{:usd -0.01M}`:                      "budget/negative",
		`{:temperature -1}`:                  "budget/negative",
		`{:temperature 2.01}`:                "shape/out-of-range",
		`{:max-tokens -1 :x 1}`:              "budget/unknown-key",
		`{:max-tokens -1 :max-depth "x"}`:    "budget/not-number",
	} {
		_, err := ParseBudget(edn.MustRead(in))
		require.NotNil(t, err, in)
		assert.Equal(t, ":"+want, err.Details.Key("reason").String(), in)
	}
}

func genBudget(t *rapid.T, name string) Budget {
	var b Budget
	for _, key := range budgetKeys {
		if l := b.limit(key); l != nil && rapid.Bool().Draw(t, name+key) {
			*l = Limited(rapid.Int64Range(0, 9).Draw(t, name+key+" n"))
		}
	}
	if rapid.Bool().Draw(t, name+"usd") {
		b.MaxUSD = edn.MustDecimal(rapid.SampledFrom([]string{"0", "0.1", "0.2", "3"}).Draw(t, name+"usd n"))
	}
	return b
}

// POL-001, BUD-001: a budget raises another if one of its limits is higher;
// reading what was written
// returns the same budget.
func TestBudgetLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := genBudget(t, "a")
		assert.Empty(t, a.Raises(a))
		for _, key := range budgetKeys {
			if l := a.limit(key); l != nil && l.Set && a.Value().HasKey(key) { // not an alias
				more := a
				*more.limit(key) = Limited(l.N + 1)
				assert.Equal(t, key, more.Raises(a))
				assert.Empty(t, a.Raises(more))
			}
		}
		back, err := ParseBudget(a.Value())
		require.Nil(t, err)
		assert.Equal(t, a.Value().String(), back.Value().String())
	})
	assert.Equal(t, Limited(0), Limit{}.Lower(Limited(0)))
}
