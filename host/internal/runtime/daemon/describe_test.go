package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CNV-013, CNV-014: a plugin learns what handles and intents stand for, with schemas
// that need no registry; only of handles that its call has.
func TestDescribe(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :t/two :cap/kind :solver :cap/description "Does two things." :cap/intents #{:t/a :t/b} :cap/effects #{:db/read :fs/read} :io/in-schema {:t/a :req/text :t/b :req/any} :io/out-schema :res/any}`,
		`{:cap/id :t/one :cap/kind :tool :cap/intents #{:t/a} :cap/effects #{:db/read} :io/in-schema :req/text :io/out-schema :res/any}`,
		`{:cap/id :t/any :cap/kind :tool :cap/intents #{} :cap/effects #{:db/read :net/http} :io/in-schema :req/any :io/out-schema :res/any}`,
	}})
	text := `[:or [:map [:prompt [:re "\\S"]]] [:map [:text [:re "\\S"]]] [:map [:content [:re "\\S"]]]]`
	for refs, want := range map[string]string{
		`[]`: `[]`,
		`[:t/a {:cap/ref :t/two}]`: `[` +
			`{:cap/kind :solver :description "Does two things." :effects #{:db/read} :in-schema ` + text + ` :index 0 :intent :t/a :out-schema :map} ` +
			`{:cap/kind :solver :description "Does two things." :effects #{:db/read :fs/read} :in-schema ` + text + ` :index 1 :intent :t/a :out-schema :map} ` +
			`{:cap/kind :solver :description "Does two things." :effects #{:db/read :fs/read} :in-schema :map :index 1 :intent :t/b :out-schema :map}]`,
		`[{:cap/ref :t/any}]`: `[{:cap/kind :tool :effects #{:db/read :net/http} :in-schema :map :index 0 :intent :t/any :out-schema :map}]`,
	} {
		response, err := describe(edn.MustRead(`{:refs `+refs+`}`), w.Registry)
		require.NoError(t, err, refs)
		assert.Equal(t, want, response.Key("result").Key("out").Key("callables").String(), refs)
	}
	for refs, want := range map[string]string{
		`[:t/c]`: "invalid-request", `["t/a"]`: "input/invalid", `7`: "input/invalid", `[{:cap/ref "t/one"}]`: "input/invalid",
	} {
		_, err := describe(edn.MustRead(`{:refs `+refs+`}`), w.Registry)
		assert.ErrorIs(t, err, contract.OfType(want), refs)
	}
	request := edn.MustRead(`{:task {:intent :capability/describe} :input {:refs [{:cap/ref :t/one}]}}`)
	_, err := checkHandles(request, []string{"t/two"}, w.Registry)
	assert.ErrorIs(t, err, contract.OfType("auth/forbidden"), "a foreign handle is not described")
}
