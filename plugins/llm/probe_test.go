package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// habit holds the answers of a server to the five requests of a probe.
type habit [5]wiretest.Transcript

// habits returns a server that supports every feature of its dialect.
func habits(dialect string) habit {
	k := talks()[dialect]
	whole := map[string]wiretest.Transcript{
		"openai-chat":        status(200, `{"id":"c","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`),
		"openai-responses":   status(200, `{"id":"r","object":"response","status":"completed","model":"served","output":[{"type":"message","content":[{"type":"output_text","text":"Hello."}]}],"usage":{"input_tokens":9,"output_tokens":3}}`),
		"anthropic-messages": status(200, `{"id":"m","type":"message","model":"served","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":3}}`),
		"ollama-chat":        status(200, `{"model":"served","message":{"content":"Hello."},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":3}`+"\n"),
	}[dialect]
	return habit{
		whole,
		k.whole("Hello."),
		k.whole(`{"legs":4}`),
		k.says(k.start, k.tool("t1", "weather", `{"city":"Oslo"}`), k.finish("tool"), k.end),
		k.says(k.start, k.text("one two three"), k.finish("length"), k.end),
	}
}

func probed(t *testing.T, dialect, model, whole string, said habit) (*rig, outcome) {
	t.Helper()
	r := newRig(t, dialect, model, whole, said[:]...)
	r.server.Beside(counterOf(t, "anthropic"))
	return r, r.ask(t.Context(), "model/probe", `{}`, "", nil)
}

func differences(o outcome) []string {
	var all []string
	for d := range o.out.Key("differences").Elems() {
		all = append(all, d.Key("quirk").String()+" "+d.Key("declared").String()+" "+d.Key("found").String())
	}
	return all
}

// LLM-006: five requests, no findings for a server that matches its preset, and
// the usage.
func TestProbeAgrees(t *testing.T) {
	for _, dialect := range dialects() {
		r, o := probed(t, dialect, `{:price {:input "1" :output "2"}}`, "", habits(dialect))
		require.Nil(t, o.err, "%s", o.err)
		assert.Empty(t, differences(o), dialect)
		assert.True(t, o.out.Key("agrees?").Truthy(), "%s", o.out)
		assert.Len(t, r.server.Requests(), 5, "LLM-006")
		assert.Equal(t, map[string]string{
			"openai-chat": `{:stated 9 :tokens-in 25 :tokens/counted-by :local}`, "openai-responses": `{:stated 9 :tokens-in 25 :tokens/counted-by :local}`,
			"anthropic-messages": `{:stated 9 :tokens-in 1403 :tokens/counted-by :endpoint}`,
			"ollama-chat":        `{:stated 9 :tokens-in 23 :tokens/counted-by :estimate}`,
		}[dialect], o.out.Key("count").String(), "LLM-022")
		assert.Len(t, o.deltas, 5, "a word before each")
		assert.Equal(t, `{:cost-mark :exact :cost-usd 0.000075M :tokens-cached 0 :tokens-in 45 :tokens-mark :exact :tokens-out 15 :tokens-reasoning 0}`,
			o.usage.Dissoc(edn.K("mode")).Dissoc(edn.K("latency-ms")).String(), dialect)
		for i, request := range r.server.Requests() {
			assert.Equal(t, i == 0, strings.Contains(request.Body, `"stream":false`), "the value comes whole, the rest as a stream")
			assert.NotContains(t, request.Body, canary)
		}
		assert.NotContains(t, o.response.String(), "CANARY", "LM-004")
	}
}

