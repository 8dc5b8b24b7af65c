package dispatch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// model returns a language model that counts, as EDN.
func model(id, more string) string {
	return "{:cap/id :" + id + " :cap/kind :llm :cap/intents #{:text/respond :model/count} :io/in-schema :req/any :io/out-schema :res/any " + more + "}"
}

// isCount reports whether a call requests a count.
func isCount(c dispatch.Call) bool {
	return c.Request.Key("task").Key("intent").String() == ":model/count"
}

// counts makes a capability return this count and answer every other call.
func counts(w *dispatchtest.World, id string, n int64) {
	w.Func(id, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		if isCount(c) {
			return dispatchtest.Step{Value: edn.MustMap(edn.K("tokens-in"), edn.Int(n), edn.K("tokens/counted-by"), edn.K("local"))}
		}
		return out(`{:text "fine"}`)
	})
}

// reservedIn returns the input tokens of each reservation.
func reservedIn(s served) (all []string) {
	for _, r := range s.records {
		if b, ok := r.Body.(*journal.BudgetReserved); ok {
			all = append(all, b.Amount.Key("tokens-in").String())
		}
	}
	return all
}

// LLM-022, BUD-001: the candidate counts its input where the estimate could
// decide, and only there: a call that fits by the count is made although the
// estimate exceeds the budget, and a call that does not fit is not made
// although the estimate fits.
func TestCountDecides(t *testing.T) {
	t.Parallel()
	prose := `{:prompt "` + strings.Repeat("word ", 720) + `"}` // 3,600 bytes: 1,248 by the estimate, with the envelope
	dense := `{:prompt "` + strings.Repeat("x9", 900) + `"}`    // 648
	const price = `:cap/cost {:usd-in-per-mtok 1000M :usd-out-per-mtok 0M} :cap/limits {:max-tokens 10}`
	for name, tt := range map[string]struct {
		more, input, limits string
		count               int64
		failure             string
		asked               int
		reserved            []string
	}{
		"fits by the count":                {``, prose, `{:max-tokens-in 1000}`, 800, "", 1, []string{"800"}},
		"does not fit by the count":        {``, prose, `{:max-tokens-in 1000}`, 1001, "budget/exceeded", 1, nil},
		"fits by the estimate alone":       {``, dense, `{:max-tokens-in 1000}`, 1500, "budget/exceeded", 1, nil},
		"fits by both":                     {``, dense, `{:max-tokens-in 1000}`, 900, "", 1, []string{"900"}},
		"fits whatever it has":             {``, dense, `{:max-tokens-in 100000}`, 900, "", 0, []string{"648"}},
		"money: fits by the count":         {price, prose, `{:max-usd 1M}`, 800, "", 1, []string{"800"}},
		"money: does not fit by the count": {price, dense, `{:max-usd 1M}`, 1500, "budget/exceeded", 1, nil},
		"money: enough in any case":        {price, dense, `{:max-usd 10M}`, 1500, "", 0, []string{"648"}},
		"money: the answer alone is too dear": {`:cap/cost {:usd-in-per-mtok 1000M :usd-out-per-mtok 1000000M} :cap/limits {:max-tokens 10}`,
			prose, `{:max-usd 1M}`, 800, "budget/exceeded", 0, nil},
		"money: no price":                   {``, dense, `{:max-usd 1M}`, 1, "budget/exceeded", 0, nil},
		"nothing limits tokens":             {``, prose, `{:max-attempts 1}`, 800, "", 0, []string{"1248"}},
		"no budget":                         {``, prose, ``, 800, "", 0, nil},
		"a count of nothing is none":        {``, prose, `{:max-tokens-in 1000}`, 0, "budget/exceeded", 1, nil},
		"what the model reads is the limit": {`:cap/limits {:context-tokens 500}`, prose, `{:max-tokens-in 1000}`, 800, "", 1, []string{"500"}},
	} {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{model("t/a", tt.more)}})
		counts(w, "t/a", tt.count)
		got := serve(t, w, order{input: tt.input, limits: tt.limits})
		assert.Equal(t, tt.failure, got.failure(), name)
		asked := 0
		for _, c := range w.Calls() {
			if !isCount(c) {
				continue
			}
			asked++
			assert.Equal(t, ":text/respond", c.Request.Key("context").Key("count/of").String(), name)
			assert.True(t, edn.Equal(edn.MustRead(tt.input), c.Request.Key("input")), name)
			assert.False(t, c.Request.Key("context").Key("prompt").IsNil(), "%s: the prompt is counted", name)
		}
		assert.Equal(t, tt.asked, asked, name)
		assert.Equal(t, tt.reserved, reservedIn(got), name)
	}
}

