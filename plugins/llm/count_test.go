package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	tokens "github.com/fermenthq/ferment/plugins/internal/provider/counting"
	wire "github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// counterOf returns the transcript of a counting endpoint.
func counterOf(t testing.TB, name string) wiretest.Transcript {
	t.Helper()
	for _, tr := range wiretest.Load(t, filepath.Join("..", "internal", "provider", "testdata", "wire"), "count") {
		if tr.Name == name {
			return tr
		}
	}
	require.Fail(t, "no transcript "+name)
	return wiretest.Transcript{}
}

// counting returns a rig with a preset and a counting method, before a server
// with a counting endpoint.
func counting(t testing.TB, preset, model string, counter *wiretest.Transcript, list ...wiretest.Transcript) *rig {
	t.Helper()
	provider := preset
	if preset != "openai" && preset != "anthropic" && preset != "ollama" {
		provider = "compatible"
	}
	r := &rig{t: t, server: wiretest.Serve(t, list...), clock: wiretest.NewClock(), id: provider + "/voice"}
	if counter != nil {
		r.server.Beside(*counter)
	}
	c := settingsFor(t, "openai-chat", r.server.URL, model, "").AssocKey("provider", edn.Text(provider))
	if provider == "compatible" {
		c = c.AssocKey("preset", edn.Text(preset)).AssocKey("base-url", edn.Text(r.server.URL+"/v1"))
	}
	r.Plugin = sdktest.Serve(t, newPlugin(r.clock), sdktest.WithConfig(c), sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
	return r
}

// sample has 23 tokens by the newer table and 24 by the older one, 7 of them
// around its one message; its length gives 21.
const sample = `{:messages [{:role :user :content "お誕生日おめでとう 2 + 2 = 4"}]}`

func counted(o outcome) string {
	return edn.Vector(o.out.Key("tokens-in"), o.out.Key("tokens/counted-by"), o.usage.Key("mode")).String()
}

// LLM-022: each counting method, and the fallback to the next. Only the count
// is requested, and it has no cost.
func TestWaysOfCounting(t *testing.T) {
	t.Parallel()
	anthropic, llama, vllm := counterOf(t, "anthropic"), counterOf(t, "llama-server"), counterOf(t, "vllm")
	failing := func(tr wiretest.Transcript, code int, body string) *wiretest.Transcript {
		tr.Status, tr.Steps = code, []wiretest.Step{{Send: body}}
		return &tr
	}
	for name, tt := range map[string]struct {
		preset, model string
		counter       *wiretest.Transcript
		want          string
		asked         int
	}{
		"table of a newer model":           {"openai", `{:name "gpt-4o-mini"}`, nil, `[23 :local :deterministic]`, 0},
		"table of an older model":          {"openai", `{:name "gpt-4"}`, nil, `[24 :local :deterministic]`, 0},
		"a model that nobody knows yet":    {"openai", ``, nil, `[23 :local :deterministic]`, 0},
		"count = estimate":                 {"openai", `{:count "estimate"}`, nil, `[21 :estimate :deterministic]`, 0},
		"count = local":                    {"generic", `{:count "local"}`, nil, `[23 :local :deterministic]`, 0},
		"endpoint of anthropic":            {"anthropic", ``, &anthropic, `[1403 :endpoint :live]`, 1},
		"endpoint of llama-server":         {"llama-server", ``, &llama, `[12 :endpoint :live]`, 1},
		"endpoint of vllm, asked for":      {"vllm", `{:count "endpoint"}`, &vllm, `[12 :endpoint :live]`, 1},
		"endpoint of vllm, not asked for":  {"vllm", ``, &vllm, `[21 :estimate :deterministic]`, 0},
		"nothing at ollama":                {"ollama", ``, nil, `[21 :estimate :deterministic]`, 0},
		"nothing at any server":            {"generic", ``, nil, `[21 :estimate :deterministic]`, 0},
		"an endpoint that is not there":    {"anthropic", ``, failing(anthropic, 404, `not found`), `[21 :estimate :deterministic]`, 1},
		"an endpoint that fails":           {"llama-server", ``, failing(llama, 500, `{"tokens":[1]}`), `[21 :estimate :deterministic]`, 1},
		"an endpoint with another answer":  {"llama-server", ``, failing(llama, 200, `{"pieces":[1]}`), `[21 :estimate :deterministic]`, 1},
		"an endpoint that counts to below": {"anthropic", ``, failing(anthropic, 200, `{"input_tokens":-1}`), `[21 :estimate :deterministic]`, 1},
		"an endpoint that says no JSON":    {"anthropic", ``, failing(anthropic, 200, `<html>`), `[21 :estimate :deterministic]`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := counting(t, tt.preset, tt.model, tt.counter)
			o := r.ask(t.Context(), answer.Count, sample, "", nil)
			require.Nil(t, o.err, "%s", o.err)
			assert.Equal(t, tt.want, counted(o))
			assert.Len(t, r.server.Besides(), tt.asked)
			assert.Regexp(t, `^\d+ tokens, counted by `, o.text)
			assert.Equal(t, "[0 0]", edn.Vector(o.usage.Key("tokens-in"), o.usage.Key("tokens-out")).String(), "counting takes nothing")
			for _, asked := range r.server.Besides() {
				assert.NotContains(t, asked.Body, canary)
				assert.NotContains(t, asked.Body, "max_tokens")
				assert.False(t, strings.HasPrefix(asked.Path, "/v1/tokenize"), "it lies beside the interface")
			}
		})
	}
}

