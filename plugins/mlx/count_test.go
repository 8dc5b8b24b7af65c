//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// LLM-022: a running server counts; none is started for it, and input that its
// model cannot read is rejected before the server is called.
func TestCounting(t *testing.T) {
	serve := `{:preset "llama-server" :serve {"voice" {:intents ["model/chat" "text/respond"] :context 60}}}`
	r := newRig(t, serve, "tokenize")
	count := func(text string) string {
		o := r.do(t.Context(), sdktest.Call{Capability: "mlx/voice", Intent: answer.Count, Input: edn.MustMap(edn.K("text"), edn.Text(text))})
		require.Nil(t, o.err, "%s", o.err)
		return o.response.Key("result").Key("out").Dissoc(edn.K("text")).String()
	}
	assert.Equal(t, `{:context-tokens 60 :tokens-in 12 :tokens/counted-by :estimate}`, count("hello world!"))
	assert.Empty(t, r.pids(), "no server is started to be asked for a count")

	r.must("hello", "")
	assert.Equal(t, `{:context-tokens 60 :tokens-in 9 :tokens/counted-by :endpoint}`, count("hello world!"))
	assert.Len(t, r.pids(), 1)

	words := ""
	for range 60 {
		words += "word "
	}
	o := r.ask(t.Context(), words, "", nil)
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/context-exceeded", o.err.Type)
	assert.Equal(t, "[67 60 :endpoint]", edn.Vector(o.err.Details.Key("tokens-in"), o.err.Details.Key("context-tokens"), o.err.Details.Key("tokens/counted-by")).String())
	assert.Equal(t, "answer", r.must("one two three", "")[:6])
}

// LLM-022: for a server that cannot count, the plugin estimates.
func TestCountingWithoutAnEndpoint(t *testing.T) {
	r := newRig(t, `{:preset "llama-server"}`)
	r.must("hello", "")
	o := r.do(t.Context(), sdktest.Call{Capability: "mlx/voice", Intent: answer.Count, Input: edn.MustRead(`{:text "hello world!"}`)})
	require.Nil(t, o.err, "%s", o.err)
	assert.Equal(t, `{:tokens-in 12 :tokens/counted-by :estimate}`, o.response.Key("result").Key("out").Dissoc(edn.K("text")).String())
}
