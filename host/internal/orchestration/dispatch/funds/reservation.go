package funds

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Reservation is the amount reserved for one call, until it is settled. The zero
// value is a call without a budget.
type Reservation struct {
	hold   *budget.Hold
	record *journal.BudgetReserved
	cap    *registry.Capability
	// substitute: the highest price of the candidates is used, because that of this
	// one is unknown.
	substitute bool
	// money: a scope limits money.
	money bool
}

// Reserve reserves the worst-case cost of a call in every scope. Without a budget it
// does nothing. An error means that the call must not be made: budget/exceeded,
// budget/unavailable, or that of a run that has ended. number is the number of the
// attempt; first is false if the call shares a round trip.
func (p *Payer) Reserve(ctx context.Context, c *registry.Capability, purpose Purpose, number int,
	first bool) (Reservation, *contract.Error) {
	if !p.budgeted() {
		return Reservation{cap: c}, nil
	}
	if err := p.Run.Err(); err != nil {
		return Reservation{}, contract.AsError(err) // the run has ended
	}
	counts := counts(purpose, first)
	p.countInput(ctx, c, counts, policy.Amounts{})
	want, substitute, err := p.worstCase(ctx, c, counts)
	var hold *budget.Hold
	if err == nil {
		hold, err = p.Account.Reserve(context.WithoutCancel(ctx), p.Chain, want)
	}
	if err != nil {
		p.shortfall = p.budgetError(c, want, err)
		return Reservation{}, p.shortfall
	}
	p.shortfall = nil
	r := Reservation{
		hold:       hold,
		cap:        c,
		substitute: substitute,
		money:      p.Chain.Bounds(policy.USD),
		record: &journal.BudgetReserved{
			For:     string(purpose),
			Scopes:  p.Chain.Kinds(),
			Amount:  want.Value(),
			Windows: hold.Begins(),
			Tenant:  p.Chain.Tenant(),
			Attempt: number,
			Gate:    p.Gate,
		},
	}
	p.Records.Record(r.record)
	hold.OnLoss(func(spent policy.Amounts, mark budget.Mark) {
		p.Records.RecordLate(&journal.BudgetSettled{Of: r.record, Amount: spent.Value(), Mark: mark.String()})
	})
	return r, nil
}

// Amount returns the reserved amount, nil without a reservation.
func (r *Reservation) Amount() edn.Value {
	if r.hold == nil {
		return edn.Nil()
	}
	return r.record.Amount
}

// Settlement describes the end of a call, for settling its reservation.
type Settlement struct {
	Usage edn.Value
	// Unknown: the call may have continued after the host stopped waiting.
	Unknown bool
	// Unsent: the call did not reach the capability.
	Unsent bool
}

// Settle replaces the reservation by the amount spent (LED-003), even if the run is
// canceled. Without a reservation it does nothing. If the ledger fails, it calls
// Records.Fail with budget/unavailable.
func (p *Payer) Settle(r *Reservation, end Settlement) {
	if r.hold == nil {
		return
	}
	spent, mark, _ := r.actual(end)
	// Settle even if the run is canceled.
	err := r.hold.Settle(context.WithoutCancel(p.Run), spent, mark)
	p.Records.RecordLate(&journal.BudgetSettled{Of: r.record, Amount: spent.Value(), Mark: mark.String()})
	if err != nil {
		p.Records.Fail(contract.Errorf("budget/unavailable", "the cost of node %s could not be recorded: %w",
			p.Node, err))
	}
	r.hold = nil
}

// Usage returns the usage of a call for its record. If the capability did not report
// its cost, Usage adds the cost that Settle counts (LED-003) or, without a budget, the
// cost by its price; a cost of zero is not added. It must be called before Settle.
func (r *Reservation) Usage(end Settlement) edn.Value {
	if r.hold == nil && (r.cap == nil || !policy.Priced(r.cap)) || end.Unsent {
		return end.Usage
	}
	if _, err := policy.Money(end.Usage.Key("cost-usd")); err == nil {
		return end.Usage
	}
	spent, mark, known := r.actual(end)
	if !known || !spent.Has(policy.USD) {
		return end.Usage
	}
	usage := end.Usage
	if usage.IsNil() {
		usage = edn.MustMap()
	}
	return usage.AssocKey("cost-usd", spent.Of(policy.USD)).AssocKey("cost-mark", edn.K(mark.String()))
}

// actual returns the cost of a call: the reported usage, and the reserved amounts
// of the dimensions that are not reported. priced reports whether the cost in money
// is known.
func (r *Reservation) actual(end Settlement) (out policy.Amounts, mark budget.Mark, priced bool) {
	var want policy.Amounts
	if r.hold != nil {
		want = r.hold.Want()
	}
	out = want.With(policy.TokensIn, policy.Amounts{}).With(policy.TokensOut, policy.Amounts{}).
		With(policy.USD, policy.Amounts{})
	if end.Unsent {
		return out, budget.Exact, true
	}
	tokens := true // input and output are both reported
	for d, key := range map[policy.Dimension]string{policy.TokensIn: "tokens-in", policy.TokensOut: "tokens-out"} {
		n, ok := end.Usage.Key(key).AsInt()
		switch {
		case ok && n >= 0:
			out = out.Plus(policy.Count(d, n))
			mark = max(mark, markOf(end.Usage.Key("tokens-mark"), budget.Exact))
		case want.Has(d):
			out, mark, tokens = out.With(d, want), max(mark, budget.Estimated), false
		default:
			tokens = false
		}
	}
	paid, m, priced := r.paid(end.Usage, want, out, tokens)
	out, mark = out.Plus(paid), max(mark, m)
	if end.Unknown {
		out, mark = out.Max(want), max(mark, budget.AtLeast)
	}
	return out, mark, priced
}

// paid returns the cost in money, its accuracy, and whether it is known.
func (r *Reservation) paid(usage edn.Value, want, used policy.Amounts, tokens bool) (
	cost policy.Amounts, mark budget.Mark, priced bool,
) {
	if a, err := policy.Money(usage.Key("cost-usd")); err == nil {
		return a, markOf(usage.Key("cost-mark"), budget.Exact), true
	}
	if r.substitute {
		return want.Only(policy.USD), budget.AtLeast, true
	}
	price, err := policy.Price(r.cap, policy.Size{
		In:       used.Count(policy.TokensIn),
		Out:      used.Count(policy.TokensOut),
		InKnown:  tokens,
		OutKnown: tokens,
	})
	switch {
	case err == nil && !price.Has(policy.USD):
		return price, budget.Exact, true
	case err == nil:
		return price, budget.Estimated, true
	case want.Has(policy.USD):
		return want.Only(policy.USD), budget.Estimated, true
	case !r.money:
		return policy.Amounts{}, budget.Exact, false // money is not limited
	}
	return policy.Amounts{}, budget.Unknown, false
}

func markOf(v edn.Value, or budget.Mark) budget.Mark {
	name, _ := v.AsKeyword()
	for m := budget.Exact; m <= budget.Unknown; m++ {
		if m.String() == name {
			return m
		}
	}
	return or
}
