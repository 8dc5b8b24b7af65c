package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// fault is one case of the wall of failures.
type fault struct {
	name   string
	origin string                                          // a server that does this
	plays  func(k talk, before string) wiretest.Transcript // before: data sent first
	fires  time.Duration                                   // the timer that ends it
	// intent and input, if not a chat.
	intent, input string
	only          string // dialects, if not all
	// once is set for requests that are rejected before the body, so that there
	// is no case after a piece.
	once bool
	// says is the text before the failure.
	says string

	typ, class, family string
	source             contract.Source
	wait               int64 // retry-after-ms
}

const (
	down = contract.SourceDownstream
	host = contract.SourceHost
	asks = contract.SourceRequest

	setup  = "provider/not-configured"
	failed = "provider/request-failed"
	other  = "provider/error"
)

// rest continues a stream after the data sent before.
func rest(parts ...func(k talk) string) func(talk, string) wiretest.Transcript {
	return func(k talk, before string) wiretest.Transcript {
		all := []string{k.start, before}
		for _, p := range parts {
			all = append(all, p(k))
		}
		return k.says(all...)
	}
}

func answers(code int, body string, headers ...string) func(talk, string) wiretest.Transcript {
	return func(talk, string) wiretest.Transcript { return status(code, body, headers...) }
}

// compressed is a stream in gzip.
func compressed(k talk, _ string) wiretest.Transcript {
	tr := k.says("\x1f\x8b\x08")
	tr.Header.Set("Content-Encoding", "gzip")
	return tr
}

func do(what string) func(talk) string { return func(talk) string { return "!" + what } }

func text(s string) func(talk) string { return func(k talk) string { return k.text(s) } }

func finish(reason string) func(talk) string {
	return func(k talk) string { return k.finish(reason) + k.end }
}

func inBand(typ, message string) func(talk) string {
	return func(k talk) string { return k.inBand(typ, message) }
}

func broken(k talk) string { return k.broken }

const (
	grade    = `{:result {:text "x"}}`
	mistaken = `{"error":{"message":"no"}}`
)

