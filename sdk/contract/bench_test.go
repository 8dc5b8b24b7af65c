package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// benchRequest returns a request of about 1 KiB.
func benchRequest() edn.Value {
	return edn.MustRead(`{:proto 1 :trace {:id "r-4a2b" :turn 17} :task {:intent :text/respond :requires {:out-schema :res/text} :dispatch {:candidates [:llm/code :llm/meta] :policy :quality-aware}}
	 :input {:prompt "` + strings.Repeat("Explain ACID in two sentences. ", 18) + `"} :context {:summary "short context"} :constraints {:no-web true :language :en}
	 :done {:must #{:schema-valid} :should #{:tests-pass} :score-min 0.8} :budget {:max-tokens 1200 :max-roundtrips 3} :effects {:allowed #{:none}}}`)
}

func benchResponse() (edn.Value, ResultRules) {
	v := edn.MustRead(`{:proto 1 :trace {:id "r-4a2b" :turn 17} :invoke/meta {:model "m"} :result {:type :value :usage {:mode :live :latency-ms 12 :tokens-in 3 :tokens-out 4}
	 :out {:text "` + strings.Repeat("Atomicity, consistency. ", 36) + `" :parts [{:a 1 :b [1 2 3]} {:a 2 :b []}]}}}`)
	return v, ResultRules{
		CanProduce: []string{"value"}, ResultType: "value", OutName: "res/text", Kind: "llm",
		OutSchema: schema.MustCompile(edn.MustRead(`[:map [:text [:string {:min 1}]] [:parts {:optional true} [:vector [:map [:a :int]]]]]`)),
	}
}

// Validating a correct answer does not allocate.
func TestCheckResponseAllocatesNothing(t *testing.T) {
	v, want := benchResponse()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := CheckResponse(v, want); err != nil {
			panic(err)
		}
	}))
}

func TestParseRequestAllocatesLittle(t *testing.T) {
	v, env := benchRequest(), testEnv()
	_, err := ParseRequest(v, env)
	require.Nil(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		if _, err := ParseRequest(v, env); err != nil {
			panic(err)
		}
	}), 8.0)
}

func BenchmarkParseRequest(b *testing.B) {
	v, env := benchRequest(), testEnv()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRequest(v, env); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequestValue(b *testing.B) {
	r, err := ParseRequest(benchRequest(), testEnv())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Value()
	}
}

func BenchmarkRequestForPlugin(b *testing.B) {
	r, err := ParseRequest(benchRequest(), testEnv())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.ForPlugin()
	}
}

func BenchmarkCheckResponse(b *testing.B) {
	v, want := benchResponse()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CheckResponse(v, want); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkErrorf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = Errorf("runtime/crashed", "plugin %s died", "chess")
	}
}

func BenchmarkErrorValue(b *testing.B) {
	e := Errorf("runtime/crashed", "plugin %s died", "chess").WithWhere("node", edn.Text("c-01")).WithDetail("signal", edn.Int(9))
	b.ReportAllocs()
	for b.Loop() {
		e.Value()
	}
}
