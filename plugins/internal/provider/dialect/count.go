package dialect

import (
	"encoding/json"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
)

// EncodeCount encodes a request to the counting endpoint of a preset for the
// tokens of r. around is the number of tokens to add to the result.
func EncodeCount(p Preset, r *chat.Request) (body []byte, around int64, err error) {
	if p.CountField != "" {
		texts, around := pricing.Texts(r)
		body, err = EncodeCountText(p, r.Model, strings.Join(texts, "\n"))
		return body, around, err
	}
	fields := compose(p, r).body
	for _, name := range []string{"stream", "max_tokens", "temperature", "top_p", "stop_sequences"} {
		delete(fields, name)
	}
	for _, name := range []string{"thinking", "cache_control"} { // other counted fields
		if v, ok := r.Options.Extra[name]; ok {
			fields[name] = v
		}
	}
	body, err = marshal(fields)
	return body, 0, err
}

// EncodeCountText encodes a request to count the tokens of a text, for a
// counting endpoint with a CountField.
func EncodeCountText(p Preset, model, text string) ([]byte, error) {
	return marshal(map[string]any{"model": model, p.CountField: text})
}

// ReadCount returns the number of tokens in the answer of a counting endpoint.
// It returns false if body is not such an answer.
func ReadCount(body []byte) (int64, bool) {
	var said struct {
		Input  *int64            `json:"input_tokens"`
		Count  *int64            `json:"count"`
		Tokens []json.RawMessage `json:"tokens"`
	}
	if json.Unmarshal(body, &said) != nil {
		return 0, false
	}
	for _, n := range []*int64{said.Input, said.Count} {
		if n != nil {
			return *n, *n >= 0
		}
	}
	return int64(len(said.Tokens)), said.Tokens != nil
}
