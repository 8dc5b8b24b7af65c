package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Purposes of a reservation in records.
const (
	forAttempt  = "attempt"
	forParallel = "entrant"
	forRepair   = "repair"
	forCheck    = "check"
	forVote     = "vote"
)

// reservation is the amount set aside for one call, until it is settled. The
// zero value is a call without a budget.
type reservation struct {
	hold   *budget.Hold
	record *journal.BudgetReserved
	cap    *registry.Capability
	// substitute: the price of the dearest priced candidate is used, because that
	// of this one is unknown.
	substitute bool
	// money: a scope limits money.
	money bool
}

// budgeted reports whether any scope counts the node's spending.
func (o *operation) budgeted() bool { return len(o.w.Budget) > 0 }

// errUnpriced is an unknown price where money is limited (BUD-007).
type errUnpriced struct {
	scope budget.Scope
	why   error
}

func (e *errUnpriced) Error() string { return e.why.Error() }

// worstCase returns the most that one call to a capability can cost, including
// counts.
func (o *operation) worstCase(ctx context.Context, c *registry.Capability, counts policy.Amounts) (
	want policy.Amounts, substitute bool, err error,
) {
	chain := o.w.Budget
	want = counts
	money := chain.Bounds(policy.USD)
	size := o.size(ctx, c)
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
	if o.run.AtLeast {
		if highest, ok := o.highestPrice(ctx); ok {
			return want.Plus(highest), true, nil
		}
	}
	for _, scope := range chain {
		if scope.Limits.Bounds(policy.USD) {
			return want, false, &errUnpriced{scope, unknown}
		}
	}
	return want, false, unknown
}

// size returns the most tokens that a call can have as input and output. An
// unbounded answer may take all that is left.
func (o *operation) size(ctx context.Context, c *registry.Capability) policy.Size {
	if !policy.CountsTokens(c) {
		return policy.Size{InKnown: true, OutKnown: true}
	}
	if o.tokens == 0 {
		o.tokens = policy.CountTokens(o.w.Input, o.w.Policy.Context, o.w.Policy.Constraints, edn.Text(o.w.System))
	}
	size := policy.Size{In: o.tokens + o.layersTokens(c), InKnown: true}
	if o.round > 0 {
		size.In += policy.CountTokens(o.repairContext)
	}
	if n := o.counted[c.ID]; n > 0 && o.countedIn == o.round {
		size.In = n
	}
	if most := int64(c.Limits.ContextTokens); most > 0 {
		size.In = min(size.In, most)
	}
	if n, ok := o.w.Policy.outBound(c); ok {
		size.Out, size.OutKnown = n, true
		return size
	}
	if o.w.Budget.Bounds(policy.TokensOut) {
		if left, err := o.run.Account.Left(ctx, o.w.Budget); err == nil {
			// With nothing left, one token already exceeds the budget.
			size.Out, size.OutKnown = max(1, left.Amounts().Count(policy.TokensOut)), true
		}
	}
	return size
}

// outBound returns the limit for the output tokens of a capability.
func (p *CallPolicy) outBound(c *registry.Capability) (int64, bool) {
	most, ok := int64(c.Limits.MaxTokens), c.Limits.MaxTokens > 0
	if n, asked := p.Budget.Key("max-tokens").AsInt(); asked && (!ok || n < most) {
		most, ok = n, true
	}
	return most, ok
}

// highestPrice returns the highest known price of all candidates.
func (o *operation) highestPrice(ctx context.Context) (policy.Amounts, bool) {
	var most policy.Amounts
	known := false
	for _, id := range o.w.Policy.static.Accepted {
		c, ok := o.d.Registry.Capability(id)
		if !ok {
			continue
		}
		if price, err := policy.Price(c, o.size(ctx, c)); err == nil {
			most, known = most.Max(price), true
		}
	}
	return most, known && most.Has(policy.USD)
}

// counts returns what a call adds to the counters of attempts, round trips and
// judge calls. Parallel attempts share one round trip.
func (o *operation) counts(purpose string, first bool) policy.Amounts {
	switch purpose {
	case forCheck:
		return policy.Amounts{}
	case forVote:
		return policy.Count(policy.JudgeCalls, 1)
	}
	n := policy.Count(policy.Attempts, 1)
	if first {
		n = n.Plus(policy.Count(policy.Roundtrips, 1))
	}
	return n
}

