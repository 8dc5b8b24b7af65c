package dialect

import (
	"encoding/json"
	"strings"
)

// ReadWindow returns the context window of the loaded model, in tokens, from the
// answer of a WindowPath: /props of llama-server, /v1/models of vLLM, /api/ps of
// Ollama or /api/v0/models of LM Studio. It is 0 if the model is not loaded; ok
// is false if body is not such an answer.
func ReadWindow(model string, body []byte) (window int64, ok bool) {
	type loaded struct {
		ID     text  `json:"id"`
		Name   text  `json:"name"`
		Max    count `json:"max_model_len"`
		Length count `json:"context_length"`
		Loaded count `json:"loaded_context_length"`
	}
	var said struct {
		Settings struct {
			Window count `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Data   []loaded `json:"data"`
		Models []loaded `json:"models"`
	}
	if json.Unmarshal(body, &said) != nil {
		return 0, false
	}
	n := said.Settings.Window
	for _, m := range append(said.Data, said.Models...) {
		name := first(string(m.ID), string(m.Name))
		if name == model || strings.TrimSuffix(name, ":latest") == model {
			n = max(n, m.Max, m.Length, m.Loaded)
		}
	}
	return int64(max(n, 0)), n > 0 || said.Data != nil || said.Models != nil
}
