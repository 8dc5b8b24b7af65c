package request

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limit is an upper bound on a whole number. The zero value means no bound.
type Limit struct {
	N   int64
	Set bool
}

// Limited returns a set limit of n.
func Limited(n int64) Limit { return Limit{N: n, Set: true} }

// Lower returns the tighter of two bounds.
func (l Limit) Lower(o Limit) Limit {
	if !l.Set || o.Set && o.N < l.N {
		return o
	}
	return l
}

// above reports whether l allows more than o does.
func (l Limit) above(o Limit) bool { return o.Set && l.Set && l.N > o.N }

// Budget is the set of limits of a scope, such as a run or a node. Its copies share nothing
// that can be changed.
type Budget struct {
	// MaxTokens bounds the output tokens of one attempt, not the sum over
	// attempts.
	MaxTokens Limit

	// The other limits apply to the whole scope.
	MaxTokensIn   Limit
	MaxTokensOut  Limit
	MaxWallMS     Limit // milliseconds
	MaxRoundtrips Limit
	MaxAttempts   Limit
	MaxJudgeCalls Limit
	MaxDepth      Limit
	// MaxUSD is an integer or a decimal, nil for no bound.
	MaxUSD edn.Value

	// Temperature is a number from 0 to 2, nil if none was requested. It is not a limit,
	// but requests write it beside the limits.
	Temperature edn.Value
}

var budgetKeys = []string{
	"max-attempts", "max-depth", "max-judge-calls", "max-roundtrips", "max-tokens", "max-tokens-in", "max-tokens-out",
	"max-usd", "max-wall-ms", "temperature", "usd", "wall-ms",
}

// BudgetKeys returns the names of the keys of a budget, sorted.
func BudgetKeys() []string { return slices.Clone(budgetKeys) }

// BudgetAmount describes the amount that a key of a budget accepts, for
// messages.
func BudgetAmount(key edn.Value) string {
	switch name, _ := key.AsKeyword(); name {
	case "usd", "max-usd":
		return "an integer or a decimal that is not negative, such as 0.05M"
	case "temperature":
		return "a number from 0 to 2"
	}
	return "an integer that is not negative"
}

// limit returns the field of a whole-number key.
func (b *Budget) limit(key string) *Limit {
	switch key {
	case "max-tokens":
		return &b.MaxTokens
	case "max-tokens-in":
		return &b.MaxTokensIn
	case "max-tokens-out":
		return &b.MaxTokensOut
	case "max-wall-ms", "wall-ms":
		return &b.MaxWallMS
	case "max-roundtrips":
		return &b.MaxRoundtrips
	case "max-attempts":
		return &b.MaxAttempts
	case "max-judge-calls":
		return &b.MaxJudgeCalls
	case "max-depth":
		return &b.MaxDepth
	}
	return nil
}

// ParseBudget reads a budget. Nil is a budget without limits. If a limit is
// given under both of its names, the tighter one applies. The error is of type
// invalid-request.
func ParseBudget(v edn.Value) (Budget, *contract.Error) {
	if v.IsNil() || v.Kind() == edn.KindMap && v.Len() == 0 {
		return Budget{}, nil
	}
	if v.Kind() != edn.KindMap {
		return Budget{}, invalidRequest("shape/wrong-type", "the budget is not a map", path(kBudget)).Expecting(kMap, v).Err()
	}
	var b Budget
	for _, pass := range budgetPasses {
		for key, amount := range v.Entries() {
			if f := pass(&b, key, amount); f != nil {
				return Budget{}, f.Err()
			}
		}
	}
	return b, nil
}

// budgetPasses are applied one after the other to all entries, so that of
// several faults the one with the first reason is reported.
var budgetPasses = [...]func(b *Budget, key, amount edn.Value) *contract.Fault{unknownBudgetKey, readAmount, checkSign}

func unknownBudgetKey(b *Budget, key, _ edn.Value) *contract.Fault {
	name, _ := key.AsKeyword()
	if name == "max-usd" || name == "usd" || name == "temperature" || b.limit(name) != nil {
		return nil
	}
	f := invalidRequest("budget/unknown-key", "the budget has an unknown key "+contract.Excerpt(key), path(kBudget)).
		Named(key, budgetKeys)
	return &f
}

