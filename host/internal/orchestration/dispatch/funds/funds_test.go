package funds_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// node is the request and the records of a node, with the sizes of its calls.
type node struct {
	in, exact, out int64 // out 0: without limit; exact: what a count returns, 0: no count
	counts         int   // counts that were made
	records        []journal.Body
	failed         *contract.Error
}

func (n *node) Input(*registry.Capability) int64                 { return n.in }
func (n *node) Output(*registry.Capability) (int64, int64, bool) { return n.out, 0, n.out > 0 }
func (n *node) Countable(*registry.Capability) bool              { return n.exact > 0 && n.counts == 0 }
func (n *node) Count(context.Context, *registry.Capability) {
	n.counts++
	n.in = n.exact
}
func (n *node) Record(b journal.Body)     { n.records = append(n.records, b) }
func (n *node) RecordLate(b journal.Body) { n.records = append(n.records, b) }
func (n *node) Fail(err *contract.Error)  { n.failed = err }
func (n *node) Now() time.Time            { return time.Unix(0, 0) }

// capabilities: a model with a price, one without, one by the call, an engine.
const capabilities = `[
  {:cap/id :m/priced :cap/kind :llm :cost/usd-in-per-mtok 1M :cost/usd-out-per-mtok 2M}
  {:cap/id :m/open :cap/kind :llm}
  {:cap/id :m/call :cost/usd 0.5M}
  {:cap/id :m/free :cost/usd 0}]`

// payer returns a payer under limits of the run; "" are no budget at all.
func payer(t *testing.T, n *node, limits string) *funds.Payer {
	t.Helper()
	var spec registry.Spec
	for v := range edn.MustRead(capabilities).Elems() {
		id, _ := v.Key("cap/id").AsKeyword()
		kind, _ := v.Key("cap/kind").AsKeyword()
		spec.Capabilities = append(spec.Capabilities, registry.Capability{Capability: contract.Capability{
			ID: id, Kind: kind, Intents: []string{"x/do"}, CanProduce: []string{"value"},
			Cost: contract.Cost{
				USD:           v.Key("cost/usd"),
				USDInPerMTok:  v.Key("cost/usd-in-per-mtok"),
				USDOutPerMTok: v.Key("cost/usd-out-per-mtok"),
			},
		}})
	}
	r, err := registry.New(spec)
	require.NoError(t, err)
	p := &funds.Payer{
		Account: budget.NewAccount(budget.NewMemory(n.Now)), Run: context.Background(), Clock: n, Registry: r,
		Candidates: []string{"m/priced", "m/open", "m/call"}, Node: "n", Request: n, Records: n, Purpose: funds.ForAttempt,
	}
	if limits != "" {
		l, err := policy.LimitsOf(edn.MustRead(limits))
		require.NoError(t, err)
		p.Chain = budget.Chain{{Kind: budget.Run, ID: "r", Limits: l}}
	}
	return p
}

func capability(t *testing.T, p *funds.Payer, id string) *registry.Capability {
	t.Helper()
	c, ok := p.Registry.Capability(id)
	require.True(t, ok, id)
	return c
}

