package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// sent describes the peculiarities of a preset's requests.
type sent struct {
	base   string // below the address of the server
	target string // path and query as they are sent
	auth   string // the header with the key
	key    string
	absent []string // fields that the body must not have
	lost   []string // options that are reported as dropped
}

var presetRequests = map[string]sent{
	"gemini": {
		base: "/v1beta/openai", target: "/v1beta/openai/chat/completions", auth: "Authorization", key: "Bearer " + canary,
		absent: []string{"seed", "frequency_penalty"}, lost: []string{"frequency-penalty", "seed"},
	},
	"mistral": {
		base: "/v1", target: "/v1/chat/completions", auth: "Authorization", key: "Bearer " + canary,
		absent: []string{"seed", "stream_options", "max_completion_tokens"},
	},
	"groq": {
		base: "/openai/v1", target: "/openai/v1/chat/completions", auth: "Authorization", key: "Bearer " + canary,
		absent: []string{"logprobs"}, lost: []string{"logprobs"},
	},
	"openrouter": {
		base: "/api/v1", target: "/api/v1/chat/completions", auth: "Authorization", key: "Bearer " + canary,
		absent: []string{"stream_options"},
	},
	"azure": {
		target: "/openai/deployments/my%2Fdeployment/chat/completions?api-version=2024-10-21", auth: "Api-Key", key: canary,
	},
	"vllm":         {base: "/v1", target: "/v1/chat/completions", auth: "Authorization", key: "Bearer " + canary},
	"llama-server": {base: "/v1", target: "/v1/chat/completions", auth: "Authorization", key: "Bearer " + canary},
	"lmstudio":     {base: "/v1", target: "/v1/chat/completions", auth: "Authorization", key: "Bearer " + canary},
}

// LLM-002, LLM-006, LLM-007, LLM-053: each preset of a vendor sends what its
// server accepts, and reads the stream of that server with its quirk.
func TestPresetTranscripts(t *testing.T) {
	all := wiretest.Load(t, filepath.Join("..", "internal", "provider", "testdata", "wire"), "presets")
	require.Len(t, all, len(presetRequests))
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) {
			want := presetRequests[tr.Name]
			r := &rig{t: t, server: wiretest.Serve(t, tr), clock: wiretest.NewClock(), id: tr.Name + "/voice"}
			config := edn.MustRead(`{:model {"voice" {:name "my/deployment" :intents ["model/chat"]
				:count "estimate" :context 8000
				:options {:temperature 0.5 :seed 7 :frequency-penalty 0.5 :max-tokens 40 :extra {"logprobs" true}}}}}`)
			config = config.AssocKey("provider", edn.Text(tr.Name)).AssocKey("base-url", edn.Text(r.server.URL+want.base))
			r.Plugin = sdktest.Serve(t, newPlugin(r.clock), sdktest.WithConfig(config),
				sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
			got := r.ask(t.Context(), "model/chat", hello, "", nil)
			require.Nil(t, got.err)

			requests := r.server.Requests()
			require.Len(t, requests, 1, "LLM-008")
			q := requests[0]
			assert.Equal(t, want.target, q.Escaped)
			for _, name := range []string{"Authorization", "Api-Key", "X-Api-Key"} {
				if name == want.auth {
					assert.Equal(t, want.key, q.Header.Get(name))
				} else {
					assert.Empty(t, q.Header.Get(name), "the key is in one header")
				}
			}
			var fields map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(q.Body), &fields))
			for _, name := range want.absent {
				assert.NotContains(t, fields, name)
			}
			var dropped []string
			for d := range got.meta.Key("options/dropped").Elems() {
				name, _ := d.AsKeyword()
				dropped = append(dropped, name)
			}
			assert.Equal(t, want.lost, dropped, "LLM-007")

			text, _ := got.out.Key("text").AsString()
			assert.Equal(t, tr.Want.Text, text)
			assert.Equal(t, tr.Want.Reasoning, got.reasoning)
			finish, _ := got.out.Key("finish").AsKeyword()
			assert.Equal(t, tr.Want.Finish, finish)
			for name, n := range map[string]int64{
				"tokens-in": tr.Want.In, "tokens-out": tr.Want.Out, "tokens-cached": tr.Want.Cached,
				"tokens-reasoning": tr.Want.Thought,
			} {
				have, _ := got.usage.Key(name).AsInt()
				assert.Equal(t, n, have, name)
			}
			mark, _ := got.usage.Key("tokens-mark").AsKeyword()
			assert.Equal(t, "exact", mark)
		})
	}
}

// LLM-002: vectors are requested at the address of the preset.
func TestPresetEmbeds(t *testing.T) {
	for name, target := range map[string]string{
		"azure":  "/openai/deployments/my%2Fdeployment/embeddings?api-version=2024-10-21",
		"gemini": "/embeddings",
		"vllm":   "/embeddings",
		"ollama": "/api/embed",
	} {
		server := wiretest.Serve(t, status(200, `{"data":[{"index":0,"embedding":[1]}],"embeddings":[[1]]}`))
		r := &rig{t: t, server: server, clock: wiretest.NewClock(), id: name + "/voice"}
		config := edn.MustRead(`{:model {"voice" {:name "my/deployment" :intents ["model/embed"]}}}`).
			AssocKey("provider", edn.Text(name)).AssocKey("base-url", edn.Text(server.URL))
		r.Plugin = sdktest.Serve(t, newPlugin(r.clock), sdktest.WithConfig(config),
			sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
		got := r.ask(t.Context(), "model/embed", `{:texts ["a bee"]}`, "", nil)
		require.Nil(t, got.err, name)
		assert.Equal(t, target, server.Requests()[0].Escaped, name)
	}
}

// LLM-004, LLM-005: a provider has its address or requires one, and a version
// is rejected where requests have none.
func TestProvidersHaveAddresses(t *testing.T) {
	for _, p := range dialect.Presets() {
		if slices.Contains([]string{"mlx", "generic", "openai-responses"}, p.Name) {
			continue // presets that are not providers
		}
		config := edn.MustRead(`{:model {"a" {:name "m"}}}`).AssocKey("provider", edn.Text(p.Name))
		places := problems(t, config)
		assert.Equal(t, p.Base == "", slices.Contains(places, "[:base-url]"), "%s: %v", p.Name, places)
		places = problems(t, config.Merge(edn.MustRead(`{:base-url "http://127.0.0.1:1" :api-version "1"}`)))
		assert.Equal(t, p.Version == "", slices.Contains(places, "[:api-version]"), "%s: %v", p.Name, places)
	}
}

// problems returns the places of the mistakes in a configuration.
func problems(t *testing.T, config edn.Value) []string {
	t.Helper()
	p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.Unconfigured())
	raw, err := p.Client().Describe(t.Context(), config, wire.HostInfo{})
	require.NoError(t, err)
	var places []string
	for _, f := range raw.Findings {
		places = append(places, edn.Vector(f.Path...).String())
	}
	return places
}