// LLM-022: the count covers the whole request, including system prompt and
// tools; a request that cannot be made cannot be counted.
func TestCountedRequest(t *testing.T) {
	r := counting(t, "openai", `{:name "gpt-4o"}`, nil)
	n := func(input, fields string) int64 {
		o := r.ask(t.Context(), answer.Count, input, fields, nil)
		require.Nil(t, o.err, "%s", o.err)
		n, _ := o.out.Key("tokens-in").AsInt()
		return n
	}
	assert.EqualValues(t, 2+4+3, n(`{:text "hello world"}`, ""))
	assert.EqualValues(t, 2+4+6+4+3, n(`{:text "hello world"}`, `{:system "antidisestablishmentarianism"}`))
	assert.Greater(t, n(withTools, ""), n(`{:messages [{:role :user :content "Read it."}]}`, "")+20)
	composed := `{:context {:count/of :eval/grade :prompt {:messages [{:role :user :content "hello world"}]}}}`
	assert.Greater(t, n(`{:text "x"}`, composed), int64(30), "the schema of the answer is asked for too")
	o := r.ask(t.Context(), answer.Count, `{:messages []}`, "", nil)
	assert.Equal(t, "input/invalid", failureOf(o.err))
	assert.Empty(t, r.server.Requests())
}

// LLM-022: a server that fails to count is not asked for a minute; one that
// takes longer than 250 ms is not waited for.
func TestCountingIsNotWaitedFor(t *testing.T) {
	slow := counterOf(t, "anthropic")
	slow.Steps = []wiretest.Step{{Do: "stall"}}
	r := counting(t, "anthropic", "", &slow)
	end := make(chan outcome, 1)
	arrived := func() bool { return len(r.server.Besides()) == 1 }
	go func() { end <- r.ask(t.Context(), answer.Count, sample, "", nil) }()
	require.Eventually(t, arrived, 20*time.Second, time.Millisecond)
	r.clock.Fire(t, tokens.Limit)
	assert.Equal(t, `[21 :estimate :deterministic]`, counted(<-end))

	r.server.Beside(counterOf(t, "anthropic"))
	assert.Equal(t, `[21 :estimate :deterministic]`, counted(r.ask(t.Context(), answer.Count, sample, "", nil)), "it is left alone")
	r.clock.Advance(time.Minute)
	assert.Equal(t, `[1403 :endpoint :live]`, counted(r.ask(t.Context(), answer.Count, sample, "", nil)), "and asked again")
}

