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

// Kind is what has a budget. The order is from the widest to the narrowest.
type Kind int

// The kinds.
const (
	Tenant Kind = iota
	User
	Session
	Run
	Plan
	Node
)

// String is the name of the kind.
func (k Kind) String() string {
	names := [...]string{"tenant", "user", "session", "run", "plan", "node"}
	if k >= 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("scope %d", int(k))
}

// Per is the window over which a scope counts.
type Per string

// The windows. A day and a month are those of UTC.
const (
	Total Per = "total"
	Day   Per = "day"
	Month Per = "month"
)

// begin is the start of the window that holds now; the zero time for Total.
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

// resets is when the window that holds now is over; zero for Total.
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

// Scope is something that has a budget.
type Scope struct {
	Kind Kind
	// ID tells scopes of one kind apart: the name of a user, the id of a run; of
	// a plan and a node the id of the run, a space and their path.
	ID     string
	Limits policy.Limits
	Per    Per // empty is Total
}

func (s Scope) per() Per {
	if s.Per == "" {
		return Total
	}
	return s.Per
}

// String names the scope as sentences do.
func (s Scope) String() string {
	_, path, _ := strings.Cut(s.ID, " ") // of a node or plan, behind its run
	switch s.Kind {
	case Tenant:
		return "this host"
	case Run:
		return "the run"
	case Plan:
		return "the plan at " + path
	case Node:
		return "node " + path
	}
	return s.Kind.String() + " " + s.ID
}

// Mark says how well an amount is known (LLM-020). The order is from the best.
type Mark int

// The marks.
const (
	Exact     Mark = iota // counted by whom it was bought from
	Estimated             // computed by the host
	AtLeast               // the true amount may be higher
	Unknown               // nobody knows; the reservation stands in
)

// String is the keyword of the mark.
func (m Mark) String() string {
	names := [...]string{"exact", "estimated", "at-least", "unknown"}
	if m >= 0 && int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("mark %d", int(m))
}

// Reservation is an amount that was set aside. It is settled once.
type Reservation struct {
	id uint64
}

// Balance is how a scope stands. The limits of its Scope are those in force:
// with what was granted.
type Balance struct {
	Scope          Scope
	Used, Reserved policy.Amounts
	// Granted is what an operator has added to the limits for this window.
	Granted policy.Amounts
	// Mark is the worst of what was settled.
	Mark Mark
	// Resets is when counting begins anew; zero: never.
	Resets time.Time
}

// Left is what may still be reserved.
func (b Balance) Left() policy.Limits { return b.Scope.Limits.Less(b.Used.Plus(b.Reserved)) }

// Adjustment is what an operator does to a scope beside its calls: Grant is
// added to its limits, Charge counts as spent, also if that is above them.
type Adjustment struct {
	Grant, Charge policy.Amounts
}

// ExceededError says which scope has too little left for a reservation, and of
// what. Nothing was reserved anywhere.
type ExceededError struct {
	Scope     Scope
	Dimension policy.Dimension
	Asked     policy.Amounts
	Left      policy.Limits
	Resets    time.Time // zero: not by itself
}

// Error names scope, dimension and figures.
func (e *ExceededError) Error() string {
	text := fmt.Sprintf("the budget of %s has %s of %s %s left, and %s would be needed",
		e.Scope, plain(e.Left.Max(e.Dimension)), plain(e.Scope.Limits.Max(e.Dimension)), e.Dimension, plain(e.Asked.Of(e.Dimension)))
	if e.Resets.IsZero() {
		return text + "; it does not begin anew by itself"
	}
	return text + "; it begins anew at " + e.Resets.UTC().Format(time.RFC3339)
}

// plain is a number without the mark of a decimal.
func plain(v edn.Value) string { return strings.TrimSuffix(v.String(), "M") }

// Contract is the error as callers get it: what is left and when that changes
// are in its details. The type is budget/exceeded, or budget/would-exceed of
// what was refused before it began.
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

// Ledger counts what is spent. An error other than *ExceededError means that
// the ledger could not be written: nothing may be spent then.
type Ledger interface {
	// Reserve sets want aside in all scopes, or in none.
	Reserve(ctx context.Context, scopes []Scope, want policy.Amounts) (Reservation, error)
	// Settle replaces a reservation by what was spent, also if that is more. A
	// reservation that is settled already is left alone.
	Settle(ctx context.Context, r Reservation, spent policy.Amounts, mark Mark) error
	// Adjust changes one scope by hand, until its window ends.
	Adjust(ctx context.Context, s Scope, a Adjustment) error
	// Seen are the ids of the scopes of a kind of which something is counted in
	// the window that holds now, sorted.
	Seen(ctx context.Context, k Kind, p Per) ([]string, error)
	// Balances are those of the scopes, in their order.
	Balances(ctx context.Context, scopes []Scope) ([]Balance, error)
	// Forget drops a scope that is over, such as that of a finished run. Its
	// open reservations still count in the scopes around it.
	Forget(ctx context.Context, scopes ...Scope) error
}

// Left is the tightest of what the scopes have left: what a call may be told
// that it has.
func Left(balances []Balance) policy.Limits {
	var l policy.Limits
	for _, b := range balances {
		l = l.Tighter(b.Left())
	}
	return l
}
