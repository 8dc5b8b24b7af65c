package routing

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Bounds are the permissions of an act, which the decision or plan of a router must not
// exceed.
type Bounds struct {
	Policy policy.Policy
	// Accepted are the capabilities that may serve the act, in order. Pinned means that the
	// request pins a capability, so that a decision does not change them.
	Accepted []string
	Pinned   bool
	// Limits are the limits of the request and the budgets for the act.
	Limits policy.Limits
	// Force permits a decision to weaken the gates.
	Force bool
}

func widened(format string, args ...any) *contract.Error { return Refuse("widened", format, args...) }

// Order returns the candidates of the act after a decision: its CapID first, then the other
// candidates that it keeps. excluded are the accepted capabilities that it drops. Both are
// nil if the act is pinned. The error is route/decide-failed if the decision names a
// capability that is not accepted.
func (b *Bounds) Order(d *Decision) (candidates, excluded []string, err *contract.Error) {
	if b.Pinned {
		return nil, nil, nil
	}
	chosen := append([]string{d.CapID}, b.Accepted...)
	if d.Candidates != nil {
		chosen = append([]string{d.CapID}, d.Candidates...)
	}
	for _, id := range chosen {
		if !slices.Contains(b.Accepted, id) {
			return nil, nil, widened("the decision names :%s, which is none of the candidates that the act accepts", id).
				WithDetail("accepted", edn.Keywords(b.Accepted...))
		}
		if !slices.Contains(candidates, id) {
			candidates = append(candidates, id)
		}
	}
	for _, id := range b.Accepted {
		if !slices.Contains(candidates, id) {
			excluded = append(excluded, id)
		}
	}
	return candidates, excluded, nil
}

// Check returns a route/decide-failed error if the layer of a decision permits more than
// the bounds, else nil. after is the policy with the layer.
func (b *Bounds) Check(l *policy.Layer, after *policy.Policy) *contract.Error {
	for _, e := range l.Effects.V {
		if e != registry.NoEffect && b.Policy.EffectsSet && !slices.Contains(b.Policy.Effects, e) {
			return widened("the decision allows the effect :%s, which the act does not", e)
		}
	}
	if err := b.checkBudget(l.Budget.Value()); err != nil {
		return err
	}
	for _, x := range []struct {
		name   string
		had, n int
	}{
		{"same-cap-max", b.Policy.SameCapMax, after.SameCapMax},
		{"fallback-max", b.Policy.FallbackMax, after.FallbackMax},
		{"repair max", b.Policy.RepairMax, after.RepairMax},
	} {
		if x.n > x.had {
			return widened("the decision raises :%s from %d to %d", x.name, x.had, x.n)
		}
	}
	for name, had := range b.Policy.Constraints.Entries() {
		if now, _ := after.Constraints.Get(name); !now.Equal(had) && !stricter(name, now, had) {
			return widened("the decision replaces the constraint %s %s with %s", name, had, now)
		}
	}
	if b.Force {
		return nil
	}
	return b.checkGates(after)
}

// stricter reports whether a constraint is known to demand more than another value of it. The checks of
// an act read its constraints, so one that is different may demand less.
func stricter(name, now, had edn.Value) bool {
	switch key, _ := name.AsKeyword(); key {
	case "max-chars":
		n, ok := now.AsInt()
		limit, limited := had.AsInt()
		return ok && limited && n < limit
	case "no-web":
		return now.Truthy() && had.Kind() == edn.KindBool
	}
	return false
}

// checkBudget rejects limits above those of the act.
func (b *Bounds) checkBudget(budget edn.Value) *contract.Error {
	for k, v := range budget.Entries() {
		limit, bounded := b.Policy.Budget.Get(k)
		had, _ := limit.AsNumber()
		if n, ok := v.AsNumber(); bounded && had != nil && (!ok || n.Cmp(had) > 0) {
			return widened("the decision raises the budget %s from %s to %s", k, limit, v)
		}
	}
	own, err := policy.LimitsOf(budget)
	if err != nil {
		return Refuse("decide-invalid", "the budget of the decision: %v", err)
	}
	for _, d := range policy.Dimensions() {
		if own.Bounds(d) && b.Limits.Bounds(d) && own.Amounts().Exceeds(b.Limits.Amounts(), d) {
			return widened("the decision raises the budget of %s above %s", d, b.Limits.Max(d))
		}
	}
	return nil
}

// checkGates rejects a policy with fewer or weaker gates.
func (b *Bounds) checkGates(after *policy.Policy) *contract.Error {
	for _, name := range b.Policy.Must {
		if !slices.Contains(after.Must, name) {
			return widened("the decision leaves out the must check %s", name)
		}
	}
	for _, name := range b.Policy.Should {
		if !slices.Contains(after.Should, name) && !slices.Contains(after.Must, name) {
			return widened("the decision leaves out the should check %s", name)
		}
	}
	had, _ := b.Policy.ScoreMin.AsNumber()
	now, ok := after.ScoreMin.AsNumber()
	switch {
	case had != nil && (!ok || now.Cmp(had) < 0):
		return widened("the decision lowers :score-min from %s to %s", b.Policy.ScoreMin, after.ScoreMin)
	case b.Policy.Judge != after.Judge || b.Policy.JudgeMust && !after.JudgeMust:
		return widened("the decision replaces the judge")
	}
	return nil
}