// wall is the table of failures, row by row (1.4). Rows 1, 2, 13 and 22 need
// special setups and have tests below.
func wall() []fault {
	return []fault{
		{name: "2 reset before the headers", origin: "nginx, ngx_http_rewrite_module: code 444 closes the connection", plays: func(k talk, _ string) wiretest.Transcript { return k.says("!reset") }, once: true, typ: "provider/unavailable", class: "retry", source: down, family: failed},
		{name: "3 redirect", origin: "FastAPI issue 4990: a path with a trailing slash is redirected", plays: answers(307, "", "Location", "http://127.0.0.1:1/"), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "3 not found without a model code", origin: "Go, net/http, and gin: 404 page not found, as of Ollama", plays: answers(404, `404 page not found`), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "3 a page", origin: "JuiceBoxxGames/utsuwa pull request 67: the address of a website answers 200", plays: answers(200, `<html><title>Welcome</title></html>`, "Content-Type", "text/html"), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "3 other JSON", origin: "llama.cpp, tools/server/README.md: the answer of /health", plays: answers(200, `{"status":"ok"}`), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "3 compressed", origin: "nginx, ngx_http_gunzip_module: gzip for clients that do not ask for it", plays: compressed, once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "3 nothing", origin: "no public source: a proxy that drops the body", plays: answers(200, ``, "Content-Type", "text/html"), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "4 bad request", origin: "OpenAI, error codes guide: 400", plays: answers(400, mistaken), once: true, typ: "provider/request-invalid", class: "stop", source: asks, family: other},
		{name: "4 unprocessable", origin: "FastAPI, handling errors: 422 with a detail", plays: answers(422, `{"detail":"no"}`), once: true, typ: "provider/request-invalid", class: "stop", source: asks, family: other},
		{name: "4 a list of faults", origin: "FastAPI, handling errors; mistralai/platform-docs-public issue 7", plays: answers(422, `{"detail":[{"loc":["body","n"],"msg":"no"}]}`), once: true, typ: "provider/request-invalid", class: "stop", source: asks, family: other},
		{name: "5 too long", origin: "OpenAI, seen in chathub-dev/chathub issue 126", plays: answers(400, `{"error":{"code":"context_length_exceeded","message":"too long"}}`), once: true, typ: "provider/context-exceeded", class: "switch", source: asks, family: other},
		{name: "5 too large", origin: "nginx, client_max_body_size, seen in dtan4/nginx-basic-auth-proxy pull request 3", plays: answers(413, ``), once: true, typ: "provider/context-exceeded", class: "switch", source: asks, family: other},
		{name: "6 unauthorized", origin: "OpenAI, seen in easychen/openai-api-proxy pull request 33", plays: answers(401, `{"error":{"message":"Incorrect API key provided: `+canary+`"}}`), once: true, typ: "provider/auth-failed", class: "switch", source: host, family: other},
		{name: "3 forbidden", origin: "OpenAI, error codes guide: 403, for example by region", plays: answers(403, ``), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "3 a page of a firewall", origin: "Cloudflare, seen in langgenius/dify issue 3231", plays: answers(403, `<html><title>Attention Required! | Cloudflare</title></html>`, "Content-Type", "text/html"), once: true, typ: "provider/request-failed", class: "switch", source: down, family: failed},
		{name: "4 tools that the model lacks", origin: "Ollama issue 14795", plays: answers(400, `{"error":"x does not support tools"}`), input: withTools, once: true, typ: "provider/request-invalid", class: "switch", source: asks, family: other},
		{name: "4 tools that the server lacks", origin: "FastAPI, handling errors; mistralai/platform-docs-public issue 7", plays: answers(422, `{"detail":[{"loc":["body","tools"],"msg":"Extra inputs are not permitted"}]}`), input: withTools, once: true, typ: "provider/request-invalid", class: "switch", source: asks, family: other},
		{name: "6 forbidden key", origin: "Gemini, seen in continuedev/continue issue 11541", plays: answers(403, `{"error":{"code":403,"message":"Your API key was reported as leaked.","status":"PERMISSION_DENIED"}}`), once: true, typ: "provider/auth-failed", class: "switch", source: host, family: other},
		{name: "6 wrong key with status 400", origin: "Gemini, seen in cequence-io/openai-scala-client issue 109", plays: answers(400, `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`), once: true, typ: "provider/auth-failed", class: "switch", source: host, family: other},
		{name: "7 balance with status 400", origin: "Anthropic, seen in anthropics/claude-code issue 66314", plays: answers(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`), once: true, typ: "provider/quota-exhausted", class: "switch", source: down, family: other},
		{name: "7 payment", origin: "OpenRouter, seen in can1357/oh-my-pi issue 9569", plays: answers(402, ``), once: true, typ: "provider/quota-exhausted", class: "switch", source: down, family: other},
		{name: "7 quota", origin: "OpenAI, error codes guide: 429, quota", plays: answers(429, `{"error":{"code":"insufficient_quota","message":"x"}}`, "Retry-After", "60"), once: true, typ: "provider/quota-exhausted", class: "switch", source: down, family: other, wait: 60_000},
		{name: "8 rate", origin: "OpenAI, error codes guide: 429, rate limit", plays: answers(429, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, "Retry-After", "7"), once: true, typ: "provider/rate-limited", class: "switch", source: down, family: failed, wait: 7000},
		{name: "8 rate, milliseconds", origin: "OpenAI, openai-python, _base_client.py: retry-after-ms", plays: answers(429, ``, "Retry-After-Ms", "250"), once: true, typ: "provider/rate-limited", class: "switch", source: down, family: failed, wait: 250},
		{name: "8 rate, unreadable", origin: "no public source: a proxy that writes the header in its own form", plays: answers(429, ``, "Retry-After", "soon"), once: true, typ: "provider/rate-limited", class: "switch", source: down, family: failed},
		{name: "9 no model", origin: ollama, plays: answers(404, `{"error":"model \"x\" not found, try pulling it first"}`), once: true, typ: "provider/model-not-found", class: "switch", source: host, family: setup},
		{name: "10 server error", origin: "llama.cpp issue 19774: 500 with server_error", plays: answers(500, mistaken), once: true, typ: "provider/error", class: "retry", source: down, family: other},
		{name: "10 bad gateway", origin: "nginx, ngx_http_special_response.c: the page of 502", plays: answers(502, `<html><title>502</title></html>`), once: true, typ: "provider/error", class: "retry", source: down, family: other},
		{name: "10 crashed with status 400", origin: "LM Studio, lmstudio-bug-tracker issue 1057", plays: answers(400, `{"error":"The model has crashed without additional information. (Exit code: null)"}`), once: true, typ: "provider/error", class: "retry", source: down, family: other},
		{name: "10 in-band", origin: vLLM, plays: rest(inBand("server_error", "it failed")), typ: "provider/error", class: "retry|switch", source: down, family: other},
		{name: "10 finish error", origin: openRouter, plays: rest(finish("error")), typ: "provider/error", class: "retry|switch", source: down, family: other},
		{name: "11 unavailable", origin: "OpenAI, error codes guide: 503", plays: answers(503, ``, "Retry-After", "3"), once: true, typ: "provider/overloaded", class: "switch", source: down, family: failed, wait: 3000},
		{name: "11 overloaded", origin: "Anthropic, errors: 529", plays: answers(529, ``), once: true, typ: "provider/overloaded", class: "switch", source: down, family: failed},
		{name: "11 in-band", origin: messages, plays: rest(inBand("overloaded_error", "overloaded")), typ: "provider/overloaded", class: "switch", source: down, family: failed},
		{name: "12 timed out there", origin: "OpenRouter, docs/api/reference/errors: 408", plays: answers(408, ``), once: true, typ: "provider/timeout", class: "switch", source: down, family: failed},
		{name: "12 timed out before it", origin: "aiming-lab/AutoResearchClaw pull request 235: 504 of a reverse proxy", plays: answers(504, ``), once: true, typ: "provider/timeout", class: "switch", source: down, family: failed},
		{name: "12 silence", origin: "Ollama issue 16707: no bytes of an answer", plays: func(k talk, _ string) wiretest.Transcript { return k.says("!stall") }, fires: silence, once: true, typ: "provider/timeout", class: "switch", source: down, family: failed},
		{name: "14 clean end", origin: gateway, plays: rest(do("cut")), typ: "stream/truncated", class: "switch", source: down, family: failed},
		{name: "14 connection closed", origin: nginxCut, plays: rest(do("abort")), typ: "stream/truncated", class: "switch", source: down, family: failed},
		{name: "15 stall", origin: stalls, plays: rest(text("x"), do("stall")), fires: stall, says: "x", typ: "stream/stalled", class: "switch", source: down, family: failed},
		{name: "16 two in a row", origin: splits, plays: rest(broken, broken, finish("stop")), typ: "stream/malformed", class: "switch", source: down, family: failed},
		{name: "16 three", origin: splits, plays: rest(broken, text("a"), broken, text("b"), broken, finish("stop")), says: "ab", typ: "stream/malformed", class: "switch", source: down, family: failed},
		{name: "16 an event over 1 MiB", origin: "OpenAI, seen in zendev-sh/goai issue 70: an event of the Responses API over 1 MiB", plays: rest(func(k talk) string { return k.long(1<<20 + 10) }, do("stall")), typ: "stream/malformed", class: "switch", source: down, family: failed},
		{name: "14 one that cannot be read, in an answer with a schema", origin: splits, plays: rest(broken, text(`{"score":1}`), finish("stop")), intent: "eval/grade", input: grade, typ: "stream/truncated", class: "switch", source: down, family: failed, once: true},
		{name: "17 refused", origin: "OpenRouter, seen in sugarforever/chat-ollama issue 695", plays: rest(finish("refused")), only: "openai-chat openai-responses anthropic-messages", typ: "provider/refused", class: "switch", source: down, family: other},
		{name: "17 flagged", origin: "OpenRouter, docs/api/reference/errors-and-debugging", plays: answers(403, `{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"x"}}}`), once: true, typ: "provider/refused", class: "switch", source: down, family: other},
		{name: "17 flagged with status 400", origin: "OpenAI, seen in BeehiveInnovations/pal-mcp-server issue 178", plays: answers(400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","code":"invalid_prompt"}}`), once: true, typ: "provider/refused", class: "switch", source: down, family: other},
		{name: "18 cut with a schema", origin: "OpenAI, structured outputs guide: an answer at the limit is incomplete", plays: rest(text(`{"sco`), finish("length")), intent: "eval/grade", input: grade, typ: "provider/output-truncated", class: "repair", source: down, family: other},
		{name: "18 cut with tools", origin: "vLLM pull request 48922: the limit within the arguments", plays: rest(text(`so`), finish("length")), says: "so", input: withTools, typ: "provider/output-truncated", class: "repair", source: down, family: other},
		{name: "19 empty", origin: "Gemini, seen in LiteLLM issue 24442", plays: rest(finish("stop")), once: true, typ: "provider/empty", class: "retry", source: down, family: other},
		{name: "19 blank", origin: "OpenAI, JSON mode guide: blanks up to the limit", plays: rest(text(" \n"), finish("stop")), once: true, typ: "provider/empty", class: "retry", source: down, family: other},
		{name: "19 thought alone", origin: "DeepSeek, seen in agentscope-ai/QwenPaw issue 4051", plays: rest(text("<think>hm"), text("</think>\n"), finish("stop")), once: true, typ: "provider/empty", class: "retry", source: down, family: other},
		{name: "20 arguments cut", origin: "vLLM pull request 48922: the limit within the arguments", plays: rest(func(k talk) string { return k.tool("t1", "fs__read", `{"path":"a`) }, finish("tool")), input: withTools, typ: "provider/tool-call-invalid", class: "repair", source: down, family: other},
		{name: "20 no object", origin: "vLLM pull request 48922: arguments that are not an object", plays: rest(func(k talk) string { return k.tool("t1", "fs__read", `["a"]`) }, finish("tool")), input: withTools, typ: "provider/tool-call-invalid", class: "repair", source: down, family: other},
		{name: "20 no arguments", origin: "vLLM issue 19419", plays: rest(func(k talk) string { return k.tool("t1", "fs__read", "") }, finish("tool")), input: withTools, typ: "provider/tool-call-invalid", class: "repair", source: down, family: other},
		{name: "20 unknown tool", origin: "vLLM issue 15931: another name than that of the tool", plays: rest(func(k talk) string { return k.tool("t1", "rm", `{}`) }, finish("tool")), input: withTools, typ: "provider/tool-call-invalid", class: "repair", source: down, family: other},
		{name: "20 a tool without tools", origin: "Gemini, seen in agentjido/req_llm issue 944: UNEXPECTED_TOOL_CALL", plays: rest(func(k talk) string { return k.tool("t1", "fs__read", `{}`) }, finish("tool")), typ: "provider/tool-call-invalid", class: "repair", source: down, family: other},
		{name: "20 a call that its server cannot read", origin: "Groq, groq/groq-typescript issue 103", plays: answers(400, `{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"x"}}`), input: withTools, once: true, typ: "provider/tool-call-invalid", class: "repair", source: down, family: other},
		{name: "21 prose", origin: "servers that ignore the format, seen in browser-use pull request 5688", plays: rest(text(`I would say 0.8.`), finish("stop")), intent: "eval/grade", input: grade, typ: "format/drift", class: "repair", source: down, family: other},
		{name: "21 another value", origin: "ROCm/FastFlowLM issue 554: the format is accepted and ignored", plays: rest(text(`{"score":80}`), finish("stop")), intent: "eval/grade", input: grade, typ: "schema/invalid", class: "repair", source: down, family: other, once: true},
	}
}

