package request

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ENV-008: every accepted spelling, and values that are left alone.
func TestTranslateSpellings(t *testing.T) {
	for _, tt := range []struct{ name, in, out string }{
		{"text", `"hi"`, `{:input {:prompt "hi"} :proto 1 :task {:intent :text/respond} :trace {:id "t"}}`},
		{"prompt", `{:prompt "hi"}`, `{:input {:prompt "hi"} :proto 1 :task {:intent :text/respond} :trace {:id "t"}}`},
		{"prompt with company is no spelling", `{:prompt "hi" :x 1}`, ``},
		{"prompt of another kind", `{:prompt 7}`, ``},
		{"proto", `{:proto "1"}`, `{:proto 1}`},
		{"other proto", `{:proto "2"}`, ``},
		{"requires", `{:task {:requires {:in-schema "req/a" :out-schema ":res/b" :result/type "value" :cap/kind "llm" :cap/tags ["a" ":b"] :effects/allowed #{"none"}}}}`,
			`{:task {:requires {:in-schema :req/a :out-schema :res/b :result/type :value :cap/kind :llm :cap/tags [:a :b] :effects/allowed #{:none}}}}`},
		{"done", `{:done {:must ["a" :b] :should #{"c" :c} :score-min 0.5}}`, `{:done {:must [:a :b] :should #{:c} :score-min 0.5}}`},
		{"effects", `{:effects {:allowed ("none")}}`, `{:effects {:allowed (:none)}}`},
		{"no keyword", `{:done {:must ["a b"]} :task {:requires {:out-schema ""}}}`, ``},
		{"other places", `{:role "voice" :constraints {:language "en"} :input {:x "yes"}}`, ``},
		{"stream", `{:stream? 1}`, `{:stream? true}`},
		{"stream off", `{:stream? "OFF"}`, `{:stream? false}`},
		{"routing", `{:routing {:meta? "yes" :strict? "on" :force? "true" :debug/plan? "yes"}}`, `{:routing {:meta? true :strict? true :force? true :debug/plan? "yes"}}`},
		{"no boolean", `{:stream? "maybe" :routing {:meta? 2}}`, ``},
		{"wrong kinds", `{:task "x" :done 1 :effects [] :routing nil :proto nil}`, ``},
		{"wrong inner kinds", `{:task {:requires 1 :dispatch "x"} :done {:must "a"} :effects {:allowed "none"}}`, ``},
		{"neither text nor map", `[1 2]`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, warnings, err := Translate(edn.MustRead(tt.in), DefaultTrace("t"))
			require.NoError(t, err)
			assert.Empty(t, warnings)
			want := tt.out
			if want == "" {
				want = tt.in
			}
			assert.Equal(t, edn.MustRead(want).String(), v.String())
			again, _, err := Translate(v, DefaultTrace("t"))
			require.NoError(t, err)
			assert.True(t, edn.Equal(v, again), "translating twice changes nothing")
		})
	}
}

// ENV-008: bare text becomes a valid request.
func TestTranslatedTextIsARequest(t *testing.T) {
	v, _, err := Translate(edn.Text("Explain ACID."), DefaultTrace("r-7"))
	require.NoError(t, err)
	r, bad := parse(v, testEnv())
	require.Nil(t, bad)
	assert.Equal(t, "text/respond", r.Intent)

	v, _, err = Translate(edn.Text("Explain ACID."))
	require.NoError(t, err)
	_, bad = parse(v, testEnv())
	require.NotNil(t, bad, "without a trace the edge has to add one")
	assert.Equal(t, "[:trace]", bad.Details.Key("path").String())
}

// ERR-011, ENV-023: aliases of error types are replaced, with a warning.
func TestTranslateAliases(t *testing.T) {
	for _, row := range contract.Rows() {
		for _, alias := range row.Aliases {
			for _, key := range []string{"switch-on", "switch-on/replace"} {
				in := edn.MustMap(kTask, edn.MustMap(kDispatch, edn.MustMap(edn.K(key), edn.Vector(edn.K(alias), edn.K("runtime/crashed")))))
				v, warnings, err := Translate(in)
				require.NoError(t, err)
				set := v.Key("task").Key("dispatch").Key(key)
				assert.True(t, set.Has(edn.K(row.Type)), alias)
				require.Len(t, warnings, 1)
				assert.Equal(t, "alias", warnings[0].Code)
				assert.Contains(t, warnings[0].Value().Key("message").String(), ":"+alias+" is now :"+row.Type)
			}
		}
	}
}

const seedV03 = `{:session/id "..."
 :request/id "..."
 :messages   [{:role "user" :content "..."}]
 :context    {:lang "pl" :mode :chat}
 :opts       {:temperature 0.4 :max-tokens 512}}`

