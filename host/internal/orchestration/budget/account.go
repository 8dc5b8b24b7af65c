package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Chain is the scopes that enclose a call, the widest first. It is immutable:
// adding a scope returns a new chain.
type Chain []Scope

// In returns the chain extended by a narrower scope.
func (c Chain) In(s Scope) Chain { return append(slices.Clip(c), s) }

// Bounds reports whether any of the scopes limits a dimension.
func (c Chain) Bounds(d policy.Dimension) bool {
	return slices.ContainsFunc(c, func(s Scope) bool { return s.Limits.Bounds(d) })
}

// Tenant returns the ID of the tenant scope; empty if there is none, or if it is that of
// the host itself.
func (c Chain) Tenant() string {
	for _, s := range c {
		if s.Kind == Tenant && s.ID != policy.HostTenant {
			return s.ID
		}
	}
	return ""
}

// Kinds returns the names of the kinds of the scopes, each once, the widest first.
func (c Chain) Kinds() []string {
	var out []string
	for _, s := range c {
		if name := s.Kind.String(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Totals are the sums over the reservations of an account, without that of ReserveRun.
type Totals struct {
	// Reserved is the sum of all reservations, Settled the cost of the settled
	// ones, Refunded the part that they did not use.
	Reserved, Settled, Refunded policy.Amounts
	// Mark is the worst of the settled marks.
	Mark Mark
	// Open is the number of unsettled reservations.
	Open int
}

// ErrClosed is returned by Reserve and ReserveRun if the account is closed.
var ErrClosed = errors.New("the run is over")

// Account is the budget of one run. It is safe for concurrent use. On the zero value,
// Reserve fails with ErrClosed.
type Account struct {
	ledger Ledger
	beside bool // for work outside the run, whose costs no record has

	mu     sync.Mutex
	closed bool
	totals Totals
	open   []*Hold
	own    map[place]Scope // scopes that end with the run
	run    *Scope          // the scope of the run itself, if it is counted
	wide   []*Hold         // reservations for the whole run, in enclosing scopes
}

// place identifies a scope.
type place struct {
	kind Kind
	id   string
}

// NewAccount opens the account of a run.
func NewAccount(l Ledger) *Account { return &Account{ledger: l} }

// Beside returns a new account on the same ledger for work outside the run that may
// outlast it. Its costs are not in the records of the run, so they are posted to the
// ledger's keeper. It must be closed separately.
func (a *Account) Beside() *Account { return &Account{ledger: a.ledger, beside: true} }

// Hold is an open reservation of an account.
type Hold struct {
	account *Account
	r       Reservation
	want    policy.Amounts
	settled bool
	lost    func(spent policy.Amounts, mark Mark)
}

// OnLoss registers f to be called by Drain if it settles the reservation, because the
// goroutine that owned it is gone. Call it before other goroutines use h.
func (h *Hold) OnLoss(f func(spent policy.Amounts, mark Mark)) { h.lost = f }

// Want returns the reserved amount.
func (h *Hold) Want() policy.Amounts { return h.want }

// Begins returns the start of each window by the name of its scope kind, without windows
// of Total; nil if there are none.
func (h *Hold) Begins() map[string]time.Time { return h.r.Begins() }

// Reserve reserves an amount in all scopes of a chain, or in none. The error is an
// *ExceededError if a scope cannot cover the amount, ErrClosed if the account is
// closed, else that of the ledger.
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

// hold reserves an amount without counting it in the totals. The caller holds a.mu.
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

// ReserveRun reserves the worst case of the run in the enclosing scopes; its
// calls must not reserve there again. Close settles it with the actual cost of
// the run. The errors are those of Reserve.
func (a *Account) ReserveRun(ctx context.Context, c Chain, want policy.Amounts) (*Hold, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, err := a.hold(ctx, c, want)
	if err == nil {
		a.wide = append(a.wide, h)
	}
	return h, err
}

// AdoptRun takes over the reservation for the whole run, which counts in windows, from an
// account that was closed with Leave, or whose host process has stopped. The error is that
// of the ledger.
func (a *Account) AdoptRun(ctx context.Context, windows []Window, want policy.Amounts) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := a.ledger.Adopt(ctx, windows, want)
	if err == nil {
		a.wide = append(a.wide, &Hold{account: a, r: r, want: want})
	}
	return err
}

// Owns registers a scope whose counters are dropped when the account is closed.
func (a *Account) Owns(s Scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own == nil {
		a.own = map[place]Scope{}
	}
	a.own[place{s.Kind, s.ID}] = s
	if s.Kind == Run && a.run == nil { // later ones are those of host calls within the run
		a.run = &s
	}
}

// Renew is like Owns for a scope that starts now: it also drops earlier counters of the
// scope.
func (a *Account) Renew(ctx context.Context, s Scope) {
	a.Owns(s)
	_ = a.ledger.Forget(ctx, s) // on an error earlier counts remain, and the scope is only tighter
}

// Settle replaces the reservation by the actual cost. Further calls, and calls after the
// account was closed, have no effect; a nil Hold is valid. The error is that of the ledger.
func (h *Hold) Settle(ctx context.Context, spent policy.Amounts, mark Mark) error {
	if h == nil {
		return nil
	}
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settle(ctx, h, spent, mark)
}

// settle is Hold.Settle; the caller holds a.mu.
func (a *Account) settle(ctx context.Context, h *Hold, spent policy.Amounts, mark Mark) error {
	if h.settled || a.closed {
		return nil
	}
	h.settled = true
	a.open = slices.DeleteFunc(a.open, func(o *Hold) bool { return o == h })
	a.totals.Open = len(a.open)
	a.totals.Settled = a.totals.Settled.Plus(spent)
	a.totals.Refunded = a.totals.Refunded.Plus(h.want.Minus(spent))
	a.totals.Mark = max(a.totals.Mark, mark)
	if a.beside {
		return a.ledger.Post(ctx, h.r, spent, mark)
	}
	return a.ledger.Settle(ctx, h.r, spent, mark)
}

// Totals returns the current sums.
func (a *Account) Totals() Totals {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.totals
}

// Balances returns the current balances of the scopes of a chain, in its order.
func (a *Account) Balances(ctx context.Context, c Chain) ([]Balance, error) {
	return a.ledger.Balances(ctx, c)
}

// Left returns, for each dimension, the smallest amount that remains in any scope of
// the chain.
func (a *Account) Left(ctx context.Context, c Chain) (policy.Limits, error) {
	all, err := a.ledger.Balances(ctx, c)
	return Left(all), err
}

// Short returns the reason why an amount cannot be reserved now, nil if it
// can. The result may be outdated immediately: only Reserve decides.
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

// Drain settles all open reservations as fully spent with the mark AtLeast, because the
// goroutines that owned them are gone. The balances of the run remain readable.
func (a *Account) Drain(ctx context.Context) {
	a.mu.Lock()
	left := slices.Clone(a.open)
	for _, h := range left {
		_ = a.settle(ctx, h, h.want, AtLeast) // errors of the ledger cannot be reported here
	}
	a.mu.Unlock()
	for _, h := range left {
		if h.lost != nil {
			h.lost(h.want, AtLeast)
		}
	}
}

// Close drains the account, settles the reservation for the whole run, and
// drops the scopes of the run. It may be called again.
func (a *Account) Close(ctx context.Context) {
	a.Drain(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settleRun(ctx)
	a.close(ctx)
}

// Leave closes the account of a run that will be resumed. Its reservations in scopes
// that outlive the run stay open.
func (a *Account) Leave(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.wide = nil, nil
	a.close(ctx)
}

// close forgets the scopes of the run. The caller holds a.mu.
func (a *Account) close(ctx context.Context) {
	a.closed = true
	for _, s := range a.own {
		_ = a.ledger.Forget(ctx, s)
	}
	a.own = nil
}

// SettleRun settles the reservation for the whole run with its actual cost; ok
// is false if there is none.
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

// took returns the cost of the run, including host calls.
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
