package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// streamFault is one way in which a stream goes wrong, or looks as if it did.
//
// Says is what the server sends, in steps that are separated by " | ":
//
//	text:X    a piece of the answer       finish:X  the finish reason X
//	start     the first event             done      the formal end
//	data:X    an event or line with X     line:X    the bytes X and a line end
//	event:X   the same, with its name
//	raw:X     the bytes X                 do:X      cut, abort, reset or stall
//	speak:X   a piece whose JSON string literal is X
//	call:X    a call of fs/read       broken    an event that cannot be read
//	later     the clock moves by 10 s     stall     the stall timer fires
type streamFault struct {
	name   string
	source string // a server that does this
	says   string
	// meant is the text that the server meant to send, want the error type if
	// there is no such text, kept the text that a tolerant plugin accepts.
	meant, want, kept string
	finish            string // of a complete answer; empty: stop
}

// The sources of the faults: the file that shows what a server sends.
const (
	oldLlama      = "llama.cpp before 2025-11, tools/server/server.cpp: errors are the SSE field error, then [DONE]"
	newLlama      = "llama.cpp, tools/server/server-common.cpp: format_error_response"
	vLLM          = "vLLM, vllm/entrypoints/openai/serving_engine.py: create_streaming_error_response, then [DONE]"
	oldVLLM       = "vLLM before 2025, vllm/entrypoints/openai/protocol.py: ErrorResponse without a wrapper"
	fastChat      = "FastChat 0e6d3e4, fastchat/serve/openai_api_server.py: chat_completion_stream_generator"
	tgi           = "text-generation-inference db931fc, router/src/server.rs and infer/mod.rs: into_openai_event, then [DONE]"
	tgiFinish     = "text-generation-inference cdc005b, router/src/lib.rs: FinishReason::format"
	together      = "Together, together-python 0c625ea, src/together/types/common.py: FinishReason"
	miniMax       = "MiniMax-AI/MiniMax-M2.5 issue 2: role is an empty text"
	zai           = "Z.ai, seen in can1357/oh-my-pi pull request 683"
	liteLLM       = "LiteLLM issue 40578: an error becomes an empty answer with finish_reason stop"
	lmStudio      = "LM Studio, seen in zendev-sh/goai pull request 110: an event named error"
	openRouter    = "OpenRouter, docs/api/reference/streaming: an error beside finish_reason error, comments"
	azure         = "Azure OpenAI, concepts/content-streaming: annotation events without choices"
	ollama        = "Ollama fb30760, server/routes.go: streamResponse"
	messages      = "Anthropic, the reference of message streaming: event error"
	gateway       = "earendil-works/pi issue 8460: a gateway ends the stream before the finish reason"
	nginxCut      = "nexu-io/open-design pull request 111: nginx breaks off a chunked body"
	network       = gateway + "; " + nginxCut
	splits        = "alexrudall/ruby-openai pull request 332: a proxy splits and joins events"
	stalls        = "vllm-project/vllm-metal issue 199: no more data, and the connection stays open"
	eachFinish    = "su-kaka/gcli2api issue 403: finish_reason stop in each chunk"
	noCall        = "vLLM issue 53255: finish_reason tool_calls without a call"
	inMessages    = "Amm1rr/WebAI-to-API issue 55: messages in place of deltas"
	detokenizer   = "tenstorrent/tt-inference-server pull request 2594, waybarrios/vllm-mlx pull request 195: a token is a part of a character"
	responses     = "OpenAI, openai-python e43b422, types/responses: response_error.py, response_stream_event.py"
	filtered      = "ENTERPILOT/GoModel pull request 953: a gateway edits the events and keeps their numbers"
	someNumbers   = "BerriAI/litellm pull request 28899: the number is 0 where the gateway makes an event"
	proxy         = "no public source: a proxy or a server that writes another form"
	mistral       = "Mistral, client-python, models/contentchunk.py: ThinkChunk, ReferenceChunk"
	mistralFinish = "Mistral, client-python 3c51fd6: chatcompletionchoicefinishreason.md"
	databricks    = "Databricks, query reasoning models: content parts of type reasoning"
)

// product returns each form in each place with each end.
func product(source, want, kept string, forms map[string]string, places, ends []string) []streamFault {
	var all []streamFault
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		for _, place := range places {
			for _, end := range ends {
				says := strings.ReplaceAll(strings.ReplaceAll(place, "@", forms[name]), "$", end)
				all = append(all, streamFault{name: name + " in " + says, source: source, says: says, want: want, kept: kept})
			}
		}
	}
	return all
}

var (
	places    = []string{"start | @ | $", "start | text:Hello  | @ | $", "start | text:Hello  | @ | text:world. | finish:stop | $"}
	openAIEnd = []string{"done", "finish:stop | done", "do:cut"}
)

func plain(list ...streamFault) []streamFault { return list }

