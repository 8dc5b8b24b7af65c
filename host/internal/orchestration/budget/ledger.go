package budget

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Kind is the kind of a scope, ordered from the widest to the narrowest.
type Kind int

// The kinds of scopes.
const (
	Tenant Kind = iota
	User
	Session
	Run
	Plan
	Node
)

// String returns the name of the kind.
func (k Kind) String() string {
	names := [...]string{"tenant", "user", "session", "run", "plan", "node"}
	if k >= 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("scope %d", int(k))
}

// Lasts reports whether the counters of a scope of this kind outlive runs and, if a Keeper
// stores them, the process of the host.
func (k Kind) Lasts() bool { return k <= User }

// Per is the window in which a scope counts.
type Per string

// The windows. Days and months are those of UTC.
const (
	Total Per = "total"
	Day   Per = "day"
	Month Per = "month"
)

// begin returns the start of the window that contains now; the zero time for
// Total.
func (p Per) begin(now time.Time) time.Time {
	y, m, d := now.UTC().Date()
	switch p {
	case Day:
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// resets returns the end of the window that contains now; zero for Total.
func (p Per) resets(now time.Time) time.Time {
	begin := p.begin(now)
	switch p {
	case Day:
		return begin.AddDate(0, 0, 1)
	case Month:
		return begin.AddDate(0, 1, 0)
	}
	return time.Time{}
}

// Scope is one holder of a budget.
type Scope struct {
	Kind Kind
	// ID identifies the scope within its kind: the name of a user, the id of a
	// run; for a plan and a node the id of the run, a space and their path.
	ID     string
	Limits policy.Limits
	Per    Per // empty means Total
}

func (s Scope) per() Per {
	if s.Per == "" {
		return Total
	}
	return s.Per
}

// String returns the name of the scope for messages.
func (s Scope) String() string {
	_, path, _ := strings.Cut(s.ID, " ") // of a node or plan, after its run
	switch s.Kind {
	case Tenant:
		if s.ID == "" || s.ID == policy.HostTenant {
			return "this host"
		}
	case Run:
		return "the run"
	case Plan:
		return "the plan at " + path
	case Node:
		return "node " + path
	}
	return s.Kind.String() + " " + s.ID
}

// Mark is the accuracy of an amount (LLM-020), ordered from the best.
type Mark int

// The marks.
const (
	Exact     Mark = iota // counted by the provider
	Estimated             // computed by the host
	AtLeast               // the true amount may be higher
	Unknown               // unknown; the reservation is used instead
)

// MarkOf returns the mark with a name; Unknown if there is no such mark.
func MarkOf(name string) Mark {
	for m := Exact; m < Unknown; m++ {
		if m.String() == name {
			return m
		}
	}
	return Unknown
}

// String returns the keyword name of the mark.
func (m Mark) String() string {
	names := [...]string{"exact", "estimated", "at-least", "unknown"}
	if m >= 0 && int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("mark %d", int(m))
}

// Window identifies the counter of one scope in one period.
type Window struct {
	Kind Kind
	ID   string
	// Begin is the start of the window in UTC; zero for Total.
	Begin time.Time
}

// Counter holds the amounts of a window, or a change of them.
type Counter struct {
	Window
	Used, Reserved, Granted policy.Amounts
	Mark                    Mark
	// Released and Term are set only in a change by a Shared ledger: the amount that is no
	// longer reserved, and the term of its reservation.
	Released policy.Amounts
	Term     int64
}

// Plus returns the counter with a change applied.
func (c Counter) Plus(change Counter) Counter {
	c.Used, c.Reserved = c.Used.Plus(change.Used), c.Reserved.Plus(change.Reserved)
	c.Granted, c.Mark = c.Granted.Plus(change.Granted), max(c.Mark, change.Mark)
	c.Released = c.Released.Plus(change.Released)
	return c
}

// Reservation is an amount reserved in a Ledger. It must be settled or posted; only the
// first time counts.
type Reservation struct {
	held *held
}

// Begins returns the start of each window by the name of its scope kind, without windows
// of Total; nil if there are none.
func (r Reservation) Begins() map[string]time.Time {
	var out map[string]time.Time
	if r.held == nil {
		return nil
	}
	for _, w := range r.held.windows {
		if w.Begin.IsZero() {
			continue
		}
		if out == nil {
			out = map[string]time.Time{}
		}
		out[w.Kind.String()] = w.Begin
	}
	return out
}

// Balance is the state of a scope. The limits of its Scope include grants.
type Balance struct {
	Scope          Scope
	Used, Reserved policy.Amounts
	// Granted is added to the limits by an operator for this window.
	Granted policy.Amounts
	// Mark is the worst of the settled marks.
	Mark Mark
	// Resets is the end of the window; zero: never.
	Resets time.Time
}

// Left returns, for each limited dimension, the limit less the used and reserved amounts,
// at least 0.
func (b Balance) Left() policy.Limits { return b.Scope.Limits.Less(b.Used.Plus(b.Reserved)) }

// Adjustment is a manual change of a scope: Grant is added to its limits,
// Charge counts as spent, also beyond them.
type Adjustment struct {
	Grant, Charge policy.Amounts
}

// ExceededError reports the scope and dimension in which a reservation does
// not fit. Nothing was reserved.
type ExceededError struct {
	Scope     Scope
	Dimension policy.Dimension
	Asked     policy.Amounts
	Left      policy.Limits
	Resets    time.Time // end of the window; zero: it has none
}

// Error returns a message with the scope, the dimension, the remaining and requested
// amounts and the time at which the window resets.
func (e *ExceededError) Error() string {
	text := fmt.Sprintf("the budget of %s has %s of %s %s left, and %s would be needed",
		e.Scope, plain(e.Left.Max(e.Dimension)), plain(e.Scope.Limits.Max(e.Dimension)), e.Dimension,
		plain(e.Asked.Of(e.Dimension)))
	if e.Resets.IsZero() {
		return text + "; it does not begin anew by itself"
	}
	return text + "; it begins anew at " + e.Resets.UTC().Format(time.RFC3339)
}

// plain formats a number without the suffix of a decimal.
func plain(v edn.Value) string { return strings.TrimSuffix(v.String(), "M") }

// Contract returns the error for callers. Its details hold the remaining amount
// and, if the scope has a window, the time at which it resets. typ is
// budget/exceeded, or budget/would-exceed for a request that was rejected before
// it started.
func (e *ExceededError) Contract(typ string, now time.Time) *contract.Error {
	err := contract.Errorf(typ, "%w", e).
		WithDetail("scope", edn.K(e.Scope.Kind.String())).
		WithDetail("dimension", edn.K(e.Dimension.String())).
		WithDetail("limit", e.Scope.Limits.Max(e.Dimension)).
		WithDetail("left", e.Left.Max(e.Dimension)).
		WithDetail("asked", e.Asked.Of(e.Dimension)).
		WithDetail("per", edn.K(string(e.Scope.per())))
	if e.Scope.Kind == User {
		err = err.WithDetail("user", edn.Text(e.Scope.ID))
	}
	if e.Resets.IsZero() {
		return err
	}
	return err.WithDetail("resets", edn.Inst(e.Resets)).
		WithDetail("retry-after-ms", edn.Int(max(1, (e.Resets.Sub(now)+time.Millisecond-1).Milliseconds())))
}

// Ledger counts reserved and spent amounts by scope. It is safe for concurrent use. An
// error other than *ExceededError means that the ledger could not be read or written:
// nothing may be spent then.
type Ledger interface {
	// Reserve reserves want in all scopes, or in none. The error is an *ExceededError if a
	// scope cannot cover it.
	Reserve(ctx context.Context, scopes []Scope, want policy.Amounts) (Reservation, error)
	// Settle replaces a reservation by the actual cost, which may be higher.
	// On a settled reservation it has no effect.
	Settle(ctx context.Context, r Reservation, spent policy.Amounts, mark Mark) error
	// Post is like Settle, for a cost that no record of a run contains.
	Post(ctx context.Context, r Reservation, spent policy.Amounts, mark Mark) error
	// Adopt returns a handle of a reservation that already counts in windows and whose
	// account is closed or was lost with its host.
	Adopt(ctx context.Context, windows []Window, want policy.Amounts) (Reservation, error)
	// Adjust changes one scope manually, for its current window. It returns when the change
	// is durable, if the ledger keeps the scope durably.
	Adjust(ctx context.Context, s Scope, a Adjustment) error
	// Seen returns the ids of the scopes of a kind with counters in the
	// current window, sorted.
	Seen(ctx context.Context, k Kind, p Per) ([]string, error)
	// Balances returns the balances of the scopes, in their order.
	Balances(ctx context.Context, scopes []Scope) ([]Balance, error)
	// Forget drops a scope that has ended, such as that of a finished run. Its
	// open reservations still count in the enclosing scopes.
	Forget(ctx context.Context, scopes ...Scope) error
}

// Left returns, for each dimension, the smallest amount that remains in any of the
// balances.
func Left(balances []Balance) policy.Limits {
	var l policy.Limits
	for _, b := range balances {
		l = l.Tighter(b.Left())
	}
	return l
}