// BUD-002: what a model may use for reasoning is reserved with the limit of its
// answer: as declared, as granted by the request, or as needed after an answer that
// was empty.
func TestHeadroomIsReserved(t *testing.T) {
	t.Parallel()
	const declared = `:cap/limits {:max-tokens 100 :headroom-tokens 2000}`
	empty := contract.Errorf("provider/empty", "nothing was said").WithDetail("tokens/headroom", edn.Int(5000))
	const plenty = `{:max-tokens-out 9000}`
	for name, tt := range map[string]struct {
		more, input, limits string
		empties             int // answers that are empty before the first that is not
		failure             string
		reserved            []string
	}{
		"declared":                    {declared, `{:prompt "why"}`, plenty, 0, "", []string{"2100"}},
		"none":                        {`:cap/limits {:max-tokens 100}`, `{:prompt "why"}`, plenty, 0, "", []string{"100"}},
		"without a limit":             {`:cap/limits {:headroom-tokens 2000}`, `{:prompt "why"}`, plenty, 0, "", []string{"9000"}},
		"granted":                     {declared, `{:prompt "why" :reasoning {:budget-tokens 3000}}`, plenty, 0, "", []string{"3100"}},
		"less granted":                {declared, `{:prompt "why" :reasoning {:budget-tokens 30}}`, plenty, 0, "", []string{"2100"}},
		"more granted than there may": {declared, `{:prompt "why" :reasoning {:budget-tokens 9223372036854775807}}`, plenty, 0, "", []string{"2100"}},
		"an effort":                   {`:cap/limits {:max-tokens 100}`, `{:prompt "why" :reasoning :high}`, plenty, 0, "", []string{"2148"}},
		"an effort as JSON has it":    {`:cap/limits {:max-tokens 100}`, `{:prompt "why" :reasoning "high"}`, plenty, 0, "", []string{"2148"}},
		"an effort of none":           {`:cap/limits {:max-tokens 100}`, `{:prompt "why" :reasoning :none}`, plenty, 0, "", []string{"100"}},
		"less than declared":          {`:cap/limits {:max-tokens 100 :headroom-tokens 3000}`, `{:prompt "why" :reasoning :low}`, plenty, 0, "", []string{"3100"}},
		"learned":                     {declared, `{:prompt "why"}`, plenty, 1, "", []string{"2100", "5100"}},
		"as far as there is room":     {declared, `{:prompt "why"}`, `{:max-tokens-out 1500}`, 0, "", []string{"1500"}},
		"half of it":                  {declared, `{:prompt "why"}`, `{:max-tokens-out 1100}`, 0, "", []string{"1100"}},
		"less than half of it":        {declared, `{:prompt "why"}`, `{:max-tokens-out 1099}`, 0, "budget/exceeded", nil},
		"the most that can be written": {`:cap/limits {:headroom-tokens 2000}`, `{:prompt "why" :reasoning {:budget-tokens 1048576}}`,
			`{:max-tokens 9223372036854775807 :max-tokens-out 9000}`, 0, "budget/exceeded", nil},
		"the most that can be written, for money": {`:cap/limits {:headroom-tokens 2000} :cap/cost {:usd-in-per-mtok 1M :usd-out-per-mtok 1M}`,
			`{:prompt "why"}`, `{:max-tokens 9223372036854775807 :max-usd 1M}`, 0, "budget/exceeded", nil},
	} {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{model("t/a", tt.more)}})
		w.Dispatcher.Stats = &stats.Table{}
		empties := tt.empties
		w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
			if empties--; empties >= 0 {
				return dispatchtest.Step{Err: empty}
			}
			return out(`{:text "fine"}`)
		})
		layer := retries(1, 0)
		layer.SetBudget(edn.MustRead(tt.limits), policy.Origin{})
		got := serve(t, w, order{input: tt.input, limits: tt.limits, layer: layer})
		assert.Equal(t, tt.failure, got.failure(), name)
		var reserved []string
		for _, r := range got.records {
			if b, ok := r.Body.(*journal.BudgetReserved); ok {
				reserved = append(reserved, b.Amount.Key("tokens-out").String())
			}
		}
		assert.Equal(t, tt.reserved, reserved, name)
	}
}

// LLM-022: a count is optional. If it fails, is late or is not supported, the
// estimate applies, and a candidate over the budget is skipped.
func TestCountIsAdvice(t *testing.T) {
	t.Parallel()
	prose := `{:prompt "` + strings.Repeat("word ", 720) + `"}`
	for name, step := range map[string]dispatchtest.Step{
		"fails":   fails("provider/unavailable"),
		"hangs":   {Hang: true},
		"crashes": {Crash: true},
		"babbles": out(`{:tokens-in "many"}`),
		"below":   out(`{:tokens-in -4}`),
	} {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{model("t/a", "")}})
		w.Func("t/a", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
			if isCount(c) {
				return step
			}
			return out(`{:text "fine"}`)
		})
		for limits, failure := range map[string]string{`{:max-tokens-in 1400}`: "", `{:max-tokens-in 1000}`: "budget/exceeded"} {
			if step.Hang && failure == "" {
				continue // its timeout is awaited once
			}
			got := serve(t, w, order{input: prose, limits: limits})
			assert.Equal(t, failure, got.failure(), "%s %s", name, limits)
		}
	}

	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{model("t/a", ""), model("t/b", "")}})
	counts(w, "t/a", 1100)
	counts(w, "t/b", 900)
	got := serve(t, w, order{input: prose, limits: `{:max-tokens-in 1000}`})
	require.Nil(t, got.Err)
	assert.Equal(t, "t/b", got.CapID)
	assert.Equal(t, []string{"900"}, reservedIn(got))
	assert.Equal(t, []string{"t/a", "t/b", "t/b"}, w.Dispatched(), "each is asked for its count once")

	w = dispatchtest.New(t, dispatchtest.Spec{Caps: []string{model("t/a", "")}})
	counts(w, "t/a", 800)
	w.SetState("t/a", dispatch.CapState{Reason: "runtime/not-ready", Why: contract.Errorf("runtime/not-ready", "down")})
	got = serve(t, w, order{input: prose, limits: `{:max-tokens-in 1000}`})
	assert.NotEmpty(t, got.failure())
	assert.Empty(t, w.Calls(), "an unavailable candidate gets no call")
}
