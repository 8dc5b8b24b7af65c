package dialect

import (
	"encoding/json"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
)

// EncodeCount writes the question how many tokens a request has, for the
// endpoint of a preset, and gives the tokens that have to be added to what that
// says.
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
	for _, name := range []string{"thinking", "cache_control"} { // what else is counted
		if v, ok := r.Options.Extra[name]; ok {
			fields[name] = v
		}
	}
	body, err = marshal(fields)
	return body, 0, err
}

// EncodeCountText writes the question how many tokens a text has, for an endpoint
// with a CountField.
func EncodeCountText(p Preset, model, text string) ([]byte, error) {
	return marshal(map[string]any{"model": model, p.CountField: text})
}

// ReadCount reads the answer to it; false if it is none.
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
