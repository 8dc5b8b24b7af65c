package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// field returns a field of the last request, as JSON.
func (r *rig) field(name string) string {
	r.t.Helper()
	v, ok := r.body()[name]
	if !ok {
		return ""
	}
	text, err := json.Marshal(v)
	require.NoError(r.t, err)
	return string(text)
}

// says asks for a chat of one message, with further fields.
func (r *rig) says(fields string) outcome {
	return r.ask(r.t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] `+fields+`}`, "", nil)
}

// unsent asserts that the call failed with this error and nothing was sent.
func (r *rig) unsent(o outcome, typ, about string) {
	r.t.Helper()
	require.NotNil(r.t, o.err, about)
	assert.Equal(r.t, typ, o.err.Type, "%s: %s", about, o.err)
	assert.Empty(r.t, r.server.Requests(), "%s: nothing was sent", about)
}

// unsayable asserts that a form which this model cannot express was rejected
// before anything was sent, and that another candidate may be tried.
func (r *rig) unsayable(o outcome, about string) {
	r.t.Helper()
	r.unsent(o, "provider/request-invalid", about)
	assert.Equal(r.t, contract.ClassSwitch, o.err.Class, about)
	assert.Equal(r.t, contract.SourceRequest, o.err.Source, about)
}

const twoTools = `:tools [{:tool/id :fs/read :in-schema [:map [:path :string]]} {:tool/id :fs/list :in-schema [:map]}]`

// LM-008: a request of system messages alone cannot be expressed in the format of Anthropic, which
// keeps them apart from the messages.
func TestSystemMessagesAlone(t *testing.T) {
	const input = `{:messages [{:role :system :content "Be brief."}]}`
	for _, dialect := range dialects() {
		r := newRig(t, dialect, "", "", talks()[dialect].whole("Fine."))
		o := r.ask(t.Context(), "model/chat", input, "", nil)
		if dialect == "anthropic-messages" {
			r.unsayable(o, dialect)
			continue
		}
		assert.Nil(t, o.err, dialect)
	}
}

// LM-008: the tool choice goes into the field of the dialect. A choice that it
// cannot express is rejected before anything is sent.
func TestToolChoice(t *testing.T) {
	for dialect, want := range map[string]map[string]string{
		"openai-chat": {
			":auto": `"auto"`, ":none": `"none"`, ":required": `"required"`, ":fs/read": `{"function":{"name":"fs__read"},"type":"function"}`,
		},
		"anthropic-messages": {
			":auto": `{"type":"auto"}`, ":none": `{"type":"none"}`, ":required": `{"type":"any"}`, `"fs/read"`: `{"name":"fs__read","type":"tool"}`,
		},
		"openai-responses": {
			":auto": `"auto"`, ":none": `"none"`, ":required": `"required"`, ":fs/read": `{"name":"fs__read","type":"function"}`,
		},
		"ollama-chat": {":auto": "", ":none": "", ":required": "refused", ":fs/read": "refused"},
	} {
		for choice, field := range want {
			k := talks()[dialect]
			answer := k.whole("Fine.")
			if choice != ":auto" && choice != ":none" {
				answer = k.says(k.start, k.tool("t1", "fs__read", `{"path":"a"}`), k.finish("tool"), k.end)
			}
			r := newRig(t, dialect, "", "", answer)
			o := r.says(twoTools + ` :tool-choice ` + choice)
			about := dialect + " " + choice
			if field == "refused" {
				r.unsayable(o, about)
				assert.Equal(t, "false", o.err.Details.Key("sent?").String(), about)
				continue
			}
			require.Nil(t, o.err, about)
			assert.Equal(t, field, r.field("tool_choice"), about)
			noTools := dialect == "ollama-chat" && choice == ":none"
			assert.Equal(t, noTools, r.field("tools") == "", "%s: without tools none is called", about)
			assert.True(t, o.meta.Key("options/dropped").IsNil(), about)
		}
	}
}

// LM-008: an impossible choice is one typed error, and so is an answer that
// violates the choice.
func TestToolChoiceIsFollowed(t *testing.T) {
	k := talks()["openai-chat"]
	for choice, input := range map[string]string{
		":required": ``, ":fs/write": twoTools, "7": twoTools, "[:auto]": twoTools, `""`: twoTools,
	} {
		r := newRig(t, "openai-chat", "", "")
		r.unsent(r.says(input+` :tool-choice `+choice), "input/invalid", choice)
	}
	calls := func(name string) []string {
		return []string{k.start, k.tool("t1", name, `{"path":"a"}`), k.finish("tool"), k.end}
	}
	for name, tt := range map[string]struct {
		choice string
		parts  []string
	}{
		"a text where a call is demanded":   {":required", []string{k.start, k.text("No."), k.finish("stop"), k.end}},
		"a text where one tool is demanded": {":fs/read", []string{k.start, k.text("No."), k.finish("stop"), k.end}},
		"a call of another tool":            {":fs/list", calls("fs__read")},
		"a call where none may be":          {":none", calls("fs__read")},
	} {
		r := newRig(t, "openai-chat", "", "", k.says(tt.parts...))
		o := r.says(twoTools + ` :tool-choice ` + tt.choice)
		require.NotNil(t, o.err, name)
		assert.Equal(t, "provider/tool-call-invalid", o.err.Type, name)
	}
	r := newRig(t, "openai-chat", "", "", k.whole("Fine."))
	require.Nil(t, r.says(":tool-choice :auto").err)
	assert.Empty(t, r.field("tool_choice"), "without tools there is nothing to choose")
}

// LM-008: parts of a message reach each dialect in their order. Parts that a
// dialect cannot express are rejected before anything is sent.
func TestImages(t *testing.T) {
	const (
		data   = `{:type :image :media-type "image/png" :data "iVBORw0KGgo="}`
		url    = `{:type :image :url "https://pictures.example/a.png"}`
		called = `{:role :user :content "Look."} {:role :assistant :tool/calls [{:id "t1" :tool/id :fs/read :args {}}]} `
	)
	for name, tt := range map[string]struct {
		messages                             string
		openAI, anthropic, ollama, responses string
	}{
		"an image between texts": {
			`{:role :user :content [{:type :text :text "This"} ` + data + ` {:type :text :text "is what?"}]}`,
			`[{"content":[{"text":"This","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBORw0KGgo="},"type":"image_url"},{"text":"is what?","type":"text"}],"role":"user"}]`,
			`[{"content":[{"text":"This","type":"text"},{"source":{"data":"iVBORw0KGgo=","media_type":"image/png","type":"base64"},"type":"image"},{"text":"is what?","type":"text"}],"role":"user"}]`,
			`[{"content":"This\n\nis what?","images":["iVBORw0KGgo="],"role":"user"}]`,
			`[{"content":[{"text":"This","type":"input_text"},{"detail":"auto","image_url":"data:image/png;base64,iVBORw0KGgo=","type":"input_image"},{"text":"is what?","type":"input_text"}],"role":"user"}]`,
		},
		"an image alone by its URL": {
			`{:role :user :content [` + url + `]}`,
			`[{"content":[{"image_url":{"url":"https://pictures.example/a.png"},"type":"image_url"}],"role":"user"}]`,
			`[{"content":[{"source":{"type":"url","url":"https://pictures.example/a.png"},"type":"image"}],"role":"user"}]`,
			``,
			`[{"content":[{"detail":"auto","image_url":"https://pictures.example/a.png","type":"input_image"}],"role":"user"}]`,
		},
		"a result of a tool": {
			called + `{:role :tool :tool/id "t1" :content [` + data + `]}`,
			``,
			`[{"content":[{"text":"Look.","type":"text"}],"role":"user"},{"content":[{"id":"t1","input":{},"name":"fs__read","type":"tool_use"}],"role":"assistant"},
			  {"content":[{"content":[{"source":{"data":"iVBORw0KGgo=","media_type":"image/png","type":"base64"},"type":"image"}],"tool_use_id":"t1","type":"tool_result"}],"role":"user"}]`,
			`[{"content":"Look.","role":"user"},{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":{},"name":"fs__read"}}]},
			  {"content":"","images":["iVBORw0KGgo="],"role":"tool","tool_name":"fs__read"}]`,
			`[{"content":"Look.","role":"user"},{"arguments":"{}","call_id":"t1","name":"fs__read","type":"function_call"},
			  {"call_id":"t1","output":[{"detail":"auto","image_url":"data:image/png;base64,iVBORw0KGgo=","type":"input_image"}],"type":"function_call_output"}]`,
		},
		"one text": {
			`{:role :user :content [{:type :text :text ""} {:type :text :text "Hi."}]}`,
			`[{"content":"Hi.","role":"user"}]`, `[{"content":[{"text":"Hi.","type":"text"}],"role":"user"}]`, `[{"content":"Hi.","role":"user"}]`, `[{"content":"Hi.","role":"user"}]`,
		},
	} {
		for dialect, want := range map[string]string{
			"openai-chat": tt.openAI, "anthropic-messages": tt.anthropic, "ollama-chat": tt.ollama, "openai-responses": tt.responses,
		} {
			r := newRig(t, dialect, "", "", talks()[dialect].whole("A bee."))
			o := r.ask(t.Context(), "model/chat", `{:messages [`+tt.messages+`] `+twoTools+`}`, "", nil)
			if want == "" {
				r.unsayable(o, name+" "+dialect)
				continue
			}
			require.Nil(t, o.err, "%s %s: %v", name, dialect, o.err)
			assert.JSONEq(t, want, r.field("messages")+r.field("input"), "%s %s", name, dialect)
			if strings.Contains(tt.messages, ":image") {
				mark := o.usage.Key("tokens-mark").String()
				assert.Equal(t, ":exact", mark, "%s %s: no guess at an image contradicts what is stated", name, dialect)
			}
		}
	}
}

// LLM-050, LLM-051: invalid parts are one typed error each.
func TestBadParts(t *testing.T) {
	image := func(fields string) string {
		return `{:messages [{:role :user :content [{:type :image ` + fields + `}]}]}`
	}
	many := strings.Repeat(`{:type :image :url "https://a.example/b"}`, 101)
	for input, typ := range map[string]string{
		`{:messages [{:role :user :content [{:type :sound :text "x"}]}]}`:                       "input/invalid",
		`{:messages [{:role :user :content [{:type :text}]}]}`:                                  "input/invalid",
		`{:messages [{:role :user :content [{:type :text :text "a\u0000"}]}]}`:                  "input/invalid",
		`{:messages [{:role :user :content [{:type :text :text ""}]}]}`:                         "input/invalid",
		`{:messages [{:role :user :content ["x"]}]}`:                                            "input/invalid",
		`{:messages [{:role :user :content []}]}`:                                               "input/invalid",
		`{:messages [{:role :user :content {:type :text}}]}`:                                    "input/invalid",
		`{:messages [{:role :system :content [{:type :image :url "https://a.example/b"}]}]}`:    "input/invalid",
		`{:messages [{:role :assistant :content [{:type :image :url "https://a.example/b"}]}]}`: "input/invalid",
		image(``): "input/invalid",
		image(`:url "https://a.example/b" :media-type "image/png" :data "AA=="`): "input/invalid",
		image(`:url "file:///etc/passwd"`):                                       "input/invalid",
		image(`:url "data:image/png;base64,AA=="`):                               "input/invalid",
		image(`:data "AA=="`):                                                    "input/invalid",
		image(`:media-type "image/tiff" :data "AA=="`):                           "input/invalid",
		image(`:media-type "image/png" :data ""`):                                "input/invalid",
		image(`:media-type "image/png" :data "AA=!"`):                            "input/invalid",
		image(`:media-type "image/png" :data "AB=="`):                            "input/invalid",
		image(`:media-type "image/png" :data "AA==\n"`):                          "input/invalid",
		`{:messages [{:role :user :content [` + many + `]}]}`:                    "provider/request-invalid",
	} {
		r := newRig(t, "anthropic-messages", "", "")
		r.unsent(r.ask(t.Context(), "model/chat", input, "", nil), typ, input[:min(len(input), 120)])
	}
}

// LLM-022: the tokens of an image are a guess and never cause a rejection by
// table.
func TestImagesAreCounted(t *testing.T) {
	const input = `{:messages [{:role :user :content [{:type :text :text "What is it?"} {:type :image :url "https://a.example/b"}]}]}`
	r := newRig(t, "openai-chat", `{:name "gpt-4o"}`, "")
	o := r.ask(t.Context(), "model/count", input, "", nil)
	require.Nil(t, o.err)
	assert.Equal(t, ":estimate", o.out.Key("tokens/counted-by").String())
	n, _ := o.out.Key("tokens-in").AsInt()
	assert.Greater(t, n, int64(1_600))
	assert.Empty(t, r.server.Requests())
}

// A cache mark is sent on its block; a dialect whose servers cache by
// themselves drops it silently, another one reports it as dropped.
func TestCacheMarks(t *testing.T) {
	const conversation = `{:messages [{:role :system :content "Be brief." :cache? true} {:role :system :content "And kind."}
	  {:role :user :content [{:type :text :text "A long text." :cache? true} {:type :image :url "https://a.example/b" :cache? false}]}
	  {:role :assistant :content [{:type :text :text "Hm."} {:type :thinking :text "t" :signature "s"}] :tool/calls [{:id "t1" :tool/id :fs/list :args {}}] :cache? true}
	  {:role :tool :tool/id "t1" :content "none" :cache? true}] ` + twoTools + `}`
	k := talks()["anthropic-messages"]
	r := newRig(t, "anthropic-messages", "", "", k.whole("Fine."))
	o := r.ask(t.Context(), "model/chat", conversation, "", nil)
	require.Nil(t, o.err, "%v", o.err)
	assert.Equal(t, "nil", dropped(o))
	assert.JSONEq(t, `[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"And kind."}]`, r.field("system"))
	assert.JSONEq(t, `[{"role":"user","content":[{"type":"text","text":"A long text.","cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"url","url":"https://a.example/b"}}]},
	  {"role":"assistant","content":[{"type":"text","text":"Hm."},{"type":"thinking","thinking":"t","signature":"s"},
	    {"type":"tool_use","id":"t1","name":"fs__list","input":{},"cache_control":{"type":"ephemeral"}}]},
	  {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"none","cache_control":{"type":"ephemeral"}}]}]`, r.field("messages"))

	const marked = `{:messages [{:role :user :content "Long." :cache? true}]}`
	for preset, said := range map[string]string{
		"openai": "nil", "vllm": "nil", "llama-server": "nil", "mlx": "nil", "ollama": "nil", "generic": ":cache", "lmstudio": ":cache",
	} {
		dialect := map[bool]string{true: "ollama-chat", false: "openai-chat"}[preset == "ollama"]
		r := newRig(t, dialect, "", `{:preset "`+preset+`"}`, talks()[dialect].whole("Fine."))
		o := r.ask(t.Context(), "model/chat", marked, "", nil)
		require.Nil(t, o.err, preset)
		assert.Equal(t, said, dropped(o), preset)
		assert.JSONEq(t, `[{"role":"user","content":"Long."}]`, r.field("messages"), preset)
	}
	for _, bad := range []string{
		`{:role :user :content "x" :cache? 1}`, `{:role :user :content [{:type :text :text "x" :cache? "yes"}]}`,
	} {
		r := newRig(t, "anthropic-messages", "", "")
		r.unsent(r.ask(t.Context(), "model/chat", `{:messages [`+bad+`]}`, "", nil), "input/invalid", bad)
	}
}

// LM-008: a failed tool is marked where the dialect has a mark. Content that is
// only stored is not sent to a model.
func TestFailedTools(t *testing.T) {
	const conversation = `{:messages [{:role :user :content "Look."} {:role :assistant :tool/calls [{:id "t1" :tool/id :fs/list :args {}}]}
	  {:role :tool :tool/id "t1" :content "Error: denied" :tool/failed? true}] ` + twoTools + `}`
	for dialect, want := range map[string]string{
		"anthropic-messages": `{"content":[{"content":"Error: denied","is_error":true,"tool_use_id":"t1","type":"tool_result"}],"role":"user"}`,
		"openai-chat":        `{"content":"Error: denied","role":"tool","tool_call_id":"t1"}`,
		"ollama-chat":        `{"content":"Error: denied","role":"tool","tool_name":"fs__list"}`,
		"openai-responses":   `{"call_id":"t1","output":"Error: denied","type":"function_call_output"}`,
	} {
		r := newRig(t, dialect, "", "", talks()[dialect].whole("Fine."))
		o := r.ask(t.Context(), "model/chat", conversation, "", nil)
		require.Nil(t, o.err, "%s: %v", dialect, o.err)
		var sent []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(r.field("messages")+r.field("input")), &sent))
		assert.JSONEq(t, want, string(sent[len(sent)-1]), dialect)
	}
	const stored = `{:messages [{:role :user :content [{:type :reference :hash "b3:00" :media-type "text/plain"}]}]}`
	r := newRig(t, "openai-chat", "", "")
	r.unsent(r.ask(t.Context(), "model/chat", stored, "", nil), "input/invalid", "a reference")
}

// A mark on the text before a call is not that of the call.
func TestCacheMarkBeforeACall(t *testing.T) {
	const conversation = `{:messages [{:role :user :content "Look."} {:role :assistant :content [{:type :text :text "Hm." :cache? true}]
	  :tool/calls [{:id "t1" :tool/id :fs/list :args {}}]} {:role :tool :tool/id "t1" :content "none"}] ` + twoTools + `}`
	r := newRig(t, "anthropic-messages", "", "", talks()["anthropic-messages"].whole("Fine."))
	o := r.ask(t.Context(), "model/chat", conversation, "", nil)
	require.Nil(t, o.err, "%v", o.err)
	assert.JSONEq(t, `[{"role":"user","content":[{"type":"text","text":"Look."}]},
	  {"role":"assistant","content":[{"type":"text","text":"Hm.","cache_control":{"type":"ephemeral"}},
	    {"type":"tool_use","id":"t1","name":"fs__list","input":{}}]},
	  {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"none"}]}]`, r.field("messages"))
}

// Of too many cache marks, the first and the last ones are kept.
func TestTooManyCacheMarks(t *testing.T) {
	var messages strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		messages.WriteString(`{:role :user :cache? true :content "` + name + `"}`)
	}
	r := newRig(t, "anthropic-messages", "", "", talks()["anthropic-messages"].whole("Fine."))
	o := r.ask(t.Context(), "model/chat", `{:messages [`+messages.String()+`]}`, "", nil)
	require.Nil(t, o.err)
	assert.Equal(t, ":cache", dropped(o))
	var turns []struct {
		Content []struct {
			Text  string
			Cache any `json:"cache_control"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.field("messages")), &turns))
	kept := ""
	for _, b := range turns[0].Content {
		if b.Cache != nil {
			kept += b.Text
		}
	}
	assert.Equal(t, "adef", kept)
}