// LLM-006: each quirk, declared one way and found another.
func TestProbeDiffers(t *testing.T) {
	k := talks()["openai-chat"]
	bad := status(http.StatusBadRequest, `{"error":{"message":"this is not supported"}}`)
	event := func(finish string) string {
		return `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":` + finish + `}]}` + "\n\n"
	}
	noUsage := k.says(k.start, k.text("Hello."), event(`"stop"`), k.end)
	for _, tt := range []struct {
		name, model string
		change      func(*habit)
		want        []string
	}{
		{"a schema is ignored", "", func(a *habit) { a[2] = k.whole("Four.") }, []string{`:response-format "json_schema" "none"`}},
		{"a schema is refused", "", func(a *habit) { a[2] = bad }, []string{`:response-format "json_schema" "none"`}},
		{"a schema is enforced and declared to be not", `{:quirks {:response-format "none"}}`, func(*habit) {}, []string{`:response-format "none" "json_schema"`}},
		{"JSON between fences", `{:quirks {:response-format "json_object"}}`, func(a *habit) { a[2] = k.whole("```json\n{\"legs\":4}\n```") }, []string{`:response-format "json_object" "none"`}},
		{"no tools", "", func(a *habit) { a[3] = k.whole("I cannot know.") }, []string{":tools true false"}},
		{"tools are refused", "", func(a *habit) { a[3] = bad }, []string{":tools true false"}},
		{"tools that are declared to be absent", `{:quirks {:tools false}}`, func(*habit) {}, []string{":tools false true"}},
		{"calls get lost in streams", "", func(a *habit) { a[3] = k.says(k.start, k.finish("tool"), k.end) }, []string{":tools-stream true false"}},
		{"no usage in streams", "", func(a *habit) { a[1] = noUsage }, []string{":usage-in-stream true false"}},
		{"usage that is declared to be absent", `{:quirks {:usage-in-stream false}}`, func(*habit) {}, []string{":usage-in-stream false true"}},
		{"no formal end", `{:quirks {:terminator "strict"}}`, func(a *habit) { a[1] = k.says(k.start, k.text("Hello."), k.finish("stop"), "!cut") }, []string{":terminator :strict :either"}},
		{"no end at all", "", func(a *habit) {
			a[1] = k.says(k.start, k.text("Hello."), `data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}`+"\n\n", "!cut")
		}, []string{":terminator :either :eof"}},
		{"an end that is declared to be absent", `{:quirks {:terminator "eof"}}`, func(*habit) {}, []string{":terminator :eof :strict"}},
		{"no system messages", "", func(a *habit) { a[0] = bad }, []string{`:system-role "system" "refused"`}},
		{"the limit is ignored", "", func(a *habit) {
			a[4] = k.says(k.start, k.text(strings.Repeat("one ", 200)), event(`"stop"`), `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":200}}`+"\n\n", k.end)
		}, []string{`:limit-field "max_completion_tokens" "ignored"`}},
		{"a short answer says nothing about the limit", "", func(a *habit) { a[4] = k.whole("one two") }, nil},
		{"two at once", "", func(a *habit) { a[1], a[2] = noUsage, bad }, []string{":usage-in-stream true false", `:response-format "json_schema" "none"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := habits("openai-chat")
			tt.change(&said)
			r, o := probed(t, "openai-chat", tt.model, "", said)
			require.Nil(t, o.err, "%s", o.err)
			assert.ElementsMatch(t, tt.want, differences(o))
			assert.Equal(t, len(tt.want) == 0, o.out.Key("agrees?").Truthy(), "%s", o.out)
			assert.Len(t, r.server.Requests(), 5)
			checks := slices.Collect(o.out.Key("checks").Elems())
			assert.Len(t, checks, 5)
		})
	}
}

// LLM-006: a server that cannot be called at all is an error at once; rejecting
// a feature that is declared absent is not a finding.
func TestProbeCannotAsk(t *testing.T) {
	said := habits("openai-chat")
	said[0] = status(http.StatusUnauthorized, `{"error":{"message":"bad key","code":"invalid_api_key"}}`)
	r, o := probed(t, "openai-chat", "", "", said)
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/auth-failed", o.err.Type)
	assert.Len(t, r.server.Requests(), 1)

	said = habits("openai-chat")
	said[1] = status(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`, "Retry-After", "7")
	r, o = probed(t, "openai-chat", "", "", said)
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/rate-limited", o.err.Type)
	assert.Len(t, r.server.Requests(), 2)

	said = habits("openai-chat")
	bad := status(http.StatusBadRequest, `{"error":{"message":"this is not supported"}}`)
	said[2], said[3] = bad, bad
	_, o = probed(t, "openai-chat", `{:quirks {:response-format "none" :tools false}}`, "", said)
	require.Nil(t, o.err)
	assert.True(t, o.out.Key("agrees?").Truthy(), "%s", o.out)

	// A request that fails with status 500 is not a finding. If it is the first one, the probe returns its error.
	broken := status(http.StatusInternalServerError, `{"error":{"message":"oops"}}`)
	said = habits("openai-chat")
	said[0] = broken
	r, o = probed(t, "openai-chat", "", "", said)
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/error", o.err.Type)
	assert.Len(t, r.server.Requests(), 1)
	for i := 1; i < len(said); i++ {
		said = habits("openai-chat")
		said[i] = broken
		_, o = probed(t, "openai-chat", "", "", said)
		require.Nil(t, o.err)
		assert.Empty(t, differences(o))
		assert.False(t, o.out.Key("agrees?").Truthy(), "one was not seen")
		one, _ := o.out.Key("checks").Nth(i)
		assert.Equal(t, ":provider/error", one.Key("error").Key("type").String())
		assert.Equal(t, `{}`, one.Key("found").String())
	}

	p := newRig(t, "openai-chat", "", `{:base-url "http://127.0.0.1:1"}`)
	o = p.ask(t.Context(), "model/probe", `{}`, "", nil)
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/unavailable", o.err.Type)
}
