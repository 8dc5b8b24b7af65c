package policy

import (
	"errors"
	"fmt"
	"math/big"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Size is the maximum number of tokens that a call reads and produces.
type Size struct {
	In, Out int64
	// InKnown and OutKnown are false if the count has no bound.
	InKnown, OutKnown bool
}

// Reasons why a call has no price.
var (
	// ErrNoPrice means that the price of a call is unknown, as opposed to zero.
	ErrNoPrice = errors.New("its price is unknown: set cost { usd = .. } in its capability block")
	// ErrNoBound means that the price is per token and the number of tokens has
	// no bound.
	ErrNoBound = errors.New("its tokens are unbounded: set :max-tokens in the budget")
)

// noPrice returns ErrNoPrice with the configuration that would set the price.
func noPrice(c *registry.Capability) error {
	if c.Model != "" {
		return fmt.Errorf("%w, or price { input = .., output = .. } in the block of model %q in the config of its plugin",
			ErrNoPrice, c.Model)
	}
	return ErrNoPrice
}

// CountsTokens reports whether a capability uses tokens. A chess engine, for
// example, does not, and no tokens are reserved for it.
func CountsTokens(c *registry.Capability) bool {
	return pricedByToken(c) || c.Limits.MaxTokens > 0 || c.Limits.ContextTokens > 0 || c.Model != "" || c.Kind == "llm"
}

// Priced reports whether a capability declares any price, per call or per token.
func Priced(c *registry.Capability) bool { return !c.Cost.USD.IsNil() || pricedByToken(c) }

func pricedByToken(c *registry.Capability) bool {
	return !c.Cost.USDInPerMTok.IsNil() || !c.Cost.USDOutPerMTok.IsNil()
}

// Price returns the maximum cost of one call to a capability (BUD-007, BUD-008). The error
// is ErrNoPrice (wrapped), also for a partly configured price, or ErrNoBound.
func Price(c *registry.Capability, size Size) (Amounts, error) {
	var total Amounts
	if !c.Cost.USD.IsNil() {
		a, err := Money(c.Cost.USD)
		if err != nil {
			return Amounts{}, noPrice(c)
		}
		total = a
	} else if !Priced(c) {
		return Amounts{}, noPrice(c)
	}
	if !pricedByToken(c) {
		return total, nil
	}
	for _, side := range []struct {
		perMTok edn.Value
		n       int64
		known   bool
	}{{c.Cost.USDInPerMTok, size.In, size.InKnown}, {c.Cost.USDOutPerMTok, size.Out, size.OutKnown}} {
		price, err := number(side.perMTok)
		switch {
		case err != nil:
			return Amounts{}, noPrice(c)
		case !side.known && price.Sign() != 0:
			return Amounts{}, ErrNoBound
		}
		total = total.Plus(Amounts{usd: moneyOf(price.Mul(price, big.NewRat(side.n, 1_000_000)))})
	}
	return total, nil
}

// maxOut bounds the output tokens of one call, so that sums and prices of them
// cannot overflow.
const maxOut = 1 << 43

// MostOut returns the maximum number of output tokens of one call: the limit of the
// capability or a lower :max-tokens of the budget, plus the tokens that the model may use
// for reasoning. ok is false if neither sets a limit.
func MostOut(c *registry.Capability, budget edn.Value) (n int64, ok bool) {
	n, ok = int64(c.Limits.MaxTokens), c.Limits.MaxTokens > 0
	if asked, limited := budget.Key("max-tokens").AsInt(); limited && (!ok || asked < n) {
		n, ok = asked, true
	}
	if !ok {
		return 0, false
	}
	return min(n, maxOut) + int64(c.Limits.HeadroomTokens), true
}

// messageTokens is the number of tokens of the frame of one message.
const messageTokens = 8

// CountTokens estimates an upper bound of the number of tokens of values, used
// until exact counts are known (LLM-022).
func CountTokens(values ...edn.Value) int64 {
	var total int64
	for _, v := range values {
		if v.IsNil() {
			continue
		}
		text := v.AppendCanonical(nil)
		wide := int64(0)
		for rest := text; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r >= utf8.RuneSelf {
				wide++
			}
			rest = rest[n:]
		}
		total += max(int64(len(text)+2)/3, wide)
		total += messageTokens * int64(max(1, v.Key("messages").Len()))
	}
	return total
}