// openAIFaults are the faults specific to chat completions.
func openAIFaults() []streamFault {
	chunk := func(choice string) string { return `data:{"id":"c","model":"m","choices":[` + choice + `]}` }
	return slices.Concat(
		product(oldLlama, "provider/error", "", map[string]string{"the field error": `line:error: {"code":500,"message":"it failed","type":"server_error"} | line:`}, places, openAIEnd),
		product(oldLlama, "provider/context-exceeded", "", map[string]string{"the field error": `line:error: {"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"} | line:`}, places[:1], openAIEnd),
		product(newLlama, "provider/error", "", map[string]string{"a wrapped error": `data:{"error":{"code":500,"message":"it failed","type":"server_error"}}`}, places, openAIEnd),
		product(vLLM, "provider/error", "", map[string]string{"a wrapped error": `data:{"error":{"message":"it failed","type":"InternalServerError","param":null,"code":500}}`}, places, openAIEnd[:2]),
		product(oldVLLM, "provider/error", "", map[string]string{"a bare error": `data:{"object":"error","message":"it failed","type":"BadRequestError","param":null,"code":400}`}, places, openAIEnd),
		product(fastChat, "provider/error", "", map[string]string{"error_code": `data:{"text":"**NETWORK ERROR DUE TO HIGH TRAFFIC**","error_code":50001}`}, places, openAIEnd),
		product(tgi, "provider/error", "", map[string]string{"a text": `data:{"error":"Incomplete generation stream","error_type":"incomplete_generation_stream"}`, "a status": `data:{"error":{"message":"it failed","http_status_code":424}}`}, places, openAIEnd[:2]),
		product(tgi, "provider/overloaded", "", map[string]string{"overload": `data:{"error":"Model is overloaded","error_type":"overloaded"}`}, places[:2], openAIEnd[:1]),
		product(lmStudio, "provider/error", "", map[string]string{"an event named error": `line:event: error | data:{"error":{"message":"Compute error."},"message":"Compute error."}`, "a bare one": `line:event: error | data:{"message":"The model has crashed"}`}, places, openAIEnd),
		product(openRouter, "provider/error", "", map[string]string{
			"beside a choice": `data:{"id":"c","model":"m","error":{"code":502,"message":"it failed"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`,
			"in a choice":     chunk(`{"index":0,"delta":{"content":""},"finish_reason":"stop","error":{"code":502,"message":"it failed"}}`),
			"finish error":    chunk(`{"index":0,"delta":{},"finish_reason":"error"}`),
		}, places[:2], openAIEnd[:1]),
		plain(
			streamFault{name: "the end by a stop sequence", source: tgiFinish, says: "start | text:Hello world. | finish:stop_sequence | done", meant: "Hello world."},
			streamFault{name: "the end by its token", source: tgiFinish, says: "start | text:Hello world. | finish:eos_token | done", meant: "Hello world."},
			streamFault{name: "the end by its token, abbreviated", source: together, says: "start | text:Hello world. | finish:eos | done", meant: "Hello world."},
			streamFault{name: "the limit of the model", source: mistralFinish, says: "start | text:Hello | finish:model_length | done", meant: "Hello", finish: "length"},
			streamFault{name: "the end of the context window", source: zai, says: "start | text:Hello | finish:model_context_window_exceeded | done", meant: "Hello", finish: "length"},
			streamFault{name: "an empty answer in place of an error", source: liteLLM, says: "start | finish:stop | done", want: "provider/empty"},
			streamFault{name: "comments", source: openRouter, says: "line:: OPENROUTER PROCESSING | line: | start | text:Hello world. | line:: OPENROUTER PROCESSING | line: | finish:stop | done", meant: "Hello world."},
			streamFault{name: "events without choices", source: azure, says: `data:{"choices":[],"prompt_filter_results":[{"prompt_index":0}]} | start | text:Hello world. | ` + chunk(`{"index":0,"content_filter_offsets":{"check_offset":5},"finish_reason":null}`) + ` | finish:stop | done`, meant: "Hello world."},
			streamFault{name: "a filter that failed", source: azure, says: "start | text:Hello world. | " + chunk(`{"index":0,"delta":{},"finish_reason":"stop","content_filter_result":{"error":{"code":"content_filter_error","message":"not filtered"}}}`) + " | done", meant: "Hello world."},
			streamFault{name: "filtered", source: azure, says: "start | text:Hello  | finish:content_filter | done", want: "provider/refused"},
			streamFault{name: "only the formal end", source: network, says: "start | text:Hello | done", want: "stream/truncated", kept: "Hello"},
			streamFault{name: "the text once more", source: proxy, says: "start | text:Hello world. | " + chunk(`{"index":0,"message":{"content":"Hello world."},"finish_reason":"stop"}`) + " | done", meant: "Hello world."},
			streamFault{name: "another text at the end", source: proxy, says: "start | text:Hello  | " + chunk(`{"index":0,"message":{"content":"Hello world."},"finish_reason":"stop"}`) + " | finish:stop | done", want: "stream/truncated", kept: "Hello "},
			streamFault{name: "messages as deltas", source: inMessages, says: chunk(`{"index":0,"message":{"content":"Hello "}}`) + " | " + chunk(`{"index":0,"message":{"content":"world."}}`) + " | finish:stop | done", meant: "Hello world."},
			streamFault{name: "parts", source: proxy, says: "start | " + chunk(`{"index":0,"delta":{"content":[{"type":"text","text":"Hello "},{"type":"text","text":"world."}]}}`) + " | finish:stop | done", meant: "Hello world."},
			streamFault{name: "a finish reason in each chunk", source: eachFinish, says: "start | " + chunk(`{"index":0,"delta":{"content":"Hello "},"finish_reason":"stop"}`) + " | later | " + chunk(`{"index":0,"delta":{"content":"world."},"finish_reason":"stop"}`) + " | done", meant: "Hello world.", kept: "Hello "},
			streamFault{name: "a finish reason in each chunk, cut", source: eachFinish, says: "start | " + chunk(`{"index":0,"delta":{"content":"Hello "},"finish_reason":"stop"}`) + " | " + chunk(`{"index":0,"delta":{"content":"wor"},"finish_reason":"stop"}`) + " | do:cut", want: "stream/truncated"},
			streamFault{name: "text 10 s after the finish reason", source: eachFinish, says: "start | text:Hello  | finish:stop | later | text:world. | done", meant: "Hello world.", kept: "Hello "},
			streamFault{name: "silence after the finish reason", source: stalls, says: "start | text:Hello  | finish:stop | do:stall | stall", want: "stream/stalled", kept: "Hello "},
			streamFault{name: "an error that is none", source: proxy, says: `start | data:{"id":"c","error":"","choices":[{"index":0,"delta":{"content":"Hello world."}}]} | finish:stop | done`, meant: "Hello world."},
			streamFault{
				name: "an event is lost between finish reasons", source: eachFinish,
				says: chunk(`{"index":0,"delta":{"content":"Hello "},"finish_reason":"stop"}`) + ` | data:{"choices":[{"delta":{"content":"lost | ` +
					chunk(`{"index":0,"delta":{"content":"world."},"finish_reason":"stop"}`) + " | done",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "cut within an event after a finish reason", source: gateway,
				says: chunk(`{"index":0,"delta":{"content":"Hello "},"finish_reason":"stop"}`) + ` | raw:data: {"choices":[{"delta":{"content":"wor | do:cut`,
				want: "stream/truncated", kept: "Hello ",
			},
			streamFault{
				name: "aborted within an event after a finish reason", source: nginxCut,
				says: chunk(`{"index":0,"delta":{"content":"Hello "},"finish_reason":"stop"}`) + ` | raw:data: {"choices":[{"delta":{"content":"wor | do:abort`,
				want: "stream/truncated", kept: "Hello ",
			},
			streamFault{
				name: "a call in a message behind deltas", source: proxy,
				says: "start | text:Hello  | " + chunk(`{"index":0,"message":{"content":"Hello ","tool_calls":[{"id":"t","function":{"name":"fs__read","arguments":"{}"}}]},"finish_reason":"stop"}`) + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello ",
			},
			streamFault{
				name: "usage alone", source: openRouter,
				says: `start | text:Hello world. | ` + chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`) + ` | data:{"usage":{"prompt_tokens":9,"completion_tokens":3}} | done`, meant: "Hello world.",
			},
			streamFault{
				name: "reasoning and a citation among the parts", source: mistral,
				says: "start | " + chunk(`{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]}}`) + " | " +
					chunk(`{"index":0,"delta":{"content":[{"type":"text","text":"Hello world."},{"type":"reference","reference_ids":[1]}]}}`) + " | finish:stop | done",
				meant: "Hello world.",
			},
			streamFault{
				name: "summaries of reasoning among the parts", source: databricks,
				says: "start | " + strings.Repeat(chunk(`{"index":0,"delta":{"content":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}]}}`)+" | ", 3) +
					chunk(`{"index":0,"delta":{"content":[{"type":"reasoning","summary":[{"type":"summary_encrypted_text","data":"eA=="}]}]}}`) + " | " +
					chunk(`{"index":0,"delta":{"content":[{"type":"reasoning","text":"Hm."},{"type":"text","text":"Hello world."}]}}`) + " | finish:stop | done",
				meant: "Hello world.",
			},
			streamFault{
				name: "a refusal among the parts", source: proxy,
				says: "start | " + chunk(`{"index":0,"delta":{"content":[{"type":"refusal","refusal":"No."}]}}`) + " | finish:stop | done",
				want: "provider/refused",
			},
			streamFault{
				name: "an empty role", source: miniMax,
				says: "start | " + chunk(`{"index":0,"delta":{"role":"","content":"Hello world."}}`) + " | finish:stop | done", meant: "Hello world.",
			},
			streamFault{
				name: "a role without a text", source: proxy,
				says: "start | " + chunk(`{"index":0,"delta":{"role":"user","content":""}}`) + " | text:Hello world. | finish:stop | done", meant: "Hello world.",
			},
			streamFault{name: "another choice", source: proxy, says: "start | text:Hello world. | " + chunk(`{"index":1,"delta":{"content":"no"}}`) + " | finish:stop | done", meant: "Hello world."},
		),
		product(proxy, "stream/truncated", "Hello world.", map[string]string{
			"choices of another kind":    `data:{"id":"c","choices":{"index":0,"delta":{"content":"lost "}}}`,
			"a delta of another kind":    chunk(`{"index":0,"delta":"lost "}`),
			"content that is a number":   chunk(`{"index":0,"delta":{"content":7}}`),
			"content that is an object":  chunk(`{"index":0,"delta":{"content":{"text":"lost "}}}`),
			"tool calls of another kind": chunk(`{"index":0,"delta":{"content":"lost ","tool_calls":"x"}}`),
			"an object of another kind":  `data:{"status":"ok"}`,
			"a chunk of completions":     `data:{"id":"c","object":"text_completion","choices":[{"index":0,"text":"lost ","finish_reason":null}]}`,
			"a choice of another kind":   chunk(`{"index":0,"tokens":["lost "]}`),
			"a text in the delta":        chunk(`{"index":0,"delta":{"text":"lost "}}`),
			"a text beside the choices":  `data:{"id":"c","choices":null,"delta":{"content":"lost "}}`,
			"a text without choices":     `data:{"id":"c","content":"lost "}`,
			"a part of another kind":     chunk(`{"index":0,"delta":{"content":[{"type":"image_url","image_url":{"url":"x"}}]}}`),
			"a part with a value":        chunk(`{"index":0,"delta":{"content":[{"type":"output_text","value":"lost "}]}}`),
			"a part that is a text":      chunk(`{"index":0,"delta":{"content":["lost "]}}`),
			"a text of a tool":           chunk(`{"index":0,"delta":{"role":"tool","content":"lost "}}`),
			"a text of the user":         chunk(`{"index":0,"delta":{"role":"user","content":"lost "}}`),
		}, []string{"start | text:Hello  | @ | text:world. | finish:stop | $"}, []string{"done", "do:cut"}),
		product(proxy, "", "", map[string]string{
			"a text": `"usage":"9"`, "a list": `"usage":[9,3]`, "texts": `"usage":{"prompt_tokens":"9","completion_tokens":"3"}`, "floats": `"usage":{"prompt_tokens":9.0,"completion_tokens":3.0}`,
			"below zero": `"usage":{"prompt_tokens":-9,"completion_tokens":-3}`, "details of another kind": `"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":[]}`,
			"a model of another kind": `"model":7`, "an id of another kind": `"id":{}`,
		}, []string{`start | text:Hello world. | data:{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],@} | $`}, []string{"done"}),
	)
}

// responsesFaults are the faults specific to the Responses API.
func responsesFaults() []streamFault {
	end := func(status, more string) string {
		response := `{"id":"r","object":"response","status":"` + status + `",` + more + `}`
		return `data:{"type":"response.` + status + `","response":` + response + `}`
	}
	message := func(text string) string {
		return `{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"` + text + `"}]}`
	}
	done := func(text string) string {
		return `data:{"type":"response.output_item.done","output_index":0,"item":` + message(text) + `}`
	}
	part := func(index int, text string) string {
		return fmt.Sprintf(`data:{"type":"response.output_text.done","output_index":%d,"text":%q}`, index, text)
	}
	numbered := func(number, content int, text string) string {
		return fmt.Sprintf(`data:{"type":"response.output_text.delta","output_index":0,"content_index":%d,"sequence_number":%d,"delta":%q}`, content, number, text)
	}
	unproven := end("completed", `"output":[]`)
	var all []streamFault
	for code, want := range map[string]string{
		"server_error":                   "provider/error",
		"rate_limit_exceeded":            "provider/rate-limited",
		"insufficient_quota":             "provider/quota-exhausted",
		"context_length_exceeded":        "provider/context-exceeded",
		"model_not_found":                "provider/model-not-found",
		"server_overloaded":              "provider/overloaded",
		"invalid_prompt":                 "provider/request-invalid",
		"invalid_base64_image":           "provider/request-invalid",
		"image_too_large":                "provider/request-invalid",
		"image_content_policy_violation": "provider/refused",
		"bio_policy":                     "provider/refused",
		"vector_store_timeout":           "provider/error",
	} {
		fault := `{"code":"` + code + `","message":"it failed"}`
		all = append(all, product(responses, want, "", map[string]string{
			code + " in error":           `data:{"type":"error","param":null,` + fault[1:],
			code + " in an error within": `line:event: error | data:{"type":"error","error":` + fault + `}`,
			code + " in failed":          end("failed", `"error":`+fault),
		}, places[:2], []string{"do:cut"})...)
	}
	return slices.Concat(all,
		product(proxy, "", "", map[string]string{
			"a text":                    `"usage":"9"`,
			"a list":                    `"usage":[9,3]`,
			"texts":                     `"usage":{"input_tokens":"9","output_tokens":"3"}`,
			"floats":                    `"usage":{"input_tokens":9.0,"output_tokens":3.0}`,
			"below zero":                `"usage":{"input_tokens":-9,"output_tokens":-3}`,
			"details of another kind":   `"usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":[]}`,
			"nothing":                   `"usage":null`,
			"a model of another kind":   `"model":7`,
			"an id of another kind":     `"id":{}`,
			"an output of another kind": `"output":"x"`,
			"no output":                 `"output":null`, "all of it again": `"output":[` + message("Hello world.") + `]`,
		}, []string{"start | text:Hello world. | " + end("completed", "@") + " | $"}, []string{"do:cut", "do:abort"}),
		product(proxy, "stream/truncated", "Hello world.", map[string]string{
			"a delta that is a number":  `data:{"type":"response.output_text.delta","output_index":0,"delta":7}`,
			"a delta that is an object": `data:{"type":"response.output_text.delta","output_index":0,"delta":{"text":"lost "}}`,
			"an item that is a text":    `data:{"type":"response.output_item.added","output_index":0,"item":"lost "}`,
			"content that is a text":    `data:{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":"lost "}}`,
			"an object without type":    `data:{"status":"ok"}`,
			"a part of another kind":    `data:{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"image","image_url":"x"}]}}`,
			"a part with a value":       `data:{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","value":"lost "}]}}`,
			"an item of another kind":   `data:{"type":"response.output_item.done","output_index":3,"item":{"type":"output_text","text":"lost "}}`,
		}, []string{"start | text:Hello  | @ | text:world. | finish:stop | $"}, []string{"do:cut", "do:abort"}),
		product(network, "stream/truncated", "Hello ", map[string]string{
			"a delta is missing":            done("Hello world.") + " | finish:stop",
			"a delta is missing at the end": end("completed", `"output":[`+message("Hello world.")+`]`),
			"a call is missing":             end("completed", `"output":[`+message("Hello ")+`,{"type":"function_call","call_id":"t"}]`),
			"a part differs":                part(0, "Hello world.") + " | finish:stop",
			"a part is shorter":             part(0, "Hell") + " | finish:stop",
		}, []string{"start | text:Hello  | @ | $"}, []string{"do:cut"}),
		plain(
			streamFault{
				name: "an item is whole and the answer is not", source: network,
				says: "start | text:Hello | " + done("Hello") + " | do:cut",
				want: "stream/truncated",
			},
			streamFault{
				name: "an error beside a piece", source: proxy,
				says: `start | data:{"type":"response.output_text.delta","output_index":0,"delta":"Hello","error":{"message":"it failed"}} | finish:stop`,
				want: "provider/error",
			},
			streamFault{
				name: "an item that is cut in a response that is not", source: proxy,
				says: `start | text:Hello | data:{"type":"response.output_item.done","output_index":0,"item":{"type":"message",` +
					`"status":"incomplete","content":[{"type":"output_text","text":"Hello"}]}} | finish:stop`,
				meant: "Hello", finish: "length",
			},
			streamFault{
				name: "an end that says completed and its reason", source: proxy,
				says: "start | text:Hello | " +
					end("completed", `"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":9,"output_tokens":3}`),
				meant: "Hello", finish: "length",
			},
			streamFault{
				name: "an end that says completed of a failed response", source: proxy,
				says: `start | text:Hello | data:{"type":"response.completed","response":{"id":"r","status":"failed"}}`,
				want: "provider/error",
			},
			streamFault{
				name: "without deltas", source: proxy,
				says:  "start | " + done("Hello world.") + " | finish:stop",
				meant: "Hello world.",
			},
			streamFault{
				name: "parts without deltas", source: proxy,
				says:  "start | " + part(0, "Hello ") + " | " + part(0, "world.") + " | " + done("Hello world.") + " | finish:stop",
				meant: "Hello world.",
			},
			streamFault{
				name: "a part without deltas and its item differ", source: network,
				says: "start | " + part(0, "Hello ") + " | " + done("Hello world.") + " | finish:stop",
				want: "stream/truncated", kept: "Hello ",
			},
			streamFault{
				name: "an empty part before one with deltas", source: proxy,
				says:  "start | " + part(0, "") + " | text:Hello world. | " + part(0, "Hello world.") + " | finish:stop",
				meant: "Hello world.",
			},
			streamFault{
				name: "a part without deltas after another one", source: proxy,
				says:  "start | text:Hello  | " + part(0, "Hello ") + " | " + part(1, "world.") + " | finish:stop",
				meant: "Hello world.",
			},
			streamFault{
				name: "an event is missing by its number", source: network,
				says: "start | " + numbered(3, 0, "Hello ") + " | " + numbered(5, 0, "world.") + " | " + unproven,
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "an event without a text is left out and the whole text repeated", source: filtered,
				says: "start | " + numbered(3, 0, "Hello ") + " | " + numbered(5, 0, "world.") + " | " +
					end("completed", `"output":[`+message("Hello world.")+`]`),
				meant: "Hello world.",
			},
			streamFault{
				name: "numbers that do not rise", source: someNumbers,
				says:  "start | " + numbered(3, 0, "Hello ") + " | " + numbered(0, 0, "wor") + " | " + numbered(5, 0, "ld.") + " | " + unproven,
				meant: "Hello world.",
			},
			streamFault{
				name: "numbers of another kind", source: proxy,
				says: `start | data:{"type":"response.output_text.delta","output_index":0,"content_index":"0","sequence_number":"3","delta":"Hello "} | ` +
					`data:{"type":"response.output_text.delta","output_index":0,"content_index":"0","sequence_number":{},"delta":"world."} | ` + unproven,
				meant: "Hello world.",
			},
			streamFault{
				name: "parts one after another", source: responses,
				says: "start | " + numbered(1, 0, "Hello ") + ` | data:{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Hello "} | ` +
					`data:{"type":"response.content_part.added","output_index":0,"content_index":1,"part":{"type":"output_text","text":""}} | ` + numbered(4, 1, "world.") +
					` | data:{"type":"response.output_text.done","output_index":0,"content_index":1,"text":"world."} | ` + end("completed", `"output":[`+message("Hello world.")+`]`),
				meant: "Hello world.",
			},
			streamFault{
				name: "parts one after another without indexes", source: proxy,
				says: "start | text:Hello  | " + part(0, "Hello ") + " | text:world. | " + part(0, "world.") + " | finish:stop", meant: "Hello world.",
			},
			streamFault{
				name: "parts whose pieces alternate", source: proxy,
				says: "start | " + numbered(1, 0, "Hel") + " | " + numbered(2, 1, "lo ") + " | " + numbered(3, 0, "world.") + " | finish:stop",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "an end that says completed of a queued response", source: proxy,
				says: `start | text:Hello | data:{"type":"response.completed","response":{"id":"r","status":"queued"}} | do:cut`,
				want: "stream/truncated",
			},
			streamFault{
				name: "an end that says completed of a response in progress", source: proxy,
				says: `start | text:Hello | data:{"type":"response.completed","response":{"id":"r","status":"in_progress"}} | do:cut`,
				want: "stream/truncated",
			},
			streamFault{
				name: "without items", source: proxy,
				says:  end("completed", `"output":[`+message("Hello world.")+`]`),
				meant: "Hello world.",
			},
			streamFault{
				name: "an item without positions", source: proxy,
				says:  `data:{"type":"response.output_text.delta","item_id":"m","delta":"Hello world."} | finish:stop`,
				meant: "Hello world.",
			},
			streamFault{
				name: "a refusal", source: responses,
				says: `start | data:{"type":"response.refusal.delta","output_index":0,"delta":"I cannot."} | finish:stop`,
				want: "provider/refused",
			},
			streamFault{
				name: "a refusal without deltas", source: responses,
				says: `start | data:{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I cannot."}]}} | finish:stop`,
				want: "provider/refused",
			},
			streamFault{
				name: "an unknown reason", source: responses,
				says: "start | text:Hello | finish:max_prompt_tokens",
				want: "provider/error",
			},
			streamFault{
				name: "incomplete without a reason", source: responses,
				says: "start | text:Hello | " + end("incomplete", `"incomplete_details":null`),
				want: "provider/error",
			},
			streamFault{
				name: "cancelled", source: responses,
				says: "start | text:Hello | " + end("cancelled", `"error":null`),
				want: "provider/error",
			},
			streamFault{
				name: "failed without an error", source: responses,
				says: "start | text:Hello | " + end("failed", `"error":null`),
				want: "provider/error",
			},
			streamFault{
				name: "failed for the reason of an incomplete answer", source: proxy,
				says: "start | text:Hello | " + end("failed", `"incomplete_details":{"reason":"max_output_tokens"}`),
				want: "provider/error",
			},
			streamFault{
				name: "cancelled for the reason of an incomplete answer", source: proxy,
				says: "start | text:Hello | " + end("cancelled", `"incomplete_details":{"reason":"content_filter"}`),
				want: "provider/error",
			},
			streamFault{name: "an empty answer", source: liteLLM, says: "start | finish:stop", want: "provider/empty"},
			streamFault{
				name: "events of a later version", source: responses,
				says:  `start | data:{"type":"response.thing.delta","output_index":0,"delta":"x"} | text:Hello world. | finish:stop`,
				meant: "Hello world.",
			},
			streamFault{
				name: "more after the end", source: proxy,
				says:  "start | text:Hello world. | finish:stop | text:more",
				meant: "Hello world.",
			},
			streamFault{
				name: "the end of chat completions", source: proxy,
				says: "start | text:Hello | data:[DONE] | do:cut",
				want: "stream/truncated",
			},
			streamFault{
				name: "an end that is none", source: proxy,
				says: `start | text:Hello | data:{"type":"response.completed","response":"r"} | do:cut`,
				want: "stream/truncated",
			},
		))
}