// unaffordable reports whether the budget is too small for a call to the
// capability. It sets o.shortfall.
func (o *operation) unaffordable(capID string) bool {
	c, ok := o.d.Registry.Capability(capID)
	if !ok {
		return false
	}
	purpose := forAttempt
	switch {
	case o.vote:
		purpose = forVote
	case o.gate != "":
		purpose = forCheck
	}
	counts := o.counts(purpose, !o.parallel)
	o.countInput(o.run.Base, c, counts, policy.Amounts{})
	want, _, err := o.worstCase(o.run.Base, c, counts)
	if err == nil {
		err = o.checkBudget(want)
	}
	if err == nil {
		return false
	}
	o.shortfall = o.budgetError(c, want, err)
	return true
}

func (o *operation) checkBudget(want policy.Amounts) error {
	lack, err := o.run.Account.Short(o.run.Base, o.w.Budget, want)
	if err != nil {
		return err
	}
	if lack != nil {
		return lack
	}
	return nil
}

// affordable returns how many of the first candidates fit into the budget
// together (ATT-011).
func (o *operation) affordable(ids []string) int {
	if !o.budgeted() {
		return len(ids)
	}
	var sum policy.Amounts
	for i, id := range ids {
		c, ok := o.d.Registry.Capability(id)
		if !ok {
			return i
		}
		counts := o.counts(forParallel, i == 0)
		o.countInput(o.run.Base, c, counts, sum)
		want, _, err := o.worstCase(o.run.Base, c, counts)
		if err != nil {
			return i
		}
		if sum = sum.Plus(want); o.checkBudget(sum) != nil {
			return i
		}
	}
	return len(ids)
}

// reserve sets aside the worst-case cost of a call in every scope. Without a
// budget it does nothing. An error means that the call must not be made.
func (o *operation) reserve(ctx context.Context, c *registry.Capability, purpose string, number int,
	first bool) (reservation, *contract.Error) {
	if !o.budgeted() {
		return reservation{}, nil
	}
	if err := o.run.Base.Err(); err != nil {
		return reservation{}, contract.AsError(err) // the run has ended
	}
	counts := o.counts(purpose, first)
	o.countInput(ctx, c, counts, policy.Amounts{})
	want, substitute, err := o.worstCase(ctx, c, counts)
	var hold *budget.Hold
	if err == nil {
		hold, err = o.run.Account.Reserve(context.WithoutCancel(ctx), o.w.Budget, want)
	}
	if err != nil {
		lack := o.budgetError(c, want, err)
		o.shortfall = lack
		return reservation{}, lack
	}
	o.shortfall = nil
	r := reservation{
		hold:       hold,
		cap:        c,
		substitute: substitute,
		money:      o.w.Budget.Bounds(policy.USD),
		record: &journal.BudgetReserved{
			For:     purpose,
			Scopes:  o.w.Budget.Kinds(),
			Amount:  want.Value(),
			Attempt: number,
			Gate:    o.gate,
		},
	}
	o.record(r.record)
	hold.OnLoss(func(spent policy.Amounts, mark budget.Mark) {
		// A recorder that fails here also fails at the end of the run.
		_ = o.run.Recorder.Record(o.w.Path, o.w.Node,
			&journal.BudgetSettled{Of: r.record, Amount: spent.Value(), Mark: mark.String()})
	})
	return r, nil
}

// budgetError is the error for callers: what is left and when that changes.
func (o *operation) budgetError(c *registry.Capability, want policy.Amounts, err error) *contract.Error {
	var lack *budget.ExceededError
	var unpriced *errUnpriced
	var out *contract.Error
	switch {
	case errors.As(err, &lack):
		out = lack.Contract("budget/exceeded", o.d.Clock.Now())
	case errors.As(err, &unpriced):
		left := edn.Nil()
		if l, err := o.run.Account.Left(o.run.Base, o.w.Budget); err == nil {
			left = l.Max(policy.USD)
		}
		out = contract.Errorf("budget/exceeded",
			"the budget of %s limits money, and what a call to :%s costs is unknown: %s",
			unpriced.scope, c.ID, unpriced.why).
			WithDetail("scope", edn.K(unpriced.scope.Kind.String())).
			WithDetail("dimension", edn.K(policy.USD.String())).
			WithDetail("limit", unpriced.scope.Limits.Max(policy.USD)).
			WithDetail("left", left)
	default:
		out = contract.Errorf("budget/unavailable", "what node %s may spend could not be written down: %w", o.w.Node,
			err)
	}
	return out.WithDetail("cap/id", journal.Keyword(c.ID)).WithDetail("needed", want.Value()).
		WithWhere("node", edn.Text(o.w.Node))
}

// overBudget is the failure of a candidate that exceeds the budget. It was not
// called; a cheaper candidate may fit.
func (o *operation) overBudget(ctx context.Context, lack *contract.Error) *Failure {
	f := o.failure(ctx, nil, lack)
	f.OverBudget = true
	f.Expired = o.expired(ctx)
	if lack.Type == "budget/exceeded" {
		f.Class, f.Matched = contract.ClassSwitch, true
	}
	return f
}

