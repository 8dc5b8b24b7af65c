package funds

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// wide is the largest ratio of counted to estimated tokens: the estimate is at
// least a third of the bytes, and a token has at least one byte.
const wide = 3

// countInput asks the capability to count the input of a call if the estimate
// could decide whether the budget covers it (LLM-022): a budget limits tokens
// or money and would not cover the largest possible input. beside is the amount
// needed by other calls. A failed or late count leaves the estimate. The count
// is requested once per capability and repair round.
func (p *Payer) countInput(ctx context.Context, c *registry.Capability, counts, beside policy.Amounts) {
	if !p.inputMatters(c) || !p.Request.Countable(c) {
		return
	}
	size := p.size(ctx, c)
	enough := func(in int64) bool {
		want, err := p.atMost(c, counts, policy.Size{In: in, InKnown: true, Out: size.Out, OutKnown: size.OutKnown})
		return err == nil && p.check(beside.Plus(want)) == nil
	}
	if enough(size.In*wide) || !enough(0) {
		return // the count cannot change the decision
	}
	p.Request.Count(ctx, c)
}

// inputMatters reports whether the budget limits what the input costs.
func (p *Payer) inputMatters(c *registry.Capability) bool {
	return p.Chain.Bounds(policy.TokensIn) || p.Chain.Bounds(policy.USD) && !c.Cost.USDInPerMTok.IsNil()
}

// atMost returns the worst-case cost of a call of a given size.
func (p *Payer) atMost(c *registry.Capability, counts policy.Amounts, size policy.Size) (policy.Amounts, error) {
	want := counts.Plus(policy.Count(policy.TokensIn, size.In)).Plus(policy.Count(policy.TokensOut, size.Out))
	price, err := policy.Price(c, size)
	if err != nil && p.Chain.Bounds(policy.USD) {
		return want, err
	}
	return want.Plus(price), nil
}