// anthropicFaults are the faults specific to the messages of Anthropic.
func anthropicFaults() []streamFault {
	var all []streamFault
	for _, e := range []struct{ word, want string }{{"api_error", "provider/error"}, {"overloaded_error", "provider/overloaded"}, {"rate_limit_error", "provider/rate-limited"}, {"timeout_error", "provider/error"}, {"invalid_request_error", "provider/error"}} {
		event := `data:{"type":"error","error":{"type":"` + e.word + `","message":"it failed"}}`
		all = append(all, product(messages, e.want, "", map[string]string{e.word: event, e.word + " with its name": "line:event: error | " + event, e.word + " without a type": `data:{"error":{"type":"` + e.word + `","message":"it failed"}}`}, places, []string{"done", "do:cut"})...)
	}
	block := func(index int, text string) string {
		return fmt.Sprintf(`event:{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":%q}}`, index, text)
	}
	piece := func(index int, text string) string {
		return fmt.Sprintf(`event:{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%q}}`, index, text)
	}
	stop := func(index int) string { return fmt.Sprintf(`event:{"type":"content_block_stop","index":%d}`, index) }
	return slices.Concat(all,
		product(proxy, "", "", map[string]string{
			"a text": `"3"`, "a list": `[3]`, "a number": `3`, "texts": `{"output_tokens":"3"}`, "floats": `{"output_tokens":3.0}`, "below zero": `{"output_tokens":-3}`,
			"parts of another kind": `{"output_tokens":3,"cache_read_input_tokens":[]}`, "nothing": `null`,
		}, []string{`start | text:Hello world. | event:{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":@} | $`}, []string{"done", "do:cut"}),
		product(proxy, "stream/truncated", "Hello world.", map[string]string{
			"a text that is a number": `data:{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}`,
			"a delta that is a text":  `data:{"type":"content_block_delta","index":0,"delta":"lost "}`,
			"an object without type":  `data:{"status":"ok"}`,
			"a delta of another kind": `data:{"type":"content_block_delta","index":0,"delta":{"type":"text","text":"lost "}}`,
			"a delta without text":    `data:{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","content":"lost "}}`,
			"a block of another kind": `data:{"type":"content_block_start","index":1,"content_block":{"type":"output_text","text":"lost "}}`,
		}, []string{"start | text:Hello  | @ | text:world. | finish:stop | $"}, []string{"done", "do:cut"}),
		plain(
			streamFault{name: "only the formal end", source: network, says: "start | text:Hello | done", want: "stream/truncated", kept: "Hello"},
			streamFault{name: "pings", source: messages, says: `line:event: ping | data:{"type":"ping"} | start | text:Hello world. | data:{"type":"ping"} | finish:stop | done`, meant: "Hello world."},
			streamFault{name: "events of a later version", source: messages, says: `start | event:{"type":"summary_start","summary":{}} | text:Hello world. | finish:stop | done`, meant: "Hello world."},
			streamFault{name: "text 10 s after the stop reason", source: eachFinish, says: "start | text:Hello  | finish:stop | later | text:world. | done", meant: "Hello world.", kept: "Hello "},
			streamFault{name: "silence after the stop reason", source: stalls, says: "start | text:Hello  | finish:stop | do:stall | stall", want: "stream/stalled", kept: "Hello "},
			streamFault{name: "an empty answer", source: liteLLM, says: "start | finish:stop | done", want: "provider/empty"},
			streamFault{name: "no stop reason", source: proxy, says: `start | text:Hello | event:{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}} | done`, want: "stream/truncated", kept: "Hello"},
			streamFault{
				name: "an error beside a piece", source: proxy,
				says: `start | data:{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"},` +
					`"error":{"type":"api_error","message":"it failed"}} | finish:stop | done`,
				want: "provider/error",
			},
			streamFault{
				name: "blocks of text in turns", source: proxy, says: "start | text:Hello  | " + block(1, "") + " | " + piece(1, "world.") +
					" | " + piece(0, "wide ") + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello world.wide ",
			},
			streamFault{
				name: "a block in front of an earlier one", source: proxy,
				says: `event:{"type":"message_start","message":{"usage":{"input_tokens":9}}} | ` + block(1, "world.") + " | " + block(0, "") + " | " + piece(0, "Hello ") + " | finish:stop | done",
				want: "stream/truncated", kept: "world.Hello ",
			},
			streamFault{
				name: "a missing block", source: proxy, says: "start | text:Hello  | " + block(2, "world.") + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "a second answer in the stream", source: proxy,
				says: `start | text:Hello  | event:{"type":"message_start","message":{"usage":{"input_tokens":9}}} | ` + piece(0, "world.") + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "a block that starts again", source: proxy,
				says: "start | text:Hello  | " + stop(0) + " | " + block(0, "") + " | " + piece(0, "world.") + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "a piece of a block that ended", source: proxy,
				says: "start | text:Hello  | " + stop(0) + " | " + piece(0, "world.") + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "a piece of a block that did not start", source: proxy,
				says: "start | text:Hello  | " + piece(5, "world.") + " | finish:stop | done",
				want: "stream/truncated", kept: "Hello world.",
			},
			streamFault{
				name: "a tool that the server runs itself", source: messages,
				says: `start | text:Hello  | event:{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}} | ` +
					`event:{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}} | ` + stop(1) + " | " +
					block(2, "wor") + " | " + piece(2, "ld.") + " | finish:stop | done",
				meant: "Hello world.",
			},
			streamFault{
				name: "blocks of text one after another", source: messages,
				says: "start | text:Hello  | " + block(1, "wor") + " | " + piece(1, "ld.") + " | finish:stop | done", meant: "Hello world.",
			},
			streamFault{
				name: "a piece named ping", source: proxy,
				says: "start | text:Hello  | line:event: ping | " + strings.Replace(piece(0, "world."), "event:", "data:", 1) + " | finish:stop | done", meant: "Hello world.",
			},
			streamFault{name: "an unknown stop reason", source: messages, says: "start | text:Hello | finish:pause_turn | done", want: "provider/error"},
		))
}

