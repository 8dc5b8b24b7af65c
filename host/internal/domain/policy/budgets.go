package policy

import (
	"math/big"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Budgets are the budgets of a configuration: for each tenant, for each user and for each
// run. The zero value limits nothing.
type Budgets struct {
	// Tenant limits each tenant alike. Callers without a tenant share HostTenant.
	Tenant, User, Run ScopeBudget
}

// ScopeBudget is one budget block.
type ScopeBudget struct {
	// Written reports whether the configuration or the profile defines this
	// block.
	Written bool
	// Limits are the limits on sums.
	Limits Limits
	// Calls bounds each call in the scope, such as the tokens of one answer.
	Calls Fields
	// Wall and Depth bound every run in the scope; 0 means no bound.
	Wall  time.Duration
	Depth int
	// Per is the period: total, day or month.
	Per string
	// Soft is the share of a limit at which responses start to warn.
	Soft edn.Value
	// AtLeast permits calls of unknown price and reserves the highest known
	// price for them.
	AtLeast bool
	// RefuseWorst rejects a run whose worst case exceeds the remaining budget
	// before it starts.
	RefuseWorst bool
	Where       string
}

// DefaultSoft is the default of ScopeBudget.Soft.
var DefaultSoft = edn.MustRead("0.8")

// AtLeast reports whether calls of unknown price are permitted: a block permits them, and no block
// that limits money forbids them.
func (b *Budgets) AtLeast() bool {
	if b == nil {
		return false
	}
	written := false
	for _, s := range []*ScopeBudget{&b.Tenant, &b.User, &b.Run} {
		if s.Written && (s.Limits.Bounds(USD) || s.AtLeast) {
			if !s.AtLeast {
				return false
			}
			written = true
		}
	}
	return written
}

// RefuseWorst reports whether any block rejects by the worst case.
func (b *Budgets) RefuseWorst() bool {
	return b != nil && (b.Tenant.RefuseWorst || b.User.RefuseWorst || b.Run.RefuseWorst)
}

// Any reports whether any of the three blocks is defined.
func (b *Budgets) Any() bool {
	return b != nil && (b.Tenant.Written || b.User.Written || b.Run.Written)
}

// Wall returns the shortest time that a run may take, 0 if it is not limited.
func (b *Budgets) Wall() time.Duration {
	if b == nil {
		return 0
	}
	return least(b.Tenant.Wall, b.User.Wall, b.Run.Wall)
}

// Depth returns the smallest nesting limit of a run, 0 if it is not limited.
func (b *Budgets) Depth() int {
	if b == nil {
		return 0
	}
	return least(b.Tenant.Depth, b.User.Depth, b.Run.Depth)
}

// WallLimit converts a limit in milliseconds to a duration. No limit is 0; a
// limit of 0 is one nanosecond, so that the two remain distinct.
func WallLimit(limit request.Limit) time.Duration {
	switch {
	case !limit.Set:
		return 0
	case limit.N <= 0:
		return time.Nanosecond
	}
	return time.Duration(min(limit.N, maxWallMS)) * time.Millisecond
}

// maxWallMS keeps milliseconds within the range of a duration.
const maxWallMS = 1 << 43

// least returns the smallest value above 0, 0 if there is none.
func least[T int | time.Duration](all ...T) T {
	set := slices.DeleteFunc(all, func(v T) bool { return v <= 0 })
	if len(set) == 0 {
		return 0
	}
	return slices.Min(set)
}

// CallLayer returns the layer that the blocks add to every call.
func (b *Budgets) CallLayer() Layer {
	var l Layer
	if b != nil {
		for _, s := range []*ScopeBudget{&b.Tenant, &b.User, &b.Run} {
			l = Merge(l, Layer{Budget: s.Calls})
		}
	}
	return l
}

// Of returns the block of a scope (tenant, user or run), an unwritten block for any other
// name. It never returns nil.
func (b *Budgets) Of(scope string) *ScopeBudget {
	if b != nil {
		switch scope {
		case "tenant":
			return &b.Tenant
		case "user":
			return &b.User
		case "run":
			return &b.Run
		}
	}
	return &ScopeBudget{}
}

// Raised returns the budgets with the limits of tenant and user raised by these amounts. b
// does not change; if nothing is raised, b itself is returned.
func (b *Budgets) Raised(tenant, user Amounts) *Budgets {
	if b == nil || tenant.IsZero() && user.IsZero() {
		return b
	}
	out := *b
	out.Tenant.Limits = b.Tenant.Limits.Plus(tenant)
	out.User.Limits = b.User.Limits.Plus(user)
	return &out
}

// Reached reports whether used is at or above the soft share of one of the limits, and
// returns the first such dimension.
func (s *ScopeBudget) Reached(limits Limits, used Amounts) (Dimension, bool) {
	share, ok := s.Soft.AsNumber()
	if !ok {
		return 0, false
	}
	for _, d := range Dimensions() {
		if !limits.Bounds(d) || !used.has(d) {
			continue
		}
		if used.rat(d).Cmp(new(big.Rat).Mul(share, limits.max.rat(d))) >= 0 {
			return d, true
		}
	}
	return 0, false
}

// Around returns the tightest limits that the blocks and the budget of a
// request set for one run.
func (b *Budgets) Around(request Fields) Limits {
	l, _ := LimitsOf(request.Value()) // the request's budget was validated before
	if b != nil {
		l = l.Tighter(b.Tenant.Limits).Tighter(b.User.Limits).Tighter(b.Run.Limits)
	}
	return l
}

// Explain lists the limits of the blocks with their places in the
// configuration.
func (b *Budgets) Explain() []Row {
	if b == nil {
		return nil
	}
	var rows []Row
	for _, s := range []struct {
		name  string
		block *ScopeBudget
	}{{"tenant", &b.Tenant}, {"user", &b.User}, {"run", &b.Run}} {
		add := func(key string, value edn.Value) {
			rows = append(rows, Row{
				Field:  "budget of " + s.name + " :max-" + key,
				Value:  value,
				Origin: Origin{Source: SourceDefault, Where: s.block.Where},
			})
		}
		for _, d := range Dimensions() {
			if s.block.Limits.Bounds(d) {
				add(d.String(), s.block.Limits.Max(d))
			}
		}
		if s.block.Wall > 0 {
			add("wall-ms", edn.Int(s.block.Wall.Milliseconds()))
		}
		if s.block.Depth > 0 {
			add("depth", edn.Int(int64(s.block.Depth)))
		}
	}
	return rows
}
