package policy

import (
	"fmt"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits holds a limit for some dimensions. The zero value limits none.
type Limits struct {
	set [dimensions]bool
	max Amounts
}

// LimitsOf reads the limits of a budget: a map with keys such as :max-usd or
// :usd. Keys that are not sums (:max-tokens, :max-wall-ms, :max-depth,
// :temperature) are ignored. The error names the key.
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

// Bounds reports whether a dimension is limited.
func (l Limits) Bounds(d Dimension) bool { return l.set[d] }

// IsZero reports whether no dimension is limited.
func (l Limits) IsZero() bool { return l.set == [dimensions]bool{} }

// Max returns the limit of a dimension, nil if it is not limited.
func (l Limits) Max(d Dimension) edn.Value {
	if !l.set[d] {
		return edn.Nil()
	}
	return l.max.Of(d)
}

// Tighter returns the smaller limit of each dimension.
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

// Less returns the limits reduced by the spent amounts, to 0 at least.
func (l Limits) Less(spent Amounts) Limits {
	l.max = l.max.Minus(spent)
	return l
}

// Plus returns the limits raised by more in every limited dimension.
func (l Limits) Plus(more Amounts) Limits {
	l.max = l.max.Plus(more)
	return l
}

// Amounts returns the limits as amounts; an unlimited dimension is 0.
func (l Limits) Amounts() Amounts {
	var out Amounts
	for _, d := range Dimensions() {
		if l.set[d] {
			out = out.replace(d, l.max)
		}
	}
	return out
}

// Exceeded returns the first dimension whose limit spent + want exceeds. A
// dimension with a zero want is never exceeded.
func (l Limits) Exceeded(spent, want Amounts) (Dimension, bool) {
	sum := spent.Plus(want)
	for _, d := range Dimensions() {
		if l.set[d] && want.has(d) && sum.exceeds(l.max, d) {
			return d, true
		}
	}
	return 0, false
}

// Value returns the limits as a map with keys such as :max-usd; unlimited dimensions are absent.
func (l Limits) Value() edn.Value {
	var m edn.MapBuilder
	for _, d := range Dimensions() {
		if l.set[d] {
			m.Set(edn.K("max-"+d.String()), l.max.Of(d))
		}
	}
	return m.Map()
}