// ollamaFaults are the faults specific to the chat of Ollama.
func ollamaFaults() []streamFault {
	ends := []string{"do:cut", "finish:stop", "do:abort"}
	return slices.Concat(
		product(ollama, "provider/error", "", map[string]string{
			"a text": `data:{"error":"llama runner process has terminated: exit status 2"}`, "with a status": `data:{"error":"it failed","status":500}`,
			"beside a message": `data:{"model":"m","message":{"content":"lost"},"error":"it failed","done":false}`, "beside done": `data:{"model":"m","error":"it failed","done":true,"done_reason":"stop"}`,
			"an object": `data:{"error":{"message":"it failed"}}`,
		}, places, ends),
		product(ollama, "provider/context-exceeded", "", map[string]string{"too long": `data:{"error":"the input length exceeds the context length"}`}, places, ends),
		product(proxy, "", "", map[string]string{
			"texts": `"prompt_eval_count":"9","eval_count":"3"`, "floats": `"prompt_eval_count":9.0,"eval_count":3.0`, "below zero": `"prompt_eval_count":-9,"eval_count":-3`, "lists": `"prompt_eval_count":[],"eval_count":[]`,
			"nothing": `"eval_count":null`, "a model of another kind": `"model":7`, "half": `"eval_count":3`, "none": `"created_at":7`,
		}, []string{`text:Hello world. | data:{"message":{"content":""},"done":true,"done_reason":"stop",@} | $`}, []string{"do:cut", "do:abort"}),
		product(proxy, "stream/truncated", "Hello world.", map[string]string{
			"content that is a number":  `data:{"message":{"content":7},"done":false}`,
			"a message that is a text":  `data:{"message":"lost ","done":false}`,
			"done of another kind":      `data:{"message":{"content":"lost "},"done":"no"}`,
			"an object of another kind": `data:{"status":"ok"}`,
			"a line of generate":        `data:{"model":"m","response":"lost ","done":false}`,
			"a text beside the message": `data:{"message":{"role":"assistant","content":""},"content":"lost ","done":false}`,
			"a text in the message":     `data:{"message":{"role":"assistant","text":"lost "},"done":false}`,
			"a part of another kind":    `data:{"message":{"content":[{"type":"image","url":"x"}]},"done":false}`,
		}, []string{"text:Hello  | @ | text:world. | finish:stop | $"}, []string{"do:cut", "do:abort"}),
		plain(
			streamFault{name: "done without a reason", source: "Ollama before 0.1.38: done_reason is missing", says: `text:Hello | data:{"message":{"content":""},"done":true}`, want: "stream/truncated", kept: "Hello"},
			streamFault{name: "the model was loaded", source: ollama, says: `data:{"message":{"content":""},"done":true,"done_reason":"load"}`, want: "provider/error"},
			streamFault{name: "an empty answer", source: ollama, says: "finish:stop", want: "provider/empty"},
			streamFault{name: "an error that is none", source: proxy, says: `data:{"message":{"content":"Hello world."},"error":"","done":false} | finish:stop`, meant: "Hello world."},
		))
}