// yields reports whether a candidate that failed gives up its retries and repair
// rounds: they would use the round trips or attempts that the candidates which
// were not tried yet need, and one of those can be called now. Without this rule
// a small limit is spent on a candidate that is down (EMB-002).
func (o *operation) yields(f *Failure) bool {
	bounds := o.w.Budget.Bounds
	if !bounds(policy.Roundtrips) && !bounds(policy.Attempts) {
		return false
	}
	left, err := o.run.Account.Left(o.run.Base, o.w.Budget)
	if err != nil || !o.updateNextLeft(f) {
		return false
	}
	next := *f
	next.TriesLeft, next.RoundsLeft = false, false
	if action, _ := Decide(next); action != Next {
		return false
	}
	need := o.untried()
	return slices.ContainsFunc([]policy.Dimension{policy.Roundtrips, policy.Attempts}, func(d policy.Dimension) bool {
		return bounds(d) && left.Amounts().Count(d) <= need
	})
}

// untried returns the number of candidates that may still be tried.
func (o *operation) untried() (n int64) {
	for _, id := range o.binding.Accepted {
		if !slices.Contains(o.used, id) {
			n++
		}
	}
	return min(n, int64(o.maxCandidates-len(o.used)))
}

// stoppedByBudget is failure f when the budget is too small for another call to
// the same candidate. The other properties of f still decide whether other
// candidates may be tried.
func (f *Failure) stoppedByBudget(lack *Failure, set policy.SwitchSet) *Failure {
	g := *f
	g.Matched = set.Matches(f.Err)
	g.Err = lack.Err.WithCause(f.Err)
	g.Class = lack.Class
	g.OverBudget, g.RoundsLeft, g.TriesLeft = true, false, false
	g.Expired = lack.Expired
	return &g
}

// stoppedAtBudget returns the error of a node that would have continued with a
// larger budget, else nil.
func (o *operation) stoppedAtBudget(f *Failure) *contract.Error {
	if o.shortfall == nil || f.OverBudget || len(o.used) >= o.maxCandidates {
		return nil
	}
	hopeful := *f
	hopeful.NextLeft = true
	if action, _ := Decide(hopeful); action != Next {
		return nil
	}
	return o.shortfall.WithCause(f.Err)
}

// allOverBudget is the failure of a node whose candidates were rejected only
// because of the budget.
func (o *operation) allOverBudget() *contract.Error {
	if o.shortfall == nil {
		return nil
	}
	for _, r := range o.binding.Rejected {
		switch r.Reason {
		case policy.ReasonBreaker, policy.ReasonNotReady, policy.ReasonQuarantined:
			return nil
		}
	}
	return o.shortfall
}

// settlement is what is known about a call when its reservation is settled.
type settlement struct {
	usage edn.Value
	// unknown: the call may have continued after the host stopped waiting.
	unknown bool
	// unsent: the call did not reach the capability.
	unsent bool
}

// settle replaces the reservation by the amount spent (LED-003).
func (o *operation) settle(r *reservation, end settlement) {
	if r.hold == nil {
		return
	}
	spent, mark := r.actual(end)
	// Settle even if the run is canceled.
	err := r.hold.Settle(context.WithoutCancel(o.run.Base), spent, mark)
	o.record(&journal.BudgetSettled{Of: r.record, Amount: spent.Value(), Mark: mark.String()})
	if err != nil && o.failed == nil {
		o.failed = contract.Errorf("budget/unavailable", "what node %s has spent could not be written down: %w",
			o.w.Node, err)
	}
	r.hold = nil
}

// actual returns what a call cost: the reported usage, and the reserved amount
// for what is not reported.
func (r *reservation) actual(end settlement) (policy.Amounts, budget.Mark) {
	want := r.hold.Want()
	out := want.With(policy.TokensIn, policy.Amounts{}).With(policy.TokensOut, policy.Amounts{}).
		With(policy.USD, policy.Amounts{})
	if end.unsent {
		return out, budget.Exact
	}
	mark := budget.Exact
	tokens := true // input and output are both reported
	for d, key := range map[policy.Dimension]string{policy.TokensIn: "tokens-in", policy.TokensOut: "tokens-out"} {
		n, ok := end.usage.Key(key).AsInt()
		switch {
		case ok && n >= 0:
			out = out.Plus(policy.Count(d, n))
			mark = max(mark, markOf(end.usage.Key("tokens-mark"), budget.Exact))
		case want.Has(d):
			out, mark, tokens = out.With(d, want), max(mark, budget.Estimated), false
		default:
			tokens = false
		}
	}
	paid, m := r.paid(end.usage, want, out, tokens)
	out, mark = out.Plus(paid), max(mark, m)
	if end.unknown {
		out, mark = out.Max(want), max(mark, budget.AtLeast)
	}
	return out, mark
}

