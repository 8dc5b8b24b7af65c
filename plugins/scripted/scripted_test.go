package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

func TestMain(m *testing.M) { sdktest.Main(m, newPlugin()) }

// inline returns the configuration for a script with one capability of the
// steps.
func inline(steps string, rest ...string) map[string]any {
	return map[string]any{"inline": fmt.Sprintf(`
{:capabilities
 {:llm/voice-a
  {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text
   :steps [%s] %s}}}`, steps, strings.Join(rest, " "))}
}

const voice = "llm/voice-a"

// outcome returns the result of a call as one line: the output, the plan or the
// error.
func outcome(p *sdktest.Plugin, input any) string {
	response, err := p.Do(context.Background(), sdktest.Call{Capability: voice, Input: input})
	if err != nil {
		return ":" + contract.AsError(err).Type
	}
	if e := response.Key("error"); !e.IsNil() {
		return "error " + e.String()
	}
	result := response.Key("result")
	if plan := result.Key("plan"); !plan.IsNil() {
		return "plan " + plan.String() + " " + result.Key("bindings").String()
	}
	return result.Key("out").String()
}

// SCR-002: steps are played in the order of the calls; :then determines the
// steps after the last.
func TestStepsInOrder(t *testing.T) {
	const two = `{:value {:text "a"}} {:value {:text "b"}}`
	for _, tt := range []struct{ name, then, want string }{
		{"default", ``, "a b b b b"},
		{"repeat last", `:then :repeat-last`, "a b b b b"},
		{"cycle", `:then :cycle`, "a b a b a"},
		{"a step", `:then {:value {:text "z"}}`, "a b z z z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(inline(two, tt.then)))
			var got []string
			for range 5 {
				text, _ := p.MustInvoke(voice, nil).Key("text").AsString()
				got = append(got, text)
			}
			assert.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

// SCR-001, SCR-003: the answer of each action.
func TestActions(t *testing.T) {
	for _, tt := range []struct{ name, step, want string }{
		{"value", `{:value {:text "x"}}`, `{:text "x"}`},
		{"string value", `{:value "x"}`, `{:text "x"}`},
		{"number value", `{:value 7}`, `{:value 7}`},
		{"no value", `{:value nil}`, `{}`},
		{"error", `{:error {:type :eval/low-score :details {:score 0.1}}}`, `error {:details {:score 0.1} :type :eval/low-score}`},
		{"own error", `{:error {:type :mine/tired :class :stop}}`, `error {:class :stop :type :mine/tired}`},
		{"template", `{:template {:text "ECHO:{{input.prompt}}" :n "{{ input.n }}/{{input.list.1}}"}}`, `{:n "7/b" :text "ECHO:hi"}`},
		{"template of a string", `{:template "{{task.intent}} {{call.attempt}}"}`, `{:text ":text/respond 3"}`},
		{"template with a key that is a string", `{:template "{{input.Plain Key}}"}`, `{:text "p"}`},
		{"template without the value", `{:template "{{input.absent}}"}`, `:render/missing`},
		{"template without an end", `{:template "{{input"}`, `:render/syntax`},
		{"plan", `{:plan {:nodes []} :bindings {:summary "x"}}`, `plan {:nodes []} {:summary "x"}`},
		{"plan without bindings", `{:plan {:nodes []}}`, `plan {:nodes []} nil`},
		{"stream", `{:stream ["a" {:kind :reasoning :text "b"} "c"]}`, `{:text "abc"}`},
		{"stream, then a value", `{:stream ["a"] :value {:text "whole"}}`, `{:text "whole"}`},
		{"stream, then an error", `{:stream ["a"] :error {:type :stream/stalled}}`, `error {:type :stream/stalled}`},
		{"raw that is no EDN", `{:raw "{:result {:type"}`, `:runtime/protocol`},
		{"raw that is EDN", `{:raw "{:result {:type :value}}"}`, `nil`},
		{"raw reserved tag", `{:raw "{:result #ferment/secret :x}"}`, `:runtime/invalid-result`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(inline(tt.step)))
			input := map[string]any{"prompt": "hi", "n": 7, "list": []string{"a", "b"}}
			value, err := sdk.Encode(input)
			require.NoError(t, err)
			value = value.Assoc(edn.Text("Plain Key"), edn.Text("p"))
			response, err := p.Do(t.Context(), sdktest.Call{Capability: voice, Input: value, Context: wire.CallContext{Attempt: 3}})
			got := ""
			switch {
			case err != nil:
				got = ":" + contract.AsError(err).Type
			case !response.Key("error").IsNil():
				got = "error " + response.Key("error").String()
			case !response.Key("result").Key("plan").IsNil():
				got = "plan " + response.Key("result").Key("plan").String() + " " + response.Key("result").Key("bindings").String()
			default:
				got = response.Key("result").Key("out").String()
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// SCR-003, LM-003: pieces arrive one after the other, numbered, and the answer
// is marked as scripted.
func TestStreamPiecesAndUsage(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(inline(`{:stream ["a" "b" "c"] :chunk-ms 1 :delay-ms 1 :usage {:tokens-out 3} :meta {:model "m"}}`)))
	var deltas []string
	response, err := p.Do(t.Context(), sdktest.Call{Capability: voice, OnEvent: func(e wire.Event) { deltas = append(deltas, e.Value.String()) }})
	require.NoError(t, err)
	assert.Equal(t, []string{`{:kind :text :seq 1 :text "a"}`, `{:kind :text :seq 2 :text "b"}`, `{:kind :text :seq 3 :text "c"}`}, deltas)
	assert.Equal(t, `{:invoke/meta {:model "m"} :result {:out {:text "abc"} :type :value :usage {:mode :scripted :tokens-out 3}}}`, response.String())
}

// SCR-003: waiting ends with the call.
func TestHangAndDelayEndWithTheCall(t *testing.T) {
	for _, step := range []string{`{:hang true}`, `{:delay-ms 3600000 :value 1}`, `{:stream ["a" "b"] :chunk-ms 3600000}`} {
		t.Run(step, func(t *testing.T) {
			p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(inline(step)))
			_, err := p.Do(t.Context(), sdktest.Call{Capability: voice, Context: wire.CallContext{Deadline: time.Now().Add(30 * time.Millisecond)}})
			require.ErrorIs(t, err, contract.OfType("timeout/hard"))
		})
	}
}

// SCR-002: a new process continues where the last one ended, because the host
// stores the position; several processes share the script.
func TestPositionsOutliveTheProcess(t *testing.T) {
	steps := ""
	for i := range 40 {
		steps += fmt.Sprintf("{:value %d} ", i)
	}
	host := &sdktest.Host{}
	start := func() *sdktest.Plugin {
		return sdktest.Start(t, sdktest.WithHost(host), sdktest.WithConfig(inline(steps)))
	}
	first := start()
	assert.Equal(t, "{:value 0}", outcome(first, nil))
	assert.Equal(t, "{:value 1}", outcome(first, nil))
	second := start()
	assert.Equal(t, "{:value 2}", outcome(second, nil))
	assert.Equal(t, "{:value 3}", outcome(first, nil))

	var mu sync.Mutex
	seen := map[string]bool{}
	var calls sync.WaitGroup
	for i := range 36 {
		calls.Go(func() {
			got := outcome([]*sdktest.Plugin{first, second}[i%2], nil)
			mu.Lock()
			defer mu.Unlock()
			assert.False(t, seen[got], "%s twice", got)
			seen[got] = true
		})
	}
	calls.Wait()
	assert.Len(t, seen, 36)
}

// SCR-002, SCR-003: crashes end a real process in the scripted way, and the
// next process plays the next step.
func TestCrashes(t *testing.T) {
	for _, tt := range []struct{ step, exit, log string }{
		{`{:crash :sigkill}`, "SIGKILL", ""},
		{`{:stream ["half"] :chunk-ms 50 :crash :sigkill}`, "SIGKILL", ""},
		{`{:crash :panic}`, "status 2", "panic: scripted crash"},
		{`{:crash :exit-3}`, "status 3", ""},
		{`{:crash :exit-0 :delay-ms 1}`, "status 0", ""},
	} {
		t.Run(tt.step, func(t *testing.T) {
			host := &sdktest.Host{}
			config := inline(tt.step + ` {:value {:text "after"}}`)
			p := sdktest.Start(t, sdktest.WithHost(host), sdktest.WithConfig(config))
			pieces := 0
			_, err := p.Do(t.Context(), sdktest.Call{Capability: voice, OnEvent: func(wire.Event) { pieces++ }})
			require.ErrorIs(t, err, contract.OfType("runtime/crashed"))
			assert.True(t, wire.Transport(err))
			<-p.Instance().Done()
			exit := p.Instance().(conformance.Reporter).Report()
			assert.Contains(t, exit.Exit.String(), tt.exit)
			assert.Contains(t, strings.Join(append(exit.Tail, exit.Panic...), "\n"), tt.log)
			if strings.Contains(tt.step, "half") {
				assert.Equal(t, 1, pieces, "what was sent before the crash arrived")
			}
			next := sdktest.Start(t, sdktest.WithHost(host), sdktest.WithGeneration(2), sdktest.WithConfig(config))
			assert.Equal(t, `{:text "after"}`, outcome(next, nil))
		})
	}
}

// SCR-001, ENV-010: one process provides every capability of the script, with
// its metadata; the configuration schema is advertised without a script.
func TestDescribe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.edn")
	require.NoError(t, os.WriteFile(path, []byte(`
{:schemas {:req/mine [:map [:n :int]]}
 :capabilities
 {:llm/voice-a {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text :repairs? true :cost {:usd 0.01M} :steps [{:value "a"}]}
  :plan/maker  {:intents #{:meta/plan} :in-schema :req/mine :steps [{:plan {:nodes []}}]}
  :both/ways   {:intents #{:meta/plan} :effects #{:fs/read} :steps [{:plan {:nodes []}} {:value 1}]}}}`), 0o600))
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(map[string]any{"script": path}))
	d := p.Description()
	require.Len(t, d.Capabilities, 3)
	byID := map[string]contract.Capability{}
	for _, c := range d.Capabilities {
		byID[c.ID] = c
	}
	assert.Equal(t, "llm", byID["llm/voice-a"].Kind)
	assert.True(t, byID["llm/voice-a"].Repairs)
	assert.Equal(t, []string{"value"}, byID["llm/voice-a"].CanProduce)
	assert.Equal(t, []string{"plan"}, byID["plan/maker"].CanProduce)
	assert.Equal(t, []string{"plan", "value"}, byID["both/ways"].CanProduce)
	assert.Equal(t, []string{"fs/read"}, byID["both/ways"].Effects)
	assert.Equal(t, "req/mine", byID["plan/maker"].InSchema.For("meta/plan"))
	assert.Equal(t, `[:map [:n :int]]`, d.Schemas["req/mine"].String())

	bare := sdktest.Serve(t, newPlugin(), sdktest.Unconfigured())
	said, err := bare.Client().Describe(t.Context(), edn.Nil(), wire.HostInfo{})
	require.NoError(t, err)
	form := said.Value.Key("config").Key("config/schema")
	if form.IsNil() {
		parsed, err := said.Parse()
		require.NoError(t, err)
		form = parsed.ConfigSchema.Key("config/schema")
	}
	assert.Equal(t, `[:map {:closed true} [:script {:doc "file with the script" :optional true :unit :path} :string] [:inline {:doc "the script itself, as EDN text" :optional true} :string]]`, form.String())
}

// All mistakes in a script are reported at once, at their place in the script
// and under the setting that holds it.
func TestBadScripts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, tt := range []struct {
		name   string
		config map[string]any
		at     string
		says   []string
	}{
		{"nothing", map[string]any{}, "[:script]", []string{"a script is missing"}},
		{"both", map[string]any{"script": "x", "inline": "y"}, "[:inline]", []string{"not both"}},
		{"no file", map[string]any{"script": filepath.Join(dir, "absent.edn")}, "[:script]", []string{"no such file"}},
		{"a directory", map[string]any{"script": dir}, "[:script]", []string{"not a regular file"}},
		{"no EDN", map[string]any{"script": write("broken.edn", "{:capabilities\n {")}, "[:script]", []string{"broken.edn:2:"}},
		{"unknown setting", map[string]any{"scrip": "x"}, "[:scrip]", nil},
		{"wrong type", map[string]any{"script": 7}, "[:script]", nil},
		{"no map", map[string]any{"inline": "[]"}, "[:inline]", []string{"a script is a map"}},
		{"no capability", map[string]any{"inline": "{:capabilities {}}"}, "[:inline]", []string{"at least one capability"}},
		{"no such key", map[string]any{"inline": "{:capabilities {:a/b {:steps [{:value 1 :bogus 1}]}}}"}, "[:inline]",
			[]string{"unknown key :bogus in a step: the keys are :", " :value"}},
		{"misspelt action", map[string]any{"inline": "{:capabilities {:a/b {:steps [{:vale 1}]}}}"}, "[:inline]", []string{"did you mean :value?"}},
		{"all at once", map[string]any{"inline": "{:capabilitys 1\n :capabilities {:a/b {:steps [{:vale 1}\n {:value 1 :raw \"x\"} {:crash :gently}\n {:error {}} {:stream 7} {:delay-ms -1 :value 1} 7 {:hang 1} {:bindings 1 :plan {}}]\n :then :never}\n \"c\" {} :d/e {:kind 7 :steps []}}}"},
			"[:inline]", []string{"1:2: unknown key :capabilitys in a script, did you mean :capabilities?", "did you mean :value?", "not both :value and :raw", ":crash is :sigkill",
				":error is a map", ":stream is a vector", ":delay-ms is a number", "a step is a map", ":hang is true", ":bindings is a map", ":then is :repeat-last", `keyword with a map, not "c"`, "at least one step", "kind"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sdktest.Serve(t, newPlugin(), sdktest.Unconfigured())
			config, err := sdk.Encode(tt.config)
			require.NoError(t, err)
			d, err := p.Client().Describe(t.Context(), config, wire.HostInfo{})
			require.NoError(t, err)
			require.NotEmpty(t, d.Findings)
			var messages []string
			for _, f := range d.Findings {
				assert.Equal(t, tt.at, edn.Vector(f.Path...).String())
				messages = append(messages, f.Message)
			}
			if tt.name == "misspelt action" {
				assert.Len(t, messages, 1)
			}
			all := strings.Join(messages, "\n")
			for _, text := range tt.says {
				assert.Contains(t, all, text)
			}
		})
	}
}
