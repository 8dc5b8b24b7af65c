package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// Reasoning models: unsupported fields are omitted, and their limit leaves room
// for the reasoning.
func TestTraits(t *testing.T) {
	k := talks()["openai-chat"]
	const options = `:options {:temperature 0.2 :top-p 0.9 :max-tokens 100 :seed 7}`
	for name, tt := range map[string]struct {
		model       string
		limit       float64
		temperature bool
		effort      any
	}{
		"a model that is not known":       {`{:name "sample" ` + options + `}`, 100, true, nil},
		"a reasoning model":               {`{:name "gpt-5-mini" ` + options + `}`, 2148, false, nil},
		"behind a gateway":                {`{:name "openai/o3-mini" ` + options + `}`, 2148, false, nil},
		"one that does not reason":        {`{:name "gpt-5-chat-latest" ` + options + `}`, 100, true, nil},
		"with an effort":                  {`{:name "gpt-5.1" :options {:temperature 0.2 :max-tokens 100 :reasoning-effort "low"}}`, 2148, false, "low"},
		"without reasoning":               {`{:name "gpt-5.1" :options {:temperature 0.2 :max-tokens 100 :reasoning-effort "none"}}`, 100, true, "none"},
		"with a headroom that is written": {`{:name "gpt-5-mini" :options {:temperature 0.2 :max-tokens 100 :headroom 0}}`, 100, false, nil},
	} {
		r := newRig(t, "openai-chat", tt.model, "", k.whole("Fine."))
		o := r.ask(t.Context(), "model/chat", hello, "", nil)
		require.Nil(t, o.err, name)
		body := r.body()
		_, temperature := body["temperature"]
		assert.Equal(t, tt.temperature, temperature, name)
		assert.Equal(t, tt.limit, body["max_completion_tokens"], name)
		assert.Equal(t, tt.effort, body["reasoning_effort"], name)
		assert.Equal(t, !tt.temperature, o.meta.Key("options/dropped").Len() > 0, "%s: what is left out is said", name)
	}
}

// A parameter that the server rejects is omitted from then on; the attempt that
// found out is one request and reports it.
func TestRefusedParameter(t *testing.T) {
	for name, tt := range map[string]struct{ dialect, body, field string }{
		"named":          {"openai-chat", `{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}`, "temperature"},
		"quoted":         {"openai-chat", `{"error":{"message":"Unsupported parameter: 'top_p' is not supported with this model."}}`, "top_p"},
		"another limit":  {"openai-chat", `{"error":{"message":"Unsupported parameter: 'max_completion_tokens' is not supported.","param":"max_completion_tokens"}}`, "max_completion_tokens"},
		"anthropic":      {"anthropic-messages", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"`temperature` and `top_p` cannot both be specified for this model.\"}}", "temperature"},
		"ollama":         {"ollama-chat", `{"error":"\"sample\" does not support thinking"}`, "think"},
		"within a field": {"openai-responses", `{"error":{"message":"Not supported.","param":"reasoning.effort"}}`, "reasoning"},
		"no reasoning":   {"openai-responses", `{"error":{"message":"Not supported.","param":"include"}}`, "include"},
		"ollama as openai": {
			"openai-chat",
			`{"error":{"message":"\"sample\" does not support thinking","type":"api_error","param":null,"code":null}}`,
			"reasoning_effort",
		},
		"a level that ollama lacks": {
			"openai-chat",
			`{"error":{"message":"think value \"high\" is not supported for this model","type":"api_error","param":null,"code":null}}`,
			"reasoning_effort",
		},
		"a list of faults": {
			"openai-chat",
			`{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":7}]}}`,
			"seed",
		},
		"a repeated value, as older vLLM says": {
			"openai-chat",
			`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), ` +
				`'msg': 'Extra inputs are not permitted', 'input': 100}]","param":null}`,
			"max_completion_tokens",
		},
		"a repeated value, as Fireworks says": {
			"openai-chat", `{"error":{"message":"Extra inputs are not permitted, field: 'seed', value: 7"}}`, "seed",
		},
		"a flat message": {"openai-chat", `{"detail":"Unsupported parameter: seed"}`, "seed"},
	} {
		k := talks()[tt.dialect]
		effort := `:reasoning-effort "high"`
		if tt.dialect == "anthropic-messages" { // which takes a temperature only without reasoning
			effort = ""
		}
		model := `{:price {:input "1" :output "1"} :options {:temperature 0.2 :top-p 0.9 :max-tokens 100 :seed 7 ` + effort + `}}`
		r := newRig(t, tt.dialect, model, "", status(400, tt.body))
		o := r.ask(t.Context(), "model/chat", hello, "", nil)
		require.NotNil(t, o.err, name)
		assert.Equal(t, "provider/error", o.err.Type, "%s: %s", name, o.err)
		assert.Equal(t, "retry", o.err.Class.String(), name)
		assert.Equal(t, ":"+tt.field, o.err.Details.Key("options/refused").String(), name)
		require.Len(t, r.server.Requests(), 1, "%s: one attempt is one request", name)
		assert.Contains(t, r.server.Requests()[0].Body, `"`+tt.field+`"`, name)

		for range 2 {
			r.server.Then(k.whole("Fine."))
			o = r.ask(t.Context(), "model/chat", hello, "", nil)
			require.Nil(t, o.err, name)
			assert.NotContains(t, r.body(), tt.field, name)
			if tt.field == "max_completion_tokens" {
				assert.EqualValues(t, 2148, r.body()["max_tokens"], name)
			} else {
				assert.Positive(t, o.meta.Key("options/dropped").Len(), name)
			}
		}
		r.server.Then(status(400, tt.body))
		o = r.ask(t.Context(), "model/chat", hello, "", nil)
		require.NotNil(t, o.err, name)
		if tt.dialect != "anthropic-messages" { // whose message names two, of which one remains
			assert.Equal(t, "provider/request-invalid", o.err.Type, "%s: it is left out already", name)
		}
	}
}