// BUD-007, BUD-008: the worst case of a call is reserved, or the call is refused.
func TestReserve(t *testing.T) {
	for name, row := range map[string]struct {
		limits, cap string
		purpose     funds.Purpose
		joins       bool
		out         int64
		atLeast     bool
		want, typ   string
	}{
		"no budget":            {cap: "m/priced", purpose: funds.ForAttempt, want: "nil"},
		"counts of an attempt": {limits: "{:max-attempts 9}", cap: "m/free", purpose: funds.ForAttempt, want: "{:attempts 1 :roundtrips 1}"},
		"a parallel attempt that joins": {
			limits: "{:max-attempts 9}", cap: "m/free", purpose: funds.ForParallel, joins: true, want: "{:attempts 1}",
		},
		"a check counts nothing": {limits: "{:max-attempts 9}", cap: "m/free", purpose: funds.ForCheck, want: "{}"},
		"a vote":                 {limits: "{:max-attempts 9}", cap: "m/free", purpose: funds.ForVote, want: "{:judge-calls 1}"},
		"tokens and their price": {
			limits: "{:max-usd 1M}", cap: "m/priced", purpose: funds.ForCheck, out: 50, want: "{:tokens-in 100 :tokens-out 50 :usd 0.0002M}",
		},
		"an answer without limit may take what is left": {
			limits: "{:max-tokens-out 30}", cap: "m/open", purpose: funds.ForCheck, want: "{:tokens-in 100 :tokens-out 30}",
		},
		"an unknown price where money is limited": {
			limits: "{:max-usd 1M}", cap: "m/open", purpose: funds.ForAttempt, out: 50, typ: "budget/exceeded",
		},
		"the dearest candidate in its place": {
			limits: "{:max-usd 1M}", cap: "m/open", purpose: funds.ForCheck, out: 50, atLeast: true,
			want: "{:tokens-in 100 :tokens-out 50 :usd 0.5M}",
		},
		"more than the limit": {limits: "{:max-usd 0.1M}", cap: "m/call", purpose: funds.ForAttempt, typ: "budget/exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{in: 100, out: row.out}
			p := payer(t, n, row.limits)
			p.AtLeast = row.atLeast
			r, err := p.Reserve(p.Run, capability(t, p, row.cap), row.purpose, 3, !row.joins)
			if row.typ != "" {
				require.NotNil(t, err)
				assert.Equal(t, row.typ, err.Type)
				assert.Equal(t, err, p.Shortfall())
				assert.Empty(t, n.records)
				return
			}
			require.Nil(t, err)
			assert.Nil(t, p.Shortfall())
			assert.Equal(t, row.want, r.Amount().String())
			if row.limits != "" {
				require.Len(t, n.records, 1)
				assert.Equal(t, 3, n.records[0].(*journal.BudgetReserved).Attempt)
			}
		})
	}
}

// LED-006, BUD-007: the details of a call of unknown price are those of one scope: the
// one with the least money left.
func TestUnknownPrice(t *testing.T) {
	p := payer(t, &node{in: 100, out: 50}, "")
	for _, s := range []struct {
		kind   budget.Kind
		limits string
		per    budget.Per
	}{{budget.Tenant, "{:max-usd 20M}", budget.Total}, {budget.User, "{:max-usd 5M}", budget.Day}, {budget.Run, "{:max-usd 9M}", ""}} {
		l, err := policy.LimitsOf(edn.MustRead(s.limits))
		require.NoError(t, err)
		p.Chain = append(p.Chain, budget.Scope{Kind: s.kind, ID: "x", Limits: l, Per: s.per})
	}
	r, err := p.Reserve(p.Run, capability(t, p, "m/call"), funds.ForAttempt, 1, true)
	require.Nil(t, err)
	p.Settle(&r, funds.Settlement{})
	_, err = p.Reserve(p.Run, capability(t, p, "m/open"), funds.ForAttempt, 2, true)
	require.NotNil(t, err)
	d := err.Details
	assert.Equal(t, ":user 5M 4.5M", fmt.Sprint(d.Key("scope"), " ", d.Key("limit"), " ", d.Key("left")))
	assert.True(t, d.HasKey("resets"))

	p = payer(t, &node{in: 100}, "{:max-usd 1M}") // its output has no limit
	_, unbounded := p.Reserve(p.Run, capability(t, p, "m/priced"), funds.ForAttempt, 1, true)
	require.NotNil(t, unbounded)
	assert.Contains(t, unbounded.Hint, ":max-tokens")
	assert.NotContains(t, unbounded.Hint, "configure a price")
	assert.Contains(t, err.Hint, "configure a price")
}