func readAmount(b *Budget, key, amount edn.Value) *contract.Fault {
	name, _ := key.AsKeyword()
	expected := kInt
	switch name {
	case "max-usd", "usd":
		if amount.Kind() == edn.KindInt || amount.Kind() == edn.KindDecimal {
			b.MaxUSD = lowerMoney(b.MaxUSD, amount)
			return nil
		}
		expected = edn.Vector(edn.K("or"), kDecimal, kInt)
	case "temperature":
		if isNumber(amount) {
			b.Temperature = amount
			return nil
		}
		expected = kNumber
	default:
		if n, ok := amount.AsInt(); ok {
			limit := b.limit(name)
			*limit = limit.Lower(Limited(n))
			return nil
		}
		if n, ok := amount.AsBigInt(); ok && n.Sign() < 0 {
			return negative(key, amount)
		}
	}
	f := invalidRequest("budget/not-number", "an amount in the budget has the wrong type", path(kBudget, key)).
		Expecting(expected, amount)
	return &f
}

func checkSign(_ *Budget, key, amount edn.Value) *contract.Fault {
	if sign(amount) < 0 {
		return negative(key, amount)
	}
	if name, _ := key.AsKeyword(); name == "temperature" {
		if !within(amount, 0, 2) {
			f := invalidRequest("shape/out-of-range", "the temperature is out of range", path(kBudget, key)).
				Expecting(between(kNumber, 0, 2), amount)
			return &f
		}
	}
	return nil
}

func negative(key, amount edn.Value) *contract.Fault {
	f := invalidRequest("budget/negative", "the budget has a negative amount", path(kBudget, key)).
		Expecting(edn.Vector(kNumber, edn.MustMap(edn.K("min"), edn.Int(0))), amount)
	return &f
}

// Value returns the budget as a map, each limit under its key with the prefix max-; unset limits
// are absent.
func (b Budget) Value() edn.Value {
	var m edn.MapBuilder
	for _, key := range budgetKeys {
		if l := b.limit(key); l != nil && l.Set && key != "wall-ms" {
			m.Key(key, edn.Int(l.N))
		}
	}
	m.Opt("max-usd", b.MaxUSD)
	m.Opt("temperature", b.Temperature)
	return m.Map()
}

// Raises returns the first key, by name, under which b allows more than the ceiling does, or "". A
// limit that only one of them sets is not compared.
func (b Budget) Raises(ceiling Budget) string {
	for _, key := range budgetKeys {
		if l := b.limit(key); l != nil && l.above(*ceiling.limit(key)) {
			return key
		}
		if key == "max-usd" && !b.MaxUSD.IsNil() && !ceiling.MaxUSD.IsNil() && compareNumbers(b.MaxUSD, ceiling.MaxUSD) > 0 {
			return key
		}
	}
	return ""
}

func lowerMoney(a, b edn.Value) edn.Value {
	if a.IsNil() || !b.IsNil() && compareNumbers(b, a) < 0 {
		return b
	}
	return a
}

func compareNumbers(a, b edn.Value) int {
	x, _ := a.AsNumber()
	y, _ := b.AsNumber()
	return x.Cmp(y)
}

func isNumber(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindInt, edn.KindFloat, edn.KindDecimal:
		return true
	}
	return false
}

// sign returns -1, 0 or 1 for a number, 0 for anything else.
func sign(v edn.Value) int {
	if n, ok := v.AsInt(); ok {
		switch {
		case n < 0:
			return -1
		case n > 0:
			return 1
		}
		return 0
	}
	if f, ok := v.AsFloat(); ok {
		return cmp.Compare(f, 0)
	}
	if n, ok := v.AsNumber(); ok {
		return n.Sign()
	}
	return 0
}

// within reports whether a number is in the closed range. Only decimals and big
// integers need exact arithmetic.
func within(v edn.Value, low, high int64) bool {
	if n, ok := v.AsInt(); ok {
		return n >= low && n <= high
	}
	if f, ok := v.AsFloat(); ok {
		return f >= float64(low) && f <= float64(high)
	}
	n, ok := v.AsNumber()
	return ok && n.Cmp(big.NewRat(low, 1)) >= 0 && n.Cmp(big.NewRat(high, 1)) <= 0
}

// between returns the schema of a bounded number.
func between(kind edn.Value, low, high int64) edn.Value {
	return edn.Vector(kind, edn.MustMap(edn.K("min"), edn.Int(low), edn.K("max"), edn.Int(high)))
}