// LLM-020: tokens written into a cache are counted and have their own price.
func TestCacheWritesAreCounted(t *testing.T) {
	for dialect, name := range map[string]string{"anthropic-messages": "cached", "openai-chat": "cache-written", "openai-responses": "cached"} {
		for _, tr := range wiretest.Load(t, "../internal/provider/testdata/wire", dialect) {
			if tr.Name != name {
				continue
			}
			w := tr.Want
			r := newRig(t, dialect, `{:price {:input "1" :cached-input "0.1" :cache-write "1.25" :output "2"}}`, "", tr)
			o := r.ask(t.Context(), "model/chat", hello, "", nil)
			require.Nil(t, o.err)
			n, _ := o.usage.Key("tokens-cache-written").AsInt()
			assert.Equal(t, w.Written, n, dialect)
			assert.Positive(t, n, dialect)
			assert.Equal(t, ":exact", o.usage.Key("cost-mark").String(), dialect)
			millionths := float64(w.In-w.Cached-w.Written) + 0.1*float64(w.Cached) + 1.25*float64(w.Written) + 2*float64(w.Out)
			cost, _ := o.usage.Key("cost-usd").AsNumber()
			got, _ := cost.Float64()
			assert.InDelta(t, millionths/1e6, got, 1e-12, dialect)
		}
	}
}