// paid returns the cost in money and how exact it is.
func (r *reservation) paid(usage edn.Value, want, used policy.Amounts, tokens bool) (policy.Amounts, budget.Mark) {
	if a, err := policy.Money(usage.Key("cost-usd")); err == nil {
		return a, markOf(usage.Key("cost-mark"), budget.Exact)
	}
	if r.substitute {
		return want.Only(policy.USD), budget.AtLeast
	}
	price, err := policy.Price(r.cap, policy.Size{
		In:       used.Count(policy.TokensIn),
		Out:      used.Count(policy.TokensOut),
		InKnown:  tokens,
		OutKnown: tokens,
	})
	switch {
	case err == nil && !price.Has(policy.USD):
		return price, budget.Exact
	case err == nil:
		return price, budget.Estimated
	case want.Has(policy.USD):
		return want.Only(policy.USD), budget.Estimated
	case !r.money:
		return policy.Amounts{}, budget.Exact // money is not limited
	}
	return policy.Amounts{}, budget.Unknown
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

// settlement returns what is needed to settle the attempt.
func (r *attemptResult) settlement() settlement {
	e := settlement{usage: r.usage, unknown: r.outcome == Unknown || r.label == journal.OutcomeCanceled}
	if r.err != nil {
		switch r.err.Type {
		case "runtime/not-ready", "runtime/overloaded", "runtime/start-failed", "runtime/quarantined":
			e.unsent, e.unknown = !e.unknown, false
		case "race/lost":
			// Usage reported before the cancel is final.
			e.unknown = r.usage.IsNil()
		}
		// A model adapter knows whether its request left the machine (LLM-055).
		if sent, reported := r.err.Details.Key("sent?").AsBool(); reported && !sent && r.usage.IsNil() {
			e.unsent, e.unknown = true, false
		}
	}
	return e
}

// callBudget returns the :budget of the request: the limits of the policy, and
// for the sums what is left including the reservation of the call.
func (o *operation) callBudget(r *reservation) edn.Value {
	own := o.w.Policy.Budget
	if r.hold == nil {
		return own
	}
	left, err := o.run.Account.Left(o.run.Base, o.w.Budget)
	if err != nil {
		return own
	}
	left = left.Plus(r.hold.Want())
	if own.IsNil() {
		own = edn.MustMap()
	}
	return own.Merge(left.Value())
}

// amount returns the reserved amount, nil without a reservation.
func (r *reservation) amount() edn.Value {
	if r.hold == nil {
		return edn.Nil()
	}
	return r.record.Amount
}

// purpose returns the purpose of an attempt's reservation.
func (o *operation) purpose(strategy string) string {
	switch {
	case o.vote:
		return forVote
	case o.round > 0:
		return forRepair
	case strategy != "":
		return forParallel
	}
	return forAttempt
}

// free reports whether a call may be made without a reservation: if a budget
// applies, only one that costs nothing.
func (o *operation) free(c *registry.Capability) bool {
	if !o.budgeted() {
		return true
	}
	price, err := policy.Price(c, policy.Size{InKnown: true, OutKnown: true})
	return err == nil && !price.Has(policy.USD) && !policy.CountsTokens(c)
}

// wallSpent is the failure of a node whose wall-clock budget is used up.
func (o *operation) wallSpent() *contract.Error {
	limit := o.w.Policy.Wall.Milliseconds()
	return contract.Errorf("budget/exceeded", "the budget of node %s has 0 of %d ms left", o.w.Node, limit).
		WithDetail("scope", edn.K(budget.Node.String())).
		WithDetail("dimension", edn.K("wall-ms")).
		WithDetail("limit", edn.Int(limit)).
		WithDetail("left", edn.Int(0)).
		WithWhere("node", edn.Text(o.w.Node))
}

// walked runs a plan answer within the deadline of its node (BUD-006).
func (o *operation) walked(ctx context.Context, walk func(context.Context) Child) Child {
	if o.w.Deadline.IsZero() {
		return walk(ctx)
	}
	within, cancel := context.WithDeadline(ctx, o.w.Deadline)
	defer cancel()
	child := walk(within)
	if child.Err != nil && ctx.Err() == nil && within.Err() != nil {
		late := contract.Errorf("timeout/hard", "node %s: the deadline passed while its plan answer ran", o.w.Node)
		if o.w.Wall {
			late = o.wallSpent()
		}
		child.Err = late.WithCause(cause(child.Err))
	}
	return child
}

// Limits returns the budget limits of one node.
func (p *CallPolicy) Limits() policy.Limits { return p.limits }
