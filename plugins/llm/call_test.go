package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// LM-008: roles reach each dialect without loss, in the places that it has for
// them.
func TestMessages(t *testing.T) {
	const conversation = `{:messages [{:role :system :content "Be brief."}
	  {:role :user :content "Read a.go."}
	  {:role :assistant :content "Reading." :tool/calls [{:id "t1" :tool/id :fs/read :args {:path "a.go"}} {:id "t2" :tool/id :fs/list :args {:dir "."}}]}
	  {:role :tool :tool/id "t1" :content "package a"}
	  {:role :tool :tool/id "t2" :content "a.go"}
	  {:role :user :content "And?"}]
	 :tools [{:tool/id :fs/read :description "reads" :in-schema [:map [:path :string]]} {:tool/id :fs/list :in-schema [:map [:dir :string]]}]}`
	for dialect, want := range map[string]string{
		"openai-chat": `[{"content":"Be brief.","role":"system"},{"content":"Read a.go.","role":"user"},
		  {"content":"Reading.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\"a.go\"}","name":"fs__read"},"id":"t1","type":"function"},{"function":{"arguments":"{\"dir\":\".\"}","name":"fs__list"},"id":"t2","type":"function"}]},
		  {"content":"package a","role":"tool","tool_call_id":"t1"},{"content":"a.go","role":"tool","tool_call_id":"t2"},{"content":"And?","role":"user"}]`,
		"anthropic-messages": `[{"content":[{"text":"Read a.go.","type":"text"}],"role":"user"},
		  {"content":[{"text":"Reading.","type":"text"},{"id":"t1","input":{"path":"a.go"},"name":"fs__read","type":"tool_use"},{"id":"t2","input":{"dir":"."},"name":"fs__list","type":"tool_use"}],"role":"assistant"},
		  {"content":[{"content":"package a","tool_use_id":"t1","type":"tool_result"},{"content":"a.go","tool_use_id":"t2","type":"tool_result"},{"text":"And?","type":"text"}],"role":"user"}]`,
		"openai-responses": `[{"content":"Be brief.","role":"system"},{"content":"Read a.go.","role":"user"},
		  {"content":"Reading.","role":"assistant"},
		  {"arguments":"{\"path\":\"a.go\"}","call_id":"t1","name":"fs__read","type":"function_call"},
		  {"arguments":"{\"dir\":\".\"}","call_id":"t2","name":"fs__list","type":"function_call"},
		  {"call_id":"t1","output":"package a","type":"function_call_output"},
		  {"call_id":"t2","output":"a.go","type":"function_call_output"},{"content":"And?","role":"user"}]`,
		"ollama-chat": `[{"content":"Be brief.","role":"system"},{"content":"Read a.go.","role":"user"},
		  {"content":"Reading.","role":"assistant","tool_calls":[{"function":{"arguments":{"path":"a.go"},"name":"fs__read"}},{"function":{"arguments":{"dir":"."},"name":"fs__list"}}]},
		  {"content":"package a","role":"tool","tool_name":"fs__read"},{"content":"a.go","role":"tool","tool_name":"fs__list"},{"content":"And?","role":"user"}]`,
	} {
		r := newRig(t, dialect, "", "", talks()[dialect].whole("ok"))
		o := r.ask(t.Context(), "model/chat", conversation, "", nil)
		require.Nil(t, o.err)
		assert.JSONEq(t, want, r.field("messages")+r.field("input"), dialect)
		if dialect == "anthropic-messages" {
			assert.Equal(t, "Be brief.", r.body()["system"])
		}
		tools, _ := json.Marshal(r.body()["tools"])
		for _, part := range []string{"fs__read", "fs__list", "reads", `"path"`} {
			assert.Contains(t, string(tools), part, dialect)
		}
	}
}

