package question

import (
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ReadEmbed parses the texts to embed, which are also the messages of the
// question, and dims, the requested length of the vectors (0 for the default of
// the model).
func ReadEmbed(request edn.Value) (q *Question, texts []string, dims int64, failed *contract.Error) {
	if texts, dims, failed = toEmbed(request.Key("input")); failed != nil {
		return nil, nil, 0, failed
	}
	q = &Question{Intent: Embed, Agent: request.Key("context").Key("agent/id")}
	for _, t := range texts {
		q.Messages = append(q.Messages, chat.Message{Role: chat.User, Content: t})
	}
	q.Hash = q.promptHash()
	return q, texts, dims, nil
}

// toEmbed parses the texts to embed.
func toEmbed(input edn.Value) (texts []string, dims int64, failed *contract.Error) {
	list, at := input.Key("texts"), edn.K("texts")
	if !list.IsVector() && !list.IsList() || list.Len() == 0 {
		return nil, 0, invalid([]edn.Value{at}, "should be a vector of at least one text, got %.80s", list)
	}
	if list.Len() > maxTexts {
		return nil, 0, Beyond("the request has %d texts, the limit is %d", list.Len(), maxTexts)
	}
	for v := range list.Elems() {
		t, ok := v.AsString()
		if !ok || strings.TrimSpace(t) == "" || strings.ContainsRune(t, 0) {
			here := []edn.Value{at, edn.Int(int64(len(texts)))}
			return nil, 0, invalid(here, "should be a text that is not blank and has no NUL, got %.80s", v)
		}
		texts = append(texts, t)
	}
	if want := input.Key("dims"); !want.IsNil() {
		n, ok := want.AsInt()
		if !ok || n < 1 || n > 1<<16 {
			return nil, 0, invalid([]edn.Value{edn.K("dims")}, "should be an integer from 1 to 65536, got %.80s", want)
		}
		dims = n
	}
	return texts, dims, nil
}
