package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

func TestMain(m *testing.M) { sdktest.Main(m, newPlugin(transport.System())) }

// canary is a key that must appear only in the request.
const canary = "sk-CANARY-0123456789abcdef"

// providers maps a dialect to a provider that uses it.
var providers = map[string]string{
	"openai-chat": "openai", "openai-responses": "compatible", "anthropic-messages": "anthropic", "ollama-chat": "ollama",
}

func dialects() []string {
	return []string{"openai-chat", "openai-responses", "anthropic-messages", "ollama-chat"}
}

// rig is a plugin before a server, with a clock that the test moves.
type rig struct {
	*sdktest.Plugin
	t      testing.TB
	server *wiretest.Server
	clock  *wiretest.Clock
	id     string
}

// The timers of a rig are all different, so that a test can identify the one it
// waits for.
const (
	connect = 5 * time.Second
	first   = 120 * time.Second
	silence = 30 * time.Second
	stall   = 25 * time.Second
	total   = 300 * time.Second
)

// settingsFor returns the configuration of one model before a server. change is
// EDN that is merged into the model, over that into the whole.
func settingsFor(t testing.TB, dialect, url, model, whole string) edn.Value {
	t.Helper()
	m := edn.MustRead(`{:name "sample" :intents ["model/chat" "text/respond" "eval/grade" "code/generate" "demo/free"]
		:price {:input "1" :output "2"}}`)
	if model != "" {
		m = m.Merge(edn.MustRead(model))
	}
	c := edn.MustMap(
		edn.K("provider"), edn.Text(providers[dialect]), edn.K("base-url"), edn.Text(url),
		edn.K("timeouts"), edn.MustRead(`{:connect 5000 :first-token 120000 :silence 30000 :stall 25000 :total 300000}`),
		edn.K("model"), edn.MustMap(edn.Text("voice"), m))
	if dialect == "openai-responses" {
		c = c.AssocKey("preset", edn.Text(dialect))
	}
	if whole != "" {
		c = c.Merge(edn.MustRead(whole))
	}
	return c
}