// everyFault returns the faults of every dialect.
func everyFault() []streamFault {
	hurt := product(splits, "stream/truncated", "Hello world.", map[string]string{
		"an event that is cut": `data:{"choices":[{"del`, "a page": "data:<html>502 Bad Gateway</html>", "a word": "data:undefined", "a list": "data:[]", "a number": "data:7",
		"two objects": `data:{"a":1}{"b":2}`, "a control character": "data:{\"a\":\"\x01\"}", "bytes": "data:\xff\xfe{",
	}, []string{"start | text:Hello  | @ | text:world. | finish:stop | $", "start | @ | text:Hello world. | finish:stop | $"}, []string{"done", "done | do:cut"})
	ends := product(network, "stream/truncated", "", map[string]string{"nothing": "", "a piece": "text:Hello ", "two pieces": "text:Hello  | text:world.", "a blank": "text: "},
		[]string{"start | @ | $", "start | @ | raw:da | $", "start | @ | raw:{\"error\":{\"mess | $", "start | @ | raw:\xe2\x82 | $"}, []string{"do:cut", "do:abort"})
	fine := product(network, "", "", map[string]string{"the end": "done", "an abort": "done | do:abort", "a cut": "done | do:cut"}, []string{"start | text:Hello world. | finish:stop | @"}, []string{""})
	split := plain(
		streamFault{name: "a pair in one event", says: `start | speak:"a\ud83d\ude00b" | finish:stop | done`, meant: "a\U0001F600b"},
		streamFault{name: "a pair in two events", says: `start | speak:"a\ud83d" | speak:"\ude00b" | finish:stop | done`, meant: "a\U0001F600b"},
		streamFault{name: "a pair around an empty event", says: `start | speak:"a\ud83d" | speak:"" | speak:"\ude00b" | finish:stop | done`, meant: "a\U0001F600b"},
		streamFault{name: "an escape before a pair", says: `start | speak:"\"\\\/\b\f\n\r\t\u00e9\ud83d" | speak:"\ude00" | finish:stop | done`, meant: "\"\\/\b\f\n\r\t\u00e9\U0001F600"},
		streamFault{name: "a NUL", says: `start | speak:"Hel\u0000lo" | finish:stop | done`, meant: "Hel\x00lo"},
		streamFault{name: "a first half alone", says: `start | speak:"a\ud83d" | speak:"b" | finish:stop | done`, want: "stream/truncated", kept: "a\uFFFDb"},
		streamFault{name: "a second half alone", says: `start | speak:"a" | speak:"\ude00b" | finish:stop | done`, want: "stream/truncated", kept: "a\uFFFDb"},
		streamFault{name: "a first half at the end", says: `start | speak:"a\ud83d" | finish:stop | done`, want: "stream/truncated", kept: "a"},
		streamFault{name: "a byte of no character", says: "start | speak:\"a\xffb\" | finish:stop | done", want: "stream/truncated", kept: "a\uFFFDb"},
		streamFault{name: "a character that is cut", says: "start | speak:\"a\xf0\x9f\" | finish:stop | done", want: "stream/truncated", kept: "a"},
	)
	for _, c := range []string{"é", "€", "\U0001F600"} {
		for i := 1; i < len(c); i++ {
			split = append(split, streamFault{name: fmt.Sprintf("%q after %d bytes", c, i), says: fmt.Sprintf("start | speak:\"a%s\" | speak:\"%sb\" | finish:stop | done", c[:i], c[i:]), meant: "a" + c + "b"})
		}
	}
	for i := range split {
		split[i].source = detokenizer
	}
	return slices.Concat(hurt, ends, fine, split)
}

