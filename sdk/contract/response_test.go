package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// ENV-013, VAL-013: every reason to reject an answer; contracts.md section 7:
// common mistakes of plugins.
func TestResponseReasons(t *testing.T) {
	for _, tt := range []struct {
		name, in, reason, path string
		want                   ResultRules
	}{
		{name: "text", in: `"I cannot do that"`, reason: "not-a-map", path: `[]`},
		{name: "nil", in: `nil`, reason: "not-a-map", path: `[]`},
		{name: "empty", in: `{}`, reason: "invalid-envelope-shape", path: `[]`},
		{name: "result and error", in: `{:result {:type :value :out 1} :error {:type :demo/x}}`, reason: "invalid-envelope-shape", path: `[]`},
		{name: "result as text", in: `{:result "x"}`, reason: "invalid-envelope-shape", path: `[:result]`},
		{name: "error as text", in: `{:error "x"}`, reason: "invalid-envelope-shape", path: `[:error]`},
		{name: "other version", in: `{:proto 2 :result {:type :value :out 1}}`, reason: "invalid-envelope-shape", path: `[:proto]`},
		{name: "type missing", in: `{:result {:out 1}}`, reason: "result/type-not-allowed", path: `[:result :type]`},
		{name: "type unknown", in: `{:result {:type :list :out 1}}`, reason: "result/type-not-allowed", path: `[:result :type]`},
		{name: "type as text", in: `{:result {:type "value" :out 1}}`, reason: "result/type-not-allowed", path: `[:result :type]`},
		{name: "type not declared", in: `{:result {:type :plan :plan {}}}`, reason: "result/type-not-allowed", path: `[:result :type]`, want: ResultRules{CanProduce: []string{"value"}}},
		{name: "type not demanded", in: `{:result {:type :value :out 1}}`, reason: "requires/result-type-mismatch", path: `[:result :type]`, want: ResultRules{ResultType: "plan"}},
		{name: "no out", in: `{:result {:type :value}}`, reason: "payload-missing", path: `[:result :out]`},
		{name: "no plan", in: `{:result {:type :plan}}`, reason: "payload-missing", path: `[:result :plan]`},
		{name: "plan is nil", in: `{:result {:type :plan :plan nil}}`, reason: "payload-missing", path: `[:result :plan]`},
		{name: "no stream", in: `{:result {:type :stream}}`, reason: "payload-missing", path: `[:result :stream]`},
		{name: "bindings", in: `{:result {:type :plan :plan {} :bindings [1]}}`, reason: "bindings-not-map", path: `[:result :bindings]`},
		{name: "error without type", in: `{:error {:message "x"}}`, reason: "error/type-not-keyword", path: `[:error :type]`},
		{name: "error with a text as type", in: `{:error {:type "x"}}`, reason: "error/type-not-keyword", path: `[:error :type]`},
		{name: "error as result, type missing", in: `{:result {:type :error :error {}}}`, reason: "error/type-not-keyword", path: `[:error :type]`},
		{name: "error as result, error missing", in: `{:result {:type :error}}`, reason: "invalid-envelope-shape", path: `[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := CheckResponse(edn.MustRead(tt.in), tt.want)
			require.NotNil(t, err)
			assert.True(t, v.IsNil())
			assert.Equal(t, "runtime/invalid-result", err.Type)
			assert.Equal(t, SourcePlugin, err.Source)
			assert.Equal(t, ClassRetry, err.Class)
			assert.Equal(t, ":"+tt.reason, err.Details.Key("reason").String())
			assert.Equal(t, tt.path, err.Details.Key("path").String())
		})
	}
}

// VAL-013: reserved tags are found at any position.
func TestResponseReservedTags(t *testing.T) {
	secret := edn.MustTagged("ferment/secret", edn.Text("hunter2"))
	for name, v := range map[string]edn.Value{
		"out":   ValueResult(secret),
		"deep":  ValueResult(edn.MustRead(`{:a [{:b #{1}}]}`).AssocKey("c", edn.Vector(edn.Int(1), edn.MustMap(edn.K("d"), secret)))),
		"key":   ValueResult(edn.MustMap(edn.Vector(secret), edn.Int(1))),
		"set":   ValueResult(edn.SetOf(edn.Vector(secret))),
		"all":   secret,
		"proto": ValueResult(edn.Int(1)).AssocKey("proto", secret),
		"tag":   ValueResult(edn.MustTagged("demo/x", edn.Vector(secret))),
		"error": edn.MustMap(kError, edn.MustMap(kType, edn.K("demo/x"), kDetails, edn.MustMap(kValue, secret))),
		"meta":  ValueResult(edn.Int(1)).AssocKey("invoke/meta", edn.MustMap(edn.K("model"), secret)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CheckResponse(v, ResultRules{})
			require.NotNil(t, err)
			assert.Equal(t, "runtime/invalid-result", err.Type)
			assert.Contains(t, err.Message, "#ferment/secret")
			assert.NotContains(t, err.Error()+err.Value().String(), "hunter2", "the secret does not leave")
		})
	}
	e := ErrorFromValue(edn.MustMap(kType, edn.K("demo/x"), kMessage, secret), SourcePlugin)
	assert.Equal(t, "runtime/invalid-result", e.Type)
	assert.NotContains(t, e.Value().String(), "hunter2")
	_, err := CheckResponse(ValueResult(edn.MustTagged("demo/secret", edn.Vector(edn.Int(1)))), ResultRules{})
	assert.Nil(t, err, "tags of others are data")
}

// ENV-004, ENV-013: accepted answers and their normal form.
func TestResponseNormalForm(t *testing.T) {
	for _, tt := range []struct {
		name, in, out string
		want          ResultRules
		dropped       string
	}{
		{name: "value", in: `{:result {:type :value :out {:text "t"}}}`},
		{name: "nil is an output", in: `{:result {:type :value :out nil}}`},
		{name: "plan", in: `{:result {:type :plan :plan {:nodes []} :bindings {:a 1}}}`, want: ResultRules{CanProduce: []string{"plan"}, ResultType: "plan"}},
		{name: "nil bindings", in: `{:result {:type :plan :plan {:nodes []} :bindings nil}}`},
		{name: "proto, trace, meta, usage", in: `{:proto 1 :trace {:id "r"} :invoke/meta {:model "m"} :result {:type :value :out 1 :usage {:mode :live :tokens-in 3 :cost-usd 0.1M :latency-ms 5 :tokens-mark :exact}}}`},
		{name: "nil error beside a result", in: `{:error nil :result {:type :value :out 1}}`, out: `{:result {:out 1 :type :value}}`, dropped: `[:error]`},
		{name: "keys of the host", in: `{:result {:type :value :out 1} :usage {} :quality {} :run/id "r" :session/id "s" :models/used [] :plan/run {} :transcript []}`,
			out: `{:result {:out 1 :type :value}}`, dropped: `[:models/used] [:plan/run] [:quality] [:run/id] [:session/id] [:transcript] [:usage]`},
		{name: "keys of a later version", in: `{:result {:type :value :out 1 :later 2} :later 1}`, out: `{:result {:out 1 :type :value}}`, dropped: `[:result :later] [:later]`},
		{name: "meta of another kind", in: `{:result {:type :value :out 1} :invoke/meta "m"}`, out: `{:result {:out 1 :type :value}}`, dropped: `[:invoke/meta]`},
		{name: "figures of another kind", in: `{:result {:type :value :out 1 :usage {:tokens-in "3" :tokens-out -1 :cost-usd 0.1 :mode :guess :x 1 :latency-ms 2}}}`,
			out: `{:result {:out 1 :type :value :usage {:latency-ms 2}}}`, dropped: `[:result :usage :cost-usd] [:result :usage :mode] [:result :usage :tokens-in] [:result :usage :tokens-out] [:result :usage :x]`},
		{name: "figures beyond all measure", in: `{:result {:type :value :out 1 :usage {:tokens-in 1125899906842625 :tokens-out 1125899906842624 :latency-ms 99999999999999999999 :cost-usd 1E-61M}}}`,
			out: `{:result {:out 1 :type :value :usage {:tokens-out 1125899906842624}}}`, dropped: `[:result :usage :cost-usd] [:result :usage :latency-ms] [:result :usage :tokens-in]`},
		{name: "cost beyond all measure", in: `{:result {:type :value :out 1 :usage {:cost-usd 1000000000000.1M}}}`, out: `{:result {:out 1 :type :value :usage {}}}`, dropped: `[:result :usage :cost-usd]`},
		{name: "cost just within", in: `{:result {:type :value :out 1 :usage {:cost-usd 1000000000000M}}}`},
		{name: "cost of an integer beyond", in: `{:result {:type :value :out 1 :usage {:cost-usd 1000000000001}}}`, out: `{:result {:out 1 :type :value :usage {}}}`, dropped: `[:result :usage :cost-usd]`},
		{name: "usage of another kind", in: `{:result {:type :value :out 1 :usage 7}}`, out: `{:result {:out 1 :type :value}}`, dropped: `[:result :usage]`},
		{name: "stream", in: `{:result {:type :stream :stream [{:seq 0 :event :delta :text "a"} {:seq 1 :event :delta :text "b"} {:seq 2 :event :done}] :usage {:mode :scripted}}}`,
			out: `{:result {:out {:text "ab"} :type :value :usage {:mode :scripted}}}`},
		{name: "empty stream", in: `{:result {:type :stream :stream ({:event :done})}}`, out: `{:result {:out {:text ""} :type :value}}`},
		{name: "a stream serves who demands a value", in: `{:result {:type :stream :stream [{:event :done}]}}`, out: `{:result {:out {:text ""} :type :value}}`, want: ResultRules{ResultType: "value", CanProduce: []string{"value"}}},
		{name: "a value serves who demands a stream", in: `{:result {:type :value :out 1}}`, want: ResultRules{ResultType: "stream", CanProduce: []string{"stream"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dropped []string
			tt.want.Dropped = func(path []edn.Value) { dropped = append(dropped, edn.Vector(path...).String()) }
			v, err := CheckResponse(edn.MustRead(tt.in), tt.want)
			require.Nil(t, err)
			want := edn.MustRead(tt.in)
			if tt.out != "" {
				want = edn.MustRead(tt.out)
			}
			assert.Equal(t, want.String(), v.String())
			assert.Equal(t, tt.dropped, strings.Join(dropped, " "))

			again, err := CheckResponse(v, tt.want)
			require.Nil(t, err)
			assert.True(t, edn.Equal(v, again), "the normal form is a fixed point")
		})
	}
}

// ENV-014: a stream without a proper end is rejected.
func TestResponseStreams(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                  "stream/truncated",
		`[{:event :delta :text "a"}]`:         "stream/truncated",
		`"text"`:                              "stream/malformed",
		`[{:event :delta}]`:                   "stream/malformed",
		`[{:event :progress} {:event :done}]`: "stream/malformed",
		`["a" {:event :done}]`:                "stream/malformed",
		`[{:event :done} {:event :delta :text "a"}]`: "stream/malformed",
	} {
		_, err := CheckResponse(edn.MustMap(kResult, edn.MustMap(kType, kStreamKey, kStreamKey, edn.MustRead(in))), ResultRules{})
		require.NotNil(t, err, in)
		assert.Equal(t, want, err.Type, in)
		assert.Equal(t, SourcePlugin, err.Source)
		assert.Equal(t, ClassSwitch, err.Class)
	}
}

// ENV-013: errors of a plugin are returned as errors, in both spellings.
func TestResponseErrors(t *testing.T) {
	for _, in := range []string{
		`{:error {:type :schema/invalid :retryable? true :where :model-output :details {:path [:result :out]}}}`,
		`{:result {:type :error :error {:type :schema/invalid :retryable? true :where :model-output :details {:path [:result :out]}}}}`,
	} {
		v, err := CheckResponse(edn.MustRead(in), ResultRules{CanProduce: []string{"value"}})
		require.NotNil(t, err)
		assert.Equal(t, "schema/invalid", err.Type)
		assert.Equal(t, ClassRepair, err.Class)
		assert.True(t, err.Retryable)
		assert.Equal(t, "{:at :model-output}", err.Where.String())
		assert.Equal(t, `{:error {:details {:path [:result :out]} :retryable? true :type :schema/invalid :where {:at :model-output}}}`, v.String())
	}
}

// ENV-013, ERR-009: an output that does not fit its schema.
func TestResponseOutSchema(t *testing.T) {
	want := ResultRules{OutSchema: schema.MustCompile(edn.MustRead(`[:map [:move :string] [:pv [:vector :string]]]`)), OutName: "res/chess.move+pv+eval", Kind: "solver"}
	_, err := CheckResponse(edn.MustRead(`{:result {:type :value :out {:move "e2e4" :pv []}}}`), want)
	assert.Nil(t, err)
	_, err = CheckResponse(edn.MustRead(`{:result {:type :value :out {:move 7 :pv [1]}}}`), want)
	require.NotNil(t, err)
	assert.Equal(t, "schema/invalid", err.Type)
	assert.Equal(t, ClassRepair, err.Class)
	assert.Equal(t, SourcePlugin, err.Source)
	assert.Equal(t, ":output/schema-invalid", err.Details.Key("reason").String())
	assert.Equal(t, 2, err.Details.Key("findings").Len())
	assert.Contains(t, err.Message, ":res/chess.move+pv+eval")

	want.Kind = "llm"
	_, err = CheckResponse(edn.MustRead(`{:result {:type :value :out 7}}`), want)
	assert.Equal(t, SourceDownstream, err.Source)
	_, err = CheckResponse(edn.MustRead(`{:result {:type :stream :stream [{:event :done}]}}`), want)
	assert.Equal(t, "schema/invalid", err.Type, "a folded stream is a value")
	_, err = CheckResponse(edn.MustRead(`{:result {:type :plan :plan {}}}`), want)
	assert.Nil(t, err, "plans are not held against it")
}

// ENV-006: the output of an emitted value.
func TestEmitOut(t *testing.T) {
	for in, want := range map[string]string{
		`{:out {:a 1} :b 2}`: `{:a 1}`,
		`{:out 1}`:           `{:out 1}`,
		`{:out nil :b 2}`:    `{:b 2 :out nil}`,
		`{:out {}}`:          `{}`,
		`{}`:                 `{}`,
		`""`:                 `{:text ""}`,
		`:key`:               `{:value :key}`,
		`#{1}`:               `{:value #{1}}`,
		`{:a 1}`:             `{:a 1}`,
		`"text"`:             `{:text "text"}`,
		`nil`:                `{}`,
		`7`:                  `{:value 7}`,
		`[1]`:                `{:value [1]}`,
		`false`:              `{:value false}`,
	} {
		assert.Equal(t, want, EmitOut(edn.MustRead(in)).String(), in)
	}
}

// ENV-004: answers built by this package are valid.
func TestMakingAnswers(t *testing.T) {
	v, err := CheckResponse(ValueResult(edn.MustRead(`{:text "x"}`)), ResultRules{})
	require.Nil(t, err)
	assert.Equal(t, `{:proto 1 :result {:out {:text "x"} :type :value}}`, v.String())
	v, err = CheckResponse(edn.MustRead(`{:proto 1 :result {:type :plan :plan {:nodes []} :bindings {:a 1}}}`), ResultRules{})
	require.Nil(t, err)
	assert.Equal(t, `{:proto 1 :result {:bindings {:a 1} :plan {:nodes []} :type :plan}}`, v.String())
	_, err = CheckResponse(edn.MustMap(kError, Errorf("input/invalid", "no king").Value()), ResultRules{})
	require.NotNil(t, err)
	assert.Equal(t, "no king", err.Message)
}

// ENV-030: the answers of the design are accepted unchanged.
func TestSeedResponses(t *testing.T) {
	for _, in := range []string{
		`{:proto 1 :trace {:id "r-4a2b" :turn 17} :result {:type :value :out {:patch "...diff..." :tests ["..."]} :usage {:mode :live}}}`,
		`{:proto 1 :trace {:id "r-4a2b" :turn 17} :result {:type :plan :plan {:id "p-01" :nodes []} :bindings {:summary "NPE in foo()"}}}`,
		`{:proto 1 :trace {:id "demo-1"} :result {:type :value :out {:text "ACID is..."} :usage {:mode :live}}}`,
	} {
		v, err := CheckResponse(edn.MustRead(in), ResultRules{})
		require.Nil(t, err)
		assert.True(t, edn.Equal(edn.MustRead(in), v))
	}
	_, err := CheckResponse(edn.MustRead(`{:proto 1 :trace {:id "demo-1"} :error {:type :route/decide-failed :message "LLM invocation failed after retries" :retryable? true}}`), ResultRules{})
	require.NotNil(t, err)
	assert.Equal(t, "route/decide-failed", err.Type)
	assert.Equal(t, "LLM invocation failed after retries", err.Message)
}