// ENV-009, ENV-030: requests of version 0.3 from the golden files.
func TestTranslateV03(t *testing.T) {
	for name, in := range map[string]string{
		"seed": seedV03,
		"plan": `{:request/id "q1" :intent :coding :messages [{:role "system" :content "s"} {:role :user :content "first"} {:role "assistant" :content "a"} {:role "user" :content "last"}]
		 :requires {:out/schema :res/patch+tests :quality/must [:schema-valid :tests-pass]}
		 :dispatch {:candidates [:llm/coder-a :llm/coder-b :solver/non-llm-x] :policy :quality-aware}
		 :steps [{:op :build-prompt} {:op :call-capability} {:op :postprocess}]}`,
		"analysis": `{:messages [] :intent "analysis" :context {:lang :en} :constraints {:language :de} :stream? "yes" :done {:score-min 1}}`,
		"extra":    `{:messages [{:role "user" :content "x"}] :intent :code/review :trace {:id "own"} :later 1}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, IsV03(edn.MustRead(in)))
			v, warnings, err := Translate(edn.MustRead(in), DefaultTrace("t"))
			require.NoError(t, err)
			require.Len(t, warnings, 1)
			assert.Equal(t, "v0.3", warnings[0].Code)
			golden(t, filepath.Join("testdata", "v03", name+".edn"), append(edn.WritePretty(v, edn.PrettyOptions{First: []edn.Value{kProto, kTrace, kTask, kInput}}), '\n'))
			assert.False(t, IsV03(v))
		})
	}
	v, _, err := Translate(edn.MustRead(seedV03))
	require.NoError(t, err)
	r, bad := parse(v, testEnv())
	require.Nil(t, bad, "the example of version 0.3 is accepted unchanged")
	assert.Equal(t, "text/respond", r.Intent)
	assert.Equal(t, Limited(512), r.BudgetLimits.MaxTokens)
}

// ENV-009: the three intents of version 0.3 and their default.
func TestTranslateV03Intents(t *testing.T) {
	for in, want := range map[string]string{
		`:coding`: ":code/patch", `:chat`: ":text/respond", `:analysis`: ":problem/solve", `nil`: ":text/respond", `:other`: ":other", `:a/b`: ":a/b",
	} {
		v, _, err := Translate(edn.MustMap(kMessages, edn.Vector(), kIntent, edn.MustRead(in)))
		require.NoError(t, err)
		assert.Equal(t, want, v.Key("task").Key("intent").String())
	}
}

func TestTranslateV03Refusals(t *testing.T) {
	for in, path := range map[string]string{
		`{:messages "hi"}`:   `[:messages]`,
		`{:messages ["hi"]}`: `[:messages 0]`,
		`{:messages [] :steps [{:op :build-prompt} {:op :launch}]}`: `[:steps 1]`,
		`{:messages [] :steps [{:op :build-prompt :x 1}]}`:          `[:steps 0]`,
		`{:messages [] :steps :all}`:                                `[:steps]`,
	} {
		_, _, err := Translate(edn.MustRead(in))
		var e *contract.Error
		require.ErrorAs(t, err, &e, in)
		assert.Equal(t, "invalid-request", e.Type)
		assert.Equal(t, path, e.Details.Key("path").String(), in)
	}
	for _, odd := range []string{`{:messages [] :requires 7 :opts 7 :context 7 :done 7}`, `{:messages [] :requires {:quality/must 7} :constraints 7 :context {:lang 7}}`} {
		v, _, err := Translate(edn.MustRead(odd))
		require.NoError(t, err)
		_, bad := parse(v, testEnv())
		assert.NotNil(t, bad, "what cannot be translated is refused by the check")
	}
}

// ENV-009, ENV-030: the answer for a sender of version 0.3.
func TestAnswerV03(t *testing.T) {
	r := Request{RequestID: "..."}
	for in, want := range map[string]string{
		`{:result {:type :value :out {:text "..."} :usage {:latency-ms 1}} :usage {:latency-ms 1234} :quality {:must-pass? true :score 0.91}}`://
		`{:request/id "..." :status :ok :output {:text "..."} :usage {:latency-ms 1234} :quality {:must-pass? true :score 0.91} :errors []}`,
		`{:result {:type :value :out "t" :usage {:latency-ms 1}}}`: `{:request/id "..." :status :ok :output {:text "t"} :usage {:latency-ms 1} :quality {} :errors []}`,
		`{:error {:type :timeout/hard :message "m"}}`:              `{:request/id "..." :status :error :output {} :usage {} :quality {} :errors [{:type :timeout/hard :message "m"}]}`,
	} {
		assert.Equal(t, edn.MustRead(want).String(), AnswerV03(r, edn.MustRead(in)).String())
	}
}

// golden compares with a file, or writes it if UPDATE_GOLDEN is set.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "%s is out of date: run with UPDATE_GOLDEN=1 and look at the difference", name)
}
