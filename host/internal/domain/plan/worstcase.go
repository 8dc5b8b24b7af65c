package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WorstCase computes the worst-case cost of a plan, which must have no errors. It calls no
// plugin.
func WorstCase(p *Plan, env Env) Worst {
	// The budget of the request limits the whole run, not its nodes, except for
	// its limits per call and those that raise a limit of the only node. Its wall
	// time ends the whole run.
	walls := []time.Duration{wallOf(env.Request.Budget.Value()), env.Budgets.Wall()}
	env.Request.Budget = perCall(env.Request.Budget)
	env.bases, env.scratch = nil, nil
	c := &worst{env: &env, policies: map[worstKey]*policy.Policy{}}
	w := c.plan(p)
	if slices.ContainsFunc(p.Nodes, func(n Node) bool { return takesTime(&n) }) {
		w.endsWithin(walls...)
	}
	return w
}

// wallOf returns the wall time of a budget, 0 if it has no such limit.
func wallOf(limits edn.Value) time.Duration {
	b, err := request.ParseBudget(limits)
	if err != nil {
		return 0 // CHECK-015 reports it
	}
	return policy.WallLimit(b.MaxWallMS)
}

// perCall keeps the limits of a budget that apply to each call.
func perCall(f policy.Fields) policy.Fields {
	return slices.DeleteFunc(slices.Clone(f), func(f policy.Field) bool {
		name, _ := f.Key.AsKeyword()
		return name != "max-tokens" && !f.Raises
	})
}

type worst struct {
	env      *Env
	policies map[worstKey]*policy.Policy
}

type worstKey struct {
	intent string
	layer  *policy.Layer
}

func (c *worst) plan(p *Plan) Worst {
	var sum Worst
	walls := make([]time.Duration, len(p.Nodes))
	for i := range p.Nodes {
		one := c.node(p, &p.Nodes[i])
		sum.plus(&one)
		sum.Depth = max(sum.Depth, one.Depth)
		walls[i] = one.Wall
		if one.Wall == 0 && takesTime(&p.Nodes[i]) {
			walls[i] = -1
		}
	}
	sum.Wall = c.wall(p, walls)
	return sum
}

func takesTime(n *Node) bool { return n.Op != OpLet && n.Op != OpEmit }

// wall returns the duration of the longest path through a plan, 0 if it is unbounded. walls
// are the durations of the nodes; -1 is unbounded.
func (c *worst) wall(p *Plan, walls []time.Duration) time.Duration {
	if slices.Contains(walls, -1) {
		return 0
	}
	var total time.Duration
	if p.Mode == Strict || p.MaxParallel == 1 {
		for _, d := range walls {
			total = addWalls(total, d)
		}
		return total
	}
	g := buildGraph(p, c.env.traitsOf(p))
	if len(g.cycles(1)) > 0 {
		return 0
	}
	ends := make([]time.Duration, len(walls))
	waits := make([]int, len(walls))
	var ready []int
	for i := range walls {
		if waits[i] = g.InDegree(i); waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		ends[i] = addWalls(ends[i], walls[i])
		total = max(total, ends[i])
		for _, k := range g.Succs(i) {
			ends[k] = max(ends[k], ends[i])
			if waits[k]--; waits[k] == 0 {
				ready = append(ready, int(k))
			}
		}
	}
	return total
}

