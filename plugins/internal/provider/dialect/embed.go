package dialect

import (
	"encoding/json"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// EmbedPath is the endpoint of a format that makes vectors of texts, "" for none:
// Anthropic has none (openai-python, resources/embeddings.py; ollama, docs/api.md;
// both 2026-08-21).
func EmbedPath(d Name) string {
	return map[Name]string{OpenAI: "/embeddings", Responses: "/embeddings", Ollama: "/api/embed"}[d]
}

// EncodeEmbed asks for the vectors of texts. dims is their length, 0 for that of
// the model. A server must not cut a text in silence.
func EncodeEmbed(d Name, model string, texts []string, dims int64) ([]byte, error) {
	body := map[string]any{"model": model, "input": texts}
	if dims > 0 {
		body["dimensions"] = dims
	}
	if d == Ollama {
		body["truncate"] = false
	} else {
		body["encoding_format"] = "float"
	}
	return marshal(body)
}

// Embedded are vectors, in the order of the texts.
type Embedded struct {
	Vectors [][]float64
	Model   string
	Usage   chat.Usage
}

// ReadEmbed reads the answer; false if it is none with that many vectors of one
// length.
func ReadEmbed(body []byte, texts int) (Embedded, bool) {
	var said struct {
		Model text `json:"model"`
		Data  []struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			In *count `json:"prompt_tokens"`
		} `json:"usage"`
		Embeddings [][]float64 `json:"embeddings"`
		In         *count      `json:"prompt_eval_count"`
	}
	e := Embedded{Usage: chat.Unstated()}
	e.Usage.Out = 0
	if json.Unmarshal(body, &said) != nil {
		return e, false
	}
	e.Model, e.Vectors = string(said.Model), said.Embeddings
	if e.Vectors == nil {
		e.Vectors = make([][]float64, len(said.Data))
		for _, d := range said.Data {
			if d.Index >= 0 && d.Index < len(e.Vectors) {
				e.Vectors[d.Index] = d.Embedding
			}
		}
	}
	said.Usage.In.set(&e.Usage.In)
	said.In.set(&e.Usage.In)
	bad := func(v []float64) bool { return len(v) == 0 || len(v) != len(e.Vectors[0]) }
	return e, len(e.Vectors) == texts && texts > 0 && !slices.ContainsFunc(e.Vectors, bad)
}
