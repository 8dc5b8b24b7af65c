package stats

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
)

// figured returns the figures of a candidate; "" and 0 are unknown.
func figured(id string, quality int, usd string, latency time.Duration) Figures {
	f := Figures{CapID: id, Quality: quality, Breaker: breaker.Closed, Latency: latency, Timed: latency > 0}
	if usd != "" {
		f.Cost, _ = new(big.Rat).SetString(usd)
	}
	return f
}

// BIND-007: each ordering compares its figures in order, unknown figures sort
// last, and ties keep the declared order. TestOrderByCondition covers
// conditions; TestOrderings and TestQuality cover the origin of the figures.
func TestSort(t *testing.T) {
	const s = time.Second
	in := func(f Figures, state breaker.State, inFlight, places int) Figures {
		f.Breaker, f.Condition = state, Condition{InFlight: inFlight, Places: places}
		return f
	}
	for _, row := range []struct {
		name, ordering string
		declared       []Figures
		want           string
	}{
		{"declared: nothing counts", policy.Declared,
			[]Figures{figured("a", 10, "9", 9*s), figured("b", 99, "1", s)}, "a b"},
		{"quality: the better one first", policy.QualityAware,
			[]Figures{figured("a", 79, "1", s), figured("b", 80, "9", 9*s)}, "b a"},
		{"quality: then the cheaper one", policy.QualityAware,
			[]Figures{figured("a", 80, "0.2", s), figured("b", 80, "0.1", 9*s)}, "b a"},
		{"quality: an unknown cost is last", policy.QualityAware,
			[]Figures{figured("a", 80, "", s), figured("b", 80, "9", 9*s)}, "b a"},
		{"quality: then the faster one", policy.QualityAware,
			[]Figures{figured("a", 80, "0.1", 2*s), figured("b", 80, "0.1", s)}, "b a"},
		{"quality: an unknown latency is last", policy.QualityAware,
			[]Figures{figured("a", 80, "", 0), figured("b", 80, "", 9*s)}, "b a"},
		{"quality: then the declared order", policy.QualityAware,
			[]Figures{figured("a", 80, "0.1", s), figured("b", 80, "0.10", s), figured("c", 80, "0.1", s)}, "a b c"},
		{"cost: the cheaper one first", policy.CostFirst,
			[]Figures{figured("a", 99, "0.2", s), figured("b", 10, "0.1", 9*s), figured("c", 50, "0", 9*s)}, "c b a"},
		{"cost: unknown is last", policy.CostFirst,
			[]Figures{figured("a", 99, "", s), figured("b", 10, "9", 9*s)}, "b a"},
		{"cost: then the better one, not the faster", policy.CostFirst,
			[]Figures{figured("a", 79, "0.1", s), figured("b", 80, "0.1", 9*s)}, "b a"},
		{"cost: then the declared order, not the faster", policy.CostFirst,
			[]Figures{figured("a", 80, "0.1", 9*s), figured("b", 80, "0.1", s)}, "a b"},
		{"latency: the faster one first", policy.LatencyFirst,
			[]Figures{figured("a", 99, "0", 3*s), figured("b", 50, "5", 2*s), figured("c", 10, "9", s)}, "c b a"},
		{"latency: unknown is last", policy.LatencyFirst,
			[]Figures{figured("a", 99, "0", 0), figured("b", 10, "9", 9*s)}, "b a"},
		{"latency: then the better one, not the cheaper", policy.LatencyFirst,
			[]Figures{figured("a", 79, "0.1", s), figured("b", 80, "9", s)}, "b a"},
		{"latency: then the declared order", policy.LatencyFirst,
			[]Figures{figured("a", 80, "9", s), figured("b", 80, "0.1", s)}, "a b"},
		{"availability: a closed breaker before a ramp", policy.Availability,
			[]Figures{in(figured("a", 99, "0", s), breaker.Ramping, 0, 4), in(figured("b", 10, "9", 9*s), breaker.Closed, 3, 4)}, "b a"},
		{"availability: then the smaller share of places", policy.Availability,
			[]Figures{in(figured("a", 99, "0", s), breaker.Closed, 2, 4), in(figured("b", 10, "9", 9*s), breaker.Closed, 3, 8)}, "b a"},
		{"availability: then the declared order", policy.Availability,
			[]Figures{in(figured("a", 10, "9", 9*s), breaker.Closed, 1, 2), in(figured("b", 99, "0", s), breaker.Closed, 2, 4)}, "a b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := row.declared
			for i := range all {
				all[i].index = i
			}
			Sort(row.ordering, all, false)
			var got []string
			for _, f := range all {
				got = append(got, f.CapID)
			}
			assert.Equal(t, row.want, strings.Join(got, " "))
		})
	}
}
