package score_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

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

// JDG-015: parsing a written score returns it.
func TestWrittenScoresAreReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := score.Rounded(big.NewRat(rapid.Int64Range(0, 1<<40).Draw(t, "part"), 1<<40))
		got, err := contract.ParseScore(edn.MustMap(edn.K("score"), want), contract.ScoreRules{})
		require.Nil(t, err)
		require.True(t, want.Equal(score.Rounded(got)))
	})
}