// Vectors of texts: one request, in the order of the texts, with usage and cost.
func TestEmbed(t *testing.T) {
	wires := map[string]wiretest.Transcript{}
	for _, tr := range wiretest.Load(t, "../internal/provider/testdata/wire", "embed") {
		wires[tr.Name] = tr
	}
	for dialect, want := range map[string]string{
		"openai-chat":      `{"dimensions":2,"encoding_format":"float","input":["a bee","a fly"],"model":"sample"}`,
		"openai-responses": `{"dimensions":2,"encoding_format":"float","input":["a bee","a fly"],"model":"sample"}`,
		"ollama-chat":      `{"dimensions":2,"input":["a bee","a fly"],"model":"sample","truncate":false}`,
	} {
		const input = `{:texts ["a bee" "a fly"] :dims 2}`
		tr := wires[strings.Split(dialect, "-")[0]]
		r := newRig(t, dialect, `{:intents ["model/embed"] :price {:input "1" :output "0"}}`, "", tr)
		o := r.ask(t.Context(), "model/embed", input, "", nil)
		require.Nil(t, o.err, "%s: %v", dialect, o.err)
		vectors, err := edn.WriteJSON(o.out.Key("vectors"))
		require.NoError(t, err)
		assert.JSONEq(t, tr.Want.Text, string(vectors), dialect)
		assert.Equal(t, "2", o.out.Key("dims").String(), dialect)
		assert.JSONEq(t, want, r.server.Requests()[0].Body, dialect)
		assert.Equal(t, "7 0 :exact 0.000007M", o.usage.Key("tokens-in").String()+" "+o.usage.Key("tokens-out").String()+" "+
			o.usage.Key("tokens-mark").String()+" "+o.usage.Key("cost-usd").String(), dialect)

		swapped := `{"data":[{"index":1,"embedding":[2,2]},{"index":0,"embedding":[1,1]}]}`
		r.server.Then(status(200, swapped))
		o = r.ask(t.Context(), "model/embed", input, "", nil)
		require.Nil(t, o.err, "%s: %v", dialect, o.err)
		assert.Equal(t, "[[1.0 1.0] [2.0 2.0]]", o.out.Key("vectors").String(), "%s: in the order of the texts", dialect)
		assert.Equal(t, ":estimated", o.usage.Key("tokens-mark").String(), dialect)
		for _, body := range []string{`{"data":[]}`, `{"embeddings":[[1]]}`, `{"embeddings":[[1],[1,2]]}`, `<html>`, `{"data":[{"index":7,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"embeddings":[[1,2,3],[1,2,3]]}`} {
			r.server.Then(status(200, body))
			o := r.ask(t.Context(), "model/embed", input, "", nil)
			require.NotNil(t, o.err, body)
			assert.Equal(t, "provider/request-failed", o.err.Type, body)
		}
		r.server.Then(status(429, `{"error":{"message":"slow down"}}`))
		o = r.ask(t.Context(), "model/embed", input, "", nil)
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/rate-limited", o.err.Type)
	}
	for _, bad := range []string{
		`{}`, `{:texts []}`, `{:texts [""]}`, `{:texts [1]}`, `{:texts ["a"] :dims 0}`, `{:texts "a"}`,
	} {
		r := newRig(t, "openai-chat", `{:intents ["model/embed"]}`, "")
		r.unsent(r.ask(t.Context(), "model/embed", bad, "", nil), "input/invalid", bad)
	}
	const many = 2000 // short texts: what the server states is near what they have
	r := newRig(t, "openai-chat", `{:intents ["model/embed"]}`, "")
	vectors := make([]string, many)
	for i := range vectors {
		vectors[i] = fmt.Sprintf(`{"index":%d,"embedding":[1]}`, i)
	}
	r.server.Then(status(200, fmt.Sprintf(`{"data":[%s],"usage":{"prompt_tokens":%d}}`, strings.Join(vectors, ","), many)))
	o := r.ask(t.Context(), "model/embed", `{:texts [`+strings.Repeat(`"a" `, many)+`]}`, "", nil)
	require.Nil(t, o.err)
	assert.Equal(t, "2000 :exact", o.usage.Key("tokens-in").String()+" "+o.usage.Key("tokens-mark").String(), "LLM-020")
	r = newRig(t, "anthropic-messages", `{:intents ["model/embed"]}`, "")
	o = r.ask(t.Context(), "model/embed", `{:texts ["a"]}`, "", nil)
	r.unsayable(o, "a format without vectors")
}
