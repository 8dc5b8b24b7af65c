package main

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

// talk writes the streams of one dialect.
type talk struct {
	media  string
	start  string
	text   func(s string) string
	tool   func(id, name, args string) string
	event  func(data string) string   // an event or line that holds data
	finish func(reason string) string // stop, length, tool, refused, or an unknown reason
	end    string
	quiet  string // a keep-alive; "" if the dialect has none
	broken string // an event that cannot be read
	inBand func(typ, message string) string
	long   func(n int) string
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// typed returns an SSE event named after the type of its data.
func typed(data string) string {
	_, rest, _ := strings.Cut(data, `"type":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return "event: " + name + "\ndata: " + data + "\n\n"
}

func talks() map[string]talk {
	sse := func(data string) string { return "data: " + data + "\n\n" }
	openAI := func(delta, finish string) string {
		return sse(`{"id":"c-1","object":"chat.completion.chunk","created":1790000000,"model":"served","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
	}
	words := func(m map[string]string) func(string) string {
		return func(reason string) string {
			if w, ok := m[reason]; ok {
				return w
			}
			return reason
		}
	}
	openAIWord := words(map[string]string{"tool": "tool_calls", "refused": "content_filter"})
	anthropicWord := words(map[string]string{"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refused": "refusal"})
	responses := func(typ, fields string) string { return sse(`{"type":"response.` + typ + `",` + fields + `}`) }
	ollamaWord := words(map[string]string{"tool": "stop"})
	return map[string]talk{
		"openai-chat": {
			media: "text/event-stream",
			event: sse,
			start: openAI(`{"role":"assistant","content":""}`, "null"),
			text:  func(s string) string { return openAI(`{"content":`+quoted(s)+`}`, "null") },
			tool: func(id, name, args string) string {
				return openAI(`{"tool_calls":[{"index":0,"id":`+quoted(id)+`,"type":"function","function":{"name":`+quoted(name)+`,"arguments":`+quoted(args)+`}}]}`, "null")
			},
			finish: func(reason string) string {
				return openAI(`{}`, quoted(openAIWord(reason))) + sse(`{"id":"c-1","object":"chat.completion.chunk","created":1790000000,"model":"served","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
			},
			end: sse("[DONE]"), quiet: ": ping\n\n", broken: sse(`{"choices":[{"del`),
			inBand: func(typ, message string) string {
				return sse(`{"error":{"type":` + quoted(typ) + `,"message":` + quoted(message) + `}}`)
			},
			long: func(n int) string { return "data: " + strings.Repeat("x", n) },
		},
		"openai-responses": {
			media: "text/event-stream",
			start: responses("created", `"response":{"id":"r-1","status":"in_progress","model":"served","output":[]}`) +
				responses("output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","content":[]}`) +
				responses("content_part.added",
					`"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}`),
			text: func(s string) string {
				return responses("output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":`+quoted(s))
			},
			tool: func(id, name, args string) string {
				item := `"output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":` + quoted(id) +
					`,"name":` + quoted(name) + `,"arguments":`
				return responses("output_item.added", item+`""}`) +
					responses("function_call_arguments.delta", `"output_index":1,"delta":`+quoted(args)) +
					responses("output_item.done", item+quoted(args)+`}`)
			},
			finish: func(reason string) string {
				word := map[string]string{"length": "max_output_tokens", "refused": "content_filter"}[reason]
				status, details := "incomplete", `{"reason":`+quoted(word)+`}`
				switch {
				case reason == "stop" || reason == "tool":
					status, details = "completed", "null"
				case word == "":
					details = `{"reason":` + quoted(reason) + `}`
				}
				return responses(status, `"response":{"id":"r-1","status":"`+status+`","model":"served","output":[],`+
					`"incomplete_details":`+details+`,"usage":{"input_tokens":9,"output_tokens":3}}`)
			},
			quiet: ": ping\n\n", broken: sse(`{"type":"response.outp`),
			inBand: func(typ, message string) string {
				return sse(`{"type":"error","code":` + quoted(typ) + `,"message":` + quoted(message) + `}`)
			},
			long: func(n int) string { return "data: " + strings.Repeat("x", n) },
		},
		"anthropic-messages": {
			media: "text/event-stream",
			start: typed(`{"type":"message_start","message":{"id":"m-1","type":"message","role":"assistant","model":"served","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}`) +
				typed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			event: typed,
			text: func(s string) string {
				return typed(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + quoted(s) + `}}`)
			},
			tool: func(id, name, args string) string {
				return typed(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":`+quoted(id)+`,"name":`+quoted(name)+`,"input":{}}}`) +
					typed(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":`+quoted(args)+`}}`)
			},
			finish: func(reason string) string {
				return typed(`{"type":"message_delta","delta":{"stop_reason":` + quoted(anthropicWord(reason)) + `},"usage":{"output_tokens":3}}`)
			},
			end: typed(`{"type":"message_stop"}`), quiet: typed(`{"type":"ping"}`), broken: typed(`{"type":"content_block_delta","ind`),
			inBand: func(typ, message string) string {
				return typed(`{"type":"error","error":{"type":` + quoted(typ) + `,"message":` + quoted(message) + `}}`)
			},
			long: func(n int) string { return "data: " + strings.Repeat("x", n) },
		},
		"ollama-chat": {
			media: "application/x-ndjson",
			event: func(data string) string { return data + "\n" },
			text: func(s string) string {
				return `{"model":"served","message":{"role":"assistant","content":` + quoted(s) + `},"done":false}` + "\n"
			},
			tool: func(id, name, args string) string {
				if !json.Valid([]byte(args)) {
					args = quoted(args) // invalid JSON can only be sent as text
				}
				return `{"model":"served","message":{"role":"assistant","content":"","tool_calls":[{"id":` + quoted(id) + `,"function":{"name":` + quoted(name) + `,"arguments":` + args + `}}]},"done":false}` + "\n"
			},
			finish: func(reason string) string {
				if reason == "refused" {
					reason = "" // the dialect cannot express it
				}
				return `{"model":"served","message":{"role":"assistant","content":""},"done":true,"done_reason":` + quoted(ollamaWord(reason)) + `,"prompt_eval_count":9,"eval_count":3}` + "\n"
			},
			broken: `{"message":{"con` + "\n",
			inBand: func(_, message string) string { return `{"error":` + quoted(message) + "}\n" },
			long:   func(n int) string { return strings.Repeat("x", n) },
		},
	}
}

// says returns a transcript of a stream; each part is sent separately. A part
// such as "!stall" is an action of the server.
func (k talk) says(parts ...string) wiretest.Transcript {
	tr := wiretest.Transcript{Status: http.StatusOK, Header: http.Header{"Content-Type": {k.media}, "X-Request-Id": {"req-7"}}}
	for _, p := range parts {
		switch {
		case p == "":
		case p[0] == '!':
			tr.Steps = append(tr.Steps, wiretest.Step{Do: p[1:]})
		default:
			tr.Steps = append(tr.Steps, wiretest.Step{Send: p})
		}
	}
	return tr
}

// whole returns a complete answer with a text.
func (k talk) whole(text string) wiretest.Transcript {
	return k.says(k.start, k.text(text), k.finish("stop"), k.end)
}

// status returns an answer with an error status.
func status(code int, body string, headers ...string) wiretest.Transcript {
	tr := wiretest.Transcript{Status: code, Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req-7"}}, Steps: []wiretest.Step{{Send: body}}}
	for i := 0; i+1 < len(headers); i += 2 {
		tr.Header.Set(headers[i], headers[i+1])
	}
	return tr
}
