package flow

import (
	"cmp"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// parallel makes attempts at several candidates at once, until one is accepted
// or all have failed. Then the cascade retries those that may be retried.
type parallel struct {
	*core
	cascade  *cascade
	missing  int       // attempts to start
	started  int       // attempts started
	joined   int       // attempts that a hedge added
	timer    int       // ID of the open timer; 0: none
	running  []*member // whose call has not ended, in the order of their start
	ended    []*member // whose call has ended, not judged yet
	accepted []*member
	winner   *member  // its answer is accepted; the others are stopped
	final    *Failure // a failure that ends the operation
	over     bool     // all have failed
}

type member struct {
	capID   string
	attempt int
	call    int // ID of its call
	rank    int // order of the start
	stopped bool
	score   edn.Value
	cost    edn.Value
}

func (p *parallel) apply(c *Command, e *Event) {
	switch c.Kind {
	case Find:
		p.found(e)
	case Start:
		p.begun(c, e)
	case Call:
		p.arrived(c, e)
	case Judge:
		p.judged(c, e)
	case Timer:
		p.fired(e)
	}
}

// proceed emits the next command: it starts a missing attempt, judges an ended
// one, or finishes. It emits nothing while it has to wait for running calls.
func (p *parallel) proceed() {
	switch {
	case p.winner != nil:
		if len(p.running) == 0 {
			p.settle()
		}
	case p.missing > 0 && p.final == nil:
		p.missing--
		p.emit(Command{Kind: Find, Joins: p.started > 0})
	case len(p.ended) > 0:
		a := p.ended[0]
		p.emit(Command{Kind: Judge, CapID: a.capID, Attempt: a.attempt})
	case len(p.running) == 0:
		p.allEnded()
	}
}

// found starts an attempt at the next candidate.
func (p *parallel) found(e *Event) {
	capID, ok := p.next(&e.Situation)
	if !ok {
		p.missing = 0
		p.proceed()
		return
	}
	p.used = append(p.used, capID)
	p.emit(Command{Kind: Start, CapID: capID, Joins: p.started > 0, Parallel: true})
}

func (p *parallel) begun(c *Command, e *Event) {
	if e.Failure != nil {
		p.lost(c.CapID, e.Failure)
		p.proceed()
		return
	}
	a := &member{capID: c.CapID, attempt: e.Attempt, rank: p.started}
	p.attempts++
	p.started++
	a.call = p.emit(Command{Kind: Call, CapID: c.CapID, Attempt: e.Attempt, Parallel: true})
	p.running = append(p.running, a)
	if p.rules.Strategy == policy.Hedge && p.joined < p.rules.Joining {
		p.timer = p.emit(Command{Kind: Timer, After: p.rules.After})
	}
	p.proceed()
}

// lost records the failure of a candidate.
func (p *parallel) lost(capID string, f *Failure) {
	p.failures = append(p.failures, &failed{capID, f})
	if p.final == nil && ends(f) {
		p.final = f
	}
}

// fired adds an attempt to a hedge.
func (p *parallel) fired(e *Event) {
	p.timer = 0
	if p.winner != nil || p.shown(e) != 0 || len(p.running) == 0 {
		return
	}
	p.joined++
	p.missing = 1
	p.idle()
}

// idle calls proceed unless a command is open whose event will call it.
func (p *parallel) idle() {
	for _, c := range p.open {
		switch c.Kind {
		case Find, Start, Judge:
			return
		}
	}
	p.proceed()
}

func (p *parallel) arrived(c *Command, e *Event) {
	i := slices.IndexFunc(p.running, func(a *member) bool { return a.attempt == c.Attempt })
	a := p.running[i]
	p.running = slices.Delete(p.running, i, i+1)
	if p.shown(e) != 0 && p.shown(e) != a.attempt && p.winner == nil {
		p.emit(Command{Kind: Discard, CapID: a.capID, Attempt: a.attempt}) // text of another attempt is shown
	} else {
		p.ended = append(p.ended, a)
	}
	p.idle()
}

func (p *parallel) judged(c *Command, e *Event) {
	a := p.ended[0]
	p.ended = p.ended[1:]
	a.score, a.cost = e.Score, e.Cost
	switch {
	case e.Failure != nil:
		p.lost(c.CapID, e.Failure)
		if p.rules.Strategy == policy.Race {
			p.missing++
		}
	case p.rules.Strategy == policy.Tournament:
		p.accepted = append(p.accepted, a)
	default:
		p.winner = a
		p.stopTimer()
		for _, other := range p.running {
			p.stop(other)
		}
	}
	if shown := p.shown(e); shown != 0 && p.winner == nil {
		for _, other := range p.running {
			if other.attempt != shown {
				p.stop(other)
			}
		}
	}
	p.proceed()
}

// shown returns the attempt of a hedge whose text cannot be retracted; 0: none.
func (p *parallel) shown(e *Event) int {
	if p.rules.Strategy != policy.Hedge {
		return 0
	}
	return e.Committed
}

func (p *parallel) stop(a *member) {
	if !a.stopped {
		a.stopped = true
		p.emit(Command{Kind: Stop, CapID: a.capID, Attempt: a.attempt, Target: a.call})
	}
}

func (p *parallel) stopTimer() {
	if p.timer > 0 {
		p.emit(Command{Kind: Stop, Target: p.timer})
		p.timer = 0
	}
}

// settle ends the operation with the winner, once the others have ended.
func (p *parallel) settle() {
	slices.SortFunc(p.ended, byRank)
	for _, a := range p.ended {
		p.emit(Command{Kind: Discard, CapID: a.capID, Attempt: a.attempt})
	}
	p.refuseRest()
	p.finish(p.winner.attempt, nil, nil)
}

// allEnded accepts the best answer of a tournament. If no answer was accepted,
// candidates that may be retried are retried one after another.
func (p *parallel) allEnded() {
	p.stopTimer()
	if len(p.accepted) > 0 {
		best := slices.MinFunc(p.accepted, better)
		var outscored []int
		for _, a := range p.accepted {
			if a != best {
				outscored = append(outscored, a.attempt)
			}
		}
		slices.Sort(outscored)
		p.refuseRest()
		p.finish(best.attempt, outscored, nil)
		return
	}
	if p.final != nil {
		p.refuseRest()
		p.finish(0, nil, p.final)
		return
	}
	p.over = true
	order := slices.DeleteFunc(slices.Clone(p.used), func(id string) bool { return p.failureOf(id) == nil })
	if len(order) == 0 { // nothing could be started
		p.cascade.find()
		return
	}
	if p.rules.Strategy == policy.Tournament { // best score first
		slices.SortStableFunc(order, func(x, y string) int { return compareScores(p.scoreOf(y), p.scoreOf(x)) })
	}
	p.cascade.order = order
	p.cascade.retry()
}

// scoreOf returns 0 for a candidate without a score.
func (p *parallel) scoreOf(capID string) edn.Value {
	f := p.failureOf(capID)
	if f == nil || !f.Score.IsNumber() {
		return edn.Int(0)
	}
	return f.Score
}

func byRank(a, b *member) int { return cmp.Compare(a.rank, b.rank) }

// better orders accepted answers: the best score, then the lowest cost, where an
// unknown one is last, then the order of the candidates.
func better(a, b *member) int {
	return cmp.Or(compareScores(b.score, a.score), compareCosts(a.cost, b.cost), byRank(a, b))
}

func compareScores(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	if !xok || !yok {
		return 0
	}
	return x.Cmp(y)
}

func compareCosts(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	switch {
	case xok && yok:
		return x.Cmp(y)
	case xok:
		return -1
	case yok:
		return 1
	}
	return 0
}