// LLM-022, row 5: a request above the context window is rejected before
// anything is sent, if it was counted exactly. A request that fits by its
// length is not counted, and an estimate rejects only what is twice too long.
func TestContextIsWeighed(t *testing.T) {
	t.Parallel()
	long := `{:messages [{:role :user :content "` + strings.Repeat("hello world ", 400) + `"}]}`
	letters := `{:messages [{:role :user :content "` + strings.Repeat("a ", 800) + `"}]}`
	anthropic, failing := counterOf(t, "anthropic"), counterOf(t, "anthropic")
	failing.Status = http.StatusServiceUnavailable
	for name, tt := range map[string]struct {
		preset, model, input string
		counter              *wiretest.Transcript
		failure, details     string
		counted              int
	}{
		"too long by the table":       {"openai", `{:name "gpt-4o" :context 700}`, long, nil, "provider/context-exceeded", `[808 700 :local]`, 0},
		"short enough by the table":   {"openai", `{:name "gpt-4o" :context 810}`, long, nil, "", "", 0},
		"too long by the server":      {"anthropic", `{:context 1000}`, long, &anthropic, "provider/context-exceeded", `[1403 1000 :endpoint]`, 1},
		"short enough by the server":  {"anthropic", `{:context 2000}`, long, &anthropic, "", "", 1},
		"short enough by its length":  {"anthropic", `{:context 200}`, hello, &anthropic, "", "", 0},
		"nobody says how much it can": {"openai", `{:name "gpt-4o"}`, long, nil, "", "", 0},
		"the server does not count":   {"anthropic", `{:context 1000}`, long, &failing, "", "", 1},
		"only an estimate":            {"ollama", `{:context 1000}`, long, nil, "", "", 0},
		"too long by any estimate":    {"ollama", `{:context 700}`, long, nil, "provider/context-exceeded", `[1608 700 :estimate]`, 0},
		"too many words":              {"ollama", `{:context 700}`, letters, nil, "provider/context-exceeded", `[800 700 :estimate]`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			preset, _ := wire.PresetNamed(tt.preset)
			dialect := string(preset.Dialect)
			r := counting(t, tt.preset, tt.model, tt.counter, talks()[dialect].whole("fine"))
			o := r.ask(t.Context(), "model/chat", tt.input, "", nil)
			assert.Equal(t, tt.failure, failureOf(o.err))
			assert.Equal(t, tt.counted, len(r.server.Besides()))
			if tt.failure == "" {
				assert.Len(t, r.server.Requests(), 1)
				return
			}
			assert.Empty(t, r.server.Requests())
			d := o.err.Details
			assert.Equal(t, tt.details, edn.Vector(d.Key("tokens-in"), d.Key("context-tokens"), d.Key("tokens/counted-by")).String())
			assert.Equal(t, "false", d.Key("sent?").String())
			assert.Contains(t, o.err.Message, "tokens, the context window of the model has")
		})
	}
	r := counting(t, "openai", `{:name "gpt-4o" :context 700}`, nil, talks()["openai-chat"].whole("fine"))
	for range 12 { // places are returned: there are 8
		assert.Equal(t, "provider/context-exceeded", failureOf(r.ask(t.Context(), "model/chat", long, "", nil).err))
	}
	assert.Nil(t, r.ask(t.Context(), "model/chat", hello, "", nil).err)
}