const embeddable = "openai-chat openai-responses ollama-chat"

// vectors are the faults of an embedding request, whose answer comes in one
// piece.
func vectors() []fault {
	row := func(name, origin string, plays func(talk, string) wiretest.Transcript, typ, class, family string) fault {
		return fault{
			name: "vectors: " + name, origin: origin, plays: plays, only: embeddable, once: true, intent: "model/embed",
			input: `{:texts ["a" "b"]}`, typ: typ, class: class, source: down, family: family,
		}
	}
	foreign := func(name, origin, body string) fault {
		return row(name, origin, answers(200, body), "provider/request-failed", "switch", failed)
	}
	cut := func(do string) func(talk, string) wiretest.Transcript {
		return func(talk, string) wiretest.Transcript {
			tr := status(200, `{"data":[{"index":0,"embedding":[0.5,`)
			tr.Steps = append(tr.Steps, wiretest.Step{Do: do})
			return tr
		}
	}
	const (
		missing   = "Ollama 0.21, seen in garrytan/gbrain issue 328: empty vectors of a list of texts"
		notANum   = "llama.cpp issue 3625, text-embeddings-inference issue 51: null in a vector"
		nested    = "llama-cpp-python issue 1588: vectors of another form"
		misplaced = "no public source: a server that confuses the positions of the texts"
	)
	all := []fault{
		row("cut, and the body ends", gateway, cut("cut"), "stream/truncated", "switch", failed),
		row("cut, and the connection is closed", nginxCut, cut("abort"), "stream/truncated", "switch", failed),
		row("an error in their place", oldVLLM, answers(200, `{"error":{"type":"server_error","message":"x"}}`), "provider/error", "retry", other),
		row("overloaded in their place", tgi, answers(200, `{"error":{"code":"overloaded","message":"x"}}`), "provider/overloaded", "switch", failed),
		row("a text as error", ollama, answers(200, `{"error":"it failed"}`), "provider/error", "retry", other),
		foreign("none", missing, `{"data":[]}`),
		foreign("nothing of the kind", "llama.cpp, tools/server/README.md: the answer of /health", `{"status":"ok"}`),
		foreign("a page", "JuiceBoxxGames/utsuwa pull request 67: the address of a website answers 200", `<html><title>Welcome</title></html>`),
		foreign("another index", misplaced, `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`),
		foreign("an index below 0", misplaced, `{"data":[{"index":-1,"embedding":[1]},{"index":0,"embedding":[1]}]}`),
		foreign("an index twice", misplaced, `{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}`),
	}
	for name, f := range map[string]struct{ origin, list string }{
		"one too few": {missing, `[[1]]`}, "one too many": {misplaced, `[[1],[2],[3]]`}, "of two lengths": {nested, `[[1],[1,2]]`},
		"an empty one": {missing, `[[],[]]`}, "null": {notANum, `[[1],null]`}, "no number": {notANum, `[[1],[NaN]]`},
		"a number too large": {notANum, `[[1],[1e999]]`}, "a text": {nested, `[[1],["1"]]`}, "a null within": {notANum, `[[1],[null]]`},
	} {
		var data []string
		for i, v := range strings.SplitAfter(strings.TrimSuffix(strings.TrimPrefix(f.list, "["), "]"), "],") {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, strings.TrimSuffix(v, ",")))
		}
		all = append(all, foreign(name, f.origin, `{"data":[`+strings.Join(data, ",")+`]}`),
			foreign(name, f.origin, `{"embeddings":`+f.list+`}`))
	}
	return all
}