// LLM-010: a server that does not stream a model is asked for its answers in one piece from then on, and
// nothing of the request is lost.
func TestRefusedStream(t *testing.T) {
	const verify = `{"error":{"message":"Your organization must be verified to stream this model. Please go to: ` +
		`https://platform.openai.com/settings/organization/general and click on Verify Organization.",` +
		`"type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`
	for _, tt := range []struct{ dialect, body string }{
		{"openai-chat", verify},
		{"openai-responses", verify},
		{"openai-chat", `{"error":{"message":"Unsupported parameter: 'stream' is not supported with this model."}}`},
		{"openai-chat", `{"error":{"message":"Unrecognized request argument supplied: stream"}}`},
		{"openai-chat", `{"error":{"message":"The model 'sample' does not support streaming"}}`},
		{"openai-chat", `{"error":{"message":"Streaming is not supported for this model.","code":"unsupported"}}`},
		{"anthropic-messages", `{"type":"error","error":{"type":"invalid_request_error","message":"stream: Extra inputs are not permitted"}}`},
	} {
		whole := habits(tt.dialect)[0]
		r := newRig(t, tt.dialect, `{:price {:input "1" :output "1"} :options {:max-tokens 100}}`, "", status(400, tt.body))
		o := r.says("")
		require.NotNil(t, o.err, tt.body)
		assert.Equal(t, "provider/error", o.err.Type, "%s: %s", tt.body, o.err)
		assert.Equal(t, contract.ClassRetry, o.err.Class, tt.body)
		assert.Equal(t, ":stream", o.err.Details.Key("options/refused").String(), tt.body)
		assert.Equal(t, "true", r.field("stream"), tt.body)
		for range 2 {
			r.server.Then(whole)
			o = r.says("")
			require.Nil(t, o.err, "%s: %v", tt.body, o.err)
			assert.Equal(t, `"Hello."`, o.out.Key("text").String(), tt.body)
			assert.NotEqual(t, "true", r.field("stream"), tt.body)
			assert.Empty(t, r.field("stream_options"), tt.body)
			assert.Equal(t, "nil", dropped(o), tt.body)
		}
		r.server.Then(status(400, tt.body))
		o = r.says("")
		require.NotNil(t, o.err, tt.body)
		assert.Equal(t, "provider/request-invalid", o.err.Type, "%s: it is not requested already", tt.body)
	}
}

// LLM-010: an error of one request that has the word stream does not end the streaming of later ones.
func TestStreamOfRequest(t *testing.T) {
	for _, message := range []string{
		"Unsupported MIME type: application/octet-stream",
		"Unsupported file: photo.stream",
		"cannot decode the image: unexpected end of stream",
		"n > 1 is not supported with streaming",
		"logprobs are not supported with stream = true",
		"This model does not support streaming with tools.",
		"Streaming is not supported with n > 1",
		"tool 'stream' is not supported",
		"unexpected text 'Streaming is not supported for this model.'",
		`unsupported part: {"text":"the model does not support streaming."}`,
	} {
		r := newRig(t, "openai-chat", `{}`, "", status(400, fmt.Sprintf(`{"error":{"message":%q}}`, message)))
		o := r.says("")
		require.NotNil(t, o.err, message)
		assert.Equal(t, "provider/request-invalid", o.err.Type, "%s: %s", message, o.err)
		r.server.Then(habits("openai-chat")[0])
		r.says("")
		assert.Equal(t, "true", r.field("stream"), message)
	}
}

// JDG-001: what a server says of one value changes no request with another value. A value out of range
// is an error of its request, also of the next one; a value that the server does not support is omitted.
func TestRefusedValue(t *testing.T) {
	const mistral = `{"detail":[{"loc":["body","%s"],"msg":"Input should be %s"}]}`
	for name, tt := range map[string]struct {
		field, body, refused, accepted, kept string // values of :budget or :reasoning
		omitted                              bool
	}{
		"above the range, as Mistral says": {
			"temperature", fmt.Sprintf(mistral, "temperature", "less than or equal to 1.5"),
			`:budget {:temperature 1.8}`, `:budget {:temperature 0.0}`, `0`, false,
		},
		"above the range, as OpenAI says": {
			"temperature", `{"error":{"message":"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but ` +
				`got 1.8 instead.","param":"temperature","code":"decimal_above_max_value"}}`,
			`:budget {:temperature 1.8}`, `:budget {:temperature 0.0}`, `0`, false,
		},
		"above the range, as Google says": {
			"temperature", `{"error":{"message":"temperature has the value 1.8, but the supported range is from 0 to 1.5"}}`,
			`:budget {:temperature 1.8}`, `:budget {:temperature 0.0}`, `0`, false,
		},
		"a limit above that of the model": {
			"max_completion_tokens", `{"error":{"message":"max_tokens is too large: 50000. This model supports at most 16384 ` +
				`completion tokens, whereas you provided 50000.","param":"max_completion_tokens","code":"invalid_value"}}`,
			`:budget {:max-tokens 50000}`, `:budget {:max-tokens 100}`, `100`, false,
		},
		"a limit that is no number of tokens": {
			"max_completion_tokens", `{"error":{"message":"Unsupported value.","param":"max_completion_tokens"}}`,
			`:budget {:max-tokens 50000}`, `:budget {:max-tokens 100}`, `100`, false,
		},
		"not a reason": {
			"seed", `{"error":{"message":"Invalid request.","param":"seed"}}`, `:seed 8`, `:seed 9`, `9`, false,
		},
		"an effort that the model lacks": {
			"reasoning_effort", `{"error":{"message":"Unsupported value: 'reasoning_effort' does not support 'minimal' with this ` +
				`model. Supported values are: 'low', 'medium', and 'high'.","param":"reasoning_effort","code":"unsupported_value"}}`,
			`:reasoning :minimal`, `:reasoning :high`, `"high"`, true,
		},
		"an effort that is not of the list": {
			"reasoning_effort", "{\"error\":{\"message\":\"`reasoning_effort` must be one of `low` or `high`\"}}",
			`:reasoning :minimal`, `:reasoning :high`, `"high"`, true,
		},
		"an effort that is only repeated": {
			"reasoning_effort", `{"error":{"message":"'minimal' is not supported.","param":"reasoning_effort"}}`,
			`:reasoning :minimal`, `:reasoning :high`, `"high"`, true,
		},
	} {
		r := newRig(t, "openai-chat", `{:price {:input "1" :output "1"}}`, "", status(400, tt.body))
		says := func(option string) outcome {
			if strings.HasPrefix(option, ":budget") {
				return r.ask(t.Context(), "model/chat", hello, "{"+option+"}", nil)
			}
			return r.says(option)
		}
		o := says(tt.refused)
		require.NotNil(t, o.err, name)
		require.NotEmpty(t, r.field(tt.field), name)
		want := map[bool]string{false: "provider/request-invalid", true: "provider/error"}[tt.omitted]
		assert.Equal(t, want, o.err.Type, "%s: %s", name, o.err)
		assert.Equal(t, tt.omitted, !o.err.Details.Key("options/refused").IsNil(), name)

		for option, value := range map[string]string{tt.accepted: tt.kept, tt.refused: ""} {
			r.server.Then(talks()["openai-chat"].whole("Fine."))
			o = says(option)
			require.Nil(t, o.err, "%s: %s", name, option)
			omits := value == "" && tt.omitted
			assert.Equal(t, omits, o.meta.Key("options/dropped").Len() > 0, "%s: %s", name, option)
			if assert.Equal(t, omits, r.field(tt.field) == "", "%s: %s", name, option); value != "" {
				assert.Equal(t, value, r.field(tt.field), name)
			}
		}
	}
}