// LLM-020, LLM-022: figures that the provider does not state, or that
// contradict the count, come from the best available count, and the usage names
// the method.
func TestUsageRestsOnTheBestCount(t *testing.T) {
	t.Parallel()
	llama, anthropic := counterOf(t, "llama-server"), counterOf(t, "anthropic")
	silent := func(k talk, text string) wiretest.Transcript {
		tr := k.whole(text)
		for i := range tr.Steps {
			tr.Steps[i].Send = stated.ReplaceAllString(tr.Steps[i].Send, "")
		}
		return tr
	}
	states := func(k talk, text, usage string) wiretest.Transcript {
		tr := k.whole(text)
		for i := range tr.Steps {
			tr.Steps[i].Send = stated.ReplaceAllString(tr.Steps[i].Send, `,"usage":`+usage)
		}
		return tr
	}
	openAI := talks()["openai-chat"]
	blanks := "x" + strings.Repeat(" ", 4000) + "x" // 34 tokens; its length gives 1,334
	for name, tt := range map[string]struct {
		preset, model string
		counter       *wiretest.Transcript
		plays         wiretest.Transcript
		want          string // in, out, mark, ways
		asked         int
	}{
		"missing, by the table":           {"openai", `{:name "gpt-4o"}`, nil, silent(openAI, "hello world"), `[23 2 :estimated {:in :local :out :local}]`, 0},
		"missing, by the server":          {"llama-server", ``, &llama, silent(openAI, "hello world"), `[12 5 :estimated {:in :endpoint :out :endpoint}]`, 2},
		"missing, by length":              {"generic", ``, nil, silent(openAI, "hello world"), `[21 4 :estimated {:in :estimate :out :estimate}]`, 0},
		"missing, question by a server":   {"anthropic", ``, &anthropic, silent(talks()["anthropic-messages"], "hello world"), `[1403 4 :estimated {:in :endpoint :out :estimate}]`, 1},
		"right, whatever its length":      {"openai", `{:name "gpt-4o"}`, nil, states(openAI, blanks, `{"prompt_tokens":22,"completion_tokens":34}`), `[22 34 :exact nil]`, 0},
		"wrong by its length":             {"generic", ``, nil, states(openAI, blanks, `{"prompt_tokens":22,"completion_tokens":34}`), `[22 1334 :at-least {:out :estimate}]`, 0},
		"as its length says":              {"openai", `{:name "gpt-4o"}`, nil, states(openAI, blanks, `{"prompt_tokens":22,"completion_tokens":1334}`), `[22 1334 :exact nil]`, 0},
		"far above the table":             {"openai", `{:name "gpt-4o"}`, nil, states(openAI, "hello world", `{"prompt_tokens":9000,"completion_tokens":2}`), `[9000 2 :at-least {:in :local}]`, 0},
		"no server is asked about itself": {"llama-server", ``, &llama, states(openAI, "hello world", `{"prompt_tokens":9000,"completion_tokens":2}`), `[9000 2 :at-least {:in :estimate}]`, 0},
		"as it is, nobody is asked":       {"llama-server", ``, &llama, states(openAI, "hello world", `{"prompt_tokens":20,"completion_tokens":2}`), `[20 2 :exact nil]`, 0},
		"cut": {"openai", `{:name "gpt-4o"}`, nil, openAI.says(openAI.start, openAI.text("hello world"), openAI.text(" hello world")),
			`[23 4 :at-least {:in :local :out :local}]`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := counting(t, tt.preset, tt.model, tt.counter, tt.plays)
			o := r.ask(t.Context(), "model/chat", sample, "", nil)
			u := o.usage
			assert.Equal(t, tt.want, edn.Vector(u.Key("tokens-in"), u.Key("tokens-out"), u.Key("tokens-mark"), o.meta.Key("tokens/counted-by")).String())
			assert.Len(t, r.server.Besides(), tt.asked)
		})
	}
}