// LLM-055: each failure, in each dialect, with and without a reader of the
// pieces, before and after the first piece was shown. One attempt is one
// request; shown text does not change; the key appears nowhere.
func TestFaultWall(t *testing.T) {
	for _, dialect := range dialects() {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			intents := `{:intents ["model/chat" "text/respond" "eval/grade" "code/generate" "model/embed"]}`
			r := newRig(t, dialect, intents, "")
			k := talks()[dialect]
			for _, f := range append(wall(), vectors()...) {
				if f.only != "" && !strings.Contains(f.only, dialect) {
					continue
				}
				for _, after := range []bool{false, true} {
					if after && f.once {
						continue
					}
					for _, watched := range []bool{false, true} {
						r.fault(t, k, f, after, watched)
					}
				}
			}
			for _, line := range r.Log() {
				assert.NotContains(t, line, "CANARY")
			}
		})
	}
}

func (r *rig) fault(t *testing.T, k talk, f fault, after, watched bool) {
	name := f.name
	before := ""
	if after {
		name, before = name+", after a piece", k.text("shown ")
	}
	asked := len(r.server.Requests())
	r.server.Then(f.plays(k, before))
	if f.fires != 0 {
		go r.clock.Fire(t, f.fires)
	}
	intent, input := f.intent, f.input
	if intent == "" {
		intent = "model/chat"
	}
	if input == "" {
		input = hello
	}
	var o outcome
	if watched {
		o = r.ask(t.Context(), intent, input, "", nil)
	} else {
		response, err := r.Do(t.Context(), sdktest.Call{Capability: r.id, Intent: intent, Input: edn.MustRead(input)})
		o.response, o.err = response, contract.AsError(err)
		if err == nil {
			_, o.err = contract.CheckResponse(response, contract.ResultRules{})
		}
	}
	if !assert.NotNil(t, o.err, name) {
		return
	}
	class := f.class
	if early, late, two := strings.Cut(class, "|"); two {
		class = early
		if after {
			class = late
		}
	}
	assert.Equal(t, f.typ, o.err.Type, "%s: %s", name, o.err)
	assert.Equal(t, class, o.err.Class.String(), name)
	assert.Equal(t, f.source, o.err.Source, name)
	assert.Equal(t, ":"+f.family, o.err.Details.Key("family").String(), name)
	assert.True(t, o.err.Details.Key("sent?").Truthy(), name)
	wait, _ := o.err.Details.Key("retry-after-ms").AsInt()
	assert.Equal(t, f.wait, wait, name)
	assert.NotContains(t, o.err.Error()+o.response.String(), "CANARY", name)
	assert.Len(t, r.server.Requests(), asked+1, "%s: one request", name)
	usage := o.response.Key("result").Key("usage")
	if !usage.IsNil() && f.intent != "model/embed" {
		costs(t, usage, name)
	}
	if after {
		assert.Contains(t, []string{":at-least", ":exact", ":estimated"}, usage.Key("tokens-mark").String(), "%s: what it took is told", name)
		if watched {
			assert.True(t, strings.HasPrefix(o.text, "shown "), "%s: %q", name, o.text)
		}
	}
}

