package budget

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Chain is the scopes that enclose a call, the widest first. It is immutable: a
// narrower scope makes a new one.
type Chain []Scope

// In is the chain of something within one more scope.
func (c Chain) In(s Scope) Chain { return append(slices.Clip(c), s) }

// Bounds tells whether any of the scopes limits a dimension.
func (c Chain) Bounds(d policy.Dimension) bool {
	return slices.ContainsFunc(c, func(s Scope) bool { return s.Limits.Bounds(d) })
}

// Kinds are the kinds of the scopes, each once, the widest first.
func (c Chain) Kinds() []string {
	var out []string
	for _, s := range c {
		if name := s.Kind.String(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Totals are what happened in an account.
type Totals struct {
	// Reserved is the sum of all reservations, Settled what became of those that
	// are settled. Refunded is what they did not need.
	Reserved, Settled, Refunded policy.Amounts
	// Mark is the worst of what was settled.
	Mark Mark
	// Open is how many are not settled yet.
	Open int
}

// ErrClosed is why nothing can be reserved any more.
var ErrClosed = errors.New("the run is over")

// Account is the budget of one run. It is safe for concurrent use; the zero
// value cannot reserve anything.
type Account struct {
	ledger Ledger

	mu     sync.Mutex
	closed bool
	totals Totals
	open   []*Hold
	own    map[place]Scope // that end with the run
	run    *Scope          // the run itself, if it is counted
	wide   []*Hold         // of the whole run, from scopes around it
}

// place tells scopes apart.
type place struct {
	kind Kind
	id   string
}

// NewAccount opens the account of a run.
func NewAccount(l Ledger) *Account { return &Account{ledger: l} }

// Beside opens an account on the same ledger for what is done beside the run and
// may outlast it.
func (a *Account) Beside() *Account { return NewAccount(a.ledger) }

// Hold is an amount that an account has reserved.
type Hold struct {
	account *Account
	r       Reservation
	want    policy.Amounts
	settled bool
	lost    func(spent policy.Amounts, mark Mark)
}

// OnLoss has f told if the reservation is settled by the account, because who
// had it is gone.
func (h *Hold) OnLoss(f func(spent policy.Amounts, mark Mark)) { h.lost = f }

// Want is what was reserved.
func (h *Hold) Want() policy.Amounts { return h.want }

// Reserve sets an amount aside in all scopes of a chain, or in none: then the
// error is an *ExceededError.
func (a *Account) Reserve(ctx context.Context, c Chain, want policy.Amounts) (*Hold, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, err := a.hold(ctx, c, want)
	if err != nil {
		return nil, err
	}
	a.open = append(a.open, h)
	a.totals.Reserved = a.totals.Reserved.Plus(want)
	a.totals.Open++
	return h, nil
}

// hold is called with the lock.
func (a *Account) hold(ctx context.Context, c Chain, want policy.Amounts) (*Hold, error) {
	if a.closed || a.ledger == nil {
		return nil, ErrClosed
	}
	r, err := a.ledger.Reserve(ctx, c, want)
	if err != nil {
		return nil, err
	}
	return &Hold{account: a, r: r, want: want}, nil
}

// ReserveRun sets aside in the scopes around the run what the run may take at
// most; its calls are not to be reserved there again. What the run took is
// settled when the account is closed.
func (a *Account) ReserveRun(ctx context.Context, c Chain, want policy.Amounts) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, err := a.hold(ctx, c, want)
	if err == nil {
		a.wide = append(a.wide, h)
	}
	return err
}

// Owns says that a scope ends with the run.
func (a *Account) Owns(s Scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own == nil {
		a.own = map[place]Scope{}
	}
	a.own[place{s.Kind, s.ID}] = s
	if s.Kind == Run && a.run == nil { // what is asked within the run comes later
		a.run = &s
	}
}

// Renew owns a scope that begins now, whatever was counted under its name
// before.
func (a *Account) Renew(ctx context.Context, s Scope) {
	a.Owns(s)
	_ = a.ledger.Forget(ctx, s) // what it cannot forget makes the scope tighter
}

// Settle replaces the reservation by what was spent. Only the first call does
// anything; a nil Hold has nothing to settle.
func (h *Hold) Settle(ctx context.Context, spent policy.Amounts, mark Mark) error {
	if h == nil {
		return nil
	}
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settle(ctx, h, spent, mark)
}

// settle is called with the lock.
func (a *Account) settle(ctx context.Context, h *Hold, spent policy.Amounts, mark Mark) error {
	if h.settled {
		return nil
	}
	h.settled = true
	a.open = slices.DeleteFunc(a.open, func(o *Hold) bool { return o == h })
	a.totals.Open = len(a.open)
	a.totals.Settled = a.totals.Settled.Plus(spent)
	a.totals.Refunded = a.totals.Refunded.Plus(h.want.Minus(spent))
	a.totals.Mark = max(a.totals.Mark, mark)
	return a.ledger.Settle(ctx, h.r, spent, mark)
}

// Totals are those so far.
func (a *Account) Totals() Totals {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.totals
}

// Balances are those of a chain now.
func (a *Account) Balances(ctx context.Context, c Chain) ([]Balance, error) {
	return a.ledger.Balances(ctx, c)
}

// Left is the tightest of what a chain has left.
func (a *Account) Left(ctx context.Context, c Chain) (policy.Limits, error) {
	all, err := a.ledger.Balances(ctx, c)
	return Left(all), err
}

// Short tells what keeps an amount from being reserved now, nil if nothing does.
// That may be another thing a moment later: only Reserve decides.
func (a *Account) Short(ctx context.Context, c Chain, want policy.Amounts) (*ExceededError, error) {
	all, err := a.ledger.Balances(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		taken := b.Used.Plus(b.Reserved)
		if d, over := b.Scope.Limits.Exceeded(taken, want); over {
			return &ExceededError{Scope: b.Scope, Dimension: d, Asked: want, Left: b.Left(), Resets: b.Resets}, nil
		}
	}
	return nil, nil
}

// Drain settles what is still open as if it had all been spent: who had it is
// gone, and nobody knows better. The scopes of the run can still be read.
func (a *Account) Drain(ctx context.Context) {
	a.mu.Lock()
	left := slices.Clone(a.open)
	for _, h := range left {
		_ = a.settle(ctx, h, h.want, AtLeast) // the ledger is all that could tell
	}
	a.mu.Unlock()
	for _, h := range left {
		if h.lost != nil {
			h.lost(h.want, AtLeast)
		}
	}
}

// Close drains the account, settles what was set aside for the whole run with
// what the run took, and ends the scopes of the run. It may be called again.
func (a *Account) Close(ctx context.Context) {
	a.Drain(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.settleRun(ctx)
	for _, s := range a.own {
		_ = a.ledger.Forget(ctx, s)
	}
	a.own = nil
}

// SettleRun settles what was set aside for the whole run with what the run took,
// and tells that; ok is false if nothing was.
func (a *Account) SettleRun(ctx context.Context) (took policy.Amounts, mark Mark, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settleRun(ctx)
}

func (a *Account) settleRun(ctx context.Context) (took policy.Amounts, mark Mark, ok bool) {
	if len(a.wide) == 0 {
		return policy.Amounts{}, Exact, false
	}
	took, mark = a.took(ctx)
	for _, h := range a.wide {
		_ = a.ledger.Settle(ctx, h.r, took, mark)
	}
	a.wide = nil
	return took, mark, true
}

// took is what the run spent with everything that was asked on its behalf.
func (a *Account) took(ctx context.Context) (policy.Amounts, Mark) {
	if a.run == nil {
		return a.totals.Settled, a.totals.Mark
	}
	all, err := a.ledger.Balances(ctx, []Scope{*a.run})
	if err != nil {
		return a.totals.Settled, max(a.totals.Mark, AtLeast)
	}
	if !all[0].Reserved.IsZero() {
		return all[0].Used.Plus(all[0].Reserved), AtLeast
	}
	return all[0].Used, all[0].Mark
}
