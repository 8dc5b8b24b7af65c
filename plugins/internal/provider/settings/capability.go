package settings

import (
	"context"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Capability returns the capability of a model with the given id. of is the
// display name of its provider; ask answers the calls.
func (m Model) Capability(
	id, of string, ask func(ctx context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error),
) sdk.Capability {
	price := m.Price.Amounts()
	options := []sdk.Option{
		sdk.Kind("llm"), sdk.Streams(), sdk.Repairs(),
		sdk.Description(fmt.Sprintf("The model %s of %s.", m.Name, of)),
		sdk.Cost(contract.Cost{
			USDInPerMTok: price.Input, USDCachedInPerMTok: price.CachedInput, USDOutPerMTok: price.Output,
		}),
		sdk.Metadata(func(c *contract.Capability) {
			c.Model, c.Family = m.Name, m.Family
			c.Limits.ContextTokens, c.Limits.MaxTokens = int(m.Context), int(m.Options.MaxTokens)
			c.Limits.HeadroomTokens = int(m.reserves())
		}),
	}
	for _, intent := range m.IntentsOf() {
		options = append(options, sdk.InFor(intent, question.InSchema(intent)))
		if out := question.OutSchema(intent); out != "" {
			options = append(options, sdk.OutFor(intent, out))
		}
	}
	for _, own := range [...]string{answer.Probe, answer.Count} {
		options = append(options, sdk.InFor(own, "req/any"), sdk.OutFor(own, "res/any"))
	}
	return sdk.Raw(id, append(slices.Clone(m.IntentsOf()), answer.Probe, answer.Count), ask, options...)
}
