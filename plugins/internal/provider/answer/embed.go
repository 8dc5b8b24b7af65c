package answer

import (
	"context"
	"errors"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// embed executes an embedding call: one request, and one answer in one piece.
func (p *Provider) embed(ctx context.Context, m *Model, request edn.Value, out Sink) (edn.Value, *contract.Error) {
	q, texts, dims, err := question.ReadEmbed(request)
	if err != nil {
		return edn.Nil(), err
	}
	c := &call{
		provider: p, model: m, question: q, out: out, answer: chat.NewAnswer(),
		request: &chat.Request{Model: m.wire(), Messages: together(texts)},
	}
	if m.Preset.EmbedPath == "" {
		return edn.Nil(), c.fail(failure.Unsayable, "the format %s has no embeddings", m.Preset.Dialect).
			WithHint("use a provider with embeddings for this intent")
	}
	body, failed := dialect.EncodeEmbed(m.Preset.Dialect, m.wire(), texts, dims)
	if failed != nil {
		return edn.Nil(), c.fail(failure.RequestInvalid, "write the request as JSON: %v", failed)
	}
	if len(body) > MaxRequest {
		return edn.Nil(), question.Beyond("the request has %d bytes, the limit is %d", len(body), MaxRequest)
	}
	leave, err := c.post(ctx, m.Preset.EmbedPath, body)
	if err != nil {
		return edn.Nil(), err
	}
	defer leave()
	value, err := c.vectors(ctx, len(texts), dims)
	if err == nil {
		c.settle(ctx)
	}
	return c.envelope(value, err), nil
}

// together returns the texts as one message, for the local count of their tokens: a text to embed has
// none of the tokens around a message.
func together(texts []string) []chat.Message {
	return []chat.Message{{Role: chat.User, Content: strings.Join(texts, " ")}}
}

// vectors parses the answer.
func (c *call) vectors(ctx context.Context, texts int, dims int64) (edn.Value, *contract.Error) {
	if err := c.accepted(ctx); err != nil {
		return edn.Nil(), err
	}
	body, fault := c.exchange.All(ctx, transport.MaxResponse+1)
	if fault != nil {
		return edn.Nil(), c.fault(fault)
	}
	said, err := dialect.ReadEmbed(body, texts, dims)
	var unfit *dialect.Unfit
	if errors.As(err, &unfit) {
		return edn.Nil(), c.fail(failure.Foreign, "%s", unfit.What).WithHint(unfit.Hint)
	}
	if err != nil {
		return edn.Nil(), c.broken(ctx, err, true)
	}
	c.known, c.answer.Model, c.answer.Usage = true, said.Model, said.Usage
	var all []edn.Value
	for _, v := range said.Vectors {
		numbers := make([]edn.Value, len(v))
		for i, f := range v {
			numbers[i], _ = edn.Float(f) // EDN has every JSON number
		}
		all = append(all, edn.Vector(numbers...))
	}
	return edn.MustMap(edn.K("vectors"), edn.Vector(all...), edn.K("dims"), edn.Int(int64(len(said.Vectors[0])))), nil
}
