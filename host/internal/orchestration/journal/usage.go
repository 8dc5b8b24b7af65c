package journal

import (
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// marks say how sure a figure is, from the surest to the least sure.
var marks = []string{"exact", "estimated", "at-least", "unknown"}

var (
	summedKeys = [...]string{"latency-ms", "first-token-ms", "tokens-in", "tokens-out", "tokens-cached", "tokens-reasoning"}
	markKeys   = [...]string{"tokens-mark", "cost-mark"}
)

// usageSum adds usage maps up. Sums are exact and do not depend on the order.
type usageSum struct {
	sums  [len(summedKeys)]int64
	given [len(summedKeys)]bool
	cost  *big.Rat
	marks [len(markKeys)]int // 1 + the rank of the least sure; 0: none
	modes []string
}

func (u *usageSum) add(v edn.Value) {
	if v.Kind() != edn.KindMap || v.Len() == 0 {
		return
	}
	for i, key := range summedKeys {
		if n, ok := v.Key(key).AsInt(); ok {
			u.sums[i] += n
			u.given[i] = true
		}
	}
	if r, ok := v.Key("cost-usd").AsNumber(); ok {
		if u.cost == nil {
			u.cost = new(big.Rat)
		}
		u.cost.Add(u.cost, r)
	}
	for i, key := range markKeys {
		if name, ok := v.Key(key).AsKeyword(); ok {
			u.marks[i] = max(u.marks[i], 1+slices.Index(marks, name))
		}
	}
	if mode, ok := v.Key("mode").AsKeyword(); ok && !slices.Contains(u.modes, mode) {
		u.modes = append(u.modes, mode)
	}
}

// into writes the sums. A mode is only said if it is that of all.
func (u *usageSum) into(b *edn.MapBuilder) {
	for i, key := range summedKeys {
		if u.given[i] {
			b.Key(key, edn.Int(u.sums[i]))
		}
	}
	if u.cost != nil {
		b.Key("cost-usd", decimal(u.cost))
	}
	for i, rank := range u.marks {
		if rank > 0 {
			b.Key(markKeys[i], edn.K(marks[rank-1]))
		}
	}
	if len(u.modes) == 1 {
		b.Key("mode", keyword(u.modes[0]))
	}
}

// tierJudge is the tier of a judge in a verdict.
const tierJudge = 3

// SumUsage adds up the usage of several calls; nil if none said anything.
func SumUsage(all ...edn.Value) edn.Value {
	var u usageSum
	said := false
	for _, v := range all {
		u.add(v)
		said = said || v.Kind() == edn.KindMap && v.Len() > 0
	}
	if !said {
		return edn.Nil()
	}
	var b edn.MapBuilder
	u.into(&b)
	return b.Map()
}

// decimal writes a sum of decimals, which is always a decimal itself.
func decimal(r *big.Rat) edn.Value {
	prec, exact := r.FloatPrec()
	if !exact {
		prec = 34
	}
	v, err := edn.ParseDecimal(r.FloatString(prec))
	if err != nil {
		return edn.Int(0)
	}
	return v
}

// share is what one capability used.
type share struct {
	capID string
	sum   usageSum
	calls int64
}

// shares are what all capabilities used together and each alone.
type shares struct {
	all    usageSum
	by     []share
	judged int64 // calls to judges
}

func (s *shares) note(capID string, usage edn.Value, calls int64) {
	s.all.add(usage)
	i := slices.IndexFunc(s.by, func(one share) bool { return one.capID == capID })
	if i < 0 {
		i = len(s.by)
		s.by = append(s.by, share{capID: capID})
	}
	s.by[i].sum.add(usage)
	s.by[i].calls += calls
}

func (s *shares) verdicts(list []*GateVerdict) {
	for _, g := range list {
		s.judged += int64(g.JudgeCalls)
		switch {
		case g.Tier == tierJudge && g.JudgeCalls > 0 && g.CapID != "":
			s.note(g.CapID, g.Usage, int64(g.JudgeCalls))
		case g.Tier != tierJudge && g.CapID != "":
			s.note(g.CapID, g.Usage, 1)
		}
	}
}

// Usage is the :usage of a response: the sums over all attempts and checks of a
// run, with :attempts, :judge-calls and, by capability, the calls made to it.
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
	var caps, b edn.MapBuilder
	for i := range s.by {
		var one edn.MapBuilder
		s.by[i].sum.into(&one)
		one.Key("calls", edn.Int(s.by[i].calls))
		caps.Set(keyword(s.by[i].capID), one.Map())
	}
	s.all.into(&b)
	b.Key("attempts", edn.Int(int64(len(a.view.attempts))))
	b.Key("judge-calls", edn.Int(s.judged))
	b.Key("by-capability", caps.Map())
	return b.Map()
}

// Totals is the :totals of run/finished: what the run did, per operation (with
// the usage of accepted attempts) and per attempt (with the usage of all).
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
			all.add(at.finished.Usage)
			if at.finished.Outcome == OutcomeOK {
				ok++
			} else {
				bad++
			}
			if n.committed != nil && n.committed.FailureType == "" && n.committed.Attempt == at.started.Attempt {
				accepted.add(at.finished.Usage)
			}
		}
	}
	var ops, atts edn.MapBuilder
	accepted.into(&ops)
	ops.Key("committed", edn.Int(committed))
	ops.Key("kept", edn.Int(kept))
	ops.Key("failed", edn.Int(failed))
	ops.Key("skipped", edn.Int(skipped))
	all.into(&atts)
	atts.Key("total", edn.Int(int64(len(v.attempts))))
	atts.Key("answered", edn.Int(ok))
	atts.Key("failed", edn.Int(bad))
	return edn.MustMap(edn.K("operations"), ops.Map(), edn.K("attempts"), atts.Map())
}

// Executed tells whether any attempt of the run was dispatched.
func (a Account) Executed() bool { return len(a.view.attempts) > 0 }

// Quality is the :quality of a run whose answer is not that of one call: all
// must gates of the committed nodes, and the lowest of their scores.
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

// Resolved lists, in order, who might have served each call of a run and who
// was left out and why: [{:path :node :candidates :rejected ..}].
func Resolved(records []Record) edn.Value {
	var out []edn.Value
	for _, rec := range records {
		n, ok := rec.Body.(*NodeResolved)
		if !ok {
			continue
		}
		var b edn.MapBuilder
		n.fields(&b)
		b.Key("path", rec.Path)
		b.Key("node", edn.Text(rec.Node))
		out = append(out, b.Map())
	}
	return edn.Vector(out...)
}
