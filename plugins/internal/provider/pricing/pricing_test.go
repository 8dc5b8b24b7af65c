package pricing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/edn"
)

func price(in, cached, write, out string) Price {
	d := func(s string) edn.Value {
		if s == "" {
			return edn.Nil()
		}
		return edn.MustDecimal(s)
	}
	return Price{Input: d(in), CachedInput: d(cached), CacheWrite: d(write), Output: d(out)}
}

// LLM-020: cost is exact, cached input has its own price, reasoning is output,
// and unknown figures are never 0.
func TestCost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		price  Price
		tokens Tokens
		cost   string
		mark   Mark
	}{
		{"the example of the contract", price("0.15", "0.075", "", "0.60"), Tokens{In: 31, Out: 212, Mark: Exact}, "0.00013185M", Exact},
		{"cached input", price("0.15", "0.075", "", "0.60"), Tokens{In: 1000, Cached: 800, Out: 10, Mark: Exact}, "0.000096M", Exact},
		{"cached input without a price of its own", price("0.15", "", "", "0.60"), Tokens{In: 1000, Cached: 800, Out: 10, Mark: Exact}, "0.000156M", Exact},
		{"reasoning is output", price("1", "", "", "2"), Tokens{In: 0, Out: 1000, Reasoning: 900, Mark: Exact}, "0.002M", Exact},
		{"a cache that is written", price("3", "0.3", "3.75", "15"), Tokens{In: 1000, Written: 1000, Out: 0, Mark: Exact}, "0.00375M", Exact},
		{"a cache that is written at no known price", price("3", "0.3", "", "15"), Tokens{In: 1000, Written: 1000, Mark: Exact}, "0.003M", AtLeast},
		{"no price", Price{}, Tokens{In: 5, Out: 5, Mark: Exact}, "nil", Unknown},
		{"half a price", price("1", "", "", ""), Tokens{In: 5, Out: 5, Mark: Exact}, "nil", Unknown},
		{"free", Free(), Tokens{In: 5, Out: 5, Mark: Estimated}, "0M", Estimated},
	} {
		cost, mark := tt.price.Cost(tt.tokens)
		assert.Equal(t, tt.mark, mark, tt.name)
		if tt.cost == "nil" {
			assert.True(t, cost.IsNil(), tt.name)
			continue
		}
		want, _ := edn.MustRead(tt.cost).AsNumber()
		got, _ := cost.AsNumber()
		assert.True(t, cost.IsDecimal(), tt.name)
		assert.Zero(t, want.Cmp(got), "%s: %s", tt.name, cost)
	}
}

// LLM-020: the marks.
func TestSettle(t *testing.T) {
	stated := func(in, out, cached, reasoning int64) chat.Usage {
		return chat.Usage{In: in, Out: out, Cached: cached, Reasoning: reasoning}
	}
	for _, tt := range []struct {
		name    string
		stated  chat.Usage
		counted Counted
		cut     bool
		want    Tokens
	}{
		{"stated", stated(31, 212, 0, 0), Counted{30, 200}, false, Tokens{In: 31, Out: 212, Mark: Exact}},
		{"missing", chat.Unstated(), Counted{30, 200}, false, Tokens{In: 30, Out: 200, Mark: Estimated}},
		{"half missing", stated(-1, 212, 0, 0), Counted{30, 200}, false, Tokens{In: 30, Out: 212, Mark: Estimated}},
		{"more cached than read", stated(10, 5, 20, 0), Counted{10, 5}, false, Tokens{In: 20, Out: 5, Cached: 20, Mark: AtLeast}},
		{"more thought than said", stated(10, 5, 0, 9), Counted{10, 5}, false, Tokens{In: 10, Out: 9, Reasoning: 9, Mark: AtLeast}},
		{"far below what was counted", stated(10, 1, 0, 0), Counted{10, 4000}, false, Tokens{In: 10, Out: 4000, Mark: AtLeast}},
		{"far above what was counted", stated(90000, 5, 0, 0), Counted{100, 5}, false, Tokens{In: 90000, Out: 5, Mark: AtLeast}},
		{"thought that was not shown", stated(10, 5000, 0, 4990), Counted{10, 10}, false, Tokens{In: 10, Out: 5000, Reasoning: 4990, Mark: Exact}},
		{"small numbers are not doubted", stated(70, 40, 0, 0), Counted{2, 1}, false, Tokens{In: 70, Out: 40, Mark: Exact}},
		{"0 for a short call", stated(0, 0, 0, 0), Counted{9, 2}, false, Tokens{In: 9, Out: 2, Mark: AtLeast}},
		{"0 for a short answer", stated(10, 0, 0, 0), Counted{9, 2}, false, Tokens{In: 10, Out: 2, Mark: AtLeast}},
		{"0 for no answer", stated(10, 0, 0, 0), Counted{9, 0}, false, Tokens{In: 10, Mark: Exact}},
		{"all of it thought", stated(10, 5, 0, 5), Counted{10, 5}, false, Tokens{In: 10, Out: 5, Reasoning: 5, Mark: Exact}},
		{"cut", stated(10, 0, 0, 0), Counted{10, 50}, true, Tokens{In: 10, Out: 50, Mark: AtLeast}},
	} {
		assert.Equal(t, tt.want, Settle(tt.stated, tt.counted, tt.cut), tt.name)
	}
	assert.Equal(t, Unknown, Weakest(Exact, Unknown))
	assert.Equal(t, AtLeast, Weakest(AtLeast, Estimated))
}