// Of calls that were sent before the first answer about a field, each is repeated without the field.
func TestRefusedAtOnce(t *testing.T) {
	const calls = 3
	answered := make(chan struct{})
	refusal := status(400, `{"error":{"message":"Unsupported parameter.","param":"temperature","code":"unsupported_parameter"}}`)
	refusal.Steps = append([]wiretest.Step{{Until: answered}}, refusal.Steps...)
	r := newRig(t, "openai-chat", `{:price {:input "1" :output "1"} :options {:temperature 0.2}}`, "", refusal)
	ended := make(chan outcome, calls)
	for range calls {
		arrived := r.server.Arrived()
		go func() { ended <- r.says("") }()
		<-arrived
	}
	close(answered)
	for range calls {
		o := <-ended
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/error", o.err.Type, o.err)
		assert.Equal(t, contract.ClassRetry, o.err.Class)
		assert.Equal(t, ":temperature", o.err.Details.Key("options/refused").String())
	}
	r.server.Then(talks()["openai-chat"].whole("Fine."))
	require.Nil(t, r.says("").err)
	assert.Empty(t, r.field("temperature"))
}

// ENV-016: a limit of no tokens allows no answer, so nothing is sent.
func TestLimitOfNoTokens(t *testing.T) {
	r := newRig(t, "openai-chat", "", "")
	r.unsent(r.ask(t.Context(), "model/chat", hello, "{:budget {:max-tokens 0}}", nil), "input/invalid", "no tokens")
}

// A server that rejects both names of the limit gets the first one again: it has none that is accepted.
func TestRefusedLimits(t *testing.T) {
	const body = `{"error":{"message":"Unsupported parameter.","param":"%s"}}`
	k := talks()["openai-chat"]
	r := newRig(t, "openai-chat", `{:price {:input "1" :output "1"} :options {:max-tokens 100}}`, "")
	for _, tt := range []struct{ field, typ string }{
		{"max_completion_tokens", "provider/error"}, {"max_tokens", "provider/request-invalid"},
	} {
		r.server.Then(status(400, fmt.Sprintf(body, tt.field)))
		o := r.says("")
		require.NotNil(t, o.err, tt.field)
		assert.Equal(t, tt.typ, o.err.Type)
		assert.Equal(t, "100", r.field(tt.field))
	}
	r.server.Then(k.whole("Fine."))
	require.Nil(t, r.says("").err)
	assert.Equal(t, "100", r.field("max_completion_tokens"))
}

// The reasoning effort goes into the fields of the dialect and model.
// Combinations that they do not support are dropped and reported.
func TestReasoningOption(t *testing.T) {
	const anthropic, openAI, ollama, responses = "anthropic-messages", "openai-chat", "ollama-chat", "openai-responses"
	adaptive := `{"type":"adaptive"}`
	for _, tt := range []struct{ dialect, name, fields, field, want, dropped string }{
		{openAI, "sample", `:reasoning :low`, "reasoning_effort", `"low"`, "nil"},
		{openAI, "sample", `:reasoning {:budget-tokens 2048}`, "reasoning_effort", "", ":reasoning-budget"},
		{responses, "sample", `:reasoning :xhigh`, "reasoning", `{"effort":"xhigh"}`, "nil"},
		{responses, "sample", `:reasoning {:budget-tokens 2048}`, "reasoning", "", ":reasoning-budget"},
		{responses, "sample", ``, "include", `["reasoning.encrypted_content"]`, "nil"},
		{responses, "gpt-4o-mini", ``, "include", "", "nil"},
		{ollama, "sample", `:reasoning "high"`, "think", `"high"`, "nil"},
		{ollama, "sample", `:reasoning :none`, "think", `false`, "nil"},
		{ollama, "sample", `:reasoning {:budget-tokens 2048}`, "think", "", ":reasoning-budget"},
		{anthropic, "sample", `:reasoning :high`, "thinking", adaptive, ":temperature"},
		{anthropic, "sample", `:reasoning :high`, "output_config", `{"effort":"high"}`, ":temperature"},
		{anthropic, "sample", `:reasoning :minimal`, "output_config", "", ":reasoning-effort"},
		{anthropic, "sample", `:reasoning :none`, "thinking", `{"type":"disabled"}`, "nil"},
		{anthropic, "sample", `:reasoning {:budget-tokens 2048}`, "thinking", `{"budget_tokens":2048,"type":"enabled"}`, ":temperature"},
		{anthropic, "sample", `:reasoning {:budget-tokens 2048}`, "max_tokens", `2148`, ":temperature"},
		{anthropic, "sample", `:reasoning {:budget-tokens 10}`, "thinking", "", ":reasoning-budget"},
		{anthropic, "sample", `:reasoning :high :tool-choice :required`, "output_config", `{"effort":"high"}`, "nil"},
		{anthropic, "sample", `:reasoning :high :tool-choice :required`, "thinking", "", "nil"},
		{anthropic, "sample", `:reasoning {:budget-tokens 2048} :tool-choice :required`, "thinking", "", ":reasoning-budget"},
		{anthropic, "claude-haiku-4-5", `:reasoning :high`, "output_config", "", ":reasoning-effort"},
		{anthropic, "claude-haiku-4-5", `:reasoning {:budget-tokens 2048}`, "thinking", `{"budget_tokens":2048,"type":"enabled"}`, ":temperature"},
		{anthropic, "claude-opus-4-5", `:reasoning :low`, "thinking", "", "nil"},
		{anthropic, "claude-opus-4-5", `:reasoning :low`, "output_config", `{"effort":"low"}`, "nil"},
		{anthropic, "claude-sonnet-5", `:reasoning {:budget-tokens 2048}`, "thinking", "", ":reasoning-budget :temperature"},
		{anthropic, "claude-opus-5-5", `:reasoning :none`, "thinking", "", ":reasoning-effort :temperature"},
	} {
		about := tt.dialect + " " + tt.name + " " + tt.fields
		k := talks()[tt.dialect]
		answer := k.whole("Fine.")
		if strings.Contains(tt.fields, ":required") {
			answer = k.says(k.start, k.tool("t1", "fs__list", "{}"), k.finish("tool"), k.end)
		}
		r := newRig(t, tt.dialect, `{:name "`+tt.name+`" :options {:temperature 0.2 :max-tokens 100}}`, "", answer)
		o := r.says(twoTools + tt.fields)
		require.Nil(t, o.err, "%s: %v", about, o.err)
		assert.Equal(t, tt.want, r.field(tt.field), about)
		assert.Equal(t, tt.dropped, dropped(o), about)
	}
	r := newRig(t, anthropic, `{:name "claude-opus-5-5"}`, "")
	r.unsayable(r.ask(t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] `+twoTools+` :tool-choice :required}`, "", nil),
		"a model that takes no demand")
	for _, bad := range []string{
		":much", "7", "{}", "{:budget-tokens 0}", "{:budget-tokens 5 :effort :low}", "{:budget-tokens 99999999}",
	} {
		r := newRig(t, anthropic, "", "")
		r.unsent(r.ask(t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] :reasoning `+bad+`}`, "", nil), "input/invalid", bad)
	}
}

