package policy

import (
	"math/big"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Budgets are what a configuration allows to everybody together, to each caller
// and to each run. The zero value limits nothing.
type Budgets struct {
	// Tenant is the whole host: this build knows one tenant.
	Tenant, User, Run ScopeBudget
}

// ScopeBudget is one budget block.
type ScopeBudget struct {
	// Written tells that there is such a block, or a default of the profile.
	Written bool
	// Limits are the sums that it limits.
	Limits Limits
	// Calls bounds each call in the scope: the tokens of one answer.
	Calls Fields
	// Wall and Depth bound every run in the scope; 0: they do not.
	Wall  time.Duration
	Depth int
	// Per is total, day or month.
	Per string
	// Soft is the share of a limit from which on responses warn.
	Soft edn.Value
	// AtLeast lets calls through whose price is not known, at the highest price
	// that is.
	AtLeast bool
	// RefuseWorst refuses what could take more than is left before it begins.
	RefuseWorst bool
	Where       string
}

// DefaultSoft is the share of a limit from which on responses warn.
var DefaultSoft = edn.MustRead("0.8")

// AtLeast tells whether calls of unknown price are let through: every block
// that limits money has to agree.
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

// RefuseWorst tells whether any block refuses by the worst case.
func (b *Budgets) RefuseWorst() bool {
	return b != nil && (b.Tenant.RefuseWorst || b.User.RefuseWorst || b.Run.RefuseWorst)
}

// Any tells whether there is any block.
func (b *Budgets) Any() bool {
	return b != nil && (b.Tenant.Written || b.User.Written || b.Run.Written)
}

// Wall is the shortest time that a run may take, 0 if none is limited.
func (b *Budgets) Wall() time.Duration {
	if b == nil {
		return 0
	}
	return least(b.Tenant.Wall, b.User.Wall, b.Run.Wall)
}

// Depth is the least nesting that a run may have, 0 if none is limited.
func (b *Budgets) Depth() int {
	if b == nil {
		return 0
	}
	return least(b.Tenant.Depth, b.User.Depth, b.Run.Depth)
}

// WallLimit is the duration of a limit in milliseconds: 0 without a limit, and a nanosecond for a limit of 0, so that
// both remain distinct.
func WallLimit(limit contract.Limit) time.Duration {
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

// least is the smallest of the values that are above 0, 0 if none is.
func least[T int | time.Duration](all ...T) T {
	set := slices.DeleteFunc(all, func(v T) bool { return v <= 0 })
	if len(set) == 0 {
		return 0
	}
	return slices.Min(set)
}

// CallLayer is what the blocks say about every call.
func (b *Budgets) CallLayer() Layer {
	var l Layer
	if b != nil {
		for _, s := range []*ScopeBudget{&b.Tenant, &b.User, &b.Run} {
			l = Merge(l, Layer{Budget: s.Calls})
		}
	}
	return l
}

// Of is the block of a scope by its name; one that nobody wrote for any other.
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

// Raised are the budgets with so much more for everybody together and for one
// caller.
func (b *Budgets) Raised(tenant, user Amounts) *Budgets {
	if b == nil || tenant.IsZero() && user.IsZero() {
		return b
	}
	out := *b
	out.Tenant.Limits = b.Tenant.Limits.Plus(tenant)
	out.User.Limits = b.User.Limits.Plus(user)
	return &out
}

// Reached tells whether used is at or above the soft share of any of the limits
// in force, and of which.
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

// Around is the tightest of what the blocks and the budget of a request allow to
// one run.
func (b *Budgets) Around(request Fields) Limits {
	l, _ := LimitsOf(request.Value()) // a request is refused for an error before anything is asked
	if b != nil {
		l = l.Tighter(b.Tenant.Limits).Tighter(b.User.Limits).Tighter(b.Run.Limits)
	}
	return l
}

// Explain lists the limits of the blocks with their places.
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