// severalFinishes are streams with more than one finish reason, for the formats
// in which a finish reason does not end the stream.
func severalFinishes() []streamFault {
	return plain(
		streamFault{
			name: "a stop after a limit", source: proxy,
			says: "start | text:Hello | finish:length | finish:stop | done", meant: "Hello", finish: "length",
		},
		streamFault{
			name: "a limit after a stop", source: proxy,
			says: "start | text:Hello | finish:stop | finish:length | done", meant: "Hello", finish: "length",
		},
		streamFault{
			name: "a refusal before a stop", source: proxy,
			says: "start | text:Hello | finish:refused | finish:stop | done", want: "provider/refused",
		},
		streamFault{
			name: "an unknown reason before a stop", source: proxy,
			says: "start | text:Hello | finish:crashed | finish:stop | done", want: "provider/error",
		},
		streamFault{
			name: "a call that did not arrive", source: noCall,
			says: "start | text:I will call. | finish:tool | done", want: "provider/tool-call-invalid",
		},
		streamFault{
			name: "a call that did not arrive, and no text", source: noCall,
			says: "start | finish:tool | done", want: "provider/tool-call-invalid",
		},
	)
}

// bareLines are the faults of streams with lines that are not fields.
func bareLines() []streamFault {
	const place = "start | text:Hello  | @ | text:world. | finish:stop | $"
	return slices.Concat(
		product(network, "stream/truncated", "Hello world.", map[string]string{
			"a status":              "line:Internal Server Error",
			"a status with a colon": "line:HTTP/1.1 502 Bad Gateway: upstream | line:",
			"a page":                "line:<html>",
		}, []string{place}, []string{"done"}),
		product(network, "provider/error", "", map[string]string{
			"an error without a field": `line:{"error":{"message":"it failed"}} | line:`,
		}, []string{place}, []string{"done"}),
		product(network, "", "", map[string]string{
			"a field of another kind": "line:trace: 7", "a name alone": "line:trace", "blanks": "line:  ",
		}, []string{place}, []string{"done"}),
	)
}

