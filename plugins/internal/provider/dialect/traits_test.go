package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
}

func TestReadWindow(t *testing.T) {
	for body, want := range map[string]int64{
		`{"default_generation_settings":{"n_ctx":4096},"total_slots":2}`:                 4096,
		`{"data":[{"id":"other","max_model_len":1},{"id":"m","max_model_len":32768}]}`:   32768,
		`{"models":[{"name":"m:latest","context_length":2048}]}`:                         2048,
		`{"models":[{"name":"n:latest","context_length":2048}]}`:                         0,
		`{"data":[{"id":"m","max_context_length":131072,"loaded_context_length":8192}]}`: 8192,
		`{"models":[]}`: 0, `<html>`: 0, `[]`: 0, `{"default_generation_settings":{"n_ctx":"many"}}`: 0,
	} {
		assert.Equal(t, want, ReadWindow("m", []byte(body)), body)
	}
}