// LM-008, LLM-023: a request with a limit leaves room for the reasoning that it asks for, and for no more: an
// effort or a budget that is not sent does not raise the limit of the answer.
func TestRoomForReasoning(t *testing.T) {
	const anthropic, openAI, ollama, responses = "anthropic-messages", "openai-chat", "ollama-chat", "openai-responses"
	for _, tt := range []struct {
		dialect, name, options, fields string
		room                           int
	}{
		{openAI, "sample", "", `:reasoning {:budget-tokens 30000}`, 0},
		{responses, "sample", "", `:reasoning {:budget-tokens 30000}`, 0},
		{ollama, "sample", "", `:reasoning {:budget-tokens 30000}`, 0},
		{openAI, "gpt-5-mini", "", `:reasoning {:budget-tokens 30000}`, 2048},
		{anthropic, "sample", "", `:reasoning {:budget-tokens 30000}`, 30000},
		{anthropic, "sample", "", `:reasoning {:budget-tokens 500}`, 0},
		{anthropic, "claude-sonnet-5", "", `:reasoning {:budget-tokens 30000}`, 0},
		{anthropic, "claude-opus-4-6", "", ``, 0},
		{anthropic, "claude-opus-4-6", "", `:reasoning :high`, 2048},
		{anthropic, "claude-opus-4-6", ":headroom 100", `:reasoning :high`, 100},
		{anthropic, "claude-opus-4-6", ":headroom 0", `:reasoning :high`, 0},
		{anthropic, "claude-opus-4-6", `:reasoning-effort "high"`, ``, 2048},
		{anthropic, "claude-opus-4-6", "", `:reasoning :none`, 0},
		{anthropic, "claude-opus-4-5", "", `:reasoning :high`, 0}, // an effort without thinking
		{anthropic, "claude-haiku-4-5", "", `:reasoning :high`, 0},
		{openAI, "sample", "", `:reasoning :low`, 2048},
		{openAI, "sample", "", `:reasoning :none`, 0},
		{responses, "sample", "", `:reasoning :low`, 2048},
		{ollama, "sample", "", `:reasoning :low`, 2048},
		{ollama, "sample", "", `:reasoning :none`, 0},
	} {
		about := fmt.Sprint(tt)
		k := talks()[tt.dialect]
		r := newRig(t, tt.dialect, `{:name "`+tt.name+`" :options {:max-tokens 100 `+tt.options+`}}`, "", k.whole("Fine."))
		o := r.says(tt.fields)
		require.Nil(t, o.err, "%s: %v", about, o.err)
		room, _ := o.meta.Key("tokens/headroom").AsInt()
		assert.EqualValues(t, tt.room, room, about)
		limits := r.field("max_completion_tokens") + r.field("max_tokens") + r.field("max_output_tokens")
		if tt.dialect == ollama {
			limits = fmt.Sprint(r.body()["options"].(map[string]any)["num_predict"])
		}
		assert.Equal(t, fmt.Sprint(100+tt.room), limits, about)
	}
	r := newRig(t, openAI, `{:price {:input "1" :output "1"} :options {:max-tokens 100}}`, "",
		status(400, `{"error":{"message":"Unsupported parameter: 'reasoning_effort' is not supported."}}`))
	require.NotNil(t, r.says(`:reasoning :low`).err)
	assert.Equal(t, "2148", r.field("max_completion_tokens"))
	r.server.Then(talks()[openAI].whole("Fine."))
	require.Nil(t, r.says(`:reasoning :low`).err)
	assert.Equal(t, "100", r.field("max_completion_tokens"), "the server has no effort")
}

// LM-008: the reasoning of an answer is returned as parts and sent back
// unchanged: the request after the result of the tool holds the same blocks and
// signatures.
func TestReasoningIsGivenBack(t *testing.T) {
	const question = `{:role :user :content "Read a.go."}`
	for _, tt := range []struct{ dialect, name, parts, want string }{
		{
			"anthropic-messages", "thinking-tool-call",
			`[:thinking :redacted-thinking :text :thinking :tool-call]`,
			`{"role":"assistant","content":[{"signature":"c2ln+/=","thinking":"Which file? a.go <b> & \u2028","type":"thinking"},{"data":"ZGF0YQ==","type":"redacted_thinking"},` +
				`{"text":"Reading.","type":"text"},{"signature":"c2lnMg==","thinking":" it is.","type":"thinking"},` +
				`{"id":"toolu_a","input":{"path":"a.go"},"name":"fs__read","type":"tool_use"}]}`,
		},
		{
			"openai-chat", "reasoning-tool-call", `[:thinking :tool-call]`,
			`{"content":null,"reasoning_content":"Which file? a.go.","role":"assistant",` +
				`"tool_calls":[{"function":{"arguments":"{\"path\":\"a.go\"}","name":"fs__read"},"id":"call_a","type":"function"}]}`,
		},
		{
			"openai-responses", "reasoning-tool-call", `[:thinking :text :thinking :tool-call]`,
			`{"id":"rs_1","type":"reasoning","encrypted_content":"c2VhbA+/=","summary":[{"type":"summary_text",` +
				`"text":"Which file? a.go <b> & ` + "\u2028" + `"}]},{"content":"Reading.","phase":"commentary","role":"assistant"},` +
				`{"id":"rs_3","type":"reasoning","encrypted_content":"c2Vjb25k","summary":[]},` +
				`{"arguments":"{\"path\":\"a.go\"}","call_id":"call_a","name":"fs__read","type":"function_call"},`,
		},
		{
			"ollama-chat", "thinking-tool-call", `[:thinking :tool-call]`,
			`{"content":"","role":"assistant","thinking":"Which file? a.go.","tool_calls":[{"function":{"arguments":{"path":"a.go"},"name":"fs__read"}}]}`,
		},
	} {
		var first wiretest.Transcript
		for _, tr := range wiretest.Load(t, "../internal/provider/testdata/wire", tt.dialect) {
			if tr.Name == tt.name {
				first = tr
			}
		}
		r := newRig(t, tt.dialect, `{:options {:reasoning-effort "low"}}`, "", first)
		o := r.ask(t.Context(), "model/chat", `{:messages [`+question+`] `+twoTools+`}`, "", nil)
		require.Nil(t, o.err, "%s: %v", tt.dialect, o.err)
		assert.NotContains(t, o.out.Key("text").String(), "Which", "%s: reasoning is no text", tt.dialect)
		assert.Equal(t, first.Want.Reasoning, o.reasoning, tt.dialect)
		var kinds []edn.Value
		for p := range o.out.Key("parts").Elems() {
			kinds = append(kinds, p.Key("type"))
		}
		assert.Equal(t, tt.parts, edn.Vector(kinds...).String(), tt.dialect)

		turn := edn.MustMap(edn.K("role"), edn.K("assistant"),
			edn.K("content"), o.out.Key("parts"), edn.K("tool/calls"), o.out.Key("tool/calls"))
		id, _ := firstOf(o.out.Key("tool/calls")).Key("id").AsString()
		result := `{:role :tool :tool/id "` + id + `" :content "package a"}`
		again := `{:messages [` + question + turn.String() + result + `] ` + twoTools + `}`
		r.server.Then(talks()[tt.dialect].whole("It is a package."))
		o = r.ask(t.Context(), "model/chat", again, "", nil)
		require.Nil(t, o.err, "%s: %v", tt.dialect, o.err)
		all := r.server.Requests()
		assert.Contains(t, all[len(all)-1].Body, tt.want, tt.dialect)
		assert.True(t, o.meta.Key("options/dropped").IsNil(), tt.dialect)
		assert.False(t, o.out.HasKey("parts"), "%s: an answer that does not reason has no parts", tt.dialect)

		for _, other := range dialects() { // for another model it is removed from the conversation
			r := newRig(t, other, `{:name "other"}`, "", talks()[other].whole("It is a package."))
			o := r.ask(t.Context(), "model/chat", again, "", nil)
			require.Nil(t, o.err, "%s after %s: %v", other, tt.dialect, o.err)
			messages := r.field("messages") + r.field("input")
			assert.NotContains(t, messages, "Which", "%s after %s", other, tt.dialect)
			assert.NotContains(t, messages, "ZGF0YQ", "%s after %s", other, tt.dialect)
			assert.Contains(t, messages, "fs__read", "%s after %s", other, tt.dialect)
			assert.Contains(t, dropped(o), ":reasoning", "%s after %s", other, tt.dialect)
		}
	}
}

