package policy_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func money(t require.TestingT, text string) policy.Amounts {
	a, err := policy.Money(edn.MustRead(text))
	require.NoError(t, err)
	return a
}

// usd returns the exact amount of money in a.
func usd(t require.TestingT, a policy.Amounts) *big.Rat {
	v := a.Of(policy.USD)
	if text, ok := v.AsString(); ok {
		r, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		return r
	}
	r, ok := v.AsNumber()
	require.True(t, ok, "%s", v)
	return r
}

// sums are amounts of money around and above what an int64 of picodollars
// holds.
var sums = []string{
	"0", "1", "0.01M", "0.000000000001M", "1E-13M", "2E-13M", "0.0000000000015M", "4611686.018427387904M",
	"9223372.036854775807M", "9223372.036854775808M", "9223372", "1E30M", "1E-30M", "1E900M", "1E-900M",
}

// BUD-001: sums of money are exact, whatever their size, and never negative.
func TestMoneyIsExact(t *testing.T) {
	larger := func(x, y *big.Rat) *big.Rat {
		if x.Cmp(y) > 0 {
			return x
		}
		return y
	}
	for _, x := range sums {
		for _, y := range sums {
			a, b := money(t, x), money(t, y)
			m, n := usd(t, a), usd(t, b)
			at := x + " " + y
			equal := func(want *big.Rat, got policy.Amounts, what string) {
				assert.Zero(t, want.Cmp(usd(t, got)), "%s %s: %s", at, what, got.Value())
			}
			equal(new(big.Rat).Add(m, n), a.Plus(b), "plus")
			equal(larger(new(big.Rat), new(big.Rat).Sub(m, n)), a.Minus(b), "minus")
			equal(larger(m, n), a.Max(b), "max")
			assert.Equal(t, m.Cmp(n) > 0, a.Exceeds(b, policy.USD), at)
			assert.Equal(t, m.Cmp(n) == 0, a.Equal(b), at)
			for _, times := range []int64{-1, 0, 1, 2, 3, 1_000_003, math.MaxInt64} {
				equal(new(big.Rat).Mul(m, big.NewRat(max(0, times), 1)), a.Times(times), fmt.Sprint("times ", times))
			}
		}
		a := money(t, x)
		assert.Equal(t, x == "0", a.IsZero(), x)
		assert.Equal(t, x != "0", a.Has(policy.USD), x)
	}
	assert.Equal(t, "0.03M", money(t, "0.01M").Times(3).Of(policy.USD).String())
	assert.Equal(t, edn.KindString, money(t, "1E900M").Plus(money(t, "1E-900M")).Of(policy.USD).Kind(), "no decimal has its digits")
	for _, bad := range []string{"-1", "-0.01M", "0.5", `"1"`, "nil"} {
		_, err := policy.Money(edn.MustRead(bad))
		assert.Error(t, err, bad)
	}
}

// BUD-001: counts saturate instead of overflowing and are never negative.
func TestCounts(t *testing.T) {
	const most = math.MaxInt64
	values := []int64{0, 1, 2, 7, 1 << 32, most/2 + 1, most - 1, most}
	sum := func(a, b int64) int64 {
		if n := new(big.Int).Add(big.NewInt(a), big.NewInt(b)); n.IsInt64() {
			return n.Int64()
		}
		return most
	}
	product := func(a, b int64) int64 {
		if n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b)); n.IsInt64() {
			return n.Int64()
		}
		return most
	}
	for _, d := range policy.Dimensions() {
		if d == policy.USD {
			assert.True(t, policy.Count(d, 5).IsZero(), "money is not counted")
			assert.Zero(t, money(t, "5").Count(d))
			continue
		}
		assert.True(t, policy.Count(d, -1).IsZero())
		for _, x := range values {
			for _, y := range values {
				a, b := policy.Count(d, x), policy.Count(d, y)
				assert.Equal(t, x, a.Count(d))
				assert.Equal(t, sum(x, y), a.Plus(b).Count(d))
				assert.Equal(t, max(0, x-y), a.Minus(b).Count(d))
				assert.Equal(t, max(x, y), a.Max(b).Count(d))
				assert.Equal(t, product(x, y), a.Times(y).Count(d))
				assert.Equal(t, x == y, a.Equal(b))
			}
		}
	}
	assert.Equal(t, "dimension 99", policy.Dimension(99).String())
	cent := money(t, "0.01M")
	both := policy.Count(policy.Attempts, 1).Plus(cent)
	assert.False(t, both.IsZero())
	assert.False(t, both.Equal(cent))
	assert.False(t, both.Equal(policy.Count(policy.Attempts, 1)))
	assert.Equal(t, both, cent.Max(policy.Count(policy.Attempts, 1)))
	assert.Equal(t, "{:attempts 1 :usd 0.01M}", both.Value().String())
}

