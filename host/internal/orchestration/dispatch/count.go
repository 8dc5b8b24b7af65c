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

// countIntent is what capabilities of language models serve beside their own
// intents: it says how many tokens a request would take, and takes none. countOf
// is the key of its context that names the intent of that request.
const (
	countIntent = "model/count"
	countOf     = "count/of"
)

// countLimit is how long a capability may take to count. It has 250 ms for it, and
// has to load the table by which it does so before the first time.
const countLimit = 1500 * time.Millisecond

// wide is by how much the count of an input may exceed the estimate at most: that
// is a third of the bytes at least, and no token is shorter than a byte.
const wide = 3

// weigh has the input of a call counted by the capability that would get it, if
// its estimate could decide whether the call can be paid for (LLM-022): a budget
// limits tokens or money, and would not bear the most that the input can have.
// Beside is what is wanted beside it. A count that fails, or is late, leaves the
// estimate; it is asked for once for each capability and round.
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
		return // whatever it has: there is enough for it, or there is not, or no price
	}
	if o.counted == nil {
		o.counted = make(map[string]int64)
	}
	o.counted[c.ID] = o.callCount(ctx, c)
}

// countable tells whether it is of any use to have the input of a capability
// counted.
func (o *operation) countable(c *registry.Capability) bool {
	if !slices.Contains(c.Intents, countIntent) || o.w.Intent == countIntent || c.Effectful() {
		return false
	}
	return o.w.Budget.Bounds(policy.TokensIn) || o.w.Budget.Bounds(policy.USD) && !c.Cost.USDInPerMTok.IsNil()
}

// atMost is what a call of a size takes.
func (o *operation) atMost(c *registry.Capability, counts policy.Amounts, size policy.Size) (policy.Amounts, error) {
	want := counts.Plus(policy.Count(policy.TokensIn, size.In)).Plus(policy.Count(policy.TokensOut, size.Out))
	price, err := policy.Price(c, size)
	if err != nil && o.w.Budget.Bounds(policy.USD) {
		return want, err
	}
	return want.Plus(price), nil
}

// askCount asks a capability how many tokens the input of the call has; 0 if it
// does not say.
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
		CapID: c.ID, Run: o.run.ID, Node: o.w.Node, Path: o.w.Path, Attempt: o.number, Deadline: deadline,
		Request: o.countRequest(c), Effects: effects(c), Scope: edn.MustMap(), Stack: o.w.Stack, Trace: o.run.Trace, Shadow: true,
	})
	if err != nil {
		return 0
	}
	n, _ := answer.Response.Key("result").Key("out").Key("tokens-in").AsInt()
	return n
}

// countRequest is the request of the call, but for what is asked.
func (o *operation) countRequest(c *registry.Capability) edn.Value {
	v := o.request(c, o.composePrompt(c))
	around := v.Key("context")
	if around.IsNil() {
		around = edn.MustMap()
	}
	return v.AssocKey("task", v.Key("task").AssocKey("intent", edn.K(countIntent))).
		AssocKey("context", around.AssocKey(countOf, journal.Keyword(o.w.Intent)))
}
