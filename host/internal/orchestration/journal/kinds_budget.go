package journal

import (
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
	Scopes  []string
	Amount  edn.Value
	Attempt int    // not for a run
	Gate    string // for a check or a vote

	seq int
}

// Kind implements Body.
func (*BudgetReserved) Kind() Kind { return KindBudgetReserved }

// SetSeq implements Numbered.
func (x *BudgetReserved) SetSeq(seq int) { x.seq = seq }

// Seq returns the number of the record; 0 before it was recorded.
func (x *BudgetReserved) Seq() int { return x.seq }

func (x *BudgetReserved) fault() string {
	switch {
	case !oneOf(x.For, "run", "attempt", "entrant", "repair", "check", "vote", "plan"):
		return "for"
	case len(x.Scopes) == 0 || !isAmount(x.Amount):
		return "amounts"
	case (x.For != "run") != (x.Attempt > 0):
		return "attempt"
	case oneOf(x.For, "check", "vote") != (x.Gate != ""):
		return "gate"
	}
	return ""
}

func (x *BudgetReserved) fields(b *edn.MapBuilder) {
	p := put{b}
	p.kw("for", x.For)
	b.Key("amounts", perScope(x.Scopes, x.Amount))
	p.positive("attempt", x.Attempt)
	p.kw("gate", x.Gate)
}

func (x *BudgetReserved) refs(func(Ref)) {}

// BudgetSettled records the end of a reservation: the actual cost counts, and
// the rest is released.
type BudgetSettled struct {
	Of     *BudgetReserved
	Amount edn.Value
	Mark   string
}

// Kind implements Body.
func (*BudgetSettled) Kind() Kind { return KindBudgetSettled }

func (x *BudgetSettled) fault() string {
	switch {
	case x.Of == nil || x.Of.seq < 1:
		return "of"
	case !isAmount(x.Amount):
		return "amounts"
	case !oneOf(x.Mark, marks...):
		return "mark"
	}
	return ""
}

func (x *BudgetSettled) fields(b *edn.MapBuilder) {
	if x.Of == nil {
		return
	}
	p := put{b}
	p.positive("of", x.Of.seq)
	b.Key("amounts", perScope(x.Of.Scopes, x.Amount))
	p.kw("mark", x.Mark)
}

func (x *BudgetSettled) refs(func(Ref)) {}

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