// steps makes a transcript from the description of a fault. More is closed to
// continue at the step later.
func (k talk) steps(says string) (tr wiretest.Transcript, more chan struct{}) {
	tr = k.says()
	data := k.event
	if k.media == "text/event-stream" {
		data = func(s string) string { return "data: " + s + "\n\n" }
	}
	for _, step := range strings.Split(says, " | ") {
		word, rest, _ := strings.Cut(step, ":")
		send := ""
		switch word {
		case "start":
			send = k.start
		case "text":
			send = k.text(rest)
		case "speak":
			const mark = "a-text-that-stands-for-another"
			send = strings.Replace(k.text(mark), quoted(mark), rest, 1)
		case "finish":
			send = k.finish(rest)
		case "done":
			send = k.end
		case "data":
			send = data(rest)
		case "event":
			send = k.event(rest)
		case "call":
			send = k.tool("t1", "fs__read", rest)
		case "broken":
			send = k.broken
		case "line":
			send = rest + "\n"
		case "raw":
			send = rest
		case "do":
			tr.Steps = append(tr.Steps, wiretest.Step{Do: rest})
		case "later":
			more = make(chan struct{})
			tr.Steps[len(tr.Steps)-1].Until = more
		}
		if send != "" {
			tr.Steps = append(tr.Steps, wiretest.Step{Send: send})
		}
	}
	return tr, more
}

