package pricing

import (
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Together returns the usage of an answer and of the failed requests before it:
// tokens and cost are sums. Nil stands for a request without usage. A failed
// request may have used more than it reported, so the sums are lower bounds.
func Together(usage edn.Value, broken ...edn.Value) edn.Value {
	for _, b := range broken {
		switch {
		case usage.IsNil():
			usage = b
			continue
		case !b.IsNil():
			usage = sum(usage, b)
		}
		for _, key := range []string{"tokens-mark", "cost-mark"} {
			mark := Weakest(AtLeast, markOf(usage, key))
			if !b.IsNil() {
				mark = Weakest(mark, markOf(b, key))
			}
			usage = usage.AssocKey(key, edn.K(string(mark)))
		}
	}
	return usage
}

// sum adds b to the figures of usage. A figure that one of them lacks is that
// of the other.
func sum(usage, b edn.Value) edn.Value {
	for _, key := range []string{"tokens-in", "tokens-out", "tokens-cached", "tokens-reasoning", "tokens-cache-written"} {
		more, ok := b.Key(key).AsInt()
		if !ok {
			continue
		}
		n, _ := usage.Key(key).AsInt()
		usage = usage.AssocKey(key, edn.Int(n+more))
	}
	if more, ok := b.Key("cost-usd").AsNumber(); ok {
		cost, known := usage.Key("cost-usd").AsNumber()
		if !known {
			cost = new(big.Rat)
		}
		total, err := edn.RatDecimal(new(big.Rat).Add(cost, more))
		if err != nil {
			return usage.AssocKey("cost-mark", edn.K(string(AtLeast)))
		}
		usage = usage.AssocKey("cost-usd", total)
	}
	return usage
}

// markOf returns the mark of a usage; a missing one means unknown.
func markOf(usage edn.Value, key string) Mark {
	mark, ok := usage.Key(key).AsKeyword()
	if !ok {
		return Unknown
	}
	return Mark(mark)
}