func newRig(t testing.TB, dialect, model, whole string, list ...wiretest.Transcript) *rig {
	t.Helper()
	r := &rig{t: t, server: wiretest.Serve(t, list...), clock: wiretest.NewClock(), id: providers[dialect] + "/voice"}
	r.Plugin = sdktest.Serve(t, newPlugin(r.clock), sdktest.WithConfig(settingsFor(t, dialect, r.server.URL, model, whole)),
		sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
	return r
}

// outcome is the result of a call.
type outcome struct {
	out, usage, meta, response edn.Value
	err                        *contract.Error
	deltas                     []edn.Value
	text, reasoning            string
	progress                   int
}

// ask makes a call and records its pieces.
func (r *rig) ask(ctx context.Context, intent, input, fields string, watch func(wire.Event)) outcome {
	c := sdktest.Call{Capability: r.id, Intent: intent, Input: edn.MustRead(input)}
	if fields != "" {
		c.Fields = edn.MustRead(fields)
	}
	var o outcome
	c.OnEvent = func(e wire.Event) {
		kind, _ := e.Value.Key("kind").AsKeyword()
		text, _ := e.Value.Key("text").AsString()
		switch kind {
		case "text":
			o.text += text
		case "reasoning":
			o.reasoning += text
		case "":
			o.progress++
		}
		if kind != "" {
			o.deltas = append(o.deltas, e.Value)
		}
		if watch != nil {
			watch(e)
		}
	}
	var err error
	o.response, err = r.Do(ctx, c)
	if err == nil {
		_, o.err = contract.CheckResponse(o.response, contract.ResultRules{})
	} else {
		o.err = contract.AsError(err)
	}
	o.out, o.usage, o.meta = o.response.Key("result").Key("out"), o.response.Key("result").Key("usage"), o.response.Key("invoke/meta")
	return o
}

// costs checks the cost of a usage: that of its tokens at the price of a rig, with the
// mark of the tokens. Cached tokens have no price of their own.
func costs(t testing.TB, usage edn.Value, about string) {
	t.Helper()
	in, _ := usage.Key("tokens-in").AsInt()
	out, _ := usage.Key("tokens-out").AsInt()
	cost, ok := usage.Key("cost-usd").AsNumber()
	if assert.True(t, ok, "%s: %s", about, usage) {
		assert.Zero(t, cost.Cmp(big.NewRat(in+2*out, 1_000_000)), "%s: %s", about, usage)
	}
	assert.Equal(t, usage.Key("tokens-mark").String(), usage.Key("cost-mark").String(), about)
}

const (
	hello     = `{:messages [{:role :user :content "Explain ACID."}]}`
	withTools = `{:messages [{:role :user :content "Read it."}]
	              :tools [{:tool/id :fs/read :description "reads" :in-schema [:map [:path :string]]} {:tool/id :fs/list :in-schema [:map [:dir :string]]}]}`
)

func failureOf(e *contract.Error) string {
	if e == nil {
		return ""
	}
	return e.Type
}

// LLM-002, LLM-010, LLM-011, LLM-020, LLM-024, LLM-045: the result of every
// transcript through the whole plugin.
func TestTranscripts(t *testing.T) {
	for _, dialect := range dialects() {
		for _, tr := range wiretest.Load(t, "../internal/provider/testdata/wire", dialect) {
			t.Run(dialect+"/"+tr.Name, func(t *testing.T) {
				w := tr.Want
				lossy := w.Assumed || w.Skipped > 0 || tr.Name == "finish-and-stall"
				whole := ""
				if lossy {
					whole = "{:tolerant true}"
				}
				r := newRig(t, dialect, `{:price {:input "1" :cache-write "1.25" :output "2"}}`, whole, tr)
				input := hello
				if strings.Contains(tr.Name, "tool-call") || len(tr.Want.Calls) > 0 {
					input = withTools
				}
				if tr.Name == "finish-and-stall" {
					go r.clock.Fire(t, 2*time.Second)
				}
				o := r.ask(t.Context(), "model/chat", input, "", nil)
				if w.Error != "" {
					require.NotNil(t, o.err)
					assert.Equal(t, w.Error, o.err.Type, o.err)
					return
				}
				require.Nil(t, o.err)
				text, _ := o.out.Key("text").AsString()
				assert.Equal(t, w.Text, text)
				assert.Equal(t, w.Text, o.text, "the deltas make up the text")
				assert.Equal(t, w.Reasoning, o.reasoning)
				assert.Equal(t, ":"+w.Finish, o.out.Key("finish").String())
				assert.Equal(t, ":"+w.Finish, o.meta.Key("finish").String())
				assert.Equal(t, w.Assumed, o.meta.Key("finish/assumed?").Truthy())
				skipped, _ := o.meta.Key("stream/skipped").AsInt()
				assert.Equal(t, w.Skipped, skipped)
				mark := ":exact"
				if w.In < 0 || w.Out < 0 {
					mark = ":estimated"
				}
				assert.Equal(t, mark, o.usage.Key("tokens-mark").String())
				assert.Equal(t, mark, o.usage.Key("cost-mark").String())
				for key, n := range map[string]int64{"tokens-in": w.In, "tokens-out": w.Out, "tokens-cached": w.Cached, "tokens-reasoning": w.Thought, "tokens-cache-written": w.Written} {
					got, ok := o.usage.Key(key).AsInt()
					ok = ok || key == "tokens-cache-written" && n == 0
					assert.True(t, ok && (n < 0 && got > 0 || got == n), "%s %d", key, got)
				}
				var calls []string
				for c := range o.out.Key("tool/calls").Elems() {
					args, err := edn.WriteJSON(c.Key("args"))
					require.NoError(t, err)
					id, _ := c.Key("id").AsString()
					assert.NotEmpty(t, id)
					tool, _ := c.Key("tool/id").AsKeyword()
					call := strings.ReplaceAll(tool, "/", "__") + " " + string(args)
					if !slices.Contains(w.Calls, call) { // the server states an id
						call = id + " " + call
					}
					calls = append(calls, call)
				}
				assert.Equal(t, w.Calls, calls)
				for i, d := range o.deltas {
					n, _ := d.Key("seq").AsInt()
					assert.EqualValues(t, i+1, n, "without gaps")
				}
			})
		}
	}
}

// LLM-004: extra fields override no field that the plugin sets. Extra reasoning
// fields are sent unless an effort is configured.
func TestExtraFieldsOfTheConfiguration(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.Unconfigured())
	hides := func(preset, field, effort string) bool {
		provider, _, _ := strings.Cut(preset, "-")
		config := edn.MustRead(fmt.Sprintf(
			`{:provider %q :preset %q :model {"a" {:name "m" :options {:extra {%q "x"} %s}}}}`, provider, preset, field, effort))
		raw, err := p.Client().Describe(t.Context(), config, wire.HostInfo{})
		require.NoError(t, err)
		return len(raw.Findings) > 0
	}
	for preset, own := range map[string]string{
		"openai": "messages tool_choice stream_options max_tokens max_completion_tokens temperature top_p stop seed presence_penalty " +
			"frequency_penalty response_format n",
		"mistral":          "messages tool_choice max_tokens random_seed stream_options",
		"openai-responses": "input tool_choice store include max_output_tokens temperature top_p text",
		"anthropic":        "messages tool_choice system max_tokens temperature top_p stop_sequences output_config",
		"ollama":           "messages format options truncate shift",
	} {
		for _, field := range strings.Fields("model stream tools " + own) {
			assert.True(t, hides(preset, field, ""), "%s %s", preset, field)
		}
		reasoning := cmp.Or(map[string]string{
			"openai-responses": "reasoning", "anthropic": "thinking", "ollama": "think",
		}[preset], "reasoning_effort")
		assert.False(t, hides(preset, "user_field", ""), preset)
		assert.False(t, hides(preset, reasoning, ""), preset)
		assert.True(t, hides(preset, reasoning, `:reasoning-effort "high"`), preset)
	}
}