// LM-008: opaque data of calls and messages goes back unchanged through a loop of
// tool calls, to the model that sent it.
func TestOpaqueDataIsGivenBack(t *testing.T) {
	const question = `{:role :user :content "Read a.go."}`
	chunk := func(delta string) string {
		return `data: {"id":"c","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
	}
	call := func(id, more string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"fs__read","arguments":"{\"path\":\"a.go\"}"}` + more + `}`
	}
	k := talks()["openai-chat"]
	for preset, tt := range map[string]struct {
		says []string
		want string
	}{
		"gemini": {
			[]string{
				chunk(`{"content":"Reading."}`),
				chunk(`{"tool_calls":[` + call("t1", `,"extra_content":{"google":{"thought_signature":"c2ln+/="}}`) + `]}`),
				chunk(`{"tool_calls":[` + call("t2", "") + `]}`),
			},
			`"tool_calls":[{"extra_content":{"google":{"thought_signature":"c2ln+/="}},` +
				`"function":{"arguments":"{\"path\":\"a.go\"}","name":"fs__read"},"id":"t1","type":"function"},` +
				`{"function":{"arguments":"{\"path\":\"a.go\"}","name":"fs__read"},"id":"t2","type":"function"}]}`,
		},
		"mistral": {
			[]string{
				chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Which "}]}]}`),
				chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"file?"}]}]}`),
				chunk(`{"content":[{"type":"text","text":"Reading."}]}`),
				chunk(`{"tool_calls":[` + call("t1", "") + `]}`),
			},
			`{"content":[{"thinking":[{"text":"Which file?","type":"text"}],"type":"thinking"},` +
				`{"text":"Reading.","type":"text"}],"role":"assistant","tool_calls":[`,
		},
		"openrouter": {
			[]string{
				chunk(`{"reasoning":"Which ","reasoning_details":[{"type":"reasoning.text","text":"Which ","index":0}]}`),
				chunk(`{"reasoning":"file?","reasoning_details":[{"type":"reasoning.text","text":"file?","index":0,"signature":null}]}`),
				chunk(`{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"c2ln"}]}`),
				chunk(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"ZGF0YQ==","index":1}]}`),
				chunk(`{"tool_calls":[` + call("t1", "") + `]}`),
			},
			`{"content":null,"reasoning_details":[{"index":0,"signature":"c2ln","text":"Which file?","type":"reasoning.text"},` +
				`{"data":"ZGF0YQ==","index":1,"type":"reasoning.encrypted"}],"role":"assistant","tool_calls":[`,
		},
	} {
		r := &rig{t: t, server: wiretest.Serve(t), clock: wiretest.NewClock(), id: preset + "/voice"}
		config := edn.MustRead(`{:model {"voice" {:name "sample" :intents ["model/chat"]}}}`).
			AssocKey("provider", edn.Text(preset)).AssocKey("base-url", edn.Text(r.server.URL))
		r.Plugin = sdktest.Serve(t, newPlugin(r.clock), sdktest.WithConfig(config),
			sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
		r.server.Then(k.says(slices.Concat([]string{k.start}, tt.says, []string{k.finish("tool"), k.end})...))
		o := r.ask(t.Context(), "model/chat", `{:messages [`+question+`] `+twoTools+`}`, "", nil)
		require.Nil(t, o.err, "%s: %v", preset, o.err)
		turn := edn.MustMap(edn.K("role"), edn.K("assistant"),
			edn.K("content"), o.out.Key("parts"), edn.K("tool/calls"), o.out.Key("tool/calls"))
		results := ""
		for c := range o.out.Key("tool/calls").Elems() {
			results += `{:role :tool :tool/id ` + c.Key("id").String() + ` :content "package a"}`
		}
		again := `{:messages [` + question + turn.String() + results + `] ` + twoTools + `}`
		r.server.Then(k.whole("It is a package."))
		o = r.ask(t.Context(), "model/chat", again, "", nil)
		require.Nil(t, o.err, "%s: %v", preset, o.err)
		all := r.server.Requests()
		assert.Contains(t, all[len(all)-1].Body, tt.want, preset)
		assert.NotContains(t, all[len(all)-1].Body, `"reasoning":`, "%s: the details contain it", preset)
		assert.True(t, o.meta.Key("options/dropped").IsNil(), preset)

		for _, other := range dialects() {
			r := newRig(t, other, `{:name "other"}`, "", talks()[other].whole("It is a package."))
			o := r.ask(t.Context(), "model/chat", again, "", nil)
			require.Nil(t, o.err, "%s after %s: %v", other, preset, o.err)
			messages := r.field("messages") + r.field("input")
			assert.NotContains(t, messages, "c2ln", "%s after %s", other, preset)
			assert.Contains(t, dropped(o), ":reasoning", "%s after %s", other, preset)
		}
	}
}

