package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// countIntent is an intent of language models besides their own: it returns how
// many tokens a request would take, without spending any. countOf is the key in
// its context that names the intent of the request.
const (
	countIntent = "model/count"
	countOf     = "count/of"
)

// countLimit is the timeout of a count. A count should take 250 ms, but the
// first one loads the tokenizer table.
const countLimit = 1500 * time.Millisecond

// wide is the largest ratio of counted to estimated tokens: the estimate is at
// least a third of the bytes, and a token has at least one byte.
const wide = 3

// countInput asks the capability to count the input of a call if the estimate
// could decide whether the budget covers it (LLM-022): a budget limits tokens
// or money and would not cover the largest possible input. beside is the amount
// needed by other calls. A failed or late count leaves the estimate. The count
// is requested once per capability and repair round.
func (o *operation) countInput(ctx context.Context, c *registry.Capability, counts, beside policy.Amounts) {
	if !o.countable(c) {
		return
	}
	if o.countedIn != o.round {
		o.counted, o.countedIn = nil, o.round
	}
	if _, known := o.counted[c.ID]; known {
		return
	}
	size := o.size(ctx, c)
	enough := func(in int64) bool {
		want, err := o.atMost(c, counts, policy.Size{In: in, InKnown: true, Out: size.Out, OutKnown: size.OutKnown})
		return err == nil && o.checkBudget(beside.Plus(want)) == nil
	}
	if enough(size.In*wide) || !enough(0) {
		return // the count cannot change the decision
	}
	if o.counted == nil {
		o.counted = make(map[string]int64)
	}
	o.counted[c.ID] = o.callCount(ctx, c)
}

// countable reports whether a count of the input can be requested and matters.
func (o *operation) countable(c *registry.Capability) bool {
	if !slices.Contains(c.Intents, countIntent) || o.w.Intent == countIntent || c.Effectful() {
		return false
	}
	return o.w.Budget.Bounds(policy.TokensIn) || o.w.Budget.Bounds(policy.USD) && !c.Cost.USDInPerMTok.IsNil()
}

// atMost returns the worst-case cost of a call of a given size.
func (o *operation) atMost(c *registry.Capability, counts policy.Amounts, size policy.Size) (policy.Amounts, error) {
	want := counts.Plus(policy.Count(policy.TokensIn, size.In)).Plus(policy.Count(policy.TokensOut, size.Out))
	price, err := policy.Price(c, size)
	if err != nil && o.w.Budget.Bounds(policy.USD) {
		return want, err
	}
	return want.Plus(price), nil
}

// callCount calls the capability to count the input tokens; 0 if it does not
// answer.
func (o *operation) callCount(ctx context.Context, c *registry.Capability) int64 {
	if !o.d.Executor.State(c.ID).Ready {
		return 0
	}
	deadline := o.d.Clock.Now().Add(countLimit)
	if d := o.w.Deadline; !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	answer, err := o.d.Executor.Invoke(ctx, Call{
		CapID:    c.ID,
		Run:      o.run.ID,
		Node:     o.w.Node,
		Path:     o.w.Path,
		Attempt:  o.number,
		Deadline: deadline,
		Request:  o.countRequest(c),
		Effects:  effects(c),
		Scope:    edn.MustMap(),
		Stack:    o.w.Stack,
		Trace:    o.run.Trace,
		Shadow:   true,
	})
	if err != nil {
		return 0
	}
	n, _ := answer.Response.Key("result").Key("out").Key("tokens-in").AsInt()
	return n
}

// countRequest returns the request of the call with the intent replaced.
func (o *operation) countRequest(c *registry.Capability) edn.Value {
	v := o.request(c, o.composePrompt(c))
	around := v.Key("context")
	if around.IsNil() {
		around = edn.MustMap()
	}
	return v.AssocKey("task", v.Key("task").AssocKey("intent", edn.K(countIntent))).
		AssocKey("context", around.AssocKey(countOf, journal.Keyword(o.w.Intent)))
}
