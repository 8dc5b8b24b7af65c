package budget

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// SharedKeeper stores the counters of scopes that outlive runs for several hosts, and
// decides on reservations in them.
//
// It counts the reserved amount of each host: Reserve adds to it, a change passed to Add
// adds Reserved and subtracts Released, and a record budget/settled subtracts the amount
// that it adds to the costs.
type SharedKeeper interface {
	Keeper
	// Reserve reserves an amount in the windows of all scopes, or in none; the error is an
	// *ExceededError if a scope cannot cover it. Reserve returns when the decision is
	// durable. term is the term of the host in which the reservation was made.
	Reserve(ctx context.Context, scopes []Scope, now time.Time, want policy.Amounts) (term int64, err error)
	// Term returns the current term of this host. A new term begins when another host has
	// taken over the reservations of this one; changes of Reserved and Released of earlier
	// terms then have no effect.
	Term() int64
	// Tallies returns the counters of windows in their order. Reserved is the sum over all
	// hosts.
	Tallies(ctx context.Context, windows []Window) ([]Counter, error)
	// Seen returns the ids of the scopes of a kind with counters in a window, sorted.
	Seen(ctx context.Context, kind Kind, begin time.Time) ([]string, error)
}

// Shared is the Ledger of a host that shares budgets with other hosts. Its keeper counts
// in scopes that outlive runs, Memory in all others.
type Shared struct {
	*Memory
	keeper SharedKeeper
}

var _ Ledger = (*Shared)(nil)

// NewShared returns the ledger of a host; now is the clock, nil for the system clock.
func NewShared(k SharedKeeper, now func() time.Time) *Shared { return &Shared{NewMemory(now), k} }

// lasting divides scopes into those that outlive runs and the others.
func lasting(scopes []Scope) (wide, narrow []Scope) {
	for _, s := range scopes {
		if s.Kind.Lasts() {
			wide = append(wide, s)
		} else {
			narrow = append(narrow, s)
		}
	}
	return wide, narrow
}

// Reserve implements Ledger.
func (s *Shared) Reserve(ctx context.Context, scopes []Scope, want policy.Amounts) (Reservation, error) {
	wide, narrow := lasting(scopes)
	r, err := s.Memory.Reserve(ctx, narrow, want)
	if err != nil || len(wide) == 0 {
		return r, err
	}
	now := s.now()
	r.held.term, err = s.keeper.Reserve(ctx, wide, now, want)
	if err != nil {
		_ = s.Memory.Settle(ctx, r, policy.Amounts{}, Exact) // in memory: it does not fail
		return Reservation{}, err
	}
	r.held.windows = append(windowsOf(wide, now), r.held.windows...)
	return r, nil
}

// Settle implements Ledger. The cost stays reserved until the record of it is durable.
func (s *Shared) Settle(_ context.Context, r Reservation, spent policy.Amounts, mark Mark) error {
	s.end(r.held, spent, mark, Counter{Reserved: spent})
	return nil
}

// Post implements Ledger.
func (s *Shared) Post(_ context.Context, r Reservation, spent policy.Amounts, mark Mark) error {
	s.end(r.held, spent, mark, Counter{Used: spent, Mark: mark})
	return nil
}

// end settles a reservation in memory and passes change to the keeper for each of its
// windows that outlive runs.
func (s *Shared) end(h *held, spent policy.Amounts, mark Mark, change Counter) {
	s.mu.Lock()
	open := s.settle(h, spent, mark)
	s.mu.Unlock()
	if !open {
		return
	}
	change.Released, change.Term = h.want, h.term
	var changes []Counter
	for _, w := range h.windows {
		if w.Kind.Lasts() {
			change.Window = w
			changes = append(changes, change)
		}
	}
	if len(changes) > 0 {
		s.keeper.Add(changes...)
	}
}

// Adopt implements Ledger. The keeper counts the reservation already.
func (s *Shared) Adopt(ctx context.Context, windows []Window, want policy.Amounts) (Reservation, error) {
	narrow := slices.DeleteFunc(slices.Clone(windows), func(w Window) bool { return w.Kind.Lasts() })
	r, err := s.Memory.Adopt(ctx, narrow, want)
	if err == nil {
		r.held.windows, r.held.term = windows, s.keeper.Term()
	}
	return r, err
}

// Adjust implements Ledger. For a scope that outlives runs it waits until the change is
// durable, even if ctx ends.
func (s *Shared) Adjust(ctx context.Context, scope Scope, a Adjustment) error {
	if !scope.Kind.Lasts() {
		return s.Memory.Adjust(ctx, scope, a)
	}
	w := windowsOf([]Scope{scope}, s.now())[0]
	return s.keeper.Add(Counter{Window: w, Used: a.Charge, Granted: a.Grant})(context.WithoutCancel(ctx))
}

// Seen implements Ledger.
func (s *Shared) Seen(ctx context.Context, kind Kind, p Per) ([]string, error) {
	if !kind.Lasts() {
		return s.Memory.Seen(ctx, kind, p)
	}
	return s.keeper.Seen(ctx, kind, p.begin(s.now()))
}

// Balances implements Ledger.
func (s *Shared) Balances(ctx context.Context, scopes []Scope) ([]Balance, error) {
	out, err := s.Memory.Balances(ctx, scopes)
	wide, _ := lasting(scopes)
	if err != nil || len(wide) == 0 {
		return out, err
	}
	all, err := s.keeper.Tallies(ctx, windowsOf(wide, s.now()))
	if err != nil {
		return nil, err
	}
	for i, scope := range scopes {
		if !scope.Kind.Lasts() {
			continue
		}
		b, c := &out[i], all[0]
		all = all[1:]
		b.Used, b.Reserved, b.Granted, b.Mark = c.Used, c.Reserved, c.Granted, c.Mark
		b.Scope.Limits = scope.Limits.Plus(c.Granted)
	}
	return out, nil
}

// Admit returns nil if the scope can cover want on top of the used and reserved amounts
// of c, else the reason. The grants of c raise the limits.
func (s Scope) Admit(c Counter, want policy.Amounts, now time.Time) *ExceededError {
	s.Limits = s.Limits.Plus(c.Granted)
	spent := c.Used.Plus(c.Reserved)
	d, over := s.Limits.Exceeded(spent, want)
	if !over {
		return nil
	}
	return &ExceededError{
		Scope:     s,
		Dimension: d,
		Asked:     want,
		Left:      s.Limits.Less(spent),
		Resets:    s.Per.resets(now),
	}
}

// Windows returns the windows of scopes that contain now, in their order.
func Windows(scopes []Scope, now time.Time) []Window { return windowsOf(scopes, now) }
