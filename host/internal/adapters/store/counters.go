package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

var _ budget.Keeper = (*Store)(nil)

// Counters implements budget.Keeper.
func (s *Store) Counters(ctx context.Context) ([]budget.Counter, error) {
	out, err := readCounters(ctx, s.read, "counters")
	if err != nil {
		return nil, err
	}
	for _, state := range []string{"runs_open", "runs_suspended"} {
		rows, err := readRuns(ctx, s.read, state)
		if err == nil {
			err = s.addReserved(ctx, out, rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return out.list(), nil
}

// addReserved adds the open reservations of unfinished runs. A run with damaged records is skipped.
func (s *Store) addReserved(ctx context.Context, to counters, rows []runRow) error {
	for _, row := range rows {
		records, err := s.Read(ctx, row.ID, 0, maxRecords)
		var damage *Damage
		switch {
		case errors.As(err, &damage):
			continue
		case err != nil:
			return err
		}
		for _, r := range journal.NewHistory(records).Reserved {
			to.add(act.Windows(r, row.Principal), budget.Counter{Reserved: policy.AmountsOf(r.Amount)})
		}
	}
	return nil
}

// Add implements budget.Keeper.
func (s *Store) Add(changes ...budget.Counter) (wait func(ctx context.Context) error) {
	return s.queue.count(changes)
}

// counters are counters by window, or changes of them.
type counters map[budget.Window]budget.Counter

func (c counters) add(windows []budget.Window, change budget.Counter) {
	for _, w := range windows {
		at := c[w]
		at.Window = w
		c[w] = at.Plus(change)
	}
}

// apply adds the cost that rec settles to the windows of its run's principal. Other records change
// nothing.
func (c counters) apply(rec journal.Record, principal string) {
	if end, ok := rec.Body.(*journal.BudgetSettled); ok {
		c.add(act.Windows(end.Of, principal), budget.Counter{
			Used: policy.AmountsOf(end.Amount),
			Mark: budget.MarkOf(end.Mark),
		})
	}
}

func (c counters) list() []budget.Counter {
	out := make([]budget.Counter, 0, len(c))
	for _, at := range c {
		out = append(out, at)
	}
	return out
}

// readCounters reads counters with a named statement. If the error is a *Damage, the result holds
// the counters that could be read.
func readCounters(ctx context.Context, from *statements, name string, args ...any) (counters, error) {
	out := counters{}
	var damage error
	var kind, id, used, granted, mark string
	var begun time.Time
	err := from.all(ctx, name, args, []any{&kind, &id, moment{&begun}, &used, &granted, &mark}, func() error {
		at := budget.Counter{Window: budget.Window{Kind: budget.Tenant, ID: id, Begin: begun}, Mark: budget.MarkOf(mark)}
		if kind == budget.User.String() {
			at.Kind = budget.User
		}
		var bad [2]error
		at.Used, bad[0] = readAmounts(used)
		at.Granted, bad[1] = readAmounts(granted)
		if err := errors.Join(bad[:]...); err != nil {
			damage = errors.Join(damage, err)
			return nil
		}
		out[at.Window] = at
		return nil
	})
	return out, errors.Join(err, damage)
}

func readAmounts(text string) (policy.Amounts, error) {
	v, err := edn.Read([]byte(text), storedLimits)
	if err != nil || !v.IsMap() {
		return policy.Amounts{}, &Damage{What: fmt.Sprintf("a counter has the amounts %q", text)}
	}
	return policy.AmountsOf(v), nil
}

// saveCounters adds changes to the counters in the database.
func (w *writer) saveCounters(ctx context.Context, changes counters) error {
	for _, change := range changes {
		k := []any{change.Kind.String(), change.ID, nanos(change.Begin)}
		found, err := readCounters(ctx, w.sql, "counter", k...)
		if err != nil {
			return err
		}
		found.add([]budget.Window{change.Window}, change)
		at := found[change.Window]
		k = append(k, at.Used.Value().String(), at.Granted.Value().String(), at.Mark.String())
		_, err = w.sql.exec(ctx, "set_counter", k...)
		if err != nil {
			return err
		}
	}
	return nil
}

// countersKept is the time for which counters are kept after the start of their
// window: longer than a month and the time for which the ledger keeps them.
const countersKept = 35 * 24 * time.Hour

// dropCounters deletes the counters whose window began more than countersKept ago.
func (s *Store) dropCounters(ctx context.Context) error {
	return s.change(ctx, func(ctx context.Context) error {
		_, err := s.write.exec(ctx, "remove_counters", nanos(s.opts.Now().Add(-countersKept)))
		return err
	})
}