// LLM-007 and 1.1: options go into the fields of the dialect; unsupported ones
// are named, or rejected if the operator wants that.
func TestOptions(t *testing.T) {
	const model = `{:options {:temperature 0.5 :top-p 0.9 :max-tokens 100 :stop ["END"] :seed 7 :presence-penalty 0.5 :frequency-penalty -0.5 :extra {"user_field" {"a" 1.5}}} :context 4096 %s}`
	for dialect, want := range map[string]string{
		"openai-chat":        `{"temperature":0,"top_p":0.9,"max_completion_tokens":50,"stop":["END"],"seed":7,"presence_penalty":0.5,"frequency_penalty":-0.5,"user_field":{"a":1.5}}`,
		"openai-responses":   `{"temperature":0,"top_p":0.9,"max_output_tokens":50,"user_field":{"a":1.5}}`,
		"anthropic-messages": `{"temperature":0,"top_p":0.9,"max_tokens":50,"stop_sequences":["END"],"user_field":{"a":1.5}}`,
		"ollama-chat":        `{"options":{"temperature":0,"top_p":0.9,"num_predict":50,"stop":["END"],"seed":7,"presence_penalty":0.5,"frequency_penalty":-0.5,"num_ctx":4096},"user_field":{"a":1.5}}`,
	} {
		r := newRig(t, dialect, fmt.Sprintf(model, ""), "", talks()[dialect].whole("ok"))
		o := r.ask(t.Context(), "model/chat", hello, `{:budget {:max-tokens 50 :temperature 0.0}}`, nil)
		require.Nil(t, o.err)
		var expected map[string]any
		require.NoError(t, json.Unmarshal([]byte(want), &expected))
		for name, v := range expected {
			assert.Equal(t, v, r.body()[name], "%s %s", dialect, name)
		}
		dropped, lost := o.meta.Key("options/dropped"), map[string]edn.Value{
			"anthropic-messages": edn.Keywords("frequency-penalty", "presence-penalty", "seed"),
			"openai-responses":   edn.Keywords("frequency-penalty", "presence-penalty", "seed", "stop"),
		}
		if lost, some := lost[dialect]; some {
			assert.True(t, edn.Equal(lost, dropped), "%s", dropped)
			strict := newRig(t, dialect, fmt.Sprintf(model, ":strict-options true"), "")
			o := strict.ask(t.Context(), "model/chat", hello, "", nil)
			strict.unsayable(o, "strict options")
		} else {
			assert.True(t, dropped.IsNil())
		}
	}
	r := newRig(t, "anthropic-messages", "", "", talks()["anthropic-messages"].whole("ok"))
	r.ask(t.Context(), "model/chat", hello, "", nil)
	assert.EqualValues(t, 4096, r.body()["max_tokens"], "always sent")
}

// Headers and the key are sent where they belong; nothing comes from the
// environment.
func TestHeaders(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for _, dialect := range dialects() {
		header := map[bool]string{true: "X-Api-Key", false: "Authorization"}[dialect == "anthropic-messages"]
		r := newRig(t, dialect, "", `{:headers {"X-Team" "docs"}}`, talks()[dialect].whole("ok"))
		require.Nil(t, r.ask(t.Context(), "model/chat", hello, "", nil).err)
		h := r.server.Requests()[0].Header
		assert.Contains(t, h.Get(header), canary)
		assert.Equal(t, "docs", h.Get("X-Team"))
		assert.Empty(t, h.Get("Cookie"))
		assert.Equal(t, "identity", h.Get("Accept-Encoding"), "without it a server may compress")
	}
}