// All mistakes of a configuration are reported at once, each at its setting.
func TestConfigurationProblems(t *testing.T) {
	base := func(change string) edn.Value {
		return edn.MustRead(`{:provider "compatible" :base-url "http://127.0.0.1:1/v1" :model {"a" {:name "m"}}}`).Merge(edn.MustRead(change))
	}
	for _, tt := range []struct {
		name   string
		config edn.Value
		want   []string
	}{
		{"fine", base(`{}`), nil},
		{"no provider", edn.MustRead(`{:model {"a" {:name "m"}}}`), []string{":provider"}},
		{"unknown provider", base(`{:provider "elsewhere"}`), []string{":provider"}},
		{"unknown key", base(`{:modell {}}`), []string{":modell"}},
		{"unknown option", base(`{:model {"a" {:name "m" :options {:top-k 3}}}}`), []string{":top-k"}},
		{"temperature", base(`{:model {"a" {:name "m" :options {:temperature 2.5}}}}`), []string{":temperature"}},
		{"several at once", base(`{:base-url "host/v1" :proxy "x" :headers {"Authorization" "x" "a b" "c"} :model {"a/b" {:name "m" :intents ["chat"]} "c" {:name "m" :options {:top-p 0 :extra {"model" "x"}} :price {:input "1"}}}}`),
			[]string{":base-url", ":proxy", "Authorization", "a b", "a/b", ":intents", ":top-p", "extra", ":price"}},
		{"no scheme", base(`{:base-url "127.0.0.1:8080/v1"}`), []string{":base-url"}},
		{"no address", edn.MustRead(`{:provider "compatible" :model {"a" {:name "m"}}}`), []string{":base-url"}},
		{"a key in the address", base(`{:base-url "http://me:key@127.0.0.1/v1"}`), []string{":base-url"}},
		{"plaintext to another machine", edn.MustRead(`{:provider "openai" :base-url "http://models.example/v1" :model {"a" {:name "m"}}}`), []string{":base-url"}},
		{"plaintext that is allowed", edn.MustRead(`{:provider "openai" :allow-plaintext true :base-url "http://models.example/v1" :model {"a" {:name "m"}}}`), nil},
		{"preset of another provider", edn.MustRead(`{:provider "anthropic" :preset "vllm" :model {"a" {:name "m"}}}`), []string{":preset"}},
		{"no model", base(`{:model {}}`), []string{":model"}},
		{"no name", base(`{:model {"a" {}}}`), []string{":name", "model_name"}},
		{"one name for all", base(`{:model-name "m" :model {"a" {} "b" {:name "n"}}}`), nil},
		{"a price that is a float", base(`{:model {"a" {:name "m" :price {:input 0.1 :output 1}}}}`), []string{":input"}},
		{"free and dear", base(`{:model {"a" {:name "m" :price {:free true :input "1" :output "1"}}}}`), []string{":price"}},
		{"nobody counts there", base(`{:model {"a" {:name "m" :count "endpoint"}}}`), []string{`"a" :count] preset generic has no endpoint that counts tokens`}},
		{"tables of others", edn.MustRead(`{:provider "anthropic" :model {"a" {:name "m" :count "local"}}}`), []string{`"a" :count] the tables are those of OpenAI's models`}},
		{"a way to count that is none", base(`{:model {"a" {:name "m" :count "guess"}}}`), []string{":count"}},
		{"ways to count", base(`{:preset "vllm" :model {"a" {:name "m" :count "endpoint"} "b" {:name "m" :count "local"} "c" {:name "m" :count "estimate"} "d" {:name "m" :count "auto"}}}`), nil},
		{"17 stops", base(`{:model {"a" {:name "m" :options {:stop ["1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17"]}}}}`), []string{":stop"}},
	} {
		p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.Unconfigured())
		raw, err := p.Client().Describe(t.Context(), tt.config, wire.HostInfo{})
		require.NoError(t, err, tt.name)
		var places []string
		for _, f := range raw.Findings {
			places = append(places, edn.Vector(f.Path...).String()+" "+f.Message)
		}
		if tt.want == nil {
			assert.Empty(t, places, tt.name)
		}
		for _, w := range tt.want {
			assert.Contains(t, strings.Join(places, "\n"), w, tt.name)
		}
		if tt.name == "several at once" {
			assert.GreaterOrEqual(t, len(places), 9, "%v", places)
		}
	}
}

