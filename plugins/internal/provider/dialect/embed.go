package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

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

// Unfit is the error of an answer that does not fit the request.
type Unfit struct{ What, Hint string }

func (u *Unfit) Error() string { return u.What }

// ReadEmbed parses an answer with the embedding vectors of a number of texts. dims is the requested
// length, 0 for any. The error is ErrMalformed for a truncated answer, an *InBand for an error of
// the provider, ErrForeign if the body has no vectors, and an *Unfit if it does not have one vector
// per text, all of the same length.
func ReadEmbed(body []byte, texts int, dims int64) (Embedded, error) {
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
	if e.Vectors == nil && said.Data != nil {
		e.Vectors = make([]Vector, len(said.Data))
		for _, d := range said.Data {
			if d.Index >= 0 && d.Index < len(e.Vectors) {
				e.Vectors[d.Index] = d.Embedding
			}
		}
	}
	said.Usage.In.set(&e.Usage.In)
	said.In.set(&e.Usage.In)
	if e.Vectors == nil {
		return e, ErrForeign
	}
	return e, e.fits(texts, dims)
}

// fits returns an *Unfit unless there is one vector per text, all of the same length.
func (e Embedded) fits(texts int, dims int64) error {
	const hint = "use a model that embeds each text of a request"
	if len(e.Vectors) != texts {
		return &Unfit{fmt.Sprintf("the answer has %d vectors for %d texts", len(e.Vectors), texts), hint}
	}
	for i, v := range e.Vectors {
		switch n := len(v); {
		case n == 0:
			return &Unfit{fmt.Sprintf("the answer has no vector for the text with index %d", i), hint}
		case n != len(e.Vectors[0]):
			return &Unfit{fmt.Sprintf("the vectors have %d and %d dimensions", len(e.Vectors[0]), n), hint}
		case dims > 0 && int64(n) != dims:
			return &Unfit{fmt.Sprintf("the vectors have %d dimensions, %d were requested", n, dims),
				"leave :dims out, or use a model that can shorten its vectors"}
		}
	}
	return nil
}