// LM-008: reasoning in a form that does not go back is shown and not returned as a
// part, which the next turn would have to drop.
func TestReasoningThatIsOnlyShown(t *testing.T) {
	k := talks()["openai-chat"]
	for _, part := range []string{
		`{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}`,
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}`,
	} {
		r := newRig(t, "openai-chat", `{:strict-options true}`, `{:preset "generic"}`, k.says(k.start,
			k.event(`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":[`+part+`]}}]}`),
			k.text("Fine."), k.finish("stop"), k.end))
		o := r.ask(t.Context(), "model/chat", hello, "", nil)
		require.Nil(t, o.err, "%v", o.err)
		assert.Equal(t, []string{"Hm.", "Fine."}, []string{o.reasoning, o.text})
		assert.False(t, o.out.HasKey("parts"), part)
	}
}

// LM-008: the phase of a text is sent back with it, even if the answer has no
// reasoning.
func TestPhaseIsGivenBack(t *testing.T) {
	for _, tr := range wiretest.Load(t, "../internal/provider/testdata/wire", "openai-responses") {
		if tr.Name != "tool-calls-interleaved" {
			continue
		}
		r := newRig(t, "openai-responses", "", "", tr)
		o := r.ask(t.Context(), "model/chat", withTools, "", nil)
		require.Nil(t, o.err)
		first := firstOf(o.out.Key("parts"))
		assert.Equal(t, `{:field "commentary" :text "Reading." :type :text}`, first.String())
		assert.Equal(t, 3, o.out.Key("parts").Len())
		r.server.Then(talks()["openai-responses"].whole("Fine."))
		turn := edn.MustMap(edn.K("role"), edn.K("assistant"), edn.K("content"), o.out.Key("parts"),
			edn.K("tool/calls"), o.out.Key("tool/calls"))
		again := `{:messages [{:role :user :content "Read."}` + turn.String() + `] ` + twoTools + `}`
		o = r.ask(t.Context(), "model/chat", again, "", nil)
		require.Nil(t, o.err, "%v", o.err)
		assert.Contains(t, r.field("input"), `{"content":"Reading.","phase":"commentary","role":"assistant"}`)
	}
	r := newRig(t, "openai-responses", "", "")
	bad := `{:messages [{:role :assistant :content [{:type :text :text "x" :field 1}]}]}`
	r.unsent(r.ask(t.Context(), "model/chat", bad, "", nil), "input/invalid", "a phase that is not a text")
}

// LM-008: the text of an answer, and its value, is that of the final answer alone: commentary
// is streamed as reasoning and stays in :parts.
func TestCommentaryIsNoAnswer(t *testing.T) {
	message := func(phase, text string) string {
		if phase != "" {
			phase = `"phase":` + quoted(phase) + `,`
		}
		return `{"type":"message","role":"assistant",` + phase + `"content":[{"type":"output_text","text":` + quoted(text) + `}]}`
	}
	for name, row := range map[string]struct {
		input           string
		items           []string
		text, reasoning string
		parts           int
	}{
		"both": {
			hello, []string{message("commentary", "I will add."), message("final_answer", "4")},
			"4", "I will add.", 2,
		},
		"a value": {
			withSchema, []string{message("commentary", `{"score":1}`), message("final_answer", `{"score":2}`)},
			`{"score":2}`, `{"score":1}`, 2,
		},
		"two of each": {
			hello, []string{message("commentary", "a"), message("commentary", "b"), message("final_answer", "c"), message("final_answer", "d")},
			"cd", "a\n\nb", 4,
		},
		"no phase":         {hello, []string{message("", "a"), message("", "b")}, "ab", "", 0},
		"commentary alone": {hello, []string{message("commentary", "I will add.")}, "", "I will add.", 0},
	} {
		body := `"id":"r-1","object":"response","status":"completed","model":"served","output":[` +
			strings.Join(row.items, ",") + `],"usage":{"input_tokens":9,"output_tokens":3}`
		events := make([]string, 0, len(row.items)+1)
		for i, item := range row.items {
			events = append(events, typed(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item)))
		}
		events = append(events, typed(`{"type":"response.completed","response":{`+body+`}}`))
		for form, tr := range map[string]wiretest.Transcript{
			"stream": talks()["openai-responses"].says(events...),
			"whole":  status(200, `{`+body+`}`),
		} {
			t.Run(name+" "+form, func(t *testing.T) {
				o := newRig(t, "openai-responses", "", "", tr).ask(t.Context(), "model/chat", row.input, "", nil)
				assert.Equal(t, row.text, o.text)
				assert.Equal(t, row.reasoning, o.reasoning)
				if row.text == "" {
					require.NotNil(t, o.err)
					assert.Equal(t, "provider/empty", o.err.Type)
					return
				}
				require.Nil(t, o.err)
				text, _ := o.out.Key("text").AsString()
				assert.Equal(t, row.text, text)
				assert.Equal(t, row.parts, o.out.Key("parts").Len())
			})
		}
	}
}

// Reasoning options that a dialect lacks are dropped and reported; a budget is
// omitted if the previous call came without reasoning.
func TestReasoningOfAnotherForm(t *testing.T) {
	turn := func(part string) string {
		return `{:messages [{:role :user :content "Hi."} {:role :assistant :content [` + part + `] :tool/calls [{:id "t" :tool/id :fs/list :args {}}]}
		  {:role :tool :tool/id "t" :content "x"}] ` + twoTools + ` :reasoning {:budget-tokens 2048}}`
	}
	const responses = "openai-responses"
	for part, lost := range map[string][]string{
		`{:type :thinking :text "Hm."}`:                {"anthropic-messages", responses},
		`{:type :thinking :text "Hm." :signature "s"}`: {responses, "openai-chat", "ollama-chat"},
		`{:type :thinking :text "Hm." :signature "{\"type\":\"reasoning\"}"}`: {
			"openai-chat", "anthropic-messages", "ollama-chat",
		},
		`{:type :redacted-thinking :data "d"}`:                 {responses, "openai-chat", "ollama-chat"},
		`{:type :thinking :text "Hm." :field "other"}`:         {responses, "anthropic-messages", "openai-chat", "ollama-chat"},
		`{:type :thinking :text "Hm." :field "content"}`:       {responses, "anthropic-messages", "openai-chat", "ollama-chat"},
		`{:type :text :text "Hm."} {:type :tool-call :id "t"}`: {},
	} {
		for _, dialect := range dialects() {
			r := newRig(t, dialect, "", "", talks()[dialect].whole("Fine."))
			o := r.ask(t.Context(), "model/chat", turn(part), "", nil)
			require.Nil(t, o.err, "%s %s: %v", dialect, part, o.err)
			said := slices.Contains(strings.Fields(dropped(o)), ":reasoning")
			assert.Equal(t, slices.Contains(lost, dialect), said, "%s %s: %s", dialect, part, dropped(o))
			if dialect == "anthropic-messages" {
				sealed := !said && (strings.Contains(part, "signature") || strings.Contains(part, "redacted"))
				assert.Equal(t, sealed, r.field("thinking") != "", "%s: %s", part, dropped(o))
			}
		}
	}
	for _, bad := range []string{
		`{:role :user :content [{:type :thinking :text "x"}]}`, `{:role :assistant :content [{:type :thinking}]}`,
		`{:role :assistant :content [{:type :redacted-thinking}]}`,
		`{:role :assistant :content [{:type :thinking :text "x" :signature 1}]}`,
		`{:role :assistant :content [{:type :text :text "x"} {:type :tool-call :id "t9"}]}`,
	} {
		r := newRig(t, "anthropic-messages", "", "")
		r.unsent(r.ask(t.Context(), "model/chat", `{:messages [`+bad+`]}`, "", nil), "input/invalid", bad)
	}
}

