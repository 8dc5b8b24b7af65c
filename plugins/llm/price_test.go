package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// LLM-020: the usage has the mark of the cost, and the metadata the price that
// was used.
func TestPriceUsed(t *testing.T) {
	k := talks()["openai-chat"]
	answers := k.says(k.start, k.text("yes"), k.finish("stop"), k.end)
	for _, tt := range []struct{ price, mark, used string }{
		{`{:input "1" :output "2"}`, "exact", `{:from :configuration}`},
		{`{:input "1" :output "2" :source "a contract" :date "2026-01-31"}`, "exact", `{:from :configuration :source "a contract" :date "2026-01-31"}`},
		{`{:input 1M :output 2M :listed "openai/sample" :source "a page" :date "2026-01-31"}`, "estimated", `{:from :list :listed "openai/sample" :source "a page" :date "2026-01-31"}`},
		{`{:input 1M :output 2M :up-to 1}`, "at-least", `{:from :configuration}`},
		{`{:free true}`, "exact", `{:from :configuration}`},
		{`{:listed "openai/nothing"}`, "unknown", `nil`},
		{`{}`, "unknown", `nil`},
	} {
		r := newRig(t, "openai-chat", `{:price `+tt.price+`}`, "", answers)
		got := r.ask(t.Context(), "model/chat", hello, "", nil)
		require.Nil(t, got.err, tt.price)
		mark, _ := got.usage.Key("cost-mark").AsKeyword()
		assert.Equal(t, tt.mark, mark, tt.price)
		assert.Equal(t, tt.mark == "unknown", got.usage.Key("cost-usd").IsNil(), tt.price)
		assert.True(t, edn.Equal(edn.MustRead(tt.used), got.meta.Key("price")), "%s: %s", tt.price, got.meta.Key("price"))
	}
}
