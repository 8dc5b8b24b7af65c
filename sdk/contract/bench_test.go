package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

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
