package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// strategy is how the attempts of one call are scheduled.
type strategy struct {
	name  string
	width int           // race, tournament: attempts that start together
	after time.Duration // hedge: wait without an answer before the next attempt
	max   int           // hedge: maximum number of additional attempts
}

func (p strategy) recordedWidth() int {
	if p.name == policy.Race || p.name == policy.Tournament {
		return p.width
	}
	return 0
}

// strategy selects the strategy of this call. Candidates with effects run as a
// cascade, never in parallel, and so does a single candidate.
func (o *operation) strategy() strategy {
	p := o.w.Policy
	s := strategy{name: p.Strategy}
	switch s.name {
	case policy.Race:
		s.width = p.RaceWidth
	case policy.Tournament:
		s.width = p.TournamentWidth
	case policy.Hedge:
		s.max, s.after = p.HedgeMax, p.HedgeAfter
		s.width = 1 + s.max
	default:
		return strategy{name: policy.Cascade}
	}
	accepted := o.binding.Accepted
	if o.w.Op != "call" || !o.repeatable(accepted) {
		return strategy{name: policy.Cascade}
	}
	o.maxCandidates = max(o.maxCandidates, s.width)
	room := o.affordable(accepted[:min(s.width, len(accepted))])
	s.width = min(s.width, room)
	s.max = min(s.max, room-1)
	if s.name == policy.Hedge && s.after == 0 && len(accepted) > 0 {
		s.after = o.usualLatency(accepted[0])
	}
	if s.width < 2 || s.name == policy.Hedge && s.after == 0 {
		return strategy{name: policy.Cascade}
	}
	return s
}

// repeatable reports whether calls to all candidates are free of effects.
func (o *operation) repeatable(ids []string) bool {
	for _, id := range ids {
		if c, ok := o.d.Registry.Capability(id); ok && c.Recovery(o.w.Input) != contract.RecoveryNone {
			return false
		}
	}
	return true
}

// usualLatency returns the p95 latency of a capability, or twice the declared
// one; 0 if unknown.
func (o *operation) usualLatency(capID string) time.Duration {
	if cs := o.w.Policy.stats[capID]; cs != nil {
		if d, ok := cs.percentile(0.95, minP95Samples); ok {
			return max(d, time.Millisecond)
		}
	}
	c, ok := o.d.Registry.Capability(capID)
	if !ok || !c.Cost.HasLatency {
		return 0
	}
	return 2 * c.Cost.Latency
}

// runParallel makes the parallel attempts of the strategy. If more is true, the
// caller continues with a cascade over the remaining candidates; failure is nil
// if no candidate was tried.
func (o *operation) runParallel(ctx context.Context) (failure *Failure, more bool) {
	if o.plan.name == policy.Cascade {
		return nil, true
	}
	p := &parallelAttempts{
		op:       o,
		ctx:      ctx,
		arrivals: make(chan *attempt, o.maxCandidates),
		failures: map[string]*Failure{},
	}
	defer p.stopAll()
	defer func() {
		for _, failure := range p.failures {
			o.recordRefusal(failure)
		}
	}()
	accepted := false
	switch o.plan.name {
	case policy.Race:
		accepted = p.race()
	case policy.Hedge:
		accepted = p.hedge()
	case policy.Tournament:
		accepted = p.tournament()
	}
	switch {
	case accepted, o.failed != nil:
		return nil, false
	case p.final != nil:
		return p.final, false
	}
	return p.retryEach()
}

// loserGrace is the time that a losing attempt has to report its usage after it
// was told to stop. The winner's answer waits for it, so it is short: a plugin
// that handles cancellation answers within milliseconds.
const loserGrace = 250 * time.Millisecond

// parallelAttempts are the attempts of one race, hedge or tournament. Only the
// calls run on goroutines of their own; answers are evaluated on the goroutine
// of the operation, one after another in the order of arrival.
type parallelAttempts struct {
	op       *operation
	ctx      context.Context
	arrivals chan *attempt // buffered for all attempts
	running  []*attempt
	started  int
	stopping sync.WaitGroup // of losers

	failures map[string]*Failure // by capability
	final    *Failure            // a failure that ends the node
}

// start starts the next candidate and reports whether there was one.
func (p *parallelAttempts) start() bool {
	p.op.parallel = p.started > 0
	defer func() { p.op.parallel = false }()
	capID, ok := p.op.next()
	if !ok || p.final != nil {
		return false
	}
	p.op.used = append(p.op.used, capID)
	a := &attempt{}
	if failure := p.op.begin(p.ctx, a, capID, p.op.plan.name); failure != nil {
		p.fail(capID, failure)
		return false
	}
	if p.op.failed != nil {
		return false
	}
	a.rank = p.started
	p.started++
	a.stop = make(chan struct{})
	a.call.Stop = a.stop
	ctx, cancel := context.WithCancel(p.ctx)
	a.ctx, a.cancel = ctx, cancel
	p.running = append(p.running, a)
	go p.call(ctx, a)
	return true
}

