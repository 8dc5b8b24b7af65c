package dialect

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Each row names its source, and no row is hidden by an earlier one.
func TestTraitsHaveSources(t *testing.T) {
	for _, row := range table() {
		assert.True(t, row.Source != "" && row.Date != "", row.Begins)
		for _, begin := range row.Begins {
			assert.Equal(t, row.Source, TraitsOf(begin).Source, begin)
		}
		for _, field := range row.Without {
			assert.Contains(t, droppable(), field)
		}
	}
	assert.Empty(t, TraitsOf("claude-sonnet-4-5").Without)
	for _, row := range windows() {
		assert.True(t, row.Source != "" && row.Date != "" && row.Window > 0, row.Begins)
		for _, begin := range row.Begins {
			assert.Equal(t, row.Window, TraitsOf(begin).Window, begin)
		}
	}
	for model, window := range map[string]int64{
		"gpt-5": 400_000, "openai/gpt-5-mini-2025-08-07": 400_000, "gpt-5.1": 400_000, "gpt-5.9": 0, "gpt-50": 0,
		"gpt-5.4-mini": 400_000, "gpt-5.5-2026-04-23": 1_050_000, "claude-opus-4-1-20250805": 200_000,
		"claude-opus-4-8": 1_000_000, "openai/gpt-oss-20b": 131_072, "gemini-2.5-pro": 1_048_576, "gemini-4": 0,
		"o1": 200_000, "o1-mini": 128_000, "o30": 0,
	} {
		assert.Equal(t, window, TraitsOf(model).Window, model)
	}
}

// Each model of the price list has a known context window.
func TestPricedModelsHaveWindows(t *testing.T) {
	list, err := os.ReadFile("../../../../host/internal/runtime/config/pricelist/prices.edn")
	require.NoError(t, err)
	prices, err := edn.Read(list)
	require.NoError(t, err)
	models := 0
	for row := range prices.Key("prices").Elems() {
		for model := range row.Key("models").Elems() {
			name, _ := model.AsString()
			assert.Positive(t, TraitsOf(name).Window, name)
			models++
		}
	}
	assert.Positive(t, models)
}

func TestReadWindow(t *testing.T) {
	for body, want := range map[string]int64{
		`{"default_generation_settings":{"n_ctx":4096},"total_slots":2}`:                 4096,
		`{"data":[{"id":"other","max_model_len":1},{"id":"m","max_model_len":32768}]}`:   32768,
		`{"models":[{"name":"m:latest","context_length":2048}]}`:                         2048,
		`{"models":[{"name":"n:latest","context_length":2048}]}`:                         0,
		`{"data":[{"id":"m","max_context_length":131072,"loaded_context_length":8192}]}`: 8192,
		`{"models":[]}`: 0, `<html>`: -1, `[]`: -1, `{"status":"ok"}`: -1, `{"default_generation_settings":{"n_ctx":"many"}}`: -1,
	} {
		window, ok := ReadWindow("m", []byte(body))
		assert.Equal(t, want >= 0, ok, body)
		assert.Equal(t, max(want, 0), window, body)
	}
}
