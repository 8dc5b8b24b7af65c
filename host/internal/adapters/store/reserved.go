package store

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// Reservations of several hosts in the budgets of tenants and users (LED-007): each host has its
// own sum in each window, and the total counts.

// Budgets implements budget.SharedKeeper with a database that several hosts share.
type Budgets struct{ s *Store }

var _ budget.SharedKeeper = Budgets{}

// Budgets returns the shared counters of budgets. It must be used only if the store is Shared.
func (s *Store) Budgets() Budgets { return Budgets{s} }

// Counters implements budget.Keeper.
func (b Budgets) Counters(ctx context.Context) ([]budget.Counter, error) { return b.s.Counters(ctx) }

// Add implements budget.Keeper.
func (b Budgets) Add(changes ...budget.Counter) (wait func(ctx context.Context) error) {
	return b.s.Add(changes...)
}

// ask is a request to reserve an amount, and its result.
type ask struct {
	scopes []budget.Scope
	now    time.Time
	want   policy.Amounts
	full   *budget.ExceededError // the budget that cannot cover it; nil: reserved
	term   int64
}

// Reserve implements budget.SharedKeeper. Requests are decided in the transaction of the next
// commit, after its records. It waits for the commit even if ctx ends.
func (b Budgets) Reserve(
	ctx context.Context, scopes []budget.Scope, now time.Time, want policy.Amounts,
) (term int64, err error) {
	a := &ask{scopes: scopes, now: now, want: want}
	if err := b.s.queue.ask(context.WithoutCancel(ctx), a); err != nil {
		return 0, err
	}
	if a.full != nil {
		return 0, a.full
	}
	return a.term, nil
}

// Term implements budget.SharedKeeper.
func (b Budgets) Term() int64 { return b.s.term.Load() }

// Tallies implements budget.SharedKeeper.
func (b Budgets) Tallies(ctx context.Context, windows []budget.Window) ([]budget.Counter, error) {
	out := make([]budget.Counter, len(windows))
	for i, w := range windows {
		t, err := readTally(ctx, b.s.read, w, b.s.shared.number())
		if err != nil {
			return nil, err
		}
		t.Reserved = t.Reserved.Plus(t.own)
		out[i] = t.Counter
	}
	return out, nil
}

// Seen implements budget.SharedKeeper.
func (b Budgets) Seen(ctx context.Context, kind budget.Kind, begin time.Time) (ids []string, err error) {
	var id string
	err = b.s.read.all(ctx, "counters_of", []any{kind.String(), nanos(begin)}, []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

// tally is the state of one window during a transaction of the writer.
type tally struct {
	budget.Counter                // Reserved is the sum of the other hosts
	own            policy.Amounts // reservations of this host
	was            policy.Amounts
}

// release subtracts the cost that rec settles from the reservations, because it is counted as used
// now.
func (c counters) release(rec journal.Record, principal string) {
	if end, ok := rec.Body.(*journal.BudgetSettled); ok {
		c.add(act.Windows(end.Of, principal), budget.Counter{Released: policy.AmountsOf(end.Amount)})
	}
}

// readTally reads a window. host is the number of this host.
func readTally(ctx context.Context, from *statements, w budget.Window, host int64) (t tally, err error) {
	key := []any{w.Kind.String(), w.ID, nanos(w.Begin)}
	found, err := readCounters(ctx, from, "counter", key...)
	if err != nil {
		return t, err
	}
	t.Counter = found[w]
	t.Window = w
	var n int64
	var text string
	err = from.all(ctx, "reserved", key, []any{&n, &text}, func() error {
		amount, err := readAmounts(text)
		if n == host {
			t.own = amount
		} else {
			t.Reserved = t.Reserved.Plus(amount)
		}
		return err
	})
	t.was = t.own
	return t, err
}

// saveReserved applies changes to the reservations of this host, and then decides the requests.
func (w *writer) saveReserved(ctx context.Context, changes counters, asks []*ask) error {
	host, tallies := w.s.shared.number(), map[budget.Window]*tally{}
	at := func(window budget.Window) (*tally, error) {
		if t := tallies[window]; t != nil {
			return t, nil
		}
		t, err := readTally(ctx, w.sql, window, host)
		tallies[window] = &t
		return &t, err
	}
	for _, c := range changes {
		if c.Reserved.IsZero() && c.Released.IsZero() {
			continue
		}
		t, err := at(c.Window)
		if err != nil {
			return err
		}
		t.own = t.own.Plus(c.Reserved).Minus(c.Released)
	}
	for _, a := range asks {
		if err := a.decide(at); err != nil {
			return err
		}
		a.term = w.term
	}
	for window, t := range tallies {
		if t.own.Equal(t.was) {
			continue
		}
		if err := w.setReserved(ctx, host, window, t.own); err != nil {
			return err
		}
	}
	return nil
}

// decide reserves the amount in all windows, or in none; then full is set.
func (a *ask) decide(at func(budget.Window) (*tally, error)) error {
	var all []*tally
	a.full = nil
	for i, window := range budget.Windows(a.scopes, a.now) {
		t, err := at(window)
		if err != nil {
			return err
		}
		c := t.Counter
		c.Reserved = c.Reserved.Plus(t.own)
		if a.full = a.scopes[i].Admit(c, a.want, a.now); a.full != nil {
			return nil
		}
		all = append(all, t)
	}
	for _, t := range all {
		t.own = t.own.Plus(a.want)
	}
	return nil
}

func (w *writer) setReserved(ctx context.Context, host int64, at budget.Window, amount policy.Amounts) error {
	key := []any{host, at.Kind.String(), at.ID, nanos(at.Begin)}
	name := "remove_reserved"
	if !amount.IsZero() {
		name, key = "set_reserved", append(key, amount.Value().String())
	}
	_, err := w.sql.exec(ctx, name, key...)
	return err
}

// recount sets the reservations of this host to those of its unfinished runs. Other reservations of
// an earlier process are dropped.
func (s *Store) recount(ctx context.Context) error {
	_, err := s.db.begin(ctx, s.writer)
	if err == nil {
		err = s.writer.recount(ctx)
	}
	if err == nil {
		return s.db.commit(ctx, s.writer)
	}
	_, _ = s.write.exec(ctx, "rollback")
	return err
}

func (w *writer) recount(ctx context.Context) error {
	host := w.s.shared.number()
	if _, err := w.sql.exec(ctx, "forget_reserved", host); err != nil {
		return err
	}
	rows, err := readRuns(ctx, w.sql, "runs_held", host)
	if err != nil {
		return err
	}
	reserved := counters{}
	if err := w.s.addReserved(ctx, reserved, rows); err != nil {
		return err
	}
	return w.saveReserved(ctx, reserved, nil)
}

// moveReserved moves the reservations of runs from host from to host to. If from is 0, all
// reservations of the previous host have already been dropped.
func (s *Store) moveReserved(ctx context.Context, rows []runRow, from, to int64) error {
	moved := counters{}
	if err := s.addReserved(ctx, moved, rows); err != nil {
		return err
	}
	for window, c := range moved {
		if from != 0 {
			if err := s.writer.changeReserved(ctx, from, window, budget.Counter{Released: c.Reserved}); err != nil {
				return err
			}
		}
		if err := s.writer.changeReserved(ctx, to, window, c); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) changeReserved(ctx context.Context, host int64, at budget.Window, c budget.Counter) error {
	t, err := readTally(ctx, w.sql, at, host)
	if err != nil {
		return err
	}
	return w.setReserved(ctx, host, at, t.own.Plus(c.Reserved).Minus(c.Released))
}