// LLM-004: mistakes that only show with the key are reported by Configure.
func TestConfigureSeesTheKey(t *testing.T) {
	config := edn.MustRead(`{:provider "compatible" :base-url "http://models.example/v1" :ca-file "/nowhere/ca.pem" :model {"a" {:name "m"}}}`)
	p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.Unconfigured())
	d, err := p.Client().Configure(t.Context(), wire.Setup{Config: config, Secrets: edn.MustMap(edn.Vector(edn.K("api-key")), edn.Text("a key\n"+canary))}, nil)
	require.NoError(t, err)
	text := fmt.Sprint(d.Findings)
	assert.Contains(t, text, ":base-url")
	assert.Contains(t, text, ":ca-file")
	assert.NotContains(t, text, "CANARY")
}

// LLM-001: capabilities follow from the model blocks, with their schemas,
// prices and limits; the need follows from the address.
func TestDescription(t *testing.T) {
	config := edn.MustRead(`{:provider "openai" :model-name "m0" :model {"voice" {:name "m1" :family "fam" :intents ["text/respond" "model/chat"] :context 128000 :options {:max-tokens 500} :price {:input "0.15" :cached-input "0.075" :output "0.60"}}
	                                                     "meta" {:name "m1"} "other" {}}}`)
	p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.Unconfigured())
	raw, err := p.Client().Describe(t.Context(), config, wire.HostInfo{})
	require.NoError(t, err)
	d, err := raw.Parse()
	require.NoError(t, err)
	assert.Equal(t, []string{"net/connect"}, d.Needs)
	assert.Equal(t, []uint16{443}, d.Ports)
	require.Len(t, d.Capabilities, 3, "two labels may have one name")
	assert.Equal(t, "m0", d.Capabilities[1].Model, "the name of the account's models")
	voice := d.Capabilities[2]
	assert.Equal(t, "openai/voice", voice.ID)
	assert.Equal(t, []string{"none"}, voice.Effects, "LM-002")
	assert.True(t, voice.Streams && voice.Repairs)
	assert.Equal(t, "req/text", voice.InSchema.For("text/respond"))
	assert.Equal(t, "res/chat", voice.OutSchema.For("model/chat"))
	assert.Equal(t, []any{"m1", "fam", 128000, 500}, []any{voice.Model, voice.Family, voice.Limits.ContextTokens, voice.Limits.MaxTokens})
	assert.Equal(t, `{:usd-cached-in-per-mtok 0.075M :usd-in-per-mtok 0.15M :usd-out-per-mtok 0.6M}`, voice.Cost.Value().String())
}

// LLM-005: without a key no request is made, and the plugin reports that it is
// not ready.
func TestWithoutAKey(t *testing.T) {
	server := wiretest.Serve(t)
	p := sdktest.Serve(t, newPlugin(transport.System()), sdktest.Unconfigured())
	_, err := p.Client().Configure(t.Context(), wire.Setup{Config: settingsFor(t, "openai-chat", server.URL, "", "")}, nil)
	require.NoError(t, err)
	_, err = p.Invoke("openai/voice", edn.MustRead(hello))
	require.ErrorIs(t, err, contract.OfType("provider/not-configured"))
	assert.Equal(t, ":provider/not-configured", contract.AsError(err).Details.Key("family").String())
	assert.Empty(t, server.Requests())
	ctx, cancel := context.WithCancel(t.Context())
	var state wire.Health
	_ = p.Client().Watch(ctx, func(h wire.Health) error {
		if state = h; h.State == wire.HealthNotReady {
			cancel()
		}
		return nil
	})
	cancel()
	assert.Equal(t, wire.HealthNotReady, state.State)
	assert.Contains(t, state.Reason, "provider/not-configured")
}

// body returns the body of the last request.
func (r *rig) body() map[string]any {
	all := r.server.Requests()
	require.NotEmpty(r.t, all)
	var m map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(all[len(all)-1].Body), &m))
	return m
}