// BUD-001: the smaller limit of each dimension applies; an unset limit has no
// value.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := func(name string) edn.Value {
			var b edn.MapBuilder
			for _, d := range policy.Dimensions() {
				if rapid.Bool().Draw(t, name) {
					b.Key("max-"+d.String(), edn.Int(rapid.Int64Range(0, 3).Draw(t, name)))
				}
			}
			return b.Map()
		}
		x, y := budget("x"), budget("y")
		a, err := policy.LimitsOf(x)
		require.NoError(t, err)
		b, err := policy.LimitsOf(y)
		require.NoError(t, err)
		assert.Equal(t, x.Len() == 0, a.IsZero())
		both := a.Tighter(b)
		for _, d := range policy.Dimensions() {
			want := edn.Nil()
			for _, v := range []edn.Value{x.Key("max-" + d.String()), y.Key("max-" + d.String())} {
				n, ok := v.AsInt()
				m, written := want.AsInt()
				if ok && (!written || n < m) {
					want = edn.Int(n)
				}
			}
			assert.Equal(t, !want.IsNil(), both.Bounds(d))
			got := both.Max(d)
			if want.IsNil() {
				assert.True(t, got.IsNil())
				continue
			}
			w, _ := want.AsNumber()
			g, ok := got.AsNumber()
			require.True(t, ok)
			assert.Zero(t, w.Cmp(g))
		}
		assert.Equal(t, both.Value().String(), b.Tighter(a).Value().String())
	})
	for text, want := range map[string]string{
		"{:max-attempts 4 :attempts 3 :max-usd 1 :usd 2 :max-depth 9}": "{:max-attempts 3 :max-usd 1M}",
		"{:max-attempts 3 :attempts 4 :max-usd 2 :usd 1 :max-depth 9}": "{:max-attempts 3 :max-usd 1M}",
	} {
		twice, err := policy.LimitsOf(edn.MustRead(text))
		require.NoError(t, err)
		assert.Equal(t, want, twice.Value().String())
	}
	for _, bad := range []string{"{:max-attempts -1}", "{:max-attempts 1.5}", "{:max-usd 0.1}", "{:max-usd -1}"} {
		_, err := policy.LimitsOf(edn.MustRead(bad))
		assert.Error(t, err, bad)
	}
}

// BUD-007, BUD-008: the price of a call is its maximum cost. An incomplete
// price, or one whose tokens are unbounded, is unknown.
func TestPrice(t *testing.T) {
	size := policy.Size{In: 2_000_000, Out: 500_000, InKnown: true, OutKnown: true}
	read := func(text string) edn.Value {
		if text == "" {
			return edn.Nil()
		}
		return edn.MustRead(text)
	}
	for name, tt := range map[string]struct {
		call, in, out string
		size          policy.Size
		want          string
		err           error
	}{
		"nothing":                 {size: size, err: policy.ErrNoPrice},
		"per call":                {call: "0.25M", want: "0.25M"},
		"free":                    {call: "0", want: "0"},
		"per call, not money":     {call: "0.5", err: policy.ErrNoPrice},
		"per token":               {in: "3", out: "15M", size: size, want: "13.5M"},
		"call and token":          {call: "1", in: "3", out: "15", size: size, want: "14.5M"},
		"in alone":                {in: "3", size: size, err: policy.ErrNoPrice},
		"out alone":               {out: "3", size: size, err: policy.ErrNoPrice},
		"one side is free":        {in: "3", out: "0", size: policy.Size{In: 1_000_000, InKnown: true}, want: "3"},
		"other side is free":      {in: "0", out: "2", size: policy.Size{Out: 1_000_000, OutKnown: true}, want: "2"},
		"tokens in not bounded":   {in: "3", out: "15", size: policy.Size{In: 1, Out: 1, OutKnown: true}, err: policy.ErrNoBound},
		"tokens out not bounded":  {in: "3", out: "15", size: policy.Size{In: 1, Out: 1, InKnown: true}, err: policy.ErrNoBound},
		"call with unknown token": {call: "1", in: "3", out: "15", err: policy.ErrNoBound},
	} {
		c := &registry.Capability{Capability: contract.Capability{Cost: contract.Cost{
			USD:           read(tt.call),
			USDInPerMTok:  read(tt.in),
			USDOutPerMTok: read(tt.out),
		}}}
		got, err := policy.Price(c, tt.size)
		assert.ErrorIs(t, err, tt.err, name)
		if tt.err != nil {
			c.Model = "some-model"
			_, err = policy.Price(c, tt.size)
			assert.ErrorIs(t, err, tt.err, name)
		}
		if tt.err == nil {
			assert.True(t, got.Equal(money(t, tt.want)), "%s: %s", name, got.Value())
		} else {
			assert.True(t, got.IsZero(), name)
		}
	}
}

