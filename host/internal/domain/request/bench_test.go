package request

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// benchRequest returns a request of about 1 KiB.
func benchRequest() edn.Value {
	return edn.MustRead(`{:proto 1 :trace {:id "r-4a2b" :turn 17} :task {:intent :text/respond :requires {:out-schema :res/text} :dispatch {:candidates [:llm/code :llm/meta] :policy :quality-aware}}
	 :input {:prompt "` + strings.Repeat("Explain ACID in two sentences. ", 18) + `"} :context {:summary "short context"} :constraints {:no-web true :language :en}
	 :done {:must #{:schema-valid} :should #{:tests-pass} :score-min 0.8} :budget {:max-tokens 1200 :max-roundtrips 3} :effects {:allowed #{:none}}}`)
}

func TestParseAllocatesLittle(t *testing.T) {
	v, env := benchRequest(), testEnv()
	_, err := parse(v, env)
	require.Nil(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		if _, err := parse(v, env); err != nil {
			panic(err)
		}
	}), 8.0)
}

func BenchmarkParse(b *testing.B) {
	v, env := benchRequest(), testEnv()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(v, env); err != nil {
			b.Fatal(err)
		}
	}
}
