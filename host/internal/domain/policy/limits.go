package policy

import (
	"fmt"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits bound some dimensions. The zero value bounds none.
type Limits struct {
	set [dimensions]bool
	max Amounts
}

// LimitsOf reads the limits of a budget: a map with keys such as :max-usd or
// :usd. Keys that are no sums (:max-tokens, :max-wall-ms, :max-depth,
// :temperature) are left alone. The error names the key.
func LimitsOf(budget edn.Value) (Limits, error) {
	var l Limits
	for k, v := range budget.Entries() {
		name, _ := k.AsKeyword()
		d, ok := dimensionOf(name)
		if !ok {
			continue
		}
		next, err := l.with(d, v)
		if err != nil {
			return Limits{}, fmt.Errorf("budget :%s: %w", name, err)
		}
		l = next
	}
	return l, nil
}

func (l Limits) with(d Dimension, v edn.Value) (Limits, error) {
	var a Amounts
	if d == USD {
		m, err := Money(v)
		if err != nil {
			return l, err
		}
		a = m
	} else {
		n, ok := v.AsInt()
		if !ok || n < 0 {
			return l, fmt.Errorf("expected an integer that is not negative, found %s", v)
		}
		a = Count(d, n)
	}
	if !l.set[d] {
		l.set[d] = true
		l.max = l.max.Plus(a)
		return l, nil
	}
	return l.Tighter(Limits{set: only(d), max: a}), nil
}

func only(d Dimension) (set [dimensions]bool) {
	set[d] = true
	return set
}

// Bounds tells whether a dimension is limited.
func (l Limits) Bounds(d Dimension) bool { return l.set[d] }

// IsZero tells whether nothing is limited.
func (l Limits) IsZero() bool { return l.set == [dimensions]bool{} }

// Max is the limit of a dimension, nil if there is none.
func (l Limits) Max(d Dimension) edn.Value {
	if !l.set[d] {
		return edn.Nil()
	}
	return l.max.Of(d)
}

// Tighter has the smaller limit of each dimension.
func (l Limits) Tighter(o Limits) Limits {
	for _, d := range Dimensions() {
		if o.set[d] && (!l.set[d] || l.max.exceeds(o.max, d)) {
			l.set[d] = true
			l.max = l.max.replace(d, o.max)
		}
	}
	return l
}

func (a Amounts) replace(d Dimension, by Amounts) Amounts {
	if d < USD {
		a.n[d] = by.n[d]
	} else {
		a.usd = by.usd
	}
	return a
}

// Less is what is left of the limits when so much is spent.
func (l Limits) Less(spent Amounts) Limits {
	l.max = l.max.Minus(spent)
	return l
}

// Plus has room for so much more in every dimension that is limited.
func (l Limits) Plus(more Amounts) Limits {
	l.max = l.max.Plus(more)
	return l
}

// Amounts is the limits as amounts; what is not limited is 0.
func (l Limits) Amounts() Amounts {
	var out Amounts
	for _, d := range Dimensions() {
		if l.set[d] {
			out = out.replace(d, l.max)
		}
	}
	return out
}

// Bound limits one dimension to its amount in a, if it is not limited to less.
func (l Limits) Bound(d Dimension, a Amounts) Limits {
	return l.Tighter(Limits{set: only(d), max: a.Only(d)})
}

// Exceeded finds the first dimension in which wanting so much more than was
// spent would be above the limits. What nothing is wanted of cannot be exceeded
// anew.
func (l Limits) Exceeded(spent, want Amounts) (Dimension, bool) {
	sum := spent.Plus(want)
	for _, d := range Dimensions() {
		if l.set[d] && want.has(d) && sum.exceeds(l.max, d) {
			return d, true
		}
	}
	return 0, false
}

// Value is a map from :max-dimension to number.
func (l Limits) Value() edn.Value {
	var m edn.MapBuilder
	for _, d := range Dimensions() {
		if l.set[d] {
			m.Set(edn.K("max-"+d.String()), l.max.Of(d))
		}
	}
	return m.Map()
}
