package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// EncodeEmbed encodes a request for the embedding vectors of texts. dims is the
// length of the vectors, 0 for the default of the model.
func EncodeEmbed(n Name, model string, texts []string, dims int64) ([]byte, error) {
	body := maps.Clone(n.format().embedFields)
	body["model"], body["input"] = model, texts
	if dims > 0 {
		body["dimensions"] = dims
	}
	return marshal(body)
}

// Vector is the embedding vector of one text.
type Vector []float64

// UnmarshalJSON rejects null among the numbers, which would be read as 0.
func (v *Vector) UnmarshalJSON(b []byte) error {
	if bytes.Contains(b, []byte("null")) {
		return ErrForeign
	}
	return json.Unmarshal(b, (*[]float64)(v))
}

// Embedded holds vectors in the order of the texts.
type Embedded struct {
	Vectors []Vector
	Model   string
	Usage   chat.Usage
}

// ReadEmbed parses an answer with the embedding vectors of a number of texts. The error is
// ErrMalformed for a truncated answer, an *InBand for an error of the provider, and ErrForeign if
// the body does not have one vector per text, all of the same length.
func ReadEmbed(body []byte, texts int) (Embedded, error) {
	var said struct {
		Error json.RawMessage `json:"error"`
		Model text            `json:"model"`
		Data  []struct {
			Index     int    `json:"index"`
			Embedding Vector `json:"embedding"`
		} `json:"data"`
		Usage struct {
			In *count `json:"prompt_tokens"`
		} `json:"usage"`
		Embeddings []Vector `json:"embeddings"`
		In         *count   `json:"prompt_eval_count"`
	}
	e := Embedded{Usage: chat.Unstated()}
	e.Usage.Out = 0
	err := json.Unmarshal(body, &said)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Offset == int64(len(body)):
		return e, ErrMalformed
	case reported(said.Error):
		return e, &InBand{Body: body}
	case err != nil:
		return e, ErrForeign
	}
	e.Model, e.Vectors = string(said.Model), said.Embeddings
	if e.Vectors == nil {
		e.Vectors = make([]Vector, len(said.Data))
		for _, d := range said.Data {
			if d.Index >= 0 && d.Index < len(e.Vectors) {
				e.Vectors[d.Index] = d.Embedding
			}
		}
	}
	said.Usage.In.set(&e.Usage.In)
	said.In.set(&e.Usage.In)
	bad := func(v Vector) bool { return len(v) == 0 || len(v) != len(e.Vectors[0]) }
	if len(e.Vectors) != texts || texts == 0 || slices.ContainsFunc(e.Vectors, bad) {
		return e, ErrForeign
	}
	return e, nil
}