// LLM-040..044: structured answers: the requested form, what counts as an
// answer, and the findings on one that does not.
func TestStructured(t *testing.T) {
	const shape = `{:context {:prompt {:system "Judge." :messages [{:role :user :content "Grade it."}] :hash "b3:given"
	                 :output {:name :res/grade :schema [:map {:closed true} [:score [:number {:min 0 :max 1}]] [:why {:optional true} :string]]}}}}`
	for _, tt := range []struct{ dialect, model, mode, field, holds string }{
		{"openai-chat", "", "native", "response_format", `"strict":true`},
		{"openai-chat", `{:structured "json"}`, "json", "response_format", `json_object`},
		{"openai-chat", `{:structured "prompt"}`, "prompt", "messages", `JSON Schema`},
		{"openai-chat", `{:quirks {:response-format "none"}}`, "prompt", "messages", `JSON Schema`},
		{"openai-responses", "", "native", "text", `"strict":true`},
		{"openai-responses", `{:structured "json"}`, "json", "text", `{"format":{"type":"json_object"}}`},
		{"openai-responses", `{:structured "prompt"}`, "prompt", "input", `JSON Schema`},
		{"anthropic-messages", "", "native", "output_config", `"json_schema"`},
		{"ollama-chat", "", "native", "format", `"additionalProperties":false`},
		{"ollama-chat", `{:structured "json"}`, "json", "format", `"json"`},
	} {
		k := talks()[tt.dialect]
		r := newRig(t, tt.dialect, tt.model, "", k.whole(`{"score":0.5,"why":null}`))
		o := r.ask(t.Context(), "eval/grade", `{:result {:text "x"}}`, shape, nil)
		require.Nil(t, o.err, "%s %s", tt.dialect, tt.model)
		assert.Equal(t, `{:score 0.5}`, o.out.String(), "the null stands for a key that is missing")
		assert.Equal(t, ":"+tt.mode, o.meta.Key("format/mode").String())
		assert.Equal(t, `"b3:given"`, o.meta.Key("prompt/hash").String())
		assert.False(t, o.meta.HasKey("format/found"), "it is JSON as a whole (LLM-043)")
		field, err := json.Marshal(r.body()[tt.field])
		require.NoError(t, err)
		assert.Contains(t, string(field), tt.holds, tt.dialect)

		for text, found := range map[string]string{
			"So:\n```json\n{\"score\": 0.5}\n```": ":fenced", `{:score 0.5}`: ":edn", `So {"score":0.5} it is.`: ":embedded",
		} {
			r.server.Then(k.whole(text))
			o = r.ask(t.Context(), "eval/grade", `{:result {:text "x"}}`, shape, nil)
			require.Nil(t, o.err)
			assert.Equal(t, found, o.meta.Key("format/found").String(), text)
		}

		r.server.Then(k.whole(`{"score":7}`))
		o = r.ask(t.Context(), "eval/grade", `{:result {:text "x"}}`, shape, nil)
		require.NotNil(t, o.err)
		assert.Equal(t, "schema/invalid", o.err.Type)
		assert.Equal(t, `"{\"score\":7}"`, o.err.Details.Key("raw").String())
		assert.Equal(t, 1, o.err.Details.Key("findings").Len())
		assert.True(t, strings.HasPrefix(o.err.Details.Key("output/hash").String(), `"b3:`))
		require.Equal(t, `{"score":7}`, o.text, "the pieces are the raw text")
	}
	r := newRig(t, "anthropic-messages", `{:structured "json"}`, "")
	o := r.ask(t.Context(), "eval/grade", `{:result {:text "x"}}`, shape, nil)
	r.unsayable(o, "what was demanded cannot be had")
}

// TXT-001: what a model thinks is not its answer, whether the schema is enforced by the server or
// is part of the prompt.
func TestReasoningIsNotTheAnswer(t *testing.T) {
	const grading = `{:result {:text "x"}}`
	const chatting = `{:messages [{:role :user :content "Grade it."}]
	                   :output {:name :a/grade :schema [:map [:score :number]]}}`
	const draft, value = `{"score":0}`, `{"score":1}`
	for _, dialect := range dialects() {
		k := talks()[dialect]
		for _, mode := range []string{"auto", "prompt"} {
			r := newRig(t, dialect, `{:structured "`+mode+`"}`, "")
			for _, tt := range []struct{ thinks, says, typ string }{
				{"<think>\nMaybe " + draft + ", but no.\n</think>\n\n", value, ""},
				{"Maybe " + draft + ", but no.\n</think>\n\n", value, ""},
				{"<think>the set {a, b} and {c}</think>\n", value, ""},
				{"<think>" + draft + "</think>\n", "I cannot say.", "format/drift"},
				{"<think>" + draft + "</think>\n", `{"score":"none"}`, "schema/invalid"},
				{"<think>" + draft, "</think>", "provider/empty"},
				{draft, "</think>\n", "provider/empty"},
				{"<think>Maybe ", draft, "provider/empty"},
			} {
				for intent, input := range map[string]string{"eval/grade": grading, "model/chat": chatting} {
					about := fmt.Sprintf("%s %s %s: %s%s", dialect, mode, intent, tt.thinks, tt.says)
					r.server.Then(k.says(k.start, k.text(tt.thinks), k.text(tt.says), k.finish("stop"), k.end))
					o := r.ask(t.Context(), intent, input, "", nil)
					assert.Equal(t, tt.typ, failureOf(o.err), about)
					if tt.typ == "" && intent == "eval/grade" {
						score, _ := o.out.Key("score").AsNumber()
						assert.Equal(t, "1", score.RatString(), about)
					}
					assert.Equal(t, tt.thinks+tt.says, o.text, "the pieces are the raw text")
				}
			}
		}
	}
}

