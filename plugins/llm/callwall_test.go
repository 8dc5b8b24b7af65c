package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

const withSchema = `{:messages [{:role :user :content "Grade it."}] :output {:name :grade :schema [:map [:score :int]]}}`

type structuredFault struct{ name, source, input, says, want string }

// structuredFaults are streams that answer a request with tools or with a schema.
// An answer with a gap is never accepted, also by a tolerant plugin.
func structuredFaults() []structuredFault {
	const (
		cut      = "stream/truncated"
		vendor   = "the vendors, as their clients read it"
		noFinish = "earendil-works/pi pull request 6225: NVIDIA NIM ends calls without a finish reason"
	)
	return []structuredFault{
		{"a call", vendor, withTools, `start | call:{"path":"a"} | finish:tool | done`, ""},
		{"a call and its text", vendor, withTools, `start | text:Reading. | call:{"path":"a"} | finish:tool | done`, ""},
		{"a call without an end", "CommandCodeAI/command-code issue 785: the stream ends within a call", withTools, `start | call:{"path":"a"} | do:cut`, cut},
		{"a call with the formal end alone", noFinish, withTools, `start | call:{"path":"a"} | done`, cut},
		{"a call that breaks off", nginxCut, withTools, `start | call:{"path":"a"} | do:abort`, cut},
		{"a gap before a call", splits, withTools, `start | broken | call:{"path":"a"} | finish:tool | done`, cut},
		{"a gap after a call", splits, withTools, `start | call:{"path":"a"} | broken | finish:tool | done`, cut},
		{"a gap in the text beside tools", splits, withTools, `start | text:Hello  | broken | text:world. | finish:stop | done`, cut},
		{"two gaps", splits, withTools, `start | broken | broken | call:{"path":"a"} | finish:tool | done`, "stream/malformed"},
		{"arguments that are cut", "vLLM pull request 48922: the limit within the arguments", withTools, `start | call:{"path": | finish:tool | done`, "provider/tool-call-invalid"},
		{"arguments that are a list", "vLLM pull request 48922: arguments that are not an object", withTools, `start | call:["a"] | finish:tool | done`, "provider/tool-call-invalid"},
		{"arguments that are missing", "vLLM issue 19419", withTools, `start | call: | finish:tool | done`, "provider/tool-call-invalid"},
		{"a call at the limit", "vLLM pull request 48922: the limit within the arguments", withTools, `start | call:{"path":"a"} | finish:length | done`, "provider/output-truncated"},
		{"a value", vendor, withSchema, `start | text:{"score": | text:1} | finish:stop | done`, ""},
		{"a value without an end", gateway, withSchema, `start | text:{"score":1} | do:cut`, cut},
		{"a value with the formal end alone", noFinish, withSchema, `start | text:{"score":1} | done`, cut},
		{"a gap in a value", splits, withSchema, `start | text:{"score": | broken | text:1} | finish:stop | done`, cut},
		{"a value that is cut", "langchain-ai/langchainjs issue 2802: a value without its end", withSchema, `start | text:{"score":1 | finish:stop | done`, "format/drift"},
		{"a value at the limit", "OpenAI, structured outputs guide: an answer at the limit is incomplete", withSchema, `start | text:{"score":1} | finish:length | done`, "provider/output-truncated"},
		{"a value of another kind", "ROCm/FastFlowLM issue 554: the format is accepted and ignored", withSchema, `start | text:{"score":"high"} | finish:stop | done`, "schema/invalid"},
		{"an empty answer", "Gemini, seen in LiteLLM issue 24442", withSchema, `start | finish:stop | done`, "provider/empty"},
	}
}

// LLM-015, LLM-055: streams with calls and values end with the intended answer or
// a typed error.
func TestStructuredWall(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		for whole, model := range map[string]string{
			"": `{:structured "prompt"}`, "{:tolerant true}": `{:structured "prompt"}`,
			"{}": `{:structured "prompt" :quirks {:terminator "eof"}}`,
		} {
			r := newRig(t, dialect, model, whole)
			for _, f := range structuredFaults() {
				about := dialect + model + whole + ": " + f.name
				tr, _ := k.steps(f.says)
				r.server.Then(tr)
				o := r.ask(t.Context(), "model/chat", f.input, "", nil)
				assert.Equal(t, f.want, failureOf(o.err), "%s: %v", about, o.err)
				if f.want == "" && f.input == withTools {
					assert.Equal(t, `[{:args {:path "a"} :id "t1" :tool/id :fs/read}]`, o.out.Key("tool/calls").String(), about)
				}
			}
		}
	}
}

// LLM-015: a tolerant plugin does not accept a call or a value after which the server
// keeps the connection open: more of them may come.
func TestStructuredAnswerNeedsItsEnd(t *testing.T) {
	for _, dialect := range []string{"openai-chat", "anthropic-messages"} {
		for input, says := range map[string]string{
			withTools:  `start | call:{"path":"a"} | finish:tool | do:stall`,
			withSchema: `start | text:{"score":1} | finish:stop | do:stall`,
		} {
			tr, _ := talks()[dialect].steps(says)
			r := newRig(t, dialect, `{:structured "prompt"}`, "{:tolerant true}", tr)
			go r.clock.Fire(t, 2*time.Second)
			o := r.ask(t.Context(), "model/chat", input, "", nil)
			assert.Equal(t, "stream/truncated", failureOf(o.err), "%s: %s", dialect, says)
		}
	}
}

