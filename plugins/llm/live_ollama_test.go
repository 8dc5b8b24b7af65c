//go:build live

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/livetest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ollamaProgram names the program that is built in
// plugins/internal/provider/livetest/ollama.
const ollamaProgram = "FERMENT_LIVE_OLLAMA_PROGRAM"

// atOllama is one server in each format that it speaks.
func atOllama(s *livetest.Server) []live {
	var all []live
	for _, row := range []struct{ preset, provider, version, quirks string }{
		{"ollama", "ollama", "", `{}`},
		{"generic", "compatible", "/v1", `{:response-format "json_schema" :tools true}`},
		{"openai-responses", "compatible", "/v1", `{}`},
		{"anthropic", "anthropic", "", `{:response-format "none"}`}, // it does not read output_config
	} {
		p, _ := dialect.PresetNamed(row.preset)
		p.Tools = true
		model := edn.MustMap(edn.K("name"), edn.Text(s.Model), edn.K("quirks"), edn.MustRead(row.quirks)).Merge(
			edn.MustRead(`{:intents ["model/chat" "text/respond" "eval/grade"] :price {:free true}}`))
		all = append(all, live{
			name: "Ollama, " + string(p.Dialect), key: "not-a-key-of-anybody", preset: p,
			config: edn.MustMap(edn.K("provider"), edn.Text(row.provider), edn.K("preset"), edn.Text(row.preset),
				edn.K("base-url"), edn.Text(s.URL+row.version), edn.K("model"), edn.MustMap(edn.Text("voice"), model)),
			greet: livetest.Greeting, count: livetest.Counting, grade: livetest.Grading, call: livetest.CallsTool,
			lacks: without(p, true),
		})
	}
	return all
}

// ollamaHabits holds what is known of Ollama beyond the cases for every server.
func ollamaHabits(t *testing.T, l live) {
	native, thinker := l.preset.Name == "ollama", `{:name "`+livetest.Thinker+`"}`
	chat := func(t *testing.T, model, input, fields string) outcome {
		return l.rig(t, model).ask(t.Context(), "model/chat", input, fields, nil)
	}
	offering := func(content string) string {
		tools := edn.MustRead(`{:tools [{:tool/id :weather :in-schema [:map [:city :string]]}]}`)
		return edn.MustRead(says(content)).Merge(tools).String()
	}
	t.Run("the text and its tokens", func(t *testing.T) {
		o := chat(t, "", says(l.greet), budgeted(200))
		require.Nil(t, o.err)
		assert.Equal(t, livetest.Text, o.text)
		assert.Equal(t, ":stop", o.meta.Key("finish").String())
		assert.Equal(t, "13 :exact", o.usage.Key("tokens-out").String()+" "+o.usage.Key("tokens-mark").String())
	})
	t.Run("a text before a call", func(t *testing.T) {
		o := chat(t, "", offering(livetest.Explains), budgeted(200))
		require.Nil(t, o.err)
		assert.Equal(t, livetest.Before, strings.TrimSpace(o.text))
		assert.Equal(t, ":tool-calls", o.meta.Key("finish").String())
		assert.Contains(t, o.out.Key("tool/calls").String(), `"Bergen"`)
	})
	t.Run("a call that is cut", func(t *testing.T) {
		o := chat(t, "", offering(livetest.CallsTool), budgeted(4))
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/output-truncated", o.err.Type, "%s", o.err)
	})
	t.Run("a call and its result go back", func(t *testing.T) {
		input := offering("x")
		turns := edn.MustRead(`{:messages [{:role :user :content "forecast"}
		  {:role :assistant :content "" :tool/calls [{:id "t1" :tool/id :weather :args {:city "Oslo"}}]}
		  {:role :tool :tool/id "t1" :content "rain hello"}]}`)
		o := chat(t, "", edn.MustRead(input).Merge(turns).String(), budgeted(200))
		require.Nil(t, o.err)
		assert.Equal(t, livetest.Text, o.text)
	})
	t.Run("reasoning", func(t *testing.T) {
		o := chat(t, thinker, says(livetest.Thinks), budgeted(200))
		require.Nil(t, o.err)
		assert.Equal(t, []string{livetest.Thought, livetest.Conclusion}, []string{o.reasoning, o.text})
		o = chat(t, thinker, says(livetest.Thinks), budgeted(3))
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/empty :length", o.err.Type+" "+o.err.Details.Key("finish").String())
	})
	t.Run("an effort that the model lacks is asked for once", func(t *testing.T) {
		for _, model := range []string{"{}", thinker} {
			r := l.rig(t, model)
			input := edn.MustRead(says(l.greet)).Merge(edn.MustRead(`{:reasoning :high}`)).String()
			o := r.ask(t.Context(), "model/chat", input, budgeted(200), nil)
			if l.preset.Dialect.AsksUsage() || native { // the others pass over it
				require.NotNil(t, o.err)
				assert.Equal(t, "provider/error", o.err.Type, "%s", o.err)
				o = r.ask(t.Context(), "model/chat", input, budgeted(200), nil)
			}
			require.Nil(t, o.err, "%s", o.err)
			assert.Equal(t, livetest.Text, o.text)
		}
	})
	t.Run("a prompt that is too long", func(t *testing.T) {
		o := chat(t, "", says(strings.Repeat("x ", 4*livetest.OllamaWindow)+l.greet), budgeted(20))
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/context-exceeded", o.err.Type, "%s", o.err)
	})
	t.Run("a probe finds it as it is declared", func(t *testing.T) {
		o := l.rig(t, "").ask(t.Context(), "model/probe", `{}`, "", nil)
		require.Nil(t, o.err, "%s", o.err)
		if l.preset.Name == "anthropic" { // what it asks for comes also unforced
			assert.Equal(t, []string{`:response-format "none" "json_schema"`}, differences(o))
			return
		}
		assert.True(t, o.out.Key("agrees?").Truthy(), "LM-006: %s", o.out)
	})
}