// LLM-020: a stated 0 contradicts a request or an answer of any length, and a 0 after another
// figure states nothing. A total above the other figures contradicts them, unless the stated
// reasoning explains it.
func TestContradictoryUsage(t *testing.T) {
	openAI := func(usage string) string { return `{"choices":[],"usage":` + usage + `}` }
	start := func(usage string) string { return `{"type":"message_start","message":{"usage":` + usage + `}}` }
	end := func(usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + `}`
	}
	ollama := func(in, out int) string {
		return fmt.Sprintf(`{"done":true,"done_reason":"stop","prompt_eval_count":%d,"eval_count":%d}`, in, out)
	}
	completed := func(usage string) string {
		return `{"type":"response.completed","response":{"status":"completed","output":[],"usage":` + usage + `}}`
	}
	for _, tt := range []struct {
		name, dialect string
		before, after string // events around the text
		want          string // in, out, cached, mark
	}{
		{"zeros", "openai-chat", "", openAI(`{"prompt_tokens":0,"completion_tokens":0}`), `[13 4 0 :at-least]`},
		{"zero out", "openai-chat", "", openAI(`{"prompt_tokens":12,"completion_tokens":0}`), `[12 4 0 :at-least]`},
		{
			"only at the start", "openai-chat", openAI(`{"prompt_tokens":12,"completion_tokens":0}`), openAI(`null`),
			`[12 4 0 :at-least]`,
		},
		{
			"zeros after figures", "openai-chat", openAI(`{"prompt_tokens":12,"completion_tokens":5}`),
			openAI(`{"prompt_tokens":0,"completion_tokens":0}`), `[12 5 0 :exact]`,
		},
		{
			"zeros", "anthropic-messages", start(`{"input_tokens":0,"output_tokens":0}`), end(`{"output_tokens":0}`),
			`[13 4 0 :at-least]`,
		},
		{
			"zeros after figures", "anthropic-messages", start(`{"input_tokens":12,"cache_read_input_tokens":9,"output_tokens":1}`),
			end(`{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}`), `[21 5 9 :exact]`,
		},
		{"zeros", "ollama-chat", "", ollama(0, 0), `[13 4 0 :at-least]`},
		{"zeros", "openai-responses", "", completed(`{"input_tokens":0,"output_tokens":0}`), `[13 4 0 :at-least]`},
		{
			"a total above", "openai-chat", "", openAI(`{"prompt_tokens":12,"completion_tokens":5,"total_tokens":500}`),
			`[12 5 0 :at-least]`,
		},
		{
			"a total above", "openai-responses", "", completed(`{"input_tokens":12,"output_tokens":5,"total_tokens":500}`),
			`[12 5 0 :at-least]`,
		},
		{
			"cached tokens only in the total", "openai-chat", "",
			openAI(`{"prompt_tokens":12,"completion_tokens":5,"total_tokens":26,"prompt_tokens_details":{"cached_tokens":9}}`),
			`[12 5 9 :at-least]`,
		},
		{
			"reasoning only in the total", "openai-chat", "",
			openAI(`{"prompt_tokens":12,"completion_tokens":5,"total_tokens":50,"completion_tokens_details":{"reasoning_tokens":33}}`),
			`[12 38 0 :exact]`,
		},
		{
			"reasoning only in the total", "openai-responses", "",
			completed(`{"input_tokens":12,"output_tokens":5,"total_tokens":50,"output_tokens_details":{"reasoning_tokens":33}}`),
			`[12 38 0 :exact]`,
		},
		{
			"reasoning in the output", "openai-chat", "",
			openAI(`{"prompt_tokens":12,"completion_tokens":38,"total_tokens":50,"completion_tokens_details":{"reasoning_tokens":33}}`),
			`[12 38 0 :exact]`,
		},
		{
			"a total above in the first part", "openai-chat", openAI(`{"prompt_tokens":12,"completion_tokens":1,"total_tokens":17}`),
			openAI(`{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}`), `[12 5 0 :exact]`,
		},
		{
			"a total below", "openai-chat", "", openAI(`{"prompt_tokens":12,"completion_tokens":5,"total_tokens":0}`),
			`[12 5 0 :exact]`,
		},
	} {
		k := talks()[tt.dialect]
		event := func(data string) string {
			switch {
			case data == "":
				return ""
			case k.event == nil:
				return "data: " + data + "\n\n"
			}
			return k.event(data)
		}
		finish := ""
		if tt.dialect == "openai-chat" {
			finish = event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		}
		block := ""
		if tt.dialect == "anthropic-messages" {
			block = event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		}
		r := newRig(t, tt.dialect, `{:count "estimate"}`, "",
			k.says(event(tt.before), block, k.text("hello world"), finish, event(tt.after), k.end))
		o := r.ask(t.Context(), "model/chat", hello, "", nil)
		require.Nil(t, o.err, "%s %s: %s", tt.dialect, tt.name, o.err)
		u := o.usage
		got := edn.Vector(u.Key("tokens-in"), u.Key("tokens-out"), u.Key("tokens-cached"), u.Key("tokens-mark")).String()
		assert.Equal(t, tt.want, got, "%s %s", tt.dialect, tt.name)
		costs(t, u, tt.name)
	}
}