// Row 2: no server listens; nothing was sent.
func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, dialect := range dialects() {
		p := sdktest.Serve(t, newPlugin(wiretest.NewClock()), sdktest.WithConfig(settingsFor(t, dialect, address, "", "")), sdktest.WithSecrets(map[string]string{"api-key": canary}))
		response, err := p.Do(t.Context(), sdktest.Call{Capability: providers[dialect] + "/voice", Intent: "model/chat", Input: edn.MustRead(hello)})
		require.NoError(t, err)
		_, e := contract.CheckResponse(response, contract.ResultRules{})
		require.NotNil(t, e)
		assert.Equal(t, "provider/unavailable", e.Type)
		assert.Equal(t, "false", e.Details.Key("sent?").String())
		assert.True(t, response.Key("result").Key("usage").IsNil())
	}
}

// Row 14: a connection reset discards unread data, so the server waits until
// the piece was seen.
func TestResetInTheMiddle(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		seen := make(chan struct{})
		tr := k.says(k.start+k.text("shown"), "!reset")
		tr.Steps[0].Until = seen
		r := newRig(t, dialect, "", "", tr)
		o := r.ask(t.Context(), "model/chat", hello, "", func(wire.Event) { close(seen) })
		require.NotNil(t, o.err)
		assert.Equal(t, "stream/truncated", o.err.Type)
		assert.Equal(t, ":at-least", o.usage.Key("tokens-mark").String(), "LLM-020")
		costs(t, o.usage, "LLM-020")
	}
}