// call runs on its own goroutine. A panic is passed on with the attempt.
func (p *parallelAttempts) call(ctx context.Context, a *attempt) {
	defer func() {
		a.panicked = recover()
		a.ended = p.op.d.Clock.Now()
		select {
		case <-a.stop:
			a.lost = true
		default:
		}
		p.arrivals <- a
	}()
	a.answer, a.err = p.op.invoke(ctx, a)
}

// wait returns the attempts that have ended, in the order of the candidates, or
// nil if the timer fires first.
func (p *parallelAttempts) wait(timer <-chan struct{}) []*attempt {
	var batch []*attempt
	select {
	case a := <-p.arrivals:
		batch = append(batch, a)
	case <-timer:
		return nil
	}
	for {
		select {
		case a := <-p.arrivals:
			batch = append(batch, a)
			continue
		default:
		}
		break
	}
	slices.SortFunc(batch, byRank)
	p.running = slices.DeleteFunc(p.running, func(r *attempt) bool { return slices.Contains(batch, r) })
	for _, a := range batch {
		a.cancel()
		if a.panicked != nil {
			p.stopAll()
			panic(a.panicked)
		}
	}
	return batch
}

func byRank(a, b *attempt) int { return cmp.Compare(a.rank, b.rank) }

// judge reports whether the answer is accepted, and keeps the failure
// otherwise.
func (p *parallelAttempts) judge(a *attempt) bool {
	failure := p.op.finish(p.ctx, a, new(attemptResult))
	if failure == nil {
		return p.op.failed == nil
	}
	p.fail(a.capability.ID, failure)
	return false
}

func (p *parallelAttempts) fail(capID string, failure *Failure) {
	p.failures[capID] = failure
	if p.final == nil && ends(failure) {
		p.final = failure
	}
}

// race returns with the first accepted answer. A failed attempt is replaced
// while candidates are left.
func (p *parallelAttempts) race() bool {
	for range p.op.plan.width {
		p.start()
	}
	for len(p.running) > 0 && p.op.failed == nil {
		batch := p.wait(nil)
		for i, a := range batch {
			if p.judge(a) {
				p.settleLosers(batch[i+1:])
				return true
			}
			p.start()
		}
	}
	return false
}

// hedge starts one attempt, and another one each time no answer came for
// plan.after. If all fail, a cascade follows.
func (p *parallelAttempts) hedge() bool {
	p.start()
	joined := 0
	timer, off := p.startTimer(p.op.plan.after)
	defer func() { off() }()
	for len(p.running) > 0 && p.op.failed == nil {
		batch := p.wait(timer)
		if batch == nil {
			off()
			timer = nil
			if p.committed() {
				continue
			}
			if joined++; p.start() && joined < p.op.plan.max {
				timer, off = p.startTimer(p.op.plan.after)
			}
			continue
		}
		committed := p.committed()
		for i, a := range batch {
			if committed && !a.stream.committed() {
				p.op.recordLoser(a) // text of another attempt is committed
				continue
			}
			if p.judge(a) {
				p.settleLosers(batch[i+1:])
				return true
			}
		}
		if p.committed() {
			p.stopUnshown()
		}
	}
	return false
}

// committed reports whether the text of one attempt is committed.
func (p *parallelAttempts) committed() bool { return p.op.w.Stream.committed() }

// stopUnshown stops the attempts whose text is not committed.
func (p *parallelAttempts) stopUnshown() {
	for _, a := range p.running {
		if !a.stream.committed() {
			p.stopGracefully(a)
		}
	}
}

// stopGracefully closes the stop channel of an attempt and cancels its call if
// it does not end within loserGrace.
func (p *parallelAttempts) stopGracefully(a *attempt) {
	if a.stopping {
		return
	}
	a.stopping = true
	close(a.stop)
	p.stopping.Go(func() {
		if p.op.d.Clock.Wait(a.ctx, loserGrace) == nil {
			a.cancel()
		}
	})
}

// startTimer returns a channel that is closed after d; off stops the timer and
// may be called again.
func (p *parallelAttempts) startTimer(d time.Duration) (fires <-chan struct{}, off func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	fired, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if p.op.d.Clock.Wait(ctx, d) == nil {
			close(fired)
		}
	}()
	return fired, func() { cancel(); <-done }
}

