package rubric_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/judge/internal/rubric"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const answer = `{:id :rubric/answer :version 1 :scale [0 10]
 :criteria [{:id :faithful :weight 3 :ask "Does every claim follow from the source?"} {:id :complete :weight 2 :ask "Is it all there?"} {:id "short" :ask "Is it short?" :weight 0}]}`

func TestParse(t *testing.T) {
	r, err := rubric.Parse(edn.MustRead(answer), edn.Nil())
	require.NoError(t, err)
	require.NoError(t, r.Asks())
	var ids []string
	for _, c := range r.Rotated(4) {
		ids = append(ids, c.ID)
	}
	assert.Equal(t, []string{"complete", "short", "faithful"}, ids)
	mean := r.Mean(map[string]*big.Rat{"faithful": big.NewRat(9, 10), "complete": big.NewRat(7, 10), "short": new(big.Rat)})
	assert.Equal(t, "0.82M", score.Rounded(mean).String())

	other, err := rubric.Parse(edn.MustRead(answer), edn.MustRead("[1 5]"))
	require.NoError(t, err)
	assert.False(t, other.Canonical.Equal(r.Canonical), "another scale is another rubric")

	none, err := rubric.Parse(edn.Nil(), edn.Nil())
	require.NoError(t, err)
	assert.Len(t, none.Criteria, 1)
}

// JDG-012, JDG-013: each mistake is a :judge/rubric-invalid that names its
// place.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                  "expected a map with :criteria",
		`{:criterea 1}`:                       "did you mean :criteria?",
		`{:criteria {}}`:                      "at [:criteria]: expected a vector",
		`{:criteria [1]}`:                     "[:criteria 0]",
		`{:criteria [{:id :a}]}`:              "[:criteria 0 :ask]: expected a question",
		`{:criteria [{:ask "x?"}]}`:           "[:criteria 0 :id]: expected a name",
		`{:criteria [{:id "a b" :ask "x?"}]}`: "expected a name",
		`{:criteria [{:id :a :ask "x?" :weight -1}]}`:                             "[:criteria 0 :weight]",
		`{:criteria [{:id :a :ask "x?" :weight "3"}]}`:                            "[:criteria 0 :weight]",
		`{:criteria [{:id :a :ask "x?"} {:id :a :ask "y?"}]}`:                     "another criterion has the name a",
		`{:criteria [{:id :a :ask "x?" :weight 0} {:id :b :ask "x?" :weight 0}]}`: "all weights are 0",
		`{:scale [10 0] :criteria [{:id :a :ask "x?"}]}`:                          "[:scale]: expected two numbers",
		`{:version 0 :criteria [{:id :a :ask "x?"}]}`:                             "[:version]",
	} {
		_, err := rubric.Parse(edn.MustRead(text), edn.Nil())
		require.ErrorIs(t, err, contract.OfType("judge/rubric-invalid"), text)
		assert.ErrorContains(t, err, want, text)
		assert.Equal(t, contract.ClassStop, contract.AsError(err).Class)
		assert.Equal(t, contract.SourceRequest, contract.AsError(err).Source)
	}
	for text, want := range map[string]string{`{}`: "judge/rubric-invalid", `{:criteria []}`: "judge/rubric-invalid", `{:rules [{:rule :length :min 1}]}`: "runtime/not-ready"} {
		r, err := rubric.Parse(edn.MustRead(text), edn.Nil())
		require.NoError(t, err)
		require.ErrorIs(t, r.Asks(), contract.OfType(want), text)
	}
}