// addWalls adds wall times and saturates at the largest duration.
func addWalls(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// multiplyWall multiplies a wall time and saturates at the largest duration.
func multiplyWall(d time.Duration, n int64) time.Duration {
	if n > 0 && int64(d) > math.MaxInt64/n {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

func (c *worst) node(p *Plan, n *Node) Worst {
	switch n.Op {
	case OpCall, OpTool:
		return c.call(p, n)
	case OpPlan, OpMap:
		if n.Sub == nil {
			return Worst{}
		}
		w := c.plan(n.Sub)
		w.Depth++
		if n.Op == OpMap {
			items := c.items(n)
			w.times(items)
			side := int64(max(1, n.MaxParallel))
			w.Wall = multiplyWall(w.Wall, (items+side-1)/side)
		}
		return w
	}
	return Worst{}
}

// items returns the maximum number of items of a map.
func (c *worst) items(n *Node) int64 {
	if n.Over.Constant() && n.Over != nil {
		return int64(n.Over.Source().Len())
	}
	return int64(DefaultLimits().MapItems)
}

// call returns the worst case of one call with all its candidates.
func (c *worst) call(p *Plan, n *Node) Worst {
	intent, capID, ok := n.asks(c.env.Registry)
	if !ok {
		return Worst{}
	}
	pol := c.policy(intent, n.Layer)
	if pol == nil {
		return Worst{}
	}
	path := p.path(n.Index)
	tried := 1 + pol.FallbackMax
	switch pol.Strategy {
	case policy.Race:
		tried = max(tried, pol.RaceWidth)
	case policy.Tournament:
		tried = max(tried, pol.TournamentWidth)
	case policy.Hedge:
		tried = max(tried, 1+pol.HedgeMax)
	}
	checks := c.checks(pol, intent, path)
	var each []Worst
	for _, id := range c.env.reachable(n, intent, capID, &pol.Layer) {
		if capability, ok := c.env.Registry.Capability(id); ok {
			gates := checks
			judged := c.judge(pol, intent, capability, path)
			gates.plus(&judged)
			if judged.Wall < 0 || gates.Wall < 0 {
				gates.Wall = -1
			} else {
				gates.Wall += judged.Wall
			}
			each = append(each, c.candidate(n, capability, pol, &gates, path))
		}
	}
	w := dearest(each, tried)
	w.within(limitsOf(pol))
	w.endsWithin(pol.Deadline, wallOf(pol.Budget))
	return w
}

func limitsOf(pol *policy.Policy) policy.Limits {
	l, err := policy.LimitsOf(pol.Budget)
	if err != nil {
		return policy.Limits{}
	}
	return l
}

// dearest sums, for each dimension, the amounts of its tried most expensive candidates (all of them
// if there are fewer). Candidates that are not ready are skipped, so any of them may be tried.
func dearest(each []Worst, tried int) Worst {
	var out Worst
	for _, d := range policy.Dimensions() {
		amounts := make([]policy.Amounts, len(each))
		for i := range each {
			amounts[i] = each[i].Amounts.Only(d)
		}
		slices.SortStableFunc(amounts, func(a, b policy.Amounts) int {
			switch {
			case a.Exceeds(b, d):
				return -1
			case b.Exceeds(a, d):
				return 1
			}
			return 0
		})
		for _, a := range amounts[:min(tried, len(amounts))] {
			out.Amounts = out.Amounts.Plus(a)
		}
	}
	walls := make([]time.Duration, 0, len(each))
	bounded := true
	for i := range each {
		for d, g := range each[i].Open {
			out.gap(d, g)
		}
		out.Grows = out.Grows || each[i].Grows
		out.Depth = max(out.Depth, each[i].Depth)
		walls = append(walls, each[i].Wall)
		bounded = bounded && each[i].Wall > 0
	}
	if bounded {
		slices.Sort(walls)
		slices.Reverse(walls)
		for _, d := range walls[:min(tried, len(walls))] {
			out.Wall += d
		}
	}
	return out
}

// candidate returns the worst case of all attempts of one candidate.
func (c *worst) candidate(
	n *Node, capability *registry.Capability, pol *policy.Policy, checks *Worst, path []edn.Value,
) Worst {
	tries := int64(1 + max(pol.SameCapMax, pol.Retries("schema/invalid")))
	repairs := int64(0)
	if capability.Repairs {
		repairs = int64(pol.RepairMax)
	}
	one := c.price(capability, c.size(n, capability, pol, repairs > 0), path)
	one.Amounts = one.Amounts.Plus(policy.Count(policy.Attempts, 1)).Plus(policy.Count(policy.Roundtrips, 1))
	one.plus(checks)
	one.times(tries + repairs)
	if t := capability.Limits.Timeout; t > 0 && (checks.Wall >= 0) {
		one.Wall = time.Duration(tries+repairs) * (t + pol.Extend + checks.Wall)
		one.Wall += time.Duration(tries-1) * longestWait(pol)
	}
	if mayPlan(n, capability) {
		one.Grows = true
		for _, d := range policy.Dimensions() {
			one.gap(d, Gap{Path: path, Why: fmt.Sprintf(":%s may answer with a plan", capability.ID)})
		}
		one.Wall = 0
	}
	return one
}

// longestWait returns the longest delay before a retry.
func longestWait(pol *policy.Policy) time.Duration {
	if pol.Backoff == 0 {
		return 0
	}
	return pol.MaxBackoff + pol.MaxBackoff/5
}

// size returns the maximum number of tokens that a call reads and produces.
func (c *worst) size(n *Node, capability *registry.Capability, pol *policy.Policy, repairs bool) policy.Size {
	var s policy.Size
	if c.constant(n) {
		s.In, s.InKnown = policy.CountTokens(source(n.Input), pol.Context, pol.Constraints, source(n.System)), true
		if repairs {
			s.In += toldTokens
		}
	}
	if most := int64(capability.Limits.ContextTokens); most > 0 && (!s.InKnown || most < s.In) {
		s.In, s.InKnown = most, true
	}
	if most := int64(capability.Limits.MaxInputBytes); most > 0 && !s.InKnown {
		s.In, s.InKnown = most, true // a token has at least one byte
	}
	s.Out, s.OutKnown = policy.MostOut(capability, pol.Budget)
	return s
}

// constant reports whether the whole request is known before the run.
func (c *worst) constant(n *Node) bool {
	return n.Input.Constant() && n.Context.Constant() && n.Constraints.Constant() && n.System.Constant()
}

func source(t *Template) edn.Value {
	if t == nil {
		return edn.Nil()
	}
	return t.Source()
}

// price returns the maximum tokens and money of one call.
func (c *worst) price(capability *registry.Capability, size policy.Size, path []edn.Value) Worst {
	var w Worst
	if policy.CountsTokens(capability) {
		for _, side := range []struct {
			d     policy.Dimension
			n     int64
			known bool
		}{{policy.TokensIn, size.In, size.InKnown}, {policy.TokensOut, size.Out, size.OutKnown}} {
			if side.known {
				w.Amounts = w.Amounts.Plus(policy.Count(side.d, side.n))
			} else {
				w.gap(side.d, Gap{Path: path, Why: fmt.Sprintf("the %s of :%s are unbounded", side.d, capability.ID)})
			}
		}
	}
	price, err := policy.Price(capability, size)
	if err != nil {
		w.gap(policy.USD, Gap{Path: path, Why: fmt.Sprintf("what a call to :%s costs is unknown: %s", capability.ID, err),
			Unpriced: errors.Is(err, policy.ErrNoPrice)})
	}
	w.Amounts = w.Amounts.Plus(price)
	return w
}

// checks returns the worst case of judging one answer: each check is called twice if the
// first call gives no verdict, and any capability that serves it may be called.
func (c *worst) checks(pol *policy.Policy, _ string, path []edn.Value) Worst {
	var sum Worst
	for _, name := range append(slices.Clone(pol.Must), pol.Should...) {
		check, ok := c.env.Registry.Check(name)
		if !ok || check.Kind != registry.CheckCapability {
			continue
		}
		var most []Worst
		for _, id := range c.env.Registry.Candidates(check.Intent) {
			if capability, ok := c.env.Registry.Capability(id); ok {
				most = append(most, c.price(capability, sizeOf(capability), path))
			}
		}
		one := dearest(most, 1)
		one.times(2)
		sum.plus(&one)
		timeout := check.Timeout
		if timeout <= 0 {
			timeout = registry.DefaultCheckTimeout
		}
		sum.Wall += timeout
	}
	return sum
}

// judge returns the worst case of grading one answer: every judge may be called and fail
// before one answers, and one of them is called for all further votes. A Wall below 0 has
// no bound.
func (c *worst) judge(pol *policy.Policy, intent string, author *registry.Capability, path []edn.Value) Worst {
	j, ok := c.env.Registry.Judge(pol.Judge)
	if pol.Judge == "" || !ok || !j.Enabled || j.Intent == intent {
		return Worst{}
	}
	layer := policy.Layer{}
	var first, more Worst
	var again []Worst
	for _, id := range (&policy.Demand{Registry: c.env.Registry, Intent: j.Intent, CapID: j.Capability, Layer: &layer}).Bind().Accepted {
		capability, ok := c.env.Registry.Capability(id)
		if !ok || id == author.ID || !j.AllowSameFamily && capability.Family != "" && capability.Family == author.Family {
			continue
		}
		one := c.price(capability, sizeOf(capability), path)
		one.Amounts = one.Amounts.Plus(policy.Count(policy.JudgeCalls, 1))
		one.times(int64(j.MaxAttempts))
		one.Wall = time.Duration(j.MaxAttempts) * capability.Limits.Timeout
		first = after(first, one)
		if !capability.Deterministic && j.Votes > 1 {
			again = append(again, one)
		}
	}
	if len(again) == 0 {
		return first
	}
	for i := range again {
		if again[i].Wall == 0 {
			first.Wall = -1
		}
	}
	more = dearest(again, 1)
	more.times(int64(j.Votes - 1))
	more.Wall *= time.Duration(j.Votes - 1)
	return after(first, more)
}

// after returns the costs of a followed by b. Wall is -1, no bound, if that of a is negative or
// that of b is 0 or negative.
func after(a, b Worst) Worst {
	wall := a.Wall + b.Wall
	if a.Wall < 0 || b.Wall <= 0 {
		wall = -1
	}
	a.plus(&b)
	a.Wall = wall
	return a
}

// sizeOf returns the maximum number of tokens of a call with unknown input.
func sizeOf(capability *registry.Capability) policy.Size {
	var size policy.Size
	if n := int64(capability.Limits.ContextTokens); n > 0 {
		size.In, size.InKnown = n, true
	} else if n := int64(capability.Limits.MaxInputBytes); n > 0 {
		size.In, size.InKnown = n, true
	}
	size.Out, size.OutKnown = policy.MostOut(capability, edn.Nil())
	return size
}

// policy returns the effective policy of a node, nil if it cannot be resolved.
func (c *worst) policy(intent string, layer *policy.Layer) *policy.Policy {
	key := worstKey{intent, layer}
	if p, ok := c.policies[key]; ok {
		return p
	}
	p, err := c.env.Written(intent, layer).Resolve()
	if err != nil {
		c.policies[key] = nil
		return nil
	}
	c.policies[key] = &p
	return &p
}
