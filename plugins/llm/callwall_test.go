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

// structuredFaults are streams that answer a request with tools or with a schema.
// An answer with a gap is never accepted, also by a tolerant plugin.
func structuredFaults() []struct{ name, input, says, want string } {
	const cut = "stream/truncated"
	return []struct{ name, input, says, want string }{
		{"a call", withTools, `start | call:{"path":"a"} | finish:tool | done`, ""},
		{"a call and its text", withTools, `start | text:Reading. | call:{"path":"a"} | finish:tool | done`, ""},
		{"a call without an end", withTools, `start | call:{"path":"a"} | do:cut`, cut},
		{"a call with the formal end alone", withTools, `start | call:{"path":"a"} | done`, cut},
		{"a call that breaks off", withTools, `start | call:{"path":"a"} | do:abort`, cut},
		{"a gap before a call", withTools, `start | broken | call:{"path":"a"} | finish:tool | done`, cut},
		{"a gap after a call", withTools, `start | call:{"path":"a"} | broken | finish:tool | done`, cut},
		{"a gap in the text beside tools", withTools, `start | text:Hello  | broken | text:world. | finish:stop | done`, cut},
		{"two gaps", withTools, `start | broken | broken | call:{"path":"a"} | finish:tool | done`, "stream/malformed"},
		{"arguments that are cut", withTools, `start | call:{"path": | finish:tool | done`, "provider/tool-call-invalid"},
		{"arguments that are a list", withTools, `start | call:["a"] | finish:tool | done`, "provider/tool-call-invalid"},
		{"arguments that are missing", withTools, `start | call: | finish:tool | done`, "provider/tool-call-invalid"},
		{"a call at the limit", withTools, `start | call:{"path":"a"} | finish:length | done`, "provider/output-truncated"},
		{"a value", withSchema, `start | text:{"score": | text:1} | finish:stop | done`, ""},
		{"a value without an end", withSchema, `start | text:{"score":1} | do:cut`, cut},
		{"a value with the formal end alone", withSchema, `start | text:{"score":1} | done`, cut},
		{"a gap in a value", withSchema, `start | text:{"score": | broken | text:1} | finish:stop | done`, cut},
		{"a value that is cut", withSchema, `start | text:{"score":1 | finish:stop | done`, "format/drift"},
		{"a value at the limit", withSchema, `start | text:{"score":1} | finish:length | done`, "provider/output-truncated"},
		{"a value of another kind", withSchema, `start | text:{"score":"high"} | finish:stop | done`, "schema/invalid"},
		{"an empty answer", withSchema, `start | finish:stop | done`, "provider/empty"},
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

// LLM-014, LLM-055: an answer in one piece is the intended answer or a typed error.
func TestWholeBodyWall(t *testing.T) {
	const text = `"Hello world."`
	for dialect, body := range bodies() {
		good := body(text, `"stop"`)
		for name, tt := range map[string]struct {
			body string
			want []string // error types; none: an answer
		}{
			"whole":                  {good, nil},
			"whole with blanks":      {"\n " + good + "\n", nil},
			"cut by the limit":       {body(text, `"length"`), nil},
			"ended by a stop":        {strings.Replace(good, `"finish_reason":"stop"`, `"finish_reason":"stop_sequence"`, 1), nil},
			"without a finish":       {body(text, "null"), []string{"stream/truncated"}},
			"an unknown finish":      {body(text, `"crashed"`), []string{"provider/error"}},
			"cut":                    {good[:len(good)-40], []string{"stream/truncated", "stream/malformed", "provider/request-failed"}},
			"two answers":            {good + good, []string{"stream/truncated", "provider/request-failed"}},
			"an answer and a text":   {good + "Internal Server Error", []string{"stream/truncated", "provider/request-failed"}},
			"an error":               {`{"error":{"message":"it failed"}}`, []string{"provider/error"}},
			"an error in the answer": {`{"error":{"message":"it failed"},` + good[1:], []string{"provider/error"}},
			"an empty text":          {body(`""`, `"stop"`), []string{"provider/empty"}},
			"a text of another kind": {body(`7`, `"stop"`), []string{"stream/truncated", "provider/request-failed"}},
			"another object":         {`{"status":"ok"}`, []string{"provider/request-failed"}},
			"a page":                 {"<html>", []string{"stream/truncated", "provider/request-failed"}},
			"nothing":                {"", []string{"stream/truncated", "provider/request-failed"}},
		} {
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