// LLM-024, LLM-055: an answer used up by reasoning is empty, reports the cause,
// and is not requested again unchanged, also with a schema or tools.
func TestEmptyByLength(t *testing.T) {
	for _, dialect := range dialects() {
		for _, input := range []string{hello, withTools, withSchema} {
			k := talks()[dialect]
			r := newRig(t, dialect, `{:options {:max-tokens 50}}`, "", k.says(k.start, k.finish("length"), k.end))
			var requests []string
			for range 3 {
				o := r.ask(t.Context(), "model/chat", input, "", nil)
				require.NotNil(t, o.err)
				assert.Equal(t, "provider/empty", o.err.Type)
				assert.Equal(t, ":length", o.err.Details.Key("finish").String())
				all := r.server.Requests()
				assert.NotContains(t, requests, all[len(all)-1].Body, "%s: not the same again", dialect)
				assert.Equal(t, contract.ClassRetry, o.err.Class, dialect)
				requests = append(requests, all[len(all)-1].Body)
			}
		}
	}
}

// LLM-024: after an answer with a schema that was cut behind its reasoning the next
// request leaves more room; after one without reasoning it does not.
func TestCutAfterReasoning(t *testing.T) {
	for dialect, thought := range map[string]string{
		"openai-chat": `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
		"ollama-chat": `{"model":"served","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`,
	} {
		for _, thinks := range []bool{true, false} {
			k := talks()[dialect]
			events := []string{k.start, k.text(`{"score`), k.finish("length"), k.end}
			if thinks {
				events = slices.Insert(events, 1, k.event(thought))
			}
			r := newRig(t, dialect, `{:options {:max-tokens 50}}`, "", k.says(events...))
			for range 2 {
				o := r.ask(t.Context(), "model/chat", withSchema, "", nil)
				require.NotNil(t, o.err)
				assert.Equal(t, "provider/output-truncated", o.err.Type)
			}
			all := r.server.Requests()
			assert.Equal(t, thinks, all[len(all)-2].Body != all[len(all)-1].Body, dialect)
		}
	}
}

// LLM-055: an answer used up by reasoning has the class switch if the next
// request would be the same: it has no limit that could be raised, or as much
// room as a request may have.
func TestEmptyWithoutMoreRoom(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		for _, model := range []string{
			`{}`, `{:options {:max-tokens 50 :headroom 16384}}`, `{:options {:max-tokens 50 :headroom 50000}}`,
		} {
			r := newRig(t, dialect, model, "", k.says(k.start, k.finish("length"), k.end))
			o := r.ask(t.Context(), "model/chat", hello, "", nil)
			require.NotNil(t, o.err)
			assert.Equal(t, "provider/empty", o.err.Type)
			assert.Equal(t, contract.ClassSwitch, o.err.Class, "%s %s", dialect, model)
		}
	}
}

// A server that states both numbers is trusted; Ollama is asked not to cut.
func TestContextIsNotCutInSilence(t *testing.T) {
	r := newRig(t, "ollama-chat", "", "", talks()["ollama-chat"].whole("Fine."))
	require.Nil(t, r.ask(t.Context(), "model/chat", hello, "", nil).err)
	assert.Equal(t, []any{false, false}, []any{r.body()["truncate"], r.body()["shift"]})

	for dialect, body := range map[string]string{
		"openai-chat": `{"error":{"code":400,"message":"the request exceeds the available context size",` +
			`"type":"exceed_context_size_error","n_prompt_tokens":4476,"n_ctx":4096}}`,
		"anthropic-messages": `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 4476 tokens > 4096 maximum"}}`,
	} {
		r = newRig(t, dialect, "", "", status(400, body))
		o := r.ask(t.Context(), "model/chat", hello, "", nil)
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/context-exceeded", o.err.Type)
		assert.Equal(t, "4476 4096", o.err.Details.Key("tokens-in").String()+" "+o.err.Details.Key("context-tokens").String())
	}
}