// tournament waits for all answers and accepts the best.
func (p *parallelAttempts) tournament() bool {
	for range p.op.plan.width {
		p.start()
	}
	type scored struct {
		result Result
		rank   int
	}
	var accepted []scored
	for len(p.running) > 0 && p.op.failed == nil {
		for _, x := range p.wait(nil) {
			if p.judge(x) {
				accepted = append(accepted, scored{p.op.result, x.rank})
			}
		}
	}
	if len(accepted) == 0 || p.op.failed != nil {
		return false
	}
	best := slices.MinFunc(accepted, func(a, b scored) int {
		return cmp.Or(
			-compareScores(a.result.Verdict.Score.Value(), b.result.Verdict.Score.Value()),
			compareCosts(a.result.Usage.Key("cost-usd"), b.result.Usage.Key("cost-usd")),
			cmp.Compare(a.rank, b.rank))
	})
	attempts, once := p.op.result.Attempts, p.op.result.DoneOnce
	p.op.result = best.result
	p.op.result.Attempts, p.op.result.DoneOnce = attempts, once
	for _, a := range accepted {
		if a.result.Attempt != best.result.Attempt {
			p.op.result.Outscored = append(p.op.result.Outscored, a.result.Attempt)
		}
	}
	slices.Sort(p.op.result.Outscored)
	return true
}

func compareScores(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	if !xok || !yok {
		return 0
	}
	return x.Cmp(y)
}

// compareCosts sorts unknown costs last.
func compareCosts(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	return compareKnown(xok, yok, func() int { return x.Cmp(y) })
}

// retryEach continues after all parallel attempts have failed: candidates that
// may be retried are retried one after another, then a cascade tries the rest.
func (p *parallelAttempts) retryEach() (failure *Failure, more bool) {
	order := slices.Clone(p.op.used)
	if p.op.plan.name == policy.Tournament { // best score first
		slices.SortStableFunc(order, func(a, b string) int {
			return -compareScores(scoreOf(p.failures[a]), scoreOf(p.failures[b]))
		})
	}
	for _, capID := range order {
		failure = p.op.retry(p.ctx, capID, 1, p.failures[capID])
		if failure == nil || p.op.failed != nil {
			return nil, false
		}
		if ends(failure) {
			return failure, false
		}
	}
	return failure, p.op.continues(failure)
}

// scoreOf returns 0 for a candidate without a score.
func scoreOf(f *Failure) edn.Value {
	if f == nil || !f.Score.IsNumber() {
		return edn.Int(0)
	}
	return f.Score
}

// ends reports whether this failure ends the node even if candidates are left.
func ends(f *Failure) bool {
	hopeful := *f
	hopeful.NextLeft = true
	action, _ := Decide(hopeful)
	return action == End
}

// settleLosers stops the running attempts, waits for their usage, and records
// them and the late answers in the order of the candidates.
func (p *parallelAttempts) settleLosers(late []*attempt) {
	for _, a := range p.running {
		p.stopGracefully(a)
	}
	for len(p.running) > 0 {
		late = append(late, p.wait(nil)...)
	}
	slices.SortFunc(late, byRank)
	for _, a := range late {
		p.op.recordLoser(a)
	}
}

// stopAll cancels all running attempts and waits for their goroutines.
func (p *parallelAttempts) stopAll() {
	for _, a := range p.running {
		a.cancel()
	}
	for range p.running {
		a := <-p.arrivals
		usage := mapOrNil(a.answer.Response.Key("result").Key("usage"))
		p.op.settle(&a.reservation, settlement{usage: usage, unknown: usage.IsNil()})
	}
	p.running = nil
	p.stopping.Wait()
}

// recordLoser records an attempt that lost. An attempt that failed before it
// was told to stop keeps its failure; a later result counts as usage only.
func (o *operation) recordLoser(a *attempt) {
	r := new(attemptResult)
	a.account(r)
	var sent edn.Value
	switch err := contract.AsError(a.err); {
	case err == nil:
		response, err := contract.CheckResponse(a.answer.Response, o.resultRules(a.capability))
		if err != nil {
			response = a.answer.Response
			if !a.lost {
				r.err, r.label = o.replaceReservedType(r, err), journal.OutcomeError
			}
		}
		r.usage = mapOrNil(response.Key("result").Key("usage"))
	case a.lost:
		sent = err.Details.Key("sent?")
	case err.Type != "canceled":
		o.classifyLostCall(context.Background(), r, err, a.limits, a.ended)
	}
	if r.err == nil {
		r.label = journal.OutcomeCanceled
		r.err = contract.Errorf("race/lost", "node %s: another answer was accepted before that of :%s", o.w.Node,
			a.capability.ID)
		if !sent.IsNil() {
			r.err = r.err.WithDetail("sent?", sent)
		}
	}
	o.recordEnd(r)
	o.settle(&r.reservation, r.settlement())
	o.recordOutcome(r)
	o.listAttempt(r)
}