// BUD-008: tokens are reserved for every capability that declares a sign of
// using tokens.
func TestCountsTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*contract.Capability)
		want   bool
	}{
		"solver":        {func(*contract.Capability) {}, false},
		"model":         {func(c *contract.Capability) { c.Model = "m" }, true},
		"kind":          {func(c *contract.Capability) { c.Kind = "llm" }, true},
		"answer":        {func(c *contract.Capability) { c.Limits.MaxTokens = 1 }, true},
		"context":       {func(c *contract.Capability) { c.Limits.ContextTokens = 1 }, true},
		"price in":      {func(c *contract.Capability) { c.Cost.USDInPerMTok = edn.Int(0) }, true},
		"price out":     {func(c *contract.Capability) { c.Cost.USDOutPerMTok = edn.Int(0) }, true},
		"price by call": {func(c *contract.Capability) { c.Cost.USD = edn.Int(1) }, false},
	} {
		c := &registry.Capability{Capability: contract.Capability{Kind: "solver"}}
		tt.change(&c.Capability)
		assert.Equal(t, tt.want, policy.CountsTokens(c), name)
	}
}

// LLM-022: the estimate is at least one token per non-ASCII character, one per
// three bytes of the rest, and the frames of messages.
func TestCountTokens(t *testing.T) {
	const frame = 8
	for text, want := range map[string]int64{
		`"abcd"`:                                 2 + frame, // six bytes with the quotes
		`"abcde"`:                                3 + frame,
		`"äöüäöü"`:                               6 + frame,  // 14 bytes: (14+2)/3 = 5, but six characters
		`"日本"`:                                   3 + frame,  // 8 bytes: (8+2)/3 = 3, two characters
		`"` + strings.Repeat("\u0080", 12) + `"`: 12 + frame, // the lowest character that is not ASCII
		`{:messages ["a" "b"]}`:                  7 + 2*frame,
		`{:messages []}`:                         5 + frame,
	} {
		v := edn.MustRead(text)
		assert.Equal(t, want, policy.CountTokens(v), "%s is %d bytes", text, len(v.AppendCanonical(nil)))
	}
	assert.Zero(t, policy.CountTokens())
	assert.Zero(t, policy.CountTokens(edn.Nil()))
	assert.Equal(t, policy.CountTokens(edn.Text("ab"))*2, policy.CountTokens(edn.Text("ab"), edn.Nil(), edn.Text("ab")))
}

// BUD-001, JRN-009: amounts in a record are read back exactly. What is not an amount of
// a dimension counts as zero.
func TestAmountsAsData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := money(t, rapid.SampledFrom(sums[:len(sums)-2]).Draw(t, "usd"))
		for _, d := range policy.Dimensions() {
			a = a.Plus(policy.Count(d, rapid.Int64Range(0, math.MaxInt64).Draw(t, d.String())))
		}
		require.True(t, a.Equal(policy.AmountsOf(edn.MustRead(a.Value().String()))), "%s", a.Value())
	})
	for text, want := range map[string]string{
		"nil":                           "{}",
		"{:usd 0.5}":                    "{}",
		"{:usd -1 :attempts -1}":        "{}",
		`{:usd "1" :attempts 1.5}`:      "{}",
		"{:max-usd 1 :attempts 2}":      "{:attempts 2}",
		"{:usd 1 :attempts nil :x 7}":   "{:usd 1M}",
		"[:usd 1]":                      "{}",
		"{:tokens-in 3 :tokens-out 4N}": "{:tokens-in 3 :tokens-out 4}",
	} {
		assert.Equal(t, want, policy.AmountsOf(edn.MustRead(text)).Value().String(), text)
	}
}
