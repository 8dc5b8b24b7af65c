package plan

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Worst is the worst-case cost of a plan (BUD-008): an upper bound for every run whose
// capabilities keep their declared limits. Conditions are taken as true.
type Worst struct {
	// Amounts are the sums; for unbounded dimensions they hold the known part.
	Amounts policy.Amounts
	// Open maps each dimension without bound to the reason.
	Open map[policy.Dimension]Gap
	// Wall is the duration of the longest path through the plan, 0 if
	// unbounded.
	Wall time.Duration
	// Depth is the nesting depth of plans and maps visible in the plan.
	Depth int
	// Grows is true if a capability may answer with a plan, which may nest
	// deeper.
	Grows bool
}

// Gap is the reason why a dimension has no bound.
type Gap struct {
	// Path leads to the node.
	Path []edn.Value
	Why  string
	// Unpriced is true if the reason is an unknown price.
	Unpriced bool
}

// Value returns a map of the amounts, :wall-ms and :depth, as used in records and reports.
// Dimensions without bound are omitted.
func (w *Worst) Value() edn.Value {
	var b edn.MapBuilder
	for _, d := range policy.Dimensions() {
		if _, open := w.Open[d]; !open && w.Amounts.Has(d) {
			b.Key(d.String(), w.Amounts.Of(d))
		}
	}
	if w.Wall > 0 {
		b.Key("wall-ms", edn.Int(w.Wall.Milliseconds()))
	}
	if w.Depth > 0 && !w.Grows {
		b.Key("depth", edn.Int(int64(w.Depth)))
	}
	return b.Map()
}

// String returns the amounts and the wall time as one readable line; empty if nothing is
// spent.
func (w *Worst) String() string {
	var parts []string
	for _, d := range policy.Dimensions() {
		gap, open := w.Open[d]
		switch {
		case open && gap.Unpriced:
			parts = append(parts, d.String()+" unknown")
		case open:
			parts = append(parts, d.String()+" unbounded")
		case w.Amounts.Has(d):
			parts = append(parts, d.String()+" "+strings.TrimSuffix(w.Amounts.Of(d).String(), "M"))
		}
	}
	if w.Wall > 0 {
		parts = append(parts, "wall "+w.Wall.String())
	}
	return strings.Join(parts, ", ")
}

// OpenValue lists the dimensions without bound, with place and reason.
func (w *Worst) OpenValue() edn.Value {
	var out []edn.Value
	for _, d := range policy.Dimensions() {
		if gap, open := w.Open[d]; open {
			out = append(out, edn.MustMap(edn.K("dimension"), edn.K(d.String()), edn.K("path"), edn.Vector(gap.Path...),
				edn.K("why"), edn.Text(gap.Why)))
		}
	}
	return edn.Vector(out...)
}

func (w *Worst) gap(d policy.Dimension, g Gap) {
	if w.Open == nil {
		w.Open = map[policy.Dimension]Gap{}
	}
	if _, known := w.Open[d]; !known {
		w.Open[d] = g
	}
}

// plus adds the amounts and the open dimensions of o, but not its Wall and Depth.
func (w *Worst) plus(o *Worst) {
	w.Amounts = w.Amounts.Plus(o.Amounts)
	for d, g := range o.Open {
		w.gap(d, g)
	}
	w.Grows = w.Grows || o.Grows
}

// Then returns the cost of running next after w.
func (w Worst) Then(next *Worst) Worst {
	sum := Worst{
		Amounts: w.Amounts,
		Open:    maps.Clone(w.Open),
		Depth:   max(w.Depth, next.Depth),
		Grows:   w.Grows,
	}
	sum.plus(next)
	if w.Wall > 0 && next.Wall > 0 {
		sum.Wall = addWalls(w.Wall, next.Wall)
	}
	return sum
}

func (w *Worst) times(n int64) {
	w.Amounts = w.Amounts.Times(n)
}

// within lowers the amounts to the limits; a limited dimension is no longer open.
func (w *Worst) within(l policy.Limits) {
	for _, d := range policy.Dimensions() {
		if !l.Bounds(d) {
			continue
		}
		most := l.Amounts()
		if _, open := w.Open[d]; open || w.Amounts.Exceeds(most, d) {
			w.Amounts = w.Amounts.With(d, most)
			delete(w.Open, d)
		}
	}
}

// endsWithin lowers the wall time to the smallest of the limits; a limit of 0 bounds
// nothing.
func (w *Worst) endsWithin(limits ...time.Duration) {
	for _, most := range limits {
		if most > 0 && (w.Wall == 0 || most < w.Wall) {
			w.Wall = most
		}
	}
}

// toldTokens is the maximum number of tokens that a repair adds to a request: the previous
// answer and its findings.
const toldTokens = (2*64<<10 + 8<<10) / 3

// WithinBudget compares the worst case of a plan with the limits of the request and the budgets. It
// returns a CHECK-023 finding for each limit that the worst case exceeds, and a CHECK-046 warning
// for each limited dimension without bound or price. If budgets reject by the worst case, all are
// CHECK-023 errors. Each limit is reported once. positions is the plan whose text gives the
// positions; nil: findings have none.
func WithinBudget(w *Worst, env Env, positions *Plan) []Finding {
	limits := env.Budgets.Around(env.Request.Budget)
	if limits.IsZero() {
		return nil
	}
	severity := Warning
	if env.Budgets.RefuseWorst() {
		severity = Error
	}
	var out []Finding
	root := []edn.Value{}
	for _, d := range policy.Dimensions() {
		if !limits.Bounds(d) {
			continue
		}
		if gap, open := w.Open[d]; open {
			f := Finding{
				Check:    checkUnbounded,
				Severity: Warning,
				Path:     gap.Path,
				Message:  fmt.Sprintf("the worst case of %s has no bound: %s, in %s", d, gap.Why, showPath(gap.Path)),
			}
			if severity == Error {
				f.Check, f.Severity = checkWorst, Error
			}
			out = append(out, f)
			continue
		}
		if w.Amounts.Exceeds(limits.Amounts(), d) {
			out = append(out, Finding{Check: checkWorst, Severity: severity, Path: root,
				Message: fmt.Sprintf("the worst case is %s %s, and the budget allows %s", plainNumber(w.Amounts.Of(d)), d,
					plainNumber(limits.Max(d)))})
		}
	}
	if positions != nil {
		return positions.at.settle(out)
	}
	return out
}

func plainNumber(v edn.Value) string { return strings.TrimSuffix(v.String(), "M") }