// LED-003: what a call cost replaces its reservation.
func TestSettle(t *testing.T) {
	for name, row := range map[string]struct {
		cap, limits string
		end         funds.Settlement
		want        string
		mark        budget.Mark
	}{
		"reported": {
			cap: "m/priced", limits: "{:max-usd 1M}",
			end:  funds.Settlement{Usage: edn.MustRead(`{:tokens-in 10 :tokens-out 20 :cost-usd 0.3M}`)},
			want: "{:attempts 1 :roundtrips 1 :tokens-in 10 :tokens-out 20 :usd 0.3M}", mark: budget.Exact,
		},
		"priced by the host": {
			cap: "m/priced", limits: "{:max-usd 1M}", end: funds.Settlement{Usage: edn.MustRead(`{:tokens-in 10 :tokens-out 20}`)},
			want: "{:attempts 1 :roundtrips 1 :tokens-in 10 :tokens-out 20 :usd 0.00005M}", mark: budget.Estimated,
		},
		"not reported": {
			cap: "m/priced", limits: "{:max-usd 1M}", want: "{:attempts 1 :roundtrips 1 :tokens-in 100 :tokens-out 50 :usd 0.0002M}",
			mark: budget.Estimated,
		},
		"not sent": {cap: "m/call", limits: "{:max-usd 1M}", end: funds.Settlement{Unsent: true}, want: "{:attempts 1 :roundtrips 1}", mark: budget.Exact},
		"may have continued": {
			cap: "m/call", limits: "{:max-usd 1M}", end: funds.Settlement{Unknown: true, Usage: edn.MustRead(`{:cost-usd 0.1M}`)},
			want: "{:attempts 1 :roundtrips 1 :usd 0.5M}", mark: budget.AtLeast,
		},
		"money is not limited": {
			cap: "m/open", limits: "{:max-attempts 5}", end: funds.Settlement{Usage: edn.MustRead(`{:tokens-in 1 :tokens-out 1}`)},
			want: "{:attempts 1 :roundtrips 1 :tokens-in 1 :tokens-out 1}", mark: budget.Exact,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{in: 100, out: 50}
			p := payer(t, n, row.limits)
			r, err := p.Reserve(p.Run, capability(t, p, row.cap), funds.ForAttempt, 1, true)
			require.Nil(t, err)
			usage := r.Usage(row.end)
			p.Settle(&r, row.end)
			require.Len(t, n.records, 2)
			if name == "money is not limited" || row.end.Unsent {
				assert.Equal(t, row.end.Usage, usage, "nothing is known of its cost")
			} else if !row.end.Usage.HasKey("cost-usd") {
				spent, err := policy.Money(usage.Key("cost-usd"))
				require.NoError(t, err)
				assert.Equal(t, edn.MustRead(row.want).Key("usd").String(), spent.Of(policy.USD).String())
				assert.Equal(t, edn.K(row.mark.String()), usage.Key("cost-mark"))
			}
			settled := n.records[1].(*journal.BudgetSettled)
			assert.Equal(t, row.want, settled.Amount.String())
			assert.Equal(t, row.mark.String(), settled.Mark)
			assert.Nil(t, n.failed)
			p.Settle(&r, row.end)
			assert.Len(t, n.records, 2, "a reservation is settled once")
		})
	}
}

// LED-003: without a budget, the usage of a call has the cost of its price, unless the
// capability reports one or has none.
func TestUsageWithoutABudget(t *testing.T) {
	p := payer(t, &node{}, "")
	p.Chain = nil
	tokens := edn.MustRead(`{:tokens-in 10 :tokens-out 20}`)
	for name, row := range map[string]struct {
		cap  string
		end  funds.Settlement
		want string
	}{
		"priced":       {"m/priced", funds.Settlement{Usage: tokens}, "0.00005M :estimated"},
		"reported":     {"m/priced", funds.Settlement{Usage: edn.MustRead(`{:cost-usd 0.3M}`)}, "0.3M nil"},
		"per call":     {"m/call", funds.Settlement{}, "0.5M :estimated"},
		"not sent":     {"m/call", funds.Settlement{Unsent: true}, "nil nil"},
		"no price":     {"m/open", funds.Settlement{Usage: tokens}, "nil nil"},
		"no usage":     {"m/priced", funds.Settlement{}, "nil nil"},
		"may continue": {"m/call", funds.Settlement{Unknown: true}, "0.5M :at-least"},
	} {
		r, err := p.Reserve(p.Run, capability(t, p, row.cap), funds.ForAttempt, 1, true)
		require.Nil(t, err)
		usage := r.Usage(row.end)
		assert.Equal(t, row.want, fmt.Sprint(usage.Key("cost-usd"), " ", usage.Key("cost-mark")), name)
	}
}