// JDG-001, LLM-040: a request with messages may ask for a form and a seed; the
// answer is still a message.
func TestStructuredChat(t *testing.T) {
	const question = `{:messages [{:role :user :content "Grade it."}] :seed 11
	                   :output {:name :judge/verdict :schema [:map [:criteria [:map [:clear [:map [:reason :string] [:score :number]]]]]]}}`
	k := talks()["openai-chat"]
	said := `{"criteria":{"clear":{"reason":"It is.","score":8}}}`
	r := newRig(t, "openai-chat", "", "", k.whole(said))
	o := r.ask(t.Context(), "model/chat", question, "", nil)
	require.Nil(t, o.err)
	assert.Equal(t, edn.MustMap(edn.K("text"), edn.Text(said), edn.K("finish"), edn.K("stop")).String(), o.out.String())
	assert.Equal(t, ":native", o.meta.Key("format/mode").String())
	field, err := json.Marshal(r.body()["response_format"])
	require.NoError(t, err)
	assert.Contains(t, string(field), `"criteria"`)
	assert.EqualValues(t, "11", fmt.Sprint(r.body()["seed"]))

	for said, want := range map[string]string{"I like it.": "format/drift", `{"criteria":{"clear":8}}`: "schema/invalid"} {
		r.server.Then(k.whole(said))
		o = r.ask(t.Context(), "model/chat", question, "", nil)
		require.NotNil(t, o.err, said)
		assert.Equal(t, want, o.err.Type)
	}

	// A schema of one text is requested and validated, too: its sender reads JSON.
	const single = `{:messages [{:role :user :content "Is it?"}] :output {:schema [:map [:answer [:re "^[a-z]+$"]]]}}`
	for said, want := range map[string]string{
		`{"answer":"yes"}`: "", "Well, yes.": "format/drift", `{"answer":"YES 12"}`: "schema/invalid",
	} {
		r.server.Then(k.whole(said))
		o = r.ask(t.Context(), "model/chat", single, "", nil)
		assert.Equal(t, want, failureOf(o.err), said)
		assert.Contains(t, fmt.Sprint(r.body()["response_format"]), "answer")
		if want == "" {
			assert.Equal(t, edn.Text(said).String(), o.out.Key("text").String())
		}
	}
}

// LLM-042: texts are requested as plain text and wrapped.
func TestTextsAreWrapped(t *testing.T) {
	k := talks()["openai-chat"]
	r := newRig(t, "openai-chat", "", "", k.whole("Bees dance."))
	for _, tt := range []struct{ intent, input, fields, want string }{
		{"text/respond", `{:prompt "x"}`, "", `{:text "Bees dance."}`},
		{"code/generate", `{:task "x"}`, "", `{:text "Bees dance."}`},
		{"demo/free", `{:anything [1]}`, "", `{:text "Bees dance."}`},
		{"text/respond", `{:prompt "x"}`, `{:context {:prompt {:output {:schema [:map [:summary :string]]}}}}`, `{:summary "Bees dance."}`},
	} {
		o := r.ask(t.Context(), tt.intent, tt.input, tt.fields, nil)
		require.Nil(t, o.err, tt.intent)
		assert.Equal(t, tt.want, o.out.String())
		assert.Nil(t, r.body()["response_format"])
		assert.True(t, o.meta.Key("format/mode").IsNil())
	}
}

