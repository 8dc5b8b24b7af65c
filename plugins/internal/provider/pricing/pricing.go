package pricing

import (
	"math/big"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Mark is the reliability of a figure.
type Mark string

// The marks, from the strongest to the weakest.
const (
	Exact     Mark = "exact"
	Estimated Mark = "estimated"
	AtLeast   Mark = "at-least"
	Unknown   Mark = "unknown"
)

var order = map[Mark]int{Exact: 0, Estimated: 1, AtLeast: 2, Unknown: 3}

// Weakest returns the weaker of two marks.
func Weakest(a, b Mark) Mark {
	if order[a] >= order[b] {
		return a
	}
	return b
}

// Tokens are the tokens of one answer.
type Tokens struct {
	In, Out, Cached, Reasoning, Written int64
	Mark                                Mark
}

// Plus returns the sum, with the weaker mark.
func (t Tokens) Plus(u Tokens) Tokens {
	return Tokens{
		In: t.In + u.In, Out: t.Out + u.Out, Cached: t.Cached + u.Cached,
		Reasoning: t.Reasoning + u.Reasoning, Written: t.Written + u.Written, Mark: Weakest(t.Mark, u.Mark),
	}
}

// most is the factor by which the counts of a provider may differ from the
// local count before they are doubted, slack an absolute difference that is
// accepted except for a stated 0.
const (
	most  = 4
	slack = 64
)

// Settle returns the tokens of an answer: the provider's figures, or the local
// count where they are missing or implausible, with the mark of their
// reliability. cut means that the answer did not end normally.
func Settle(stated chat.Usage, counted Counted, cut bool) Tokens {
	t := Tokens{
		In: stated.In, Out: stated.Out,
		Cached: max(stated.Cached, 0), Reasoning: max(stated.Reasoning, 0), Written: max(stated.Written, 0),
		Mark: Exact,
	}
	if t.In < 0 {
		t.In, t.Mark = counted.In, Weakest(t.Mark, Estimated)
	}
	if t.Out < 0 {
		t.Out, t.Mark = counted.Out, Weakest(t.Mark, Estimated)
	}
	if stated.Short {
		t.Mark = AtLeast
	}
	if t.Cached+t.Written > t.In {
		t.In, t.Mark = t.Cached+t.Written, AtLeast
	}
	if t.Reasoning > t.Out {
		t.Out, t.Mark = t.Reasoning, AtLeast
	}
	if doubtful(t.In, counted.In) {
		t.In, t.Mark = max(t.In, counted.In), AtLeast
	}
	// Reasoning is billed and may be hidden, so a higher count than seen is
	// plausible if the difference is reported as reasoning.
	if shown := t.Out - t.Reasoning; doubtful(shown, counted.Out) && doubtful(t.Out, counted.Out) {
		t.Out, t.Mark = max(t.Out, counted.Out), AtLeast
	}
	if cut {
		t.Out, t.Mark = max(t.Out, counted.Out), AtLeast
	}
	return t
}

func doubtful(stated, counted int64) bool { return apart(stated, counted, most) }

// apart reports whether a stated figure is too far from a count, or is 0 although something was
// counted.
func apart(stated, counted, times int64) bool {
	return max(stated, counted) > times*min(stated, counted)+slack || stated == 0 && counted > 0
}

// Doubts reports for which figures it is worth counting more exactly than by
// the estimate: figures that the provider does not state, and figures so far
// from the estimate that an exact count may contradict them.
func Doubts(stated chat.Usage, estimated Counted, cut bool) (in, out bool) {
	const unsure = most / mostRatio
	in = stated.In < 0 || apart(stated.In, estimated.In, unsure)
	shown := stated.Out - max(stated.Reasoning, 0)
	out = cut || stated.Out < 0 || apart(shown, estimated.Out, unsure) && apart(stated.Out, estimated.Out, unsure)
	return in, out
}

// Price holds prices per million tokens. Nil is unknown.
type Price struct {
	Input, CachedInput, CacheWrite, Output edn.Value
	// UpTo is the longest input to which the price applies; 0: any.
	UpTo int64
	// Listed is the entry of the price list that this price was taken from,
	// VENDOR/MODEL; empty if the configuration sets the price.
	Listed string
	// Source is the source of the price, Date when it was read.
	Source, Date string
}

// Free is the price of free servers.
func Free() Price {
	zero := edn.MustDecimal("0")
	return Price{Input: zero, Output: zero}
}

// Known reports whether input and output have prices.
func (p Price) Known() bool { return !p.Input.IsNil() && !p.Output.IsNil() }

// Value returns the price as data, nil if it is unknown.
func (p Price) Value() edn.Value {
	if !p.Known() {
		return edn.Nil()
	}
	var b edn.MapBuilder
	b.Key("from", edn.K("configuration"))
	if p.Listed != "" {
		b.Key("from", edn.K("list"))
		b.Key("listed", edn.Text(p.Listed))
	}
	for _, part := range [...]struct{ name, text string }{{"source", p.Source}, {"date", p.Date}} {
		if part.text != "" {
			b.Key(part.name, edn.Text(part.text))
		}
	}
	return b.Map()
}

// Cost returns the price of the tokens, an exact decimal in USD, and the mark
// of its reliability. Without a price it returns nil and Unknown. A price from
// the list is only an estimate of the price of the account.
func (p Price) Cost(t Tokens) (edn.Value, Mark) {
	if !p.Known() {
		return edn.Nil(), Unknown
	}
	mark := t.Mark
	part := func(price, or edn.Value, n int64) *big.Rat {
		if price.IsNil() {
			price = or
		}
		r, _ := price.AsNumber()
		return new(big.Rat).Mul(r, big.NewRat(n, 1_000_000))
	}
	if p.Listed != "" && t.In+t.Out > 0 {
		mark = Weakest(mark, Estimated)
	}
	if p.CacheWrite.IsNil() && t.Written > 0 || p.UpTo > 0 && t.In > p.UpTo {
		mark = Weakest(mark, AtLeast) // a cache write costs more than input, and a long input more than a short one
	}
	sum := part(p.Input, p.Input, t.In-t.Cached-t.Written)
	sum.Add(sum, part(p.CachedInput, p.Input, t.Cached))
	sum.Add(sum, part(p.CacheWrite, p.Input, t.Written))
	sum.Add(sum, part(p.Output, p.Output, t.Out))
	cost, err := edn.RatDecimal(sum)
	if err != nil { // more digits than a decimal may have
		return edn.Nil(), Unknown
	}
	return cost, mark
}