// Row 13 and cancellation during a stream (LLM-017): the connection is closed,
// and the place is free again.
func TestDeadlineAndCancel(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		r := newRig(t, dialect, "", "{:max-in-flight 1 :queue 0}", k.says(k.start, k.text("shown"), "!stall"))
		ctx, cancel := context.WithCancel(t.Context())
		o := r.ask(ctx, "model/chat", hello, "", func(wire.Event) { cancel() })
		cancel()
		require.NotNil(t, o.err)
		assert.Equal(t, "canceled", o.err.Type)
		assert.Equal(t, "shown", o.text)
		<-r.server.Requests()[0].Gone

		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			o = r.ask(ctx, "model/chat", hello, "", nil)
			return o.err != nil && o.err.Type == "timeout/hard"
		}, 20*time.Second, time.Millisecond, "the place is free")

		r.server.Then(k.whole("fine"))
		require.Eventually(t, func() bool { return r.ask(t.Context(), "model/chat", hello, "", nil).err == nil }, 20*time.Second, time.Millisecond)
	}
}

// Row 22: a call beyond the queue is rejected; a queued one is served.
func TestQueue(t *testing.T) {
	k := talks()["openai-chat"]
	open := make(chan struct{})
	held := k.whole("fine")
	held.Steps[0].Until = open
	r := newRig(t, "openai-chat", "", "{:max-in-flight 1 :queue 1}", held)
	arrived := r.server.Arrived()
	served := make(chan outcome, 2)
	go func() { served <- r.ask(t.Context(), "model/chat", hello, "", nil) }()
	<-arrived
	go func() {
		o := r.ask(t.Context(), "model/chat", hello, "", nil)
		for o.err != nil && o.err.Type == "runtime/overloaded" { // the call below holds the place for a moment
			o = r.ask(t.Context(), "model/chat", hello, "", nil)
		}
		served <- o
	}()
	var refused *contract.Error
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		refused = r.ask(ctx, "model/chat", hello, "", nil).err
		return refused != nil && refused.Type == "runtime/overloaded"
	}, 20*time.Second, time.Millisecond)
	assert.Equal(t, "switch", refused.Class.String())
	assert.NotEqual(t, contract.SourcePlugin, refused.Source)
	close(open)
	assert.Nil(t, (<-served).err)
	assert.Nil(t, (<-served).err)
}