// LLM-022: the estimate and its correction.
func TestEstimate(t *testing.T) {
	assert.EqualValues(t, 0, EstimateText(""))
	assert.EqualValues(t, 4, EstimateText("hello world!"))
	assert.EqualValues(t, 10, EstimateText("日本語日本語日本語日"), "wide runes count one by one")
	r := &chat.Request{Messages: []chat.Message{{Role: chat.User, Content: "hello world!"}, {Role: chat.User}}}
	assert.EqualValues(t, 20, EstimateRequest(r))
	a := chat.NewAnswer()
	a.Text.WriteString(strings.Repeat("a", 30))
	call, _ := a.Call(0)
	call.Args.WriteString(`{"a":1}`)
	assert.EqualValues(t, 13, EstimateAnswer(a))

	var ratio Ratio
	assert.EqualValues(t, 100, ratio.Apply(100), "nothing was learned")
	for range 50 {
		ratio.Learn(1000, 100)
	}
	assert.EqualValues(t, 200, ratio.Apply(100), "clamped above")
	for range 80 {
		ratio.Learn(1, 100)
	}
	assert.EqualValues(t, 50, ratio.Apply(100), "clamped below")
	ratio.Learn(0, 100)
	ratio.Learn(100, 0)
	assert.EqualValues(t, 50, ratio.Apply(100))
}

// LLM-020, MLX-009: the usage of an answer includes broken requests before it,
// marked as a lower bound.
func TestTogether(t *testing.T) {
	for _, tt := range []struct {
		name, usage string
		broken      []string
		want        string
	}{
		{"nothing broke", `{:tokens-in 9 :tokens-mark :exact :cost-usd 0.5M :cost-mark :exact}`, nil,
			`{:tokens-in 9 :tokens-mark :exact :cost-usd 0.5M :cost-mark :exact}`},
		{"sums", `{:latency-ms 7 :tokens-in 9 :tokens-out 3 :tokens-mark :exact :cost-usd 0.5M :cost-mark :exact}`,
			[]string{`{:latency-ms 4 :tokens-in 8 :tokens-out 1 :tokens-cached 2 :tokens-mark :at-least :cost-usd 0.125M :cost-mark :at-least}`},
			`{:latency-ms 7 :tokens-in 17 :tokens-out 4 :tokens-cached 2 :tokens-mark :at-least :cost-usd 0.625M :cost-mark :at-least}`},
		{"one that told nothing", `{:tokens-in 9 :tokens-mark :exact :cost-usd 0M :cost-mark :exact}`, []string{`nil`},
			`{:tokens-in 9 :tokens-mark :at-least :cost-usd 0M :cost-mark :at-least}`},
		{"no price", `{:tokens-in 9 :tokens-mark :exact :cost-mark :unknown}`, []string{`{:tokens-in 1 :tokens-mark :at-least :cost-mark :unknown}`},
			`{:tokens-in 10 :tokens-mark :at-least :cost-mark :unknown}`},
		{"no answer", `nil`, []string{`{:tokens-in 1 :tokens-mark :at-least :cost-mark :at-least}`}, `{:tokens-in 1 :tokens-mark :at-least :cost-mark :at-least}`},
		{"nothing at all", `nil`, []string{`nil`, `nil`}, `nil`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var broken []edn.Value
			for _, b := range tt.broken {
				broken = append(broken, edn.MustRead(b))
			}
			got, want := Together(edn.MustRead(tt.usage), broken...), edn.MustRead(tt.want)
			assert.True(t, edn.Equal(want, got), "want %s, got %s", want, got)
		})
	}
}

// LLM-020: a list price is an estimate, and one for short inputs is a lower
// bound for a long one. The price used is named.
func TestListPrice(t *testing.T) {
	listed := price("1", "", "", "2")
	listed.Listed, listed.Source, listed.Date, listed.UpTo = "vendor/model", "the vendor's page", "2026-01-31", 100
	for _, tt := range []struct {
		tokens Tokens
		cost   string
		mark   Mark
	}{
		{Tokens{In: 100, Out: 100, Mark: Exact}, "0.0003M", Estimated},
		{Tokens{In: 101, Mark: Exact}, "0.000101M", AtLeast},
		{Tokens{In: 10, Mark: AtLeast}, "0.00001M", AtLeast},
		{Tokens{Mark: Exact}, "0M", Exact},
	} {
		cost, mark := listed.Cost(tt.tokens)
		assert.Equal(t, tt.mark, mark, tt.tokens)
		assert.True(t, edn.Equal(edn.MustRead(tt.cost), cost), "%v: %s", tt.tokens, cost)
	}
	for want, p := range map[string]Price{
		`{:from :list :listed "vendor/model" :source "the vendor's page" :date "2026-01-31"}`: listed,
		`{:from :configuration}`: price("1", "", "", "2"),
		`nil`:                    {Listed: "vendor/other"},
	} {
		assert.True(t, edn.Equal(edn.MustRead(want), p.Value()), "want %s, got %s", want, p.Value())
	}
}
