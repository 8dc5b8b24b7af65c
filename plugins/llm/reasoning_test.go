package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/fermenthq/ferment/plugins/internal/provider/dialect"
)

// Reasoning models: what they do not take is left out, and their limit leaves
// room for the reasoning.
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

// A parameter that the server refuses is left out once and for all; the attempt
// that found out is one request and says so.
func TestRefusedParameter(t *testing.T) {
	for name, tt := range map[string]struct{ dialect, body, field string }{
		"named":          {"openai-chat", `{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}`, "temperature"},
		"quoted":         {"openai-chat", `{"error":{"message":"Unsupported parameter: 'top_p' is not supported with this model."}}`, "top_p"},
		"another limit":  {"openai-chat", `{"error":{"message":"Unsupported parameter: 'max_completion_tokens' is not supported.","param":"max_completion_tokens"}}`, "max_completion_tokens"},
		"anthropic":      {"anthropic-messages", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"`temperature` and `top_p` cannot both be specified for this model.\"}}", "temperature"},
		"ollama":         {"ollama-chat", `{"error":"\"sample\" does not support thinking"}`, "think"},
		"a flat message": {"openai-chat", `{"detail":"Unsupported parameter: seed"}`, "seed"},
	} {
		k := talks()[tt.dialect]
		model := `{:price {:input "1" :output "1"} :options {:temperature 0.2 :top-p 0.9 :max-tokens 100 :seed 7 :reasoning-effort "high"}}`
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
				assert.EqualValues(t, 100, r.body()["max_tokens"], name)
			} else {
				assert.Positive(t, o.meta.Key("options/dropped").Len(), name)
			}
		}
		r.server.Then(status(400, tt.body))
		o = r.ask(t.Context(), "model/chat", hello, "", nil)
		require.NotNil(t, o.err, name)
		if tt.dialect != "anthropic-messages" { // whose message names two, of which one is left
			assert.Equal(t, "provider/request-invalid", o.err.Type, "%s: it is left out already", name)
		}
	}
}

// LLM-024, LLM-055: an answer that reasoning used up is empty, says why, and is
// not asked for again unchanged.
func TestEmptyByLength(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		r := newRig(t, dialect, `{:options {:max-tokens 50}}`, "", k.says(k.start, k.finish("length"), k.end))
		var requests []string
		for range 3 {
			o := r.ask(t.Context(), "model/chat", hello, "", nil)
			require.NotNil(t, o.err)
			assert.Equal(t, "provider/empty", o.err.Type)
			assert.Equal(t, ":length", o.err.Details.Key("finish").String())
			all := r.server.Requests()
			assert.NotContains(t, requests, all[len(all)-1].Body, "%s: not the same again", dialect)
			requests = append(requests, all[len(all)-1].Body)
		}
	}
}

// A server that states both numbers is believed; Ollama is asked not to cut.
func TestContextIsNotCutInSilence(t *testing.T) {
	r := newRig(t, "ollama-chat", "", "", talks()["ollama-chat"].whole("Fine."))
	require.Nil(t, r.ask(t.Context(), "model/chat", hello, "", nil).err)
	assert.Equal(t, []any{false, false}, []any{r.body()["truncate"], r.body()["shift"]})

	r = newRig(t, "openai-chat", "", "", status(400, `{"error":{"code":400,"message":"the request exceeds the available context size",`+
		`"type":"exceed_context_size_error","n_prompt_tokens":4476,"n_ctx":4096}}`))
	o := r.ask(t.Context(), "model/chat", hello, "", nil)
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/context-exceeded", o.err.Type)
	assert.Equal(t, "4476 4096", o.err.Details.Key("tokens-in").String()+" "+o.err.Details.Key("context-tokens").String())
}

// A prompt that the loaded model cannot read is refused before it is sent, with
// both numbers: the server says how many tokens it reads.
func TestLoadedContext(t *testing.T) {
	long := `{:messages [{:role :user :content "` + strings.Repeat("many words here ", 4000) + `"}]}`
	for preset, body := range map[string]string{
		"ollama": `{"models":[{"name":"sample:latest","context_length":2048}]}`, "vllm": `{"data":[{"id":"sample","max_model_len":2048}]}`,
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