// bodies are answers in one piece: a text with a finish reason.
func bodies() map[string]func(text, finish string) string {
	return map[string]func(text, finish string) string{
		"openai-chat": func(text, finish string) string {
			return `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":` +
				text + `},"finish_reason":` + finish + `}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`
		},
		"anthropic-messages": func(text, finish string) string {
			finish = strings.NewReplacer("stop", "end_turn", "length", "max_tokens").Replace(finish)
			return `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":` + text +
				`}],"stop_reason":` + finish + `,"usage":{"input_tokens":9,"output_tokens":3}}`
		},
		"ollama-chat": func(text, finish string) string {
			return `{"model":"m","message":{"role":"assistant","content":` + text + `},"done":true,"done_reason":` + finish +
				`,"prompt_eval_count":9,"eval_count":3}`
		},
		"openai-responses": func(text, finish string) string {
			status, reason := `"completed"`, "null"
			switch finish {
			case `"length"`:
				status, reason = `"incomplete"`, `{"reason":"max_output_tokens"}`
			case "null":
				status = `"in_progress"`
			case `"crashed"`:
				status = `"failed"`
			}
			return `{"id":"r","object":"response","model":"m","status":` + status + `,"incomplete_details":` + reason +
				`,"output":[{"type":"message","content":[{"type":"output_text","text":` + text +
				`}]}],"usage":{"input_tokens":9,"output_tokens":3}}`
		},
	}
}

type bodyFault struct {
	source, body string
	want         []string // error types; none: an answer
}

// bodyFaults are answers in one piece, whole and damaged. body writes an answer with a
// text and a finish reason.
func bodyFaults(text string, body func(text, finish string) string) map[string]bodyFault {
	if body == nil {
		body = func(text, finish string) string { return strings.Repeat(" ", 50) }
	}
	const (
		vendor = "the vendors, as their clients read it"
		joined = "qxcnm/Codex-Manager issue 249: an answer follows itself"
		site   = "JuiceBoxxGames/utsuwa pull request 67: the address of a website answers 200"
	)
	good := body(text, `"stop"`)
	foreign := []string{"stream/truncated", "provider/request-failed"}
	return map[string]bodyFault{
		"whole":             {vendor, good, nil},
		"whole with blanks": {"no public source: a proxy that keeps the connection with blanks", "\n " + good + "\n", nil},
		"cut by the limit":  {vendor, body(text, `"length"`), nil},
		"ended by a stop": {
			tgiFinish, strings.Replace(good, `"finish_reason":"stop"`, `"finish_reason":"stop_sequence"`, 1), nil,
		},
		"without a finish":       {"OpenRouterTeam/ai-sdk-provider issue 166: finish_reason null", body(text, "null"), []string{"stream/truncated"}},
		"an unknown finish":      {"agentjido/req_llm issue 944: reasons of Gemini", body(text, `"crashed"`), []string{"provider/error"}},
		"cut":                    {gateway, good[:len(good)-40], append(foreign, "stream/malformed")},
		"two answers":            {joined, good + good, foreign},
		"an answer and a text":   {"no public source: a server that fails after its answer", good + "Internal Server Error", foreign},
		"an error":               {"OpenRouter, docs/api/reference/errors: 200 with an error", `{"error":{"message":"it failed"}}`, []string{"provider/error"}},
		"an error in the answer": {openRouter, `{"error":{"message":"it failed"},` + strings.TrimPrefix(good, "{"), []string{"provider/error"}},
		"an empty text":          {"Gemini, seen in LiteLLM issue 24442", body(`""`, `"stop"`), []string{"provider/empty"}},
		"a text of another kind": {proxy, body(`7`, `"stop"`), foreign},
		"another object":         {"llama.cpp, tools/server/README.md: the answer of /health", `{"status":"ok"}`, []string{"provider/request-failed"}},
		"a page":                 {site, "<html>", foreign},
		"nothing":                {"no public source: a proxy that drops the body", "", foreign},
	}
}

// LLM-014, LLM-055: an answer in one piece is the intended answer or a typed error.
func TestWholeBodyWall(t *testing.T) {
	const text = `"Hello world."`
	for dialect, body := range bodies() {
		for name, tt := range bodyFaults(text, body) {
			about := dialect + ": " + name
			r := newRig(t, dialect, `{:count "estimate"}`, "", wiretest.Transcript{
				Status: http.StatusOK,
				Header: http.Header{"Content-Type": {"application/json"}},
				Steps:  []wiretest.Step{{Send: tt.body}},
			})
			o := r.ask(t.Context(), "model/chat", hello, "", nil)
			require.Len(t, r.server.Requests(), 1, about)
			if tt.want != nil {
				if assert.NotNil(t, o.err, "%s: accepted %s", about, o.out) {
					assert.Contains(t, tt.want, o.err.Type, "%s: %s", about, o.err)
				}
				continue
			}
			require.Nil(t, o.err, "%s: %v", about, o.err)
			assert.Equal(t, text, o.out.Key("text").String(), about)
			assert.Equal(t, strings.Contains(name, "limit"), o.out.Key("finish").String() == ":length", about)
			assert.Equal(t, "9 3 :exact", o.usage.Key("tokens-in").String()+" "+o.usage.Key("tokens-out").String()+" "+
				o.usage.Key("tokens-mark").String(), about)
			costs(t, o.usage, about)
		}
	}
}