// LLM-022: the input is counted only if that can change the decision.
func TestCount(t *testing.T) {
	for name, row := range map[string]struct {
		limits  string
		in      int64
		counted bool
		typ     string
	}{
		"input is not limited":      {limits: "{:max-attempts 5}", in: 100},
		"three times as much fits":  {limits: "{:max-tokens-in 300}", in: 100},
		"the estimate is too large": {limits: "{:max-tokens-in 50}", in: 100, counted: true},
		"the estimate could be low": {limits: "{:max-tokens-in 299}", in: 100, counted: true},
		"nothing fits in any case":  {limits: "{:max-attempts 0 :max-tokens-in 50}", in: 100, typ: "budget/exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{in: row.in, exact: 40, out: 1}
			p := payer(t, n, row.limits)
			_, err := p.Reserve(p.Run, capability(t, p, "m/open"), funds.ForAttempt, 1, true)
			assert.Equal(t, row.counted, n.counts > 0)
			if row.typ == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, row.typ, err.Type)
		})
	}
}

// ATT-011: of the first candidates as many are taken as fit into the budget
// together; they share a round trip.
func TestAffordable(t *testing.T) {
	for limits, want := range map[string]int{
		"":                                    4,
		"{:max-attempts 2}":                   2,
		"{:max-roundtrips 1}":                 4,
		"{:max-usd 1.2M}":                     2,
		"{:max-usd 0.4M}":                     0,
		"{:max-attempts 0 :max-usd 100M}":     0,
		"{:max-attempts 9 :max-roundtrips 0}": 0,
	} {
		p := payer(t, &node{}, limits)
		assert.Equal(t, want, p.Affordable([]string{"m/call", "m/call", "m/call", "m/free"}), limits)
	}
	p := payer(t, &node{}, "{:max-attempts 9}")
	assert.Equal(t, 1, p.Affordable([]string{"m/free", "m/none", "m/free"}), "an unknown capability ends the list")
}

// What is left of a budget limits the calls and is told to the capability.
func TestWhatIsLeft(t *testing.T) {
	p := payer(t, &node{}, "{:max-attempts 3 :max-roundtrips 2 :max-usd 1M}")
	n, limited := p.CallsLeft()
	assert.True(t, limited)
	assert.Equal(t, int64(2), n, "the lower limit decides")
	assert.False(t, p.Unaffordable("m/call"))
	assert.True(t, p.Unaffordable("m/open"), "its price is unknown")
	assert.Equal(t, "budget/exceeded", p.Shortfall().Type)
	assert.True(t, p.Free(capability(t, p, "m/free")))
	assert.False(t, p.Free(capability(t, p, "m/call")))

	r, err := p.Reserve(p.Run, capability(t, p, "m/call"), funds.ForAttempt, 1, true)
	require.Nil(t, err)
	n, _ = p.CallsLeft()
	assert.Equal(t, int64(1), n)
	own := edn.MustRead("{:max-depth 1}")
	assert.Equal(t, "{:max-attempts 3 :max-depth 1 :max-roundtrips 2 :max-usd 1M}", p.Remaining(own, &r).String(),
		"the reservation of the call itself counts as left")
	assert.Equal(t, own, p.Remaining(own, &funds.Reservation{}))

	for limits, reserved := range map[string]string{"{:max-usd 1M}": "50", "{:max-tokens-out 60}": "50", "{:max-attempts 3}": "nil"} {
		p = payer(t, &node{in: 100, out: 50}, limits)
		r, err = p.Reserve(p.Run, capability(t, p, "m/priced"), funds.ForAttempt, 1, true)
		require.Nil(t, err)
		assert.Equal(t, reserved, p.Remaining(own, &r).Key(funds.ReservedOut).String(), limits)
	}

	unlimited := payer(t, &node{}, "{:max-usd 1M}")
	_, limited = unlimited.CallsLeft()
	assert.False(t, limited)
}

// broken is a ledger that cannot be written after a reservation.
type broken struct{ budget.Ledger }

func (broken) Settle(context.Context, budget.Reservation, policy.Amounts, budget.Mark) error {
	return errors.New("disk full")
}

// A node whose spending cannot be written down fails.
func TestSettleFails(t *testing.T) {
	n := &node{}
	p := payer(t, n, "{:max-attempts 3}")
	p.Account = budget.NewAccount(broken{budget.NewMemory(n.Now)})
	r, err := p.Reserve(p.Run, capability(t, p, "m/free"), funds.ForAttempt, 1, true)
	require.Nil(t, err)
	p.Settle(&r, funds.Settlement{})
	require.NotNil(t, n.failed)
	assert.Equal(t, "budget/unavailable", n.failed.Type)
}