// LLM-020, row 5: an answer to a part of the prompt is an error with both numbers,
// if that is certain: the window is too short, or the stated tokens are what a cut
// leaves. A good answer stays whatever its server states: some state no tokens, leave
// out cached ones, or do not read the reasoning of earlier turns.
func TestPromptReadInPart(t *testing.T) {
	const words, exceeded = "many words here ", "provider/context-exceeded"
	user := func(text string) string { return `{:role :user :content "` + text + `"}` }
	thinks := func(model string) string {
		return `{:role :assistant :content [{:type :thinking :model "` + model + `" :text "` + strings.Repeat(words, 2000) +
			`"} {:type :text :text "Fine."}]}`
	}
	long := user(strings.Repeat(words, 2000)) // 6,000 words, 10,675 tokens by its length
	conversation := user(strings.Repeat(words, 1000)) + `{:role :assistant :content "Fine."}` + user("And?")
	between := user(strings.Repeat("manywords ", 1500)) // 1,500 words, 5,008 tokens by its length
	for name, tt := range map[string]struct {
		messages string
		stated   int
		window   int // of the model, once it is loaded; 0: unknown
		failure  string
		doubted  bool
	}{
		"as many as a window":             {long, 2048, 0, exceeded, false},
		"half of a window":                {long, 2050, 0, exceeded, false},
		"fewer than the window":           {long, 1800, 2048, exceeded, false},
		"all of the window":               {between, 4096, 4096, exceeded, false},
		"half of the window":              {between, 2050, 4096, exceeded, false},
		"as many as another window":       {between, 2048, 8192, "", false},
		"none":                            {long, 0, 0, "", false},
		"without the cached ones":         {conversation, 40, 0, "", true},
		"without the cached ones, fits":   {conversation, 40, 8192, "", false},
		"without reasoning":               {user("Hi.") + thinks("sample") + user("And?"), 20, 0, "", false},
		"without foreign reasoning":       {user("Hi.") + thinks("other") + user("And?"), 20, 0, "", false},
		"one token for many letters":      {user(strings.Repeat("manywordshere", 1000)), 9, 0, "", false},
		"few for a prompt that fits":      {user(strings.Repeat(words, 600)), 9, 0, "", false},
		"more than half of a long prompt": {long, 3001, 0, "", false},
	} {
		for _, dialect := range append(dialects(), "generic") {
			preset := ""
			switch {
			case dialect == "generic":
				dialect, preset = "openai-chat", `{:preset "generic"}`
			case tt.window > 0 && dialect != "ollama-chat":
				continue // the server has no address for it
			}
			k := talks()[dialect]
			tr := k.whole("Fine.")
			for i := range tr.Steps {
				for _, field := range []string{"prompt_tokens", "input_tokens", "prompt_eval_count"} {
					tr.Steps[i].Send = strings.Replace(tr.Steps[i].Send, `"`+field+`":9`, fmt.Sprintf(`"%s":%d`, field, tt.stated), 1)
				}
			}
			loaded := func(window int) wiretest.Transcript {
				tr := status(200, fmt.Sprintf(`{"models":[{"name":"sample","context_length":%d}]}`, window))
				tr.Method, tr.Path = "GET", "/api/ps"
				return tr
			}
			begun := make(chan struct{})
			tr.Steps[0].Until = begun
			r := newRig(t, dialect, `{:count "estimate"}`, preset, tr)
			r.server.Beside(loaded(0))
			arrived := r.server.Arrived()
			go func() { // the server loads the model for the request
				<-arrived
				r.server.Beside(loaded(tt.window))
				close(begun)
			}()
			o := r.ask(t.Context(), "model/chat", `{:messages [`+tt.messages+`]}`, "", nil)
			require.Equal(t, tt.failure, failureOf(o.err), "%s: %s", dialect, name)
			why := o.meta.Key("quality").Key("why")
			assert.Equal(t, tt.doubted, strings.Contains(why.String(), "prompt/doubted"), "%s: %s", dialect, name)
			if o.err == nil {
				continue
			}
			assert.Equal(t, edn.Int(int64(tt.stated)).String(), o.err.Details.Key("tokens-read").String(), "%s: %s", dialect, name)
			n, _ := o.err.Details.Key("tokens-in").AsInt()
			assert.Greater(t, n, int64(tt.stated), "%s: %s", dialect, name)
			assert.Equal(t, contract.ClassSwitch, o.err.Class, dialect)
		}
	}
}

// Row 5: a prompt above the known window of a hosted model is rejected before it
// is sent. A written window takes precedence.
func TestKnownContext(t *testing.T) {
	long := `{:messages [{:role :user :content "` + strings.Repeat("many words here ", 160_000) + `"}]}`
	for dialect, model := range map[string]string{"openai-chat": "gpt-5-mini", "anthropic-messages": "claude-haiku-4-5"} {
		for _, written := range []bool{false, true} {
			context := map[bool]string{true: ":context 4000000"}[written]
			r := newRig(t, dialect, `{:name "`+model+`" :count "estimate" `+context+`}`, "", talks()[dialect].whole("Fine."))
			o := r.ask(t.Context(), "model/chat", long, "", nil)
			assert.Equal(t, written, len(r.server.Requests()) == 1, model)
			if written {
				assert.Nil(t, o.err, model)
				continue
			}
			require.NotNil(t, o.err, model)
			assert.Equal(t, "provider/context-exceeded", o.err.Type, model)
			window := wire.TraitsOf(model).Window
			assert.Equal(t, edn.Int(window).String(), o.err.Details.Key("context-tokens").String(), model)
		}
	}
}

// A prompt above the context window of the loaded model is rejected before it
// is sent, with both numbers: the server reports the window.
func TestLoadedContext(t *testing.T) {
	long := `{:messages [{:role :user :content "` + strings.Repeat("many words here ", 4000) + `"}]}`
	for preset, body := range map[string]string{
		"generic": `{"models":[{"name":"sample:latest","context_length":2048}]}`,
		"ollama":  `{"models":[{"name":"sample:latest","context_length":2048}]}`, "vllm": `{"data":[{"id":"sample","max_model_len":2048}]}`,
		"llama-server": `{"default_generation_settings":{"n_ctx":2048}}`, "lmstudio": `{"data":[{"id":"sample","loaded_context_length":2048}]}`,
	} {
		dialect := map[bool]string{true: "ollama-chat", false: "openai-chat"}[preset == "ollama"]
		whole := ""
		if preset != "ollama" {
			whole = `{:preset "` + preset + `"}`
		}
		p, _ := wire.PresetNamed(preset)
		r := newRig(t, dialect, `{:count "estimate"}`, whole, talks()[dialect].whole("Fine."))
		window := status(200, body)
		window.Method, window.Path = "GET", p.WindowPath
		r.server.Beside(window)
		require.Nil(t, r.ask(t.Context(), "model/chat", hello, "", nil).err, preset)
		assert.Empty(t, r.server.Besides(), "%s: nobody asks for what fits everywhere", preset)
		for range 2 {
			o := r.ask(t.Context(), "model/chat", long, "", nil)
			require.NotNil(t, o.err, preset)
			assert.Equal(t, "provider/context-exceeded", o.err.Type, preset)
			n, _ := o.err.Details.Key("tokens-in").AsInt()
			assert.Greater(t, n, int64(4096), preset)
			assert.Equal(t, "2048", o.err.Details.Key("context-tokens").String(), preset)
		}
		assert.Len(t, r.server.Requests(), 1, "%s: it was not sent", preset)
		assert.Len(t, r.server.Besides(), 1, "%s: the server is asked once", preset)
	}
}

// A window that the server named in a rejection stays known if the address of the
// window belongs to something else.
func TestLearnedContextStays(t *testing.T) {
	long := `{:messages [{:role :user :content "` + strings.Repeat("many words here ", 4000) + `"}]}`
	r := newRig(t, "openai-chat", `{:count "estimate"}`, `{:preset "generic"}`, status(400,
		`{"error":{"type":"exceed_context_size_error","message":"too long","n_prompt_tokens":12000,"n_ctx":4096}}`))
	page := status(200, `<html>`)
	page.Method, page.Path = "GET", "/api/ps"
	r.server.Beside(page)
	for range 3 {
		o := r.ask(t.Context(), "model/chat", long, "", nil)
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/context-exceeded", o.err.Type)
		assert.Len(t, r.server.Requests(), 1, "it is sent once")
		r.clock.Advance(2 * time.Minute)
	}
}

// dropped returns the options that an answer reports as dropped.
func dropped(o outcome) string {
	return strings.Trim(o.meta.Key("options/dropped").String(), "#{}")
}

func firstOf(list edn.Value) edn.Value {
	v, _ := list.Nth(0)
	return v
}