// LLM-043: a program is the whole answer or the block around it; an answer in which it is unclear is
// repaired, and the block in it is not taken.
func TestPrograms(t *testing.T) {
	const readme = "# Title\n\n```sh\nmake\n```\n\nMore text.\n"
	k := talks()["openai-chat"]
	r := newRig(t, "openai-chat", "", "")
	ask := func(key, said string) outcome {
		r.server.Then(k.whole(said))
		return r.ask(t.Context(), "code/generate", `{:task "x"}`, `{:context {:prompt {:output {:schema [:map [:`+key+` :string]]}}}}`, nil)
	}
	for _, key := range []string{"code", "patch"} {
		for said, want := range map[string]string{
			"return s.split(\"</think>\")[-1]\n": "return s.split(\"</think>\")[-1]\n",
			"````\n" + readme + "````\n":         readme,
		} {
			o := ask(key, said)
			require.Nil(t, o.err, said)
			program, _ := o.out.Key(key).AsString()
			assert.Equal(t, want, program)
		}
		o := ask(key, readme)
		require.NotNil(t, o.err)
		assert.Equal(t, "format/drift", o.err.Type)
		assert.Equal(t, "repair", o.err.Class.String())
		assert.Equal(t, edn.Text(readme).String(), o.err.Details.Key("raw").String())
	}
}

// LLM-044: a repair replaces the previous attempt; the request does not grow.
func TestRepair(t *testing.T) {
	k := talks()["openai-chat"]
	r := newRig(t, "openai-chat", "", "", k.whole("better"))
	fields := func(attempt int) string {
		return fmt.Sprintf(`{:context {:repair {:attempt %d :previous {:text "too short"} :findings [{:gate :long :message "is too short" :path [:text]}]}}}`, attempt)
	}
	var sizes []int
	for attempt := 1; attempt <= 3; attempt++ {
		require.Nil(t, r.ask(t.Context(), "text/respond", `{:prompt "Explain."}`, fields(attempt), nil).err)
		all := r.server.Requests()
		sizes = append(sizes, len(all[len(all)-1].Body))
	}
	assert.Equal(t, []int{sizes[0], sizes[0], sizes[0]}, sizes)
	messages := r.body()["messages"].([]any)
	require.Len(t, messages, 3)
	assert.Equal(t, map[string]any{"role": "assistant", "content": "too short"}, messages[1])
	assert.Contains(t, messages[2].(map[string]any)["content"], "is too short")

	require.Nil(t, r.ask(t.Context(), "text/respond", `{:prompt "Explain."}`, `{:context {:repair {:attempt 1 :previous "raw text" :error {:type :format/drift :message "no JSON"}}}}`, nil).err)
	messages = r.body()["messages"].([]any)
	assert.Equal(t, "raw text", messages[1].(map[string]any)["content"])
	assert.Contains(t, messages[2].(map[string]any)["content"], "no JSON")
}

// LLM-050, LLM-051: invalid or oversized input: one typed error, nothing sent.
func TestBadInput(t *testing.T) {
	r := newRig(t, "openai-chat", "", "")
	tools := strings.Repeat(`{:tool/id :a/b :in-schema :map} `, 129)
	for _, tt := range []struct{ name, input, typ string }{
		{"nothing", `{}`, "input/invalid"},
		{"no messages", `{:messages []}`, "input/invalid"},
		{"messages of another kind", `{:messages "hello"}`, "input/invalid"},
		{"unknown role", `{:messages [{:role :robot :content "x"}]}`, "input/invalid"},
		{"no role", `{:messages [{:content "x"}]}`, "input/invalid"},
		{"no map", `{:messages [7]}`, "input/invalid"},
		{"empty message", `{:messages [{:role :user :content ""}]}`, "input/invalid"},
		{"content of another kind", `{:messages [{:role :user :content 7}]}`, "input/invalid"},
		{"a result without its call", `{:messages [{:role :tool :tool/id "t9" :content "x"}]}`, "input/invalid"},
		{"a call without a tool", `{:messages [{:role :assistant :tool/calls [{:id "t1"}]}]}`, "input/invalid"},
		{"arguments of another kind", `{:messages [{:role :assistant :tool/calls [{:id "t1" :tool/id :a/b :args 7}]}]}`, "input/invalid"},
		{"NUL", "{:messages [{:role :user :content \"a\\u0000b\"}]}", "input/invalid"},
		{"a tool without a name", `{:messages [{:role :user :content "x"}] :tools [{}]}`, "input/invalid"},
		{"a tool twice", `{:messages [{:role :user :content "x"}] :tools [{:tool/id :a/b} {:tool/id :a/b}]}`, "input/invalid"},
		{"a tool with another schema", `{:messages [{:role :user :content "x"}] :tools [{:tool/id :a/b :in-schema [:mapp]}]}`, "input/invalid"},
		{"tools of another kind", `{:messages [{:role :user :content "x"}] :tools 7}`, "input/invalid"},
		{"129 tools", `{:messages [{:role :user :content "x"}] :tools [` + tools + `]}`, "provider/request-invalid"},
		{"4097 messages", `{:messages [` + strings.Repeat(`{:role :user :content "x"}`, 4097) + `]}`, "provider/request-invalid"},
		{"arguments over 256 KiB", `{:messages [{:role :assistant :tool/calls [{:id "t" :tool/id :a/b :args {:x "` + strings.Repeat("x", 256<<10) + `"}}]}]}`, "provider/request-invalid"},
	} {
		o := r.ask(t.Context(), "model/chat", tt.input, "", nil)
		require.NotNil(t, o.err, tt.name)
		assert.Equal(t, tt.typ, o.err.Type, "%s: %s", tt.name, o.err)
		assert.Equal(t, "stop", o.err.Class.String(), tt.name)
	}
	assert.Empty(t, r.server.Requests())
}