// faultsOf returns the faults of a dialect.
func faultsOf(dialect string) []streamFault {
	own := map[string]func() []streamFault{
		"openai-chat":        openAIFaults,
		"openai-responses":   responsesFaults,
		"anthropic-messages": anthropicFaults,
		"ollama-chat":        ollamaFaults,
	}
	all := append(own[dialect](), everyFault()...)
	if dialect != "ollama-chat" {
		all = append(all, bareLines()...)
	}
	if dialect == "openai-chat" || dialect == "anthropic-messages" {
		all = append(all, severalFinishes()...)
	}
	return all
}

// Each fault names a server that shows it, or says that no public source does.
func TestFaultsHaveSources(t *testing.T) {
	for _, dialect := range dialects() {
		for _, f := range faultsOf(dialect) {
			assert.NotEmpty(t, f.source, "%s: %s", dialect, f.name)
		}
	}
	for _, f := range append(wall(), vectors()...) {
		assert.NotEmpty(t, f.origin, f.name)
	}
	for _, f := range structuredFaults() {
		assert.NotEmpty(t, f.source, f.name)
	}
	for name, f := range bodyFaults("", nil) {
		assert.NotEmpty(t, f.source, name)
	}
}

// LLM-013 to LLM-015, LLM-020, LLM-055: every stream ends with the intended answer or
// with a typed error, with and without a reader of the pieces. One attempt is one
// request. The usage is stated by the server, or marked, and so is its cost. A tolerant
// plugin marks each answer that may be incomplete.
func TestStreamWall(t *testing.T) {
	for _, dialect := range dialects() {
		faults := faultsOf(dialect)
		assert.GreaterOrEqual(t, len(faults), 150, dialect)
		t.Logf("%s: %d faults", dialect, len(faults))
		wholes := []string{"", "{:tolerant true}"}
		if dialect == "openai-chat" { // of other servers too
			wholes = append(wholes, `{:preset "generic"}`, `{:preset "generic" :tolerant true}`)
		}
		for _, whole := range wholes {
			for _, watched := range []bool{false, true} {
				t.Run(fmt.Sprint(dialect, whole, watched), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, dialect, "", whole)
					for _, f := range faults {
						r.meets(t, talks()[dialect], f, strings.Contains(whole, "tolerant"), watched)
					}
				})
			}
		}
	}
}

func (r *rig) meets(t *testing.T, k talk, f streamFault, tolerant, watched bool) {
	tr, more := k.steps(f.says)
	asked := len(r.server.Requests())
	r.server.Then(tr)
	switch late := strings.HasSuffix(f.says, "stall"); {
	case more != nil && !tolerant:
		go func() {
			r.clock.Wait(t, stall)
			r.clock.Advance(10 * time.Second)
			close(more)
		}()
	case more != nil, late && tolerant: // it waits less, and the rest of the stream is lost
		go r.clock.Fire(t, 2*time.Second)
	case late:
		go r.clock.Fire(t, stall)
	}
	var o outcome
	if watched {
		o = r.ask(t.Context(), "model/chat", hello, "", nil)
	} else {
		response, err := r.Do(t.Context(), sdktest.Call{Capability: r.id, Intent: "model/chat", Input: edn.MustRead(hello)})
		require.NoError(t, err, f.name)
		_, o.err = contract.CheckResponse(response, contract.ResultRules{})
		o.response = response
	}
	require.Len(t, r.server.Requests(), asked+1, "%s: one request", f.name)
	usage, meta := o.response.Key("result").Key("usage"), o.response.Key("invoke/meta")
	text, _ := o.response.Key("result").Key("out").Key("text").AsString()
	want, lossy := f.meant, false
	if f.want == "" && want == "" {
		want = "Hello world."
	}
	if tolerant && f.kept != "" {
		want, lossy = f.kept, true
	}
	if want == "" {
		if assert.NotNil(t, o.err, "%s: accepted %q", f.name, text) {
			assert.Equal(t, f.want, o.err.Type, "%s: %s", f.name, o.err)
		}
	} else if f.want != "" && !lossy {
		if assert.NotNil(t, o.err, "%s: accepted %q", f.name, text) {
			assert.Equal(t, f.want, o.err.Type, "%s: %s", f.name, o.err)
		}
	} else if assert.Nil(t, o.err, "%s: %v", f.name, o.err) {
		assert.Equal(t, want, text, f.name)
		assert.Equal(t, ":"+cmp.Or(f.finish, "stop"), meta.Key("finish").String(), f.name)
		assert.Equal(t, lossy, meta.Key("quality").Key("degraded?").Truthy(), f.name)
		if usage.Key("tokens-mark").String() == ":exact" {
			assert.Equal(t, "9 3", usage.Key("tokens-in").String()+" "+usage.Key("tokens-out").String(), f.name)
			assert.Equal(t, "0.000015M", usage.Key("cost-usd").String(), f.name)
		}
	}
	if !usage.IsNil() {
		costs(t, usage, f.name)
		assert.Contains(t, []string{":exact", ":estimated", ":at-least"}, usage.Key("tokens-mark").String(), f.name)
	}
	if watched && o.err == nil {
		assert.Equal(t, text, o.text, "%s: the pieces are the text", f.name)
	}
}