// LLM-016: keep-alives reset the silence timer and nothing else.
func TestKeepAlives(t *testing.T) {
	for _, dialect := range []string{"openai-chat", "openai-responses", "anthropic-messages"} {
		k := talks()[dialect]
		t.Run(dialect+" before the first piece", func(t *testing.T) {
			r := newRig(t, dialect, "", "{:timeouts {:connect 5000 :first-token 28000 :silence 20000 :stall 25000 :total 300000}}")
			more := make(chan struct{})
			tr := k.says(k.quiet, k.quiet, "!stall")
			tr.Steps[0].Until = more
			r.server.Then(tr)
			pings := 0
			o := r.ask(t.Context(), "model/chat", hello, "", func(wire.Event) {
				switch pings++; pings {
				case 1:
					go func() {
						r.clock.Wait(t, 20*time.Second)
						r.clock.Advance(5 * time.Second)
						close(more)
					}()
				case 2:
					go r.clock.Fire(t, 20*time.Second) // from here on, not from the start
				}
			})
			require.NotNil(t, o.err)
			assert.Equal(t, "provider/timeout", o.err.Type)
			assert.Contains(t, o.err.Message, "silent")
		})
		t.Run(dialect+" after a piece", func(t *testing.T) {
			r := newRig(t, dialect, "", "")
			more := make(chan struct{})
			tr := k.says(k.start+k.text("shown"), k.quiet, "!stall")
			tr.Steps[0].Until = more
			r.server.Then(tr)
			seen := 0
			o := r.ask(t.Context(), "model/chat", hello, "", func(e wire.Event) {
				switch seen++; seen {
				case 1: // the piece: 20 of the 25 s of the stall timer pass
					go func() {
						r.clock.Wait(t, stall)
						r.clock.Advance(20 * time.Second)
						close(more)
					}()
				case 2: // the ping: 5 s are left, although data came
					go r.clock.Fire(t, 5*time.Second)
				}
			})
			require.NotNil(t, o.err)
			assert.Equal(t, "stream/stalled", o.err.Type)
			assert.Equal(t, 1, o.progress, "a ping is progress (LLM-011)")
		})
		t.Run(dialect+" alone", func(t *testing.T) {
			r := newRig(t, dialect, "", "{:timeouts {:connect 5000 :first-token 28000 :silence 20000 :stall 25000 :total 300000}}")
			more := make(chan struct{})
			tr := k.says(k.quiet, k.quiet, "!stall")
			tr.Steps[0].Until = more
			r.server.Then(tr)
			seen := 0
			o := r.ask(t.Context(), "model/chat", hello, "", func(wire.Event) {
				switch seen++; seen {
				case 1:
					go func() {
						r.clock.Wait(t, 20*time.Second)
						r.clock.Advance(19 * time.Second)
						close(more)
					}()
				case 2: // 9 of the 28 s are left, 20 of the silence
					go r.clock.Fire(t, 9*time.Second)
				}
			})
			require.NotNil(t, o.err)
			assert.Equal(t, "provider/timeout", o.err.Type)
			assert.Contains(t, o.err.Message, "first part")
		})
	}
}