// LLM-006, 1.1: a preset without tools is an error before anything is sent.
func TestPresetWithoutTools(t *testing.T) {
	server := wiretest.Serve(t, talks()["openai-chat"].whole("ok"))
	config := edn.MustRead(`{:provider "compatible" :model {"voice" {:name "m"} "tooled" {:name "m" :quirks {:tools true :tools-stream false :system-role "developer" :usage-in-stream false}}}}`).
		AssocKey("base-url", edn.Text(server.URL))
	p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.WithConfig(config))
	_, err := p.Do(t.Context(), sdktest.Call{Capability: "compatible/voice", Intent: "model/chat", Input: edn.MustRead(withTools)})
	require.ErrorIs(t, err, contract.OfType("provider/not-configured"))
	assert.Empty(t, server.Requests())
	_, err = p.Do(t.Context(), sdktest.Call{Capability: "compatible/tooled", Intent: "model/chat", Input: edn.MustRead(withTools)})
	require.NoError(t, err)
	body := server.Requests()[0].Body
	assert.Contains(t, body, `"stream":false`, "tools do not arrive in streams there")
	assert.NotContains(t, body, "stream_options")
}

// LLM-023: another provider changes the serving model and the usage, and
// nothing else.
func TestSwitchingProviders(t *testing.T) {
	var kept, changed []string
	for _, dialect := range []string{"openai-chat", "anthropic-messages", "openai-chat"} {
		r := newRig(t, dialect, "", "", talks()[dialect].whole("ok"))
		o := r.ask(t.Context(), "model/chat", hello, `{:context {:agent/id "docs-writer"}}`, nil)
		require.Nil(t, o.err)
		m := o.meta
		assert.Equal(t, `"served"`, m.Key("provider").Key("model/served").String())
		assert.Equal(t, `"req-7"`, m.Key("provider").Key("request/id").String())
		kept = append(kept, m.Dissoc(edn.K("provider")).String())
		changed = append(changed, m.Key("provider").Key("type").String())
	}
	assert.Equal(t, kept[0], kept[1])
	assert.Equal(t, kept[0], kept[2])
	assert.Contains(t, kept[0], `"docs-writer"`)
	assert.Equal(t, []string{":openai", ":anthropic", ":openai"}, changed)
}

// LLM-001: four providers at once, one failing, the others unaffected.
func TestFourProviders(t *testing.T) {
	rigs := []*rig{
		newRig(t, "openai-chat", "", "", talks()["openai-chat"].whole("a")),
		newRig(t, "anthropic-messages", "", "", status(529, ``)),
		newRig(t, "ollama-chat", "", "", talks()["ollama-chat"].whole("c")),
		newRig(t, "openai-chat", "", "", talks()["openai-chat"].whole("d")),
	}
	got := make(chan string, 40)
	for i := range 40 {
		go func() {
			o := rigs[i%4].ask(t.Context(), "model/chat", hello, "", nil)
			got <- fmt.Sprint(i%4, " ", failureOf(o.err), o.text)
		}()
	}
	count := map[string]int{}
	for range 40 {
		count[<-got]++
	}
	assert.Equal(t, map[string]int{"0 a": 10, "1 provider/overloaded": 10, "2 c": 10, "3 d": 10}, count)
}

