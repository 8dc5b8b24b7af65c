package journal

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// BudgetReserved records that an amount was reserved in every scope around a
// node, before work that may spend it. Of several scopes of one kind, such as
// nested nodes, one entry stands for all: the amounts are the same in all
// scopes.
type BudgetReserved struct {
	// For is the purpose: run, attempt, entrant, repair, check, vote or plan.
	// A plan gets a slice: its nodes reserve again within it, so sums exclude
	// slices.
	For string
	// Scopes are the kinds of the scopes, Amount the reserved amount.
	Scopes []string
	Amount edn.Value
	// Windows has the start of the window of each scope that counts per day or
	// month. The reservation is settled in the same window.
	Windows map[string]time.Time
	// Tenant is the tenant among the scopes; empty: none, or the host itself.
	Tenant  string
	Attempt int    // not for a run
	Gate    string // for a check or a vote

	seq int
}

// Kind implements Body.
func (*BudgetReserved) Kind() Kind { return KindBudgetReserved }

func (*BudgetReserved) describe() description { return budgetReserved }

var budgetReserved = kindOf(KindBudgetReserved, true,
	enum("for", func(x *BudgetReserved) *string { return &x.For }, "run", "attempt", "entrant", "repair", "check", "vote", "plan"),
	column[BudgetReserved]{
		key: "amounts", schema: tScopes,
		put: func(x *BudgetReserved) edn.Value { return perScope(x.Scopes, x.Amount) },
		take: func(x *BudgetReserved, v edn.Value, _ *Decoder) (ok bool) {
			x.Scopes, x.Amount, ok = fromScopes(v)
			return ok
		},
		bad: func(x *BudgetReserved) bool { return len(x.Scopes) == 0 || !isAmount(x.Amount) },
	},
	column[BudgetReserved]{
		key: "windows", schema: tWindows,
		present: func(x *BudgetReserved) bool { return len(x.Windows) > 0 },
		put: func(x *BudgetReserved) edn.Value {
			var m edn.MapBuilder
			for scope, begin := range x.Windows {
				m.Key(scope, edn.Inst(begin))
			}
			return m.Map()
		},
		take: func(x *BudgetReserved, v edn.Value, _ *Decoder) (ok bool) {
			x.Windows, ok = fromWindows(v)
			return ok
		},
		bad: func(x *BudgetReserved) bool {
			for scope := range x.Windows {
				if !slices.Contains(x.Scopes, scope) {
					return true
				}
			}
			return false
		},
	}.optional("a scope counts per day or month"),
	text("tenant", func(x *BudgetReserved) *string { return &x.Tenant }).optional("a scope is that of a tenant other than the host"),
	ordinal("attempt", func(x *BudgetReserved) *int { return &x.Attempt }).
		needed("not for run", func(x *BudgetReserved) bool { return x.For != "run" }),
	keyword("gate", func(x *BudgetReserved) *string { return &x.Gate }).
		needed("for check and vote", func(x *BudgetReserved) bool { return x.For == "check" || x.For == "vote" }),
)

// SetSeq implements Numbered.
func (x *BudgetReserved) SetSeq(seq int) { x.seq = seq }

// Seq returns the number of the record; 0 before it was recorded.
func (x *BudgetReserved) Seq() int { return x.seq }

// BudgetSettled records the settlement of a reservation: Amount is the actual cost, and
// the unused part of the reservation is released. Mark is the name of a budget.Mark.
type BudgetSettled struct {
	Of     *BudgetReserved
	Amount edn.Value
	Mark   string
}

// Kind implements Body.
func (*BudgetSettled) Kind() Kind { return KindBudgetSettled }

func (*BudgetSettled) describe() description { return budgetSettled }

var budgetSettled = kindOf(KindBudgetSettled, true,
	column[BudgetSettled]{
		key: "of", schema: tOrdinal,
		present: func(x *BudgetSettled) bool { return x.Of != nil && x.Of.seq > 0 },
		put:     func(x *BudgetSettled) edn.Value { return edn.Int(int64(x.Of.seq)) },
		take: func(x *BudgetSettled, v edn.Value, d *Decoder) bool {
			seq, ok := asInt(v)
			x.Of = d.reservation(seq)
			return ok && seq > 0
		},
	},
	column[BudgetSettled]{
		key: "amounts", schema: tScopes,
		present: func(x *BudgetSettled) bool { return x.Of != nil },
		put:     func(x *BudgetSettled) edn.Value { return perScope(x.Of.Scopes, x.Amount) },
		take: func(x *BudgetSettled, v edn.Value, _ *Decoder) bool {
			scopes, amount, ok := fromScopes(v)
			x.Amount = amount
			if x.Of != nil && x.Of.Scopes == nil { // the reservation was not decoded
				x.Of.Scopes = scopes
			}
			return ok && x.Of != nil
		},
		bad: func(x *BudgetSettled) bool { return len(x.Of.Scopes) == 0 || !isAmount(x.Amount) },
	},
	enum("mark", func(x *BudgetSettled) *string { return &x.Mark }, marks...),
)

func perScope(scopes []string, amount edn.Value) edn.Value {
	if amount.IsNil() {
		amount = edn.MustMap()
	}
	var m edn.MapBuilder
	for _, s := range scopes {
		m.Key(s, amount)
	}
	return m.Map()
}

func fromWindows(v edn.Value) (map[string]time.Time, bool) {
	out := map[string]time.Time{}
	for scope, each := range v.Entries() {
		name, isName := scope.AsKeyword()
		begin, isInst := each.AsInst()
		if !isName || !isInst {
			return nil, false
		}
		out[name] = begin
	}
	return out, v.IsMap()
}

// fromScopes is the inverse of perScope.
func fromScopes(v edn.Value) (scopes []string, amount edn.Value, ok bool) {
	for scope, each := range v.Entries() {
		name, isName := scope.AsKeyword()
		if !isName || scopes != nil && !amount.Equal(each) {
			return nil, edn.Nil(), false
		}
		scopes, amount = append(scopes, name), each
	}
	return scopes, amount, v.IsMap()
}
