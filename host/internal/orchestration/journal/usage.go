package journal

import (
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// marks are the accuracies of a figure, from the best to the worst.
var marks = []string{"exact", "estimated", "at-least", "unknown"}

var (
	summedKeys = [...]string{
		"latency-ms", "first-token-ms", "tokens-in", "tokens-out", "tokens-cached", "tokens-reasoning", "tokens-cache-written",
	}
	markKeys = [...]string{"tokens-mark", "cost-mark"}
)

// usageSum is a sum of usage maps. It is exact and does not depend on their order.
type usageSum struct {
	sums  [len(summedKeys)]int64
	given [len(summedKeys)]bool
	cost  *big.Rat           // immutable
	marks [len(markKeys)]int // 1 + the rank of the worst mark; 0: none
	modes []string
}

// usageOf parses one usage map.
func usageOf(v edn.Value) (u usageSum) {
	if v.Kind() != edn.KindMap || v.Len() == 0 {
		return u
	}
	for i, key := range summedKeys {
		u.sums[i], u.given[i] = v.Key(key).AsInt()
	}
	if r, ok := v.Key("cost-usd").AsNumber(); ok {
		u.cost = r
	}
	for i, key := range markKeys {
		if name, ok := v.Key(key).AsKeyword(); ok {
			u.marks[i] = 1 + slices.Index(marks, name)
		}
	}
	if mode, ok := v.Key("mode").AsKeyword(); ok {
		u.modes = []string{mode}
	}
	return u
}

func (u *usageSum) add(o *usageSum) {
	for i, n := range o.sums {
		u.sums[i] += n
		u.given[i] = u.given[i] || o.given[i]
	}
	switch {
	case u.cost == nil:
		u.cost = o.cost
	case o.cost != nil:
		u.cost = new(big.Rat).Add(u.cost, o.cost)
	}
	for i, rank := range o.marks {
		u.marks[i] = max(u.marks[i], rank)
	}
	for _, mode := range o.modes {
		if !slices.Contains(u.modes, mode) {
			u.modes = append(slices.Clip(u.modes), mode)
		}
	}
}

// figureKeys are the keys of a sum.
var figureKeys = slices.Concat(summedKeys[:], []string{"cost-usd"}, markKeys[:], []string{"mode"})

// withFigures returns the layout of a sum followed by more keys.
func withFigures(more ...string) *edn.Layout {
	return edn.NewLayout(slices.Concat(figureKeys, more)...)
}

// figures appends the values of the figureKeys to to, nil where unknown. The
// mode is present only if all parts agree.
func (u *usageSum) figures(to []edn.Value) []edn.Value {
	for i, n := range u.sums {
		sum := edn.Nil()
		if u.given[i] {
			sum = edn.Int(n)
		}
		to = append(to, sum)
	}
	cost, mode := edn.Nil(), edn.Nil()
	if u.cost != nil {
		cost, _ = edn.RatDecimal(u.cost) // a sum of decimals, each within bounds, is one itself
	}
	to = append(to, cost)
	for _, rank := range u.marks {
		mark := edn.Nil()
		if rank > 0 {
			mark = edn.K(marks[rank-1])
		}
		to = append(to, mark)
	}
	if len(u.modes) == 1 {
		mode = Keyword(u.modes[0])
	}
	return append(to, mode)
}

// tierJudge is the tier of a judge in a verdict.
const tierJudge = 3

// SumUsage returns the sum of usage maps; nil if all are empty. A mark is the worst of
// the marks, and :mode is present only if all maps agree.
func SumUsage(all ...edn.Value) edn.Value {
	var u usageSum
	said := false
	for _, v := range all {
		one := usageOf(v)
		u.add(&one)
		said = said || v.Kind() == edn.KindMap && v.Len() > 0
	}
	if !said {
		return edn.Nil()
	}
	return sumLayout.Present(u.figures(nil)...)
}

var sumLayout = withFigures()

// share is the usage of one capability.
type share struct {
	capID string
	sum   usageSum
	calls int64
}

// shares holds the total usage and the usage of each capability.
type shares struct {
	all    usageSum
	by     []share
	judged int64 // calls of judges
}

func (s *shares) note(capID string, usage edn.Value, calls int64) {
	one := usageOf(usage)
	s.all.add(&one)
	i := slices.IndexFunc(s.by, func(one share) bool { return one.capID == capID })
	if i < 0 {
		i = len(s.by)
		s.by = append(s.by, share{capID: capID})
	}
	s.by[i].sum.add(&one)
	s.by[i].calls += calls
}

func (s *shares) verdicts(list []*GateVerdict) {
	for _, g := range list {
		s.judged += int64(g.JudgeCalls)
		switch {
		case !g.Called():
		case g.Tier == tierJudge:
			s.note(g.CapID, g.Usage, int64(g.JudgeCalls))
		default:
			s.note(g.CapID, g.Usage, 1)
		}
	}
}

// Called reports whether a capability was called for the verdict; false for a verdict of
// the host and for a cached one of a judge.
func (g *GateVerdict) Called() bool {
	return g.CapID != "" && (g.Tier != tierJudge || g.JudgeCalls > 0)
}

func (u *usageSum) addChecks(list []*GateVerdict) {
	for _, g := range list {
		if g.Called() {
			one := usageOf(g.Usage)
			u.add(&one)
		}
	}
}

var (
	usageLayout      = withFigures("attempts", "judge-calls", "by-capability")
	shareLayout      = withFigures("calls")
	operationsLayout = withFigures("committed", "kept", "failed", "skipped")
	attemptsLayout   = withFigures("total", "answered", "failed")
	totalsLayout     = edn.NewLayout("operations", "attempts", "cost-usd")
)

// figureRoom is preallocated space for the values of a sum and the keys that follow.
type figureRoom [16]edn.Value

// Usage returns the :usage of a response: the sums over all attempts and
// checks of a run, with :attempts, :judge-calls and the calls by capability.
func (a Account) Usage() edn.Value {
	var s shares
	for _, n := range a.view.nodes {
		s.verdicts(n.verdicts)
	}
	for _, at := range a.view.attempts {
		if at.finished != nil {
			s.note(at.started.CapID, at.finished.Usage, 1)
		}
		s.verdicts(at.verdicts)
	}
	var caps edn.MapBuilder
	var room figureRoom
	for i := range s.by {
		one := append(s.by[i].sum.figures(room[:0]), edn.Int(s.by[i].calls))
		caps.Set(Keyword(s.by[i].capID), shareLayout.Present(one...))
	}
	all := append(s.all.figures(room[:0]), edn.Int(int64(len(a.view.attempts))), edn.Int(s.judged), caps.Map())
	return usageLayout.Present(all...)
}

// Totals returns the :totals of run/finished: per operation (with the usage of
// accepted attempts), per attempt (with the usage of all), and the cost of all
// attempts and checks.
func (a Account) Totals() edn.Value {
	v := a.view
	var committed, kept, failed, skipped, ok, bad int64
	var accepted, all usageSum
	for _, n := range v.nodes {
		switch {
		case n.skipped != nil:
			skipped++
		case n.failed != nil:
			failed++
		case n.committed != nil && n.committed.FailureType != "":
			kept++
		case n.committed != nil:
			committed++
		}
		for _, at := range n.attempts {
			if at.finished == nil {
				continue
			}
			one := usageOf(at.finished.Usage)
			all.add(&one)
			if at.finished.Outcome == OutcomeOK {
				ok++
			} else {
				bad++
			}
			if n.committed != nil && n.committed.FailureType == "" && n.committed.Attempt == at.started.Attempt {
				accepted.add(&one)
			}
		}
	}
	var room figureRoom
	ops := operationsLayout.Present(append(accepted.figures(room[:0]), edn.Int(committed), edn.Int(kept),
		edn.Int(failed), edn.Int(skipped))...)
	atts := attemptsLayout.Present(append(all.figures(room[:0]), edn.Int(int64(len(v.attempts))), edn.Int(ok),
		edn.Int(bad))...)
	cost := edn.Nil()
	paid := all
	for _, n := range v.nodes {
		paid.addChecks(n.verdicts)
	}
	for _, at := range v.attempts {
		paid.addChecks(at.verdicts)
	}
	if paid.cost != nil {
		cost, _ = edn.RatDecimal(paid.cost) // as in figures
	}
	return totalsLayout.Present(ops, atts, cost)
}

// Executed reports whether any attempt of the run was dispatched.
func (a Account) Executed() bool { return len(a.view.attempts) > 0 }

// Quality returns the :quality of a run whose answer is not that of one call: :must-pass? true, and
// as :score the lowest score of the committed nodes. It is nil if no node has a score.
func Quality(records []Record) edn.Value {
	var lowest Score
	for _, rec := range records {
		b, ok := rec.Body.(*NodeCommitted)
		if ok && b.FailureType == "" && b.Score.set && (!lowest.set || b.Score.thousandths < lowest.thousandths) {
			lowest = b.Score
		}
	}
	if !lowest.set {
		return edn.Nil()
	}
	return edn.MustMap(edn.K("must-pass?"), edn.Bool(true), edn.K("score"), lowest.Value())
}

// Resolved lists, in order, the candidates and the rejected capabilities of
// each call of a run: [{:path :node :candidates :rejected ..}].
func Resolved(records []Record) edn.Value {
	var out []edn.Value
	for _, rec := range records {
		n, ok := rec.Body.(*NodeResolved)
		if !ok {
			continue
		}
		var b edn.MapBuilder
		nodeResolved.fields(n, &heads{headPath: rec.Path, headNode: edn.Text(rec.Node)}, &b)
		out = append(out, b.Map())
	}
	return edn.Vector(out...)
}