// LLM-020: usage that contradicts what was counted is at least the larger.
func TestWrongUsage(t *testing.T) {
	k := talks()["openai-chat"]
	r := newRig(t, "openai-chat", `{:price {:input "1" :output "1"}}`, "", k.says(k.text(strings.Repeat("many words ", 200)), k.finish("stop"), k.end))
	o := r.ask(t.Context(), "model/chat", hello, "", nil)
	require.Nil(t, o.err)
	assert.Equal(t, ":at-least", o.usage.Key("tokens-mark").String())
	n, _ := o.usage.Key("tokens-out").AsInt()
	assert.EqualValues(t, 401, n, "as the table has it")
	assert.Equal(t, ":at-least", o.usage.Key("cost-mark").String())
}

// LLM-010: an answer ends with its formal end; data after it is not part of it,
// whether in the same read or a later one.
func TestBehindTheEnd(t *testing.T) {
	for _, dialect := range dialects() {
		t.Run(dialect, func(t *testing.T) {
			k := talks()[dialect]
			for _, tr := range []wiretest.Transcript{
				k.says(k.start, k.text("All."), k.finish("stop"), k.end, k.text("More.")),
				k.says(k.start + k.text("All.") + k.finish("stop") + k.end + k.text("More.") + k.broken),
			} {
				o := newRig(t, dialect, "", "", tr).ask(t.Context(), "model/chat", hello, "", nil)
				require.Nil(t, o.err)
				assert.Equal(t, "All.", o.text)
			}
		})
	}
}

// LLM-011: the first piece is sent at once; later pieces of one read are
// merged.
func TestMerging(t *testing.T) {
	k := talks()["openai-chat"]
	together := k.start
	for range 20 {
		together += k.text("x")
	}
	r := newRig(t, "openai-chat", "", "", k.says(together, k.finish("stop"), k.end))
	o := r.ask(t.Context(), "model/chat", hello, "", nil)
	require.Nil(t, o.err)
	assert.Equal(t, strings.Repeat("x", 20), o.text)
	assert.Equal(t, `"x"`, o.deltas[0].Key("text").String())
	assert.Less(t, len(o.deltas), 8)
}

// LM-004: a server that repeats the key wherever it can does not make the
// plugin reveal it.
func TestCanary(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		k.text = func(s string) string { return strings.ReplaceAll(talks()[dialect].text(s), "served", canary) }
		var answers []wiretest.Transcript
		for _, parts := range [][]string{
			{k.text("fine"), k.finish("stop"), k.end}, {k.text("x"), k.finish(canary)}, {k.inBand(canary, "key "+canary)},
			{k.tool("t", canary, `{"k":"`+canary), k.finish("tool"), k.end}, {k.text(canary), k.finish("length"), k.end},
		} {
			tr := k.says(append([]string{k.start}, parts...)...)
			tr.Header.Set("X-Request-Id", canary)
			answers = append(answers, tr)
		}
		for _, code := range []int{302, 400, 401, 404, 429, 500, 529} {
			answers = append(answers, status(code, `{"error":{"message":"`+canary+`","code":"`+canary+`","type":"`+canary+`"}}`, "X-Request-Id", canary, "Location", "/"+canary))
		}
		r := newRig(t, dialect, "", "", answers...)
		for range answers {
			intent := "eval/grade"
			o := r.ask(t.Context(), intent, `{:result {:text "x"} :tools [{:tool/id :fs/read}]}`, "", nil)
			all := o.response.String()
			if o.err != nil {
				all += o.err.Error() + o.err.Value().String()
			}
			for i := 0; i+8 <= len(canary); i++ {
				require.NotContains(t, all, canary[i:i+8])
			}
		}
		assert.Len(t, r.server.Requests(), len(answers))
		assert.NotContains(t, strings.Join(r.Log(), "\n"), "CANARY")
		assert.NotContains(t, r.Description().Value().String(), "CANARY")
	}
}
