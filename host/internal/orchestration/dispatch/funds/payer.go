package funds

import (
	"context"
	"errors"
	"math/big"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Purpose is the purpose of a reservation in its record.
type Purpose string

// The purposes.
const (
	ForAttempt  Purpose = "attempt"
	ForParallel Purpose = "entrant"
	ForRepair   Purpose = "repair"
	ForCheck    Purpose = "check"
	ForVote     Purpose = "vote"
)

// Payer reserves and settles the cost of the calls of one node. It is used by one
// goroutine at a time.
type Payer struct {
	Account    *budget.Account    // of the run
	Chain      budget.Chain       // scopes that count the spending of the node; empty: nothing is counted
	Run        context.Context    // ends with the run
	Clock      Clock              // for the time when a limit changes
	Registry   *registry.Registry // holds the prices
	Candidates []string           // with AtLeast, an unknown price is taken as the highest of these
	AtLeast    bool               // calls of unknown price are allowed
	Node       string             // for messages
	Request    Request
	Records    Records

	Purpose Purpose // of calls that are neither repair nor parallel
	Gate    string  // name of the check or judge that is called
	Joins   bool    // the next call joins running attempts

	shortfall *contract.Error // see Shortfall
}

// Clock is the time source of a Payer.
type Clock interface{ Now() time.Time }

// Request is the request of the node, as far as the price of a call depends on
// it.
type Request interface {
	// Input returns the input tokens for a capability: as counted by it, else
	// estimated.
	Input(c *registry.Capability) int64
	// Output returns the limit for the output tokens, and how many of these are for
	// reasoning in addition to the answer; ok is false without a limit.
	Output(c *registry.Capability) (n, headroom int64, ok bool)
	// Countable reports whether a capability can count the input and has not done
	// so.
	Countable(c *registry.Capability) bool
	// Count asks a capability to count the input. A failed count leaves the
	// estimate.
	Count(ctx context.Context, c *registry.Capability)
}

// Records writes the records of a node.
type Records interface {
	// Record writes a record. After the first error it does nothing.
	Record(body journal.Body)
	// RecordLate writes a record from any goroutine. Its error is dropped: the
	// recorder returns it again at the end of the run.
	RecordLate(body journal.Body)
	// Fail fails the node with err, because its cost could not be recorded.
	Fail(err *contract.Error)
}

func (p *Payer) budgeted() bool { return len(p.Chain) > 0 }

// Shortfall returns the error of the last candidate that exceeded the budget: of the
// last Unaffordable that was true, or of the last Reserve. A successful Reserve resets
// it to nil; an affordable candidate does not.
func (p *Payer) Shortfall() *contract.Error { return p.shortfall }

// errUnpriced is an unknown price where money is limited (BUD-007).
type errUnpriced struct{ why error }

func (e *errUnpriced) Error() string { return e.why.Error() }

// remedy is what makes the price known.
func (e *errUnpriced) remedy() string {
	if errors.Is(e.why, policy.ErrNoBound) {
		return "set :max-tokens in the budget of the request, or max_tokens in the options of the model block"
	}
	return "configure a price"
}

// worstCase returns the most that one call to a capability can cost, including
// counts. substitute reports that its price is unknown and the highest price of the
// candidates is used. The error is an errUnpriced.
func (p *Payer) worstCase(ctx context.Context, c *registry.Capability, counts policy.Amounts) (
	want policy.Amounts, substitute bool, err error,
) {
	chain := p.Chain
	want = counts
	money := chain.Bounds(policy.USD)
	size := p.size(ctx, c)
	if policy.CountsTokens(c) {
		want = want.Plus(policy.Count(policy.TokensIn, size.In)).Plus(policy.Count(policy.TokensOut, size.Out))
	}
	price, unknown := policy.Price(c, size)
	switch {
	case unknown == nil:
		return want.Plus(price), false, nil
	case !money:
		return want, false, nil
	}
	if p.AtLeast {
		if highest, ok := p.highestPrice(ctx); ok {
			return want.Plus(highest), true, nil
		}
	}
	return want, false, &errUnpriced{unknown}
}

// size returns the most tokens that a call can have as input and output. If the
// output has no limit, all tokens left in the budget count as output. The headroom
// for reasoning is reserved as far as the budget has room, but at least half of it:
// with less, the model would use up the budget without an answer. The plugin does
// not grant the model more than is reserved.
func (p *Payer) size(ctx context.Context, c *registry.Capability) policy.Size {
	if !policy.CountsTokens(c) {
		return policy.Size{InKnown: true, OutKnown: true}
	}
	size := policy.Size{In: p.Request.Input(c), InKnown: true}
	if most := int64(c.Limits.ContextTokens); most > 0 {
		size.In = min(size.In, most)
	}
	n, headroom, bounded := p.Request.Output(c)
	size.Out, size.OutKnown = n, bounded
	if bounded && headroom == 0 || !p.Chain.Bounds(policy.TokensOut) {
		return size
	}
	left, err := p.Account.Left(ctx, p.Chain)
	switch room := left.Amounts().Count(policy.TokensOut); {
	case err != nil:
	case bounded:
		size.Out = max(n-headroom/2, min(n, room))
	default: // with nothing left, one token already exceeds the budget
		size.Out, size.OutKnown = max(1, room), true
	}
	return size
}

// highestPrice returns the highest known price of all candidates.
func (p *Payer) highestPrice(ctx context.Context) (policy.Amounts, bool) {
	var most policy.Amounts
	known := false
	for _, id := range p.Candidates {
		c, ok := p.Registry.Capability(id)
		if !ok {
			continue
		}
		if price, err := policy.Price(c, p.size(ctx, c)); err == nil {
			most, known = most.Max(price), true
		}
	}
	return most, known && most.Has(policy.USD)
}

// counts returns the amounts that a call adds to the counters of attempts, round trips
// and judge calls. Parallel attempts share one round trip.
func counts(purpose Purpose, first bool) policy.Amounts {
	switch purpose {
	case ForCheck:
		return policy.Amounts{}
	case ForVote:
		return policy.Count(policy.JudgeCalls, 1)
	}
	n := policy.Count(policy.Attempts, 1)
	if first {
		n = n.Plus(policy.Count(policy.Roundtrips, 1))
	}
	return n
}

// Unaffordable reports whether the budget is too small for a call to the
// capability, and then sets the shortfall. It may ask the capability to count the input.
func (p *Payer) Unaffordable(capID string) bool {
	c, ok := p.Registry.Capability(capID)
	if !ok || !p.budgeted() {
		return false
	}
	counts := counts(p.Purpose, !p.Joins)
	p.countInput(p.Run, c, counts, policy.Amounts{})
	want, _, err := p.worstCase(p.Run, c, counts)
	if err == nil {
		err = p.check(want)
	}
	if err == nil {
		return false
	}
	p.shortfall = p.budgetError(c, want, err)
	return true
}

func (p *Payer) check(want policy.Amounts) error {
	lack, err := p.Account.Short(p.Run, p.Chain, want)
	if err != nil {
		return err
	}
	if lack != nil {
		return lack
	}
	return nil
}

// Affordable returns how many of the first candidates fit into the budget
// together (ATT-011).
func (p *Payer) Affordable(ids []string) int {
	if !p.budgeted() {
		return len(ids)
	}
	var sum policy.Amounts
	for i, id := range ids {
		c, ok := p.Registry.Capability(id)
		if !ok {
			return i
		}
		counts := counts(ForParallel, i == 0)
		p.countInput(p.Run, c, counts, sum)
		want, _, err := p.worstCase(p.Run, c, counts)
		if err != nil {
			return i
		}
		if sum = sum.Plus(want); p.check(sum) != nil {
			return i
		}
	}
	return len(ids)
}

// Covers reports whether the budget has room for n attempts one after another, each at
// the worst-case cost of the most expensive capability.
func (p *Payer) Covers(n int, ids []string) bool {
	if !p.budgeted() {
		return true
	}
	var dearest, sum policy.Amounts
	for _, id := range ids {
		c, ok := p.Registry.Capability(id)
		if !ok {
			return false
		}
		counts := counts(p.Purpose, true)
		p.countInput(p.Run, c, counts, policy.Amounts{})
		want, _, err := p.worstCase(p.Run, c, counts)
		if err != nil {
			return false
		}
		dearest = dearest.Max(want)
	}
	for range n {
		sum = sum.Plus(dearest)
	}
	return p.check(sum) == nil
}

// Limited reports whether the budget limits the number of calls.
func (p *Payer) Limited() bool {
	return p.Chain.Bounds(policy.Roundtrips) || p.Chain.Bounds(policy.Attempts)
}

// CallsLeft returns how many calls the budget leaves; limited is false if it
// does not limit their number or cannot be read.
func (p *Payer) CallsLeft() (n int64, limited bool) {
	if !p.Limited() {
		return 0, false
	}
	left, err := p.Account.Left(p.Run, p.Chain)
	if err != nil {
		return 0, false
	}
	for _, d := range []policy.Dimension{policy.Roundtrips, policy.Attempts} {
		if m := left.Amounts().Count(d); p.Chain.Bounds(d) && (!limited || m < n) {
			n, limited = m, true
		}
	}
	return n, limited
}

// ReservedOut is the key of a call's budget for the output tokens that are
// reserved for it. A plugin must not grant a model more, or the budget would not
// hold (BUD-002).
const ReservedOut = "reserved-tokens-out"

// Remaining returns the :budget of a call: own, the limits of the policy, merged with
// the amounts left in the budget, which include the reservation of the call. If tokens
// or money are limited, it also has the reserved output tokens. Without a reservation,
// or if the budget cannot be read, it returns own.
func (p *Payer) Remaining(own edn.Value, r *Reservation) edn.Value {
	if r.hold == nil {
		return own
	}
	left, err := p.Account.Left(p.Run, p.Chain)
	if err != nil {
		return own
	}
	left = left.Plus(r.hold.Want())
	if own.IsNil() {
		own = edn.MustMap()
	}
	own = own.Merge(left.Value())
	n := r.hold.Want().Count(policy.TokensOut)
	if limited := p.Chain.Bounds(policy.TokensOut) || p.Chain.Bounds(policy.USD); limited && n > 0 {
		own = own.AssocKey(ReservedOut, edn.Int(n))
	}
	return own
}

// Free reports whether a call may be made without a reservation: if a budget
// applies, only one that costs nothing.
func (p *Payer) Free(c *registry.Capability) bool {
	if !p.budgeted() {
		return true
	}
	price, err := policy.Price(c, policy.Size{InKnown: true, OutKnown: true})
	return err == nil && !price.Has(policy.USD) && !policy.CountsTokens(c)
}

// leastMoney returns the balance of the scope with the least money left.
func (p *Payer) leastMoney() (least budget.Balance) {
	all, err := p.Account.Balances(p.Run, p.Chain)
	if err != nil { // a reservation then fails with the same error
		for _, s := range p.Chain {
			all = append(all, budget.Balance{Scope: s})
		}
	}
	var lowest *big.Rat
	for _, b := range all {
		left, bounded := b.Left().Max(policy.USD).AsNumber()
		if bounded && (lowest == nil || left.Cmp(lowest) < 0) {
			least, lowest = b, left
		}
	}
	return least
}

// budgetError converts err to the error for callers: budget/exceeded with the amount
// left and the time at which that changes, or budget/unavailable.
func (p *Payer) budgetError(c *registry.Capability, want policy.Amounts, err error) *contract.Error {
	var lack *budget.ExceededError
	var unpriced *errUnpriced
	var out *contract.Error
	switch {
	case errors.As(err, &lack):
		out = lack.Contract("budget/exceeded", p.Clock.Now())
	case errors.As(err, &unpriced):
		least := p.leastMoney()
		out = contract.Errorf("budget/exceeded",
			"the budget of %s limits money, but the cost of a call to :%s is unknown: %s",
			least.Scope, c.ID, unpriced.why).
			WithDetail("scope", edn.K(least.Scope.Kind.String())).
			WithDetail("dimension", edn.K(policy.USD.String())).
			WithDetail("limit", least.Scope.Limits.Max(policy.USD)).
			WithDetail("left", least.Left().Max(policy.USD)).
			WithHint("waiting for the next window does not help: " + unpriced.remedy() +
				", or set unknown_price = \"at-least\" in the budget")
		if !least.Resets.IsZero() {
			out = out.WithDetail("resets", edn.Inst(least.Resets))
		}
	default:
		out = contract.Errorf("budget/unavailable", "the budget reservation of node %s could not be recorded: %w", p.Node,
			err)
	}
	return out.WithDetail("cap/id", journal.Keyword(c.ID)).WithDetail("needed", want.Value()).
		WithWhere("node", edn.Text(p.Node))
}
